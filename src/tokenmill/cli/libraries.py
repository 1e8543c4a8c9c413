"""Documents → ids, times and memory of one library, in a process of its own.

    python -P libraries.py LIBRARY FOLDER THREADS

FOLDER contains `job.json` with the texts and the files of the tokenizer. The process encodes the
texts against the clock, and prints one JSON object: figures, or `error` with
the reason why the library cannot be used. The first process of a library writes LIBRARY.ids and
LIBRARY.lengths. This file imports the standard library alone, so that the memory of a process is
that of its library. Special tokens in documents are ordinary text, and no special tokens are added.
"""

from __future__ import annotations

import json
import sys
import time
from array import array
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

Encoders = tuple[Callable[[str], list[int]], Callable[[list[str]], list[list[int]]]]
Slices = list[list[str]]

_SLICE = 512
# A pass over a small sample is repeated, and a pass of a slow library is stopped.
_SECONDS_MIN = 0.2
_SECONDS_MAX = 10.0


class UnsuitableError(Exception):
    """A library cannot encode with this tokenizer."""


def main(library: str, name: str, threads: str) -> None:
    folder = Path(name)
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    texts = job.pop("texts")
    # Slices, so that results do not dominate the memory.
    slices = [texts[start : start + _SLICE] for start in range(0, len(texts), _SLICE)]
    before = memory_bytes("VmRSS:")
    started = time.perf_counter()
    try:
        encode, encode_batch = LIBRARIES[library](job, int(threads))
        encode(slices[0][0][:1000])
        seconds = time.perf_counter() - started
        row: dict[str, Any] = _speed("", slices, lambda some: [encode(text) for text in some])
        row |= _speed("batch_", slices, encode_batch) | {"load_seconds": seconds}
        row["peak_mb"] = max(memory_bytes() - before, 0) / 1e6
        if not (folder / f"{library}.ids").exists():
            _write_ids(folder / library, slices, encode, encode_batch)
    except UnsuitableError as error:
        row = {"error": str(error)}
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        row = {"error": f"{type(error).__name__}: {lines[0]}"}
    sys.stdout.write(json.dumps(row) + "\n")


def _speed(prefix: str, slices: Slices, encode_batch: Any) -> dict[str, float]:
    """Bytes and tokens per second of encoding the slices in order."""
    size = tokens = 0
    seconds = 0.0
    while seconds < _SECONDS_MIN:
        for some in slices:
            started = time.perf_counter()
            tokens += sum(map(len, encode_batch(some)))
            seconds += time.perf_counter() - started
            size += sum(len(text.encode()) for text in some)
            if seconds > _SECONDS_MAX:
                break
    rates = {"bytes_per_second": size / seconds, "tokens_per_second": tokens / seconds}
    return {prefix + name: rate for name, rate in rates.items()}


def _write_ids(path: Path, slices: Slices, encode: Any, encode_batch: Any) -> None:
    """Write the ids of all documents, one call each, and check that a batch gives the same."""
    ids, lengths = array("I"), array("Q")
    for some in slices:
        found = [list(encode(text)) for text in some]
        if [list(each) for each in encode_batch(some)] != found:
            raise UnsuitableError("its batches give other ids than its single calls")
        for each in found:
            ids.extend(each)
            lengths.append(len(each))
    path.with_name(f"{path.name}.ids").write_bytes(ids.tobytes())
    path.with_name(f"{path.name}.lengths").write_bytes(lengths.tobytes())


def memory_bytes(name: str = "VmHWM:") -> int:
    """The peak memory of this process, or another line of Linux's status file.

    It is the peak on other systems, and 0 on Windows.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


# The libraries. Each function takes the files of a job and returns two encoders.


def _tokenmill(job: dict[str, Any], threads: int) -> Encoders:
    tokenizer = import_module("tokenmill").Tokenizer.load(job["source"], pattern=job["pattern"])
    return tokenizer.encode, lambda texts: tokenizer.encode_batch(texts, threads=threads)


def _tokenizers(job: dict[str, Any], threads: int) -> Encoders:
    path = _needed(job, "tokenizer_json", "tokenizer.json")
    tokenizer = import_module("tokenizers").Tokenizer.from_file(path)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True
    return (
        lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
        lambda texts: [
            each.ids for each in tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        ],
    )


def _tiktoken(job: dict[str, Any], threads: int) -> Encoders:
    path = _needed(job, "ranks", "file of ranks with a regular expression")
    ranks = import_module("tiktoken.load").load_tiktoken_bpe(path)
    encoding = import_module("tiktoken").Encoding(
        "bench", pat_str=job["regex"], mergeable_ranks=ranks, special_tokens={}
    )
    return encoding.encode_ordinary, lambda texts: encoding.encode_ordinary_batch(
        texts, num_threads=threads
    )


def _sentencepiece(job: dict[str, Any], threads: int) -> Encoders:
    path = _needed(job, "model", ".model file")
    processor = import_module("sentencepiece").SentencePieceProcessor(model_file=path)
    return processor.encode, lambda texts: processor.encode(texts, num_threads=threads)


def _gigatoken(job: dict[str, Any], threads: int) -> Encoders:
    path = _needed(job, "tokenizer_json", "tokenizer.json")
    tokenizer = import_module("gigatoken").Tokenizer(path)
    return (
        lambda text: tokenizer.encode(text).tolist(),
        lambda texts: tokenizer.encode_batch_list(texts, parallel=threads > 1),
    )


def _transformers(job: dict[str, Any], threads: int) -> Encoders:
    library = import_module("transformers")
    if job["folder"]:
        tokenizer = library.AutoTokenizer.from_pretrained(job["folder"], local_files_only=True)
    else:
        path = _needed(job, "tokenizer_json", "tokenizer.json")
        tokenizer = library.PreTrainedTokenizerFast(tokenizer_file=path)
    more = {"add_special_tokens": False, "split_special_tokens": True, "verbose": False}
    encode: Any = lambda text: tokenizer(text, **more)["input_ids"]  # noqa: E731
    return encode, encode


def _needed(job: dict[str, Any], name: str, what: str) -> str:
    path: str | None = job[name]
    if path is None:
        raise UnsuitableError(f"it needs a {what}")
    return path


LIBRARIES: dict[str, Callable[[dict[str, Any], int], Encoders]] = {
    "tokenmill": _tokenmill,
    "tokenizers": _tokenizers,
    "tiktoken": _tiktoken,
    "sentencepiece": _sentencepiece,
    "gigatoken": _gigatoken,
    "transformers": _transformers,
}


if __name__ == "__main__":
    main(*sys.argv[1:])
