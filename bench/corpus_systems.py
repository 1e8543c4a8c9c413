"""Conversions of files to ids on the disk: tokenmill and the usual alternatives.

Each system reads one input and writes ids to a folder, with some workers. Its `run` is timed. Its
`written` reads the ids of each document back, in order, without the EOS token.
"""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# isort: split
import training_corpora
import vocabularies

VOCABULARY = "cl100k_base"
EOS = 100257
BATCH_BYTES = 16 << 20
BATCH_DOCUMENTS = 512
Ids = np.ndarray[Any, np.dtype[np.uint32]]


def texts(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)["text"]


def split(ids: Ids, lengths: Iterable[int]) -> Iterator[Ids]:
    """Yield documents of consecutive ids, without the EOS token that ends each of them."""
    start = 0
    for length in lengths:
        document = ids[start : start + length]
        assert length and document[-1] == EOS, f"the document at id {start} ends without EOS"
        yield document[:-1]
        start += length
    assert start == len(ids), f"{len(ids) - start} ids are behind the last document"


# ── ours ─────────────────────────────────────────────────────────────────────────────────────


class Encoder:
    """tokenmill's encoder alone: from documents in memory to arrays in memory, batch by batch."""

    def __init__(self, path: Path) -> None:
        from tokenmill import Tokenizer

        self.tokenizer = Tokenizer.load(VOCABULARY)
        self.batches: list[list[bytes]] = [[]]
        size = 0
        for document in texts(path):
            if size > BATCH_BYTES:
                self.batches.append([])
                size = 0
            data = document.encode()
            self.batches[-1].append(data)
            size += len(data)
        self.found: list[Any] = []

    def run(self, folder: Path, workers: int) -> None:
        self.found = [
            self.tokenizer.encode_ragged(batch, threads=workers) for batch in self.batches
        ]

    def written(self, folder: Path) -> Iterator[Ids]:
        for ragged in self.found:
            ids = np.asarray(ragged.ids, np.uint32)
            yield from np.split(ids, np.asarray(ragged.offsets)[1:-1])


class Tokenize:
    """`tokenmill.tokenize` to Megatron shards."""

    separator: str | None = None

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, folder: Path, workers: int) -> None:
        import tokenmill

        options = {"separator": self.separator} if self.separator else {}
        result = tokenmill.tokenize(self.path, folder, VOCABULARY, threads=workers, **options)
        assert result.is_complete, result.failures

    def written(self, folder: Path) -> Iterator[Ids]:
        for index in sorted(folder.glob("*.idx")):
            yield from megatron_documents(index)


class TokenizeText(Tokenize):
    """`tokenmill.tokenize` of a text with a separator between documents."""

    separator = training_corpora.END


def megatron_documents(index: Path) -> Iterator[Ids]:
    """The documents of a pair of files of Megatron, read by their layout alone."""
    data = index.read_bytes()
    assert data[:9] == b"MMIDIDX\0\0", f"{index} is not an index of Megatron"
    types = {4: np.int32, 8: np.uint16}
    count = int.from_bytes(data[18:26], "little")
    lengths = np.frombuffer(data, np.int32, count, 34)
    ids = np.fromfile(index.with_suffix(".bin"), types[data[17]]).astype(np.uint32)
    yield from split(ids, lengths.tolist())


# ── theirs ───────────────────────────────────────────────────────────────────────────────────


class Loop:
    """Work like Megatron's preprocess_data.py: a pool encodes lines, one process writes the ids."""

    begin: Callable[[], Callable[[list[str]], list[Any]]]
    batch = 1

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, folder: Path, workers: int) -> None:
        folder.mkdir(parents=True)
        lengths: list[int] = []
        with (
            multiprocessing.get_context("fork").Pool(workers, _begin, (type(self).begin,)) as pool,
            self.path.open(encoding="utf-8") as source,
            (folder / "ids.bin").open("wb") as target,
        ):
            for found in pool.imap(_encode_lines, self.lines(source), max(1, 32 // self.batch)):
                for ids in found:
                    target.write(ids.tobytes())
                    lengths.append(len(ids))
            pool.close()
            pool.join()
        np.array(lengths, np.int64).tofile(folder / "lengths.bin")

    def lines(self, source: Iterable[str]) -> Iterator[list[str]]:
        lines: list[str] = []
        for line in source:
            lines.append(line)
            if len(lines) == self.batch:
                yield lines
                lines = []
        if lines:
            yield lines

    def written(self, folder: Path) -> Iterator[Ids]:
        lengths = np.fromfile(folder / "lengths.bin", np.int64).tolist()
        yield from split(np.fromfile(folder / "ids.bin", np.uint32), lengths)


def _begin(make: Callable[[], Callable[[list[str]], list[Any]]]) -> None:
    global _encode
    _encode = make()


def _encode_lines(lines: list[str]) -> list[Ids]:
    import orjson

    documents = [orjson.loads(line)["text"] for line in lines]
    return [np.append(ids, EOS).astype(np.uint32) for ids in _encode(documents)]


_encode: Callable[[list[str]], list[Any]]


class TokenizersBatches(Loop):
    """tokenizers with batches in processes, without its own threads."""

    batch = BATCH_DOCUMENTS

    @staticmethod
    def begin() -> Callable[[list[str]], list[Any]]:
        import os

        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        import tokenizers

        core = tokenizers.Tokenizer.from_file(str(vocabularies.vocabulary(VOCABULARY).json_path))
        return lambda documents: [
            found.ids for found in core.encode_batch_fast(documents, add_special_tokens=False)
        ]


class GigatokenLoop(Loop):
    """gigatoken called for each line."""

    @staticmethod
    def begin() -> Callable[[list[str]], list[Any]]:
        core = gigatoken_core()
        return lambda documents: [core.encode(document) for document in documents]


def gigatoken_core() -> Any:
    import gigatoken

    found = vocabularies.vocabulary(VOCABULARY)
    return gigatoken.Tokenizer.from_tiktoken(found.ranks_path, found.pre_tokenizer)


class GigatokenFiles:
    """gigatoken's encode_files, then numpy: no checkpoint, all ids in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, folder: Path, workers: int) -> None:
        import os

        os.environ["RAYON_NUM_THREADS"] = str(workers)
        import awkward
        import gigatoken

        core = gigatoken_core()
        found = core.encode_files(gigatoken.JsonlFileSource([self.path]), parallel=workers > 1)
        lengths = awkward.to_numpy(awkward.num(found)).astype(np.int64)
        ids = awkward.to_numpy(awkward.flatten(found)).astype(np.uint32, copy=False)
        folder.mkdir(parents=True)
        np.insert(ids, np.cumsum(lengths), EOS).tofile(folder / "ids.bin")
        (lengths + 1).tofile(folder / "lengths.bin")

    written = Loop.written


class Datatrove:
    """A datatrove pipeline with one task and one file per worker; document i is in file i % n."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def prepare(self, folder: Path, workers: int) -> None:
        parts = folder / "in"
        parts.mkdir(parents=True)
        # EOS is the only special token. The names of others are text, as in the other systems.
        core = json.loads(vocabularies.vocabulary(VOCABULARY).json_path.read_bytes())
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        end = {"id": EOS, "content": training_corpora.END, "special": True} | flags
        core["added_tokens"] = [end]
        core["model"]["vocab"][training_corpora.END] = EOS  # or tokenizers gives it the next id
        (folder / "tokenizer.json").write_text(json.dumps(core))
        files = [(parts / f"{index:03}.jsonl").open("w") for index in range(workers)]
        with self.path.open() as source:
            for number, line in enumerate(source):
                files[number % workers].write(line)
        for file in files:
            file.close()

    def run(self, folder: Path, workers: int) -> None:
        from datatrove.executor import LocalPipelineExecutor
        from datatrove.pipeline.readers import JsonlReader
        from datatrove.pipeline.tokens import DocumentTokenizer

        LocalPipelineExecutor(
            [
                JsonlReader(str(folder / "in"), glob_pattern="*.jsonl"),
                DocumentTokenizer(
                    output_folder=str(folder / "out"),
                    local_working_dir=None,
                    tokenizer_name_or_path=str(folder / "tokenizer.json"),
                    eos_token=training_corpora.END,
                    shuffle_documents=False,
                ),
            ],
            tasks=workers,
            workers=workers,
            logging_dir=str(folder / "logs"),
        ).run()

    def written(self, folder: Path) -> Iterator[Ids]:
        parts = []
        for file in sorted((folder / "out").glob("*.ds")):
            ends = np.fromfile(f"{file}.index", np.uint64).astype(np.int64)
            lengths = np.diff(ends, prepend=0).tolist()
            parts.append(split(np.fromfile(file, np.uint32), lengths))
        # datatrove leaves out empty documents, and each of them shifts the rest of its file.
        with self.path.open() as source:
            for number, line in enumerate(source):
                empty = not json.loads(line)["text"]
                yield np.empty(0, np.uint32) if empty else next(parts[number % len(parts)])


@dataclass(frozen=True)
class System:
    make: Callable[[Path], Any]
    suffix: str = "jsonl"  # of its input
    is_slow: bool = False  # it runs once


SYSTEMS = {
    "encoder": System(Encoder),
    "text": System(TokenizeText, "txt"),
    "jsonl": System(Tokenize),
    "jsonl.zst": System(Tokenize, "jsonl.zst"),
    "gigatoken, encode_files": System(GigatokenFiles),
    "gigatoken, Megatron loop": System(GigatokenLoop),
    "tokenizers, batches": System(TokenizersBatches, is_slow=True),
    "datatrove": System(Datatrove, is_slow=True),
}
