"""Conversions of files to ids on the disk: tokenmill and the usual alternatives.

Each function takes an input, a folder and a number of workers. It returns the numbers of documents,
ids and bytes of text. `suffix` is the format of its input.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

# isort: split
import training_corpora
import vocabularies

VOCABULARY = "cl100k_base"
EOS = 100257
BATCH_BYTES = 16 << 20
Row = dict[str, Any]


def texts(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)["text"]


# ── ours ─────────────────────────────────────────────────────────────────────────────────────


def encoder(path: Path, folder: Path, workers: int) -> Row:
    """Encode documents in memory to arrays in memory, batch by batch."""
    from tokenmill import Tokenizer

    data = [text.encode() for text in texts(path)]
    batches: list[list[bytes]] = [[]]
    size = 0
    for document in data:
        if size > BATCH_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(document)
        size += len(document)
    tokenizer = Tokenizer.load(VOCABULARY)
    tokens = 0
    started = time.perf_counter()
    for batch in batches:
        tokens += len(tokenizer.encode_ragged(batch, threads=workers).ids)
    seconds = time.perf_counter() - started
    total = sum(map(len, data))
    # The other systems add an EOS token to each document.
    return {
        "seconds": seconds,
        "tokens": tokens + len(data),
        "documents": len(data),
        "bytes": total,
    }


def _tokenize(path: Path, folder: Path, workers: int, **options: Any) -> Row:
    import tokenmill

    run = tokenmill.tokenize  # imported when it is first used
    started = time.perf_counter()
    result = run(path, folder, VOCABULARY, threads=workers, **options)
    seconds = time.perf_counter() - started
    assert result.is_complete, result.failures
    return {
        "seconds": seconds,
        "tokens": result.tokens,
        "documents": result.documents,
        "bytes": result.bytes,
    }


def text(path: Path, folder: Path, workers: int) -> Row:
    return _tokenize(path, folder, workers, separator=training_corpora.END)


def jsonl(path: Path, folder: Path, workers: int) -> Row:
    return _tokenize(path, folder, workers)


# ── theirs ───────────────────────────────────────────────────────────────────────────────────


def datatrove(path: Path, folder: Path, workers: int) -> Row:
    """Run a datatrove pipeline with one task and one file per worker."""
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.tokens import DocumentTokenizer

    from tokenmill import Tokenizer

    parts = folder / "in"
    parts.mkdir(parents=True)
    Tokenizer.load(VOCABULARY).save(folder / "tokenizer.json")
    files = [(parts / f"{index}.jsonl").open("w") for index in range(workers)]
    size = 0
    with path.open() as source:
        for number, line in enumerate(source):
            files[number % workers].write(line)
            size += len(json.loads(line)["text"].encode())
    for file in files:
        file.close()
    started = time.perf_counter()
    LocalPipelineExecutor(
        [
            JsonlReader(str(parts), glob_pattern="*.jsonl"),
            DocumentTokenizer(
                output_folder=str(folder / "out"),
                local_working_dir=None,
                tokenizer_name_or_path=str(folder / "tokenizer.json"),
                eos_token="<|endoftext|>",
                shuffle_documents=False,
            ),
        ],
        tasks=workers,
        workers=workers,
        logging_dir=str(folder / "logs"),
    ).run()
    seconds = time.perf_counter() - started
    written = list((folder / "out").glob("*.ds"))
    documents = sum(file.stat().st_size // 8 for file in (folder / "out").glob("*.index"))
    tokens = sum(file.stat().st_size // 4 for file in written)
    return {"seconds": seconds, "tokens": tokens, "documents": documents, "bytes": size}


def megatron(path: Path, folder: Path, workers: int, make: Callable[[], Any]) -> Row:
    """Work like preprocess_data.py: a pool encodes lines to lists of ids, one process writes."""
    folder.mkdir(parents=True)
    size = tokens = 0
    lengths: list[int] = []
    started = time.perf_counter()
    with (
        multiprocessing.get_context("fork").Pool(workers, _begin, (make,)) as pool,
        path.open(encoding="utf-8") as source,
        (folder / "out.bin").open("wb") as target,
    ):
        for ids, bytes_ in pool.imap(_encode_line, source, 32):
            target.write(np.array(ids, np.int32).tobytes())
            lengths.append(len(ids))
            tokens += len(ids)
            size += bytes_
    np.array(lengths, np.int32).tofile(folder / "out.idx")
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "tokens": tokens, "documents": len(lengths), "bytes": size}


def _begin(make: Callable[[], Any]) -> None:
    global _encode
    _encode = make()


def _encode_line(line: str) -> tuple[list[int], int]:
    document = json.loads(line)["text"]
    return [*_encode(document), EOS], len(document.encode())


_encode: Callable[[str], list[int]]


def _with_tokenizers() -> Callable[[str], list[int]]:
    import tokenizers

    path = str(vocabularies.vocabulary(VOCABULARY).json_path)
    core = tokenizers.Tokenizer.from_file(path)
    return lambda text: core.encode(text, add_special_tokens=False).ids


def _with_gigatoken() -> Callable[[str], list[int]]:
    import gigatoken

    v = vocabularies.vocabulary(VOCABULARY)
    core = gigatoken.Tokenizer.from_tiktoken(v.ranks_path, v.pre_tokenizer)
    return lambda text: core.encode(text).tolist()


def megatron_tokenizers(path: Path, folder: Path, workers: int) -> Row:
    return megatron(path, folder, workers, _with_tokenizers)


def megatron_gigatoken(path: Path, folder: Path, workers: int) -> Row:
    return megatron(path, folder, workers, _with_gigatoken)


class System:
    def __init__(self, run: Callable[[Path, Path, int], Row], suffix: str = "jsonl") -> None:
        self.run, self.suffix = run, suffix

    def __call__(self, path: Path, folder: Path, workers: int) -> Row:
        return self.run(path, folder, workers)


SYSTEMS = {
    "encoder": System(encoder),
    "text": System(text, "txt"),
    "jsonl": System(jsonl),
    "jsonl.zst": System(jsonl, "jsonl.zst"),
    "datatrove, tokenizers": System(datatrove),
    "megatron, tokenizers": System(megatron_tokenizers),
    "megatron, gigatoken": System(megatron_gigatoken),
}
