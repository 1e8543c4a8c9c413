"""System name → an adapter that loads a vocabulary and encodes.

One small class a system. Each job is done the fastest way that its API has, and `how` names that
way; a job without a direct call is put together from the nearest one. Specials are text.

Invariant: a module is imported in `open`, never at the top, because the measuring process sets the
number of threads first and counts the import apart from the load.
"""

# mypy: disable-error-code="no-any-return"
# Most of the peers come without types.

from __future__ import annotations

import importlib
import itertools
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

# isort: split
from corpora import CACHE
from vocabularies import Vocabulary

Ids = npt.NDArray[np.uint32]
Ragged = tuple[Ids, npt.NDArray[Any]]

SIDE_FOLDER = CACHE / "side"


class UnsupportedError(Exception):
    """The system cannot do the job; the text says why."""


class System:
    name: ClassVar[str]
    module: ClassVar[str]
    package: ClassVar[str]
    # A second version of a package, kept in a folder of its own: `name==version`.
    side: ClassVar[str | None] = None
    # Jobs that get bytes; the others get str.
    bytes_jobs: ClassVar[frozenset[str]] = frozenset()
    how: ClassVar[dict[str, str]]
    has_ids = True

    def open(self) -> None:
        self.lib: Any = importlib.import_module(self.module)
        self.core: Any = None

    def load(self, v: Vocabulary) -> None:
        raise NotImplementedError

    def load_fastest(self, v: Vocabulary) -> None:
        """What the load job times, where it differs from what the other jobs need."""
        self.load(v)

    def encode_list(self, text: str) -> list[int]:
        raise NotImplementedError

    def encode_array(self, text: Any) -> Ids:
        raise NotImplementedError

    def batch_list(self, texts: list[str], threads: int) -> list[list[int]]:
        raise NotImplementedError

    def batch_array(self, texts: list[str], threads: int) -> Ragged:
        raise NotImplementedError

    def count(self, text: Any) -> int:
        return len(self.encode_array(text))


class Tokenmill(System):
    name = module = package = "tokenmill"
    bytes_jobs = frozenset({"array", "count", "memory"})
    how: ClassVar[dict[str, str]] = {
        "load": "Tokenizer.load, embedded",
        "array": "encode_array(bytes)",
        "list": "encode",
        "batch_list": "encode_batch",
        "batch_array": "encode_ragged",
        "count": "count(bytes)",
    }

    def load(self, v: Vocabulary) -> None:
        self.core = self.lib.Tokenizer.load(v.name)

    def encode_list(self, text: str) -> list[int]:
        return self.core.encode(text)

    def encode_array(self, text: Any) -> Ids:
        return self.core.encode_array(text)

    def batch_list(self, texts: list[str], threads: int) -> list[list[int]]:
        return self.core.encode_batch(texts, threads=threads)

    def batch_array(self, texts: list[str], threads: int) -> Ragged:
        ragged = self.core.encode_ragged(texts, threads=threads)
        return ragged.ids, ragged.offsets

    def count(self, text: Any) -> int:
        return self.core.count(text)


class Tiktoken(System):
    name = module = package = "tiktoken"
    how: ClassVar[dict[str, str]] = {
        "load": "load_tiktoken_bpe and Encoding, rank file",
        "array": "encode_to_numpy",
        "list": "encode_ordinary",
        "batch_list": "encode_ordinary_batch; one thread: a loop",
        "batch_array": "encode_to_numpy in a thread pool, concatenated; one thread: a loop",
        "count": "len(encode_to_numpy)",
    }

    def open(self) -> None:
        super().open()
        self.loader = importlib.import_module("tiktoken.load")
        os.environ["TIKTOKEN_CACHE_DIR"] = ""  # else it keeps a copy of the rank file

    def load(self, v: Vocabulary) -> None:
        self.core = self.lib.Encoding(
            v.name,
            pat_str=v.pattern_fast,
            mergeable_ranks=self.loader.load_tiktoken_bpe(str(v.ranks_path)),
            special_tokens={"<|endoftext|>": v.end_of_text},
        )

    def encode_list(self, text: str) -> list[int]:
        return self.core.encode_ordinary(text)

    def encode_array(self, text: str) -> Ids:
        return self.core.encode_to_numpy(text, disallowed_special=())

    def batch_list(self, texts: list[str], threads: int) -> list[list[int]]:
        if threads == 1:
            return [self.core.encode_ordinary(text) for text in texts]
        return self.core.encode_ordinary_batch(texts, num_threads=threads)

    def batch_array(self, texts: list[str], threads: int) -> Ragged:
        if threads == 1:
            return _ragged([self.encode_array(text) for text in texts])
        with ThreadPoolExecutor(threads) as pool:
            return _ragged(list(pool.map(self.encode_array, texts)))


class Tokenizers(System):
    name = "tokenizers-0.23"
    module = package = "tokenizers"
    how: ClassVar[dict[str, str]] = {
        "load": "Tokenizer.from_file, tokenizer.json",
        "array": "numpy array of encode().ids",
        "list": "encode().ids",
        "batch_list": "encode_batch_fast, ids of each",
        "batch_array": "encode_batch_fast, numpy array of the ids of each, concatenated",
        "count": "len(encode())",
    }

    def load(self, v: Vocabulary) -> None:
        self.core = self.lib.Tokenizer.from_file(str(v.json_path))

    def encode_list(self, text: str) -> list[int]:
        return self.core.encode(text, add_special_tokens=False).ids

    def encode_array(self, text: str) -> Ids:
        return np.array(self.encode_list(text), np.uint32)

    def batch_list(self, texts: list[str], threads: int) -> list[list[int]]:
        return [e.ids for e in self.core.encode_batch_fast(texts, add_special_tokens=False)]

    def batch_array(self, texts: list[str], threads: int) -> Ragged:
        return _ragged([np.array(ids, np.uint32) for ids in self.batch_list(texts, threads)])

    def count(self, text: str) -> int:
        return len(self.core.encode(text, add_special_tokens=False))


class TokenizersNext(Tokenizers):
    name = "tokenizers-1.0rc"
    side = "tokenizers==1.0.0rc3"
    how: ClassVar[dict[str, str]] = {
        "load": "Tokenizer.from_file, tokenizer.json",
        "array": "encode().ids_array",
        "list": "encode().ids",
        "batch_list": "encode_batch, ids of each",
        "batch_array": "encode_batch, ids_array of each, concatenated",
        "count": "len(encode())",
    }

    def encode_array(self, text: str) -> Ids:
        return self.core.encode(text, add_special_tokens=False).ids_array

    def batch_list(self, texts: list[str], threads: int) -> list[list[int]]:
        return [e.ids for e in self.core.encode_batch(texts, add_special_tokens=False)]

    def batch_array(self, texts: list[str], threads: int) -> Ragged:
        encodings = self.core.encode_batch(texts, add_special_tokens=False)
        return _ragged([e.ids_array for e in encodings])


class Gigatoken(System):
    name = module = package = "gigatoken"
    bytes_jobs = frozenset({"array", "count", "memory"})
    how: ClassVar[dict[str, str]] = {
        "load": "Tokenizer.from_tiktoken, rank file (p50k_base: tokenizer.json)",
        "array": "encode(bytes)",
        "list": "encode().tolist()",
        "batch_list": "encode_batch_list",
        "batch_array": "encode_batch",
        "count": "len(encode(bytes))",
    }

    def open(self) -> None:
        super().open()
        # The first batch call imports these, which takes 160 ms and is not encoding.
        for module in ("awkward", "numpy.ma"):
            importlib.import_module(module)

    def load(self, v: Vocabulary) -> None:
        # Its rank loader refuses ranks with a gap, and p50k_base leaves 50256 free.
        if v.ranks_name == "p50k_base":
            self.core = self.lib.Tokenizer(str(v.json_path))
        else:
            self.core = self.lib.Tokenizer.from_tiktoken(v.ranks_path, v.scheme)

    def encode_list(self, text: str) -> list[int]:
        return self.core.encode(text).tolist()

    def encode_array(self, text: Any) -> Ids:
        return self.core.encode(text)

    def batch_list(self, texts: list[str], threads: int) -> list[list[int]]:
        return self.core.encode_batch_list(texts, parallel=threads > 1)

    def batch_array(self, texts: list[str], threads: int) -> Ragged:
        layout = self.core.encode_batch(texts, parallel=threads > 1).layout
        return layout.content.data, layout.offsets.data


class Quicktok(System):
    name = module = "quicktok"
    package = "quicktok-v1"
    how: ClassVar[dict[str, str]] = {
        "load": "get_encoding, bundled",
        "array": "encode_batch of one text",
        "list": "encode_ordinary",
        "batch_list": "encode_batch, sliced into lists",
        "batch_array": "encode_batch",
        "count": "count",
    }

    def load(self, v: Vocabulary) -> None:
        if v.scheme == "gpt2":
            raise UnsupportedError("has no GPT-2 pattern; bundled: cl100k_base, o200k_base")
        self.core = self.lib.get_encoding(v.name)

    def encode_list(self, text: str) -> list[int]:
        return self.core.encode_ordinary(text)

    def encode_array(self, text: str) -> Ids:
        return self.core.encode_batch([text], 1)[0]

    def batch_list(self, texts: list[str], threads: int) -> list[list[int]]:
        return _lists(*self.core.encode_batch(texts, threads))

    def batch_array(self, texts: list[str], threads: int) -> Ragged:
        return self.core.encode_batch(texts, threads)

    def count(self, text: str) -> int:
        return self.core.count(text)


class Toktok(System):
    name = module = "toktok"
    package = "toktok-rs"
    how: ClassVar[dict[str, str]] = {
        "load": "_encoding, bundled",
        "array": "encode_to_numpy",
        "list": "encode_ordinary",
        "batch_list": "encode_batch_to_numpy, sliced into lists",
        "batch_array": "encode_batch_to_numpy",
        "count": "count",
    }

    def load(self, v: Vocabulary) -> None:
        if v.scheme == "gpt2":
            raise UnsupportedError("has no GPT-2 vocabulary; bundled: cl100k_base, o200k_base")
        # Its public calls only count; the encoder is behind this one.
        self.core = self.lib._encoding(v.name)

    def encode_list(self, text: str) -> list[int]:
        return self.core.encode_ordinary(text)

    def encode_array(self, text: str) -> Ids:
        return self.core.encode_to_numpy(text, None, ())

    def batch_list(self, texts: list[str], threads: int) -> list[list[int]]:
        return _lists(*self.core.encode_batch_to_numpy(texts, threads))

    def batch_array(self, texts: list[str], threads: int) -> Ragged:
        return self.core.encode_batch_to_numpy(texts, threads)

    def count(self, text: str) -> int:
        return self.core.count(text)


class Splintr(System):
    name = module = "splintr"
    package = "splintr-rs"
    how: ClassVar[dict[str, str]] = {
        "load": "Tokenizer.from_pretrained, bundled (GPT-2 vocabularies: rank file)",
        "array": "encode_flat",
        "list": "encode",
        "batch_list": "encode_batch",
        "batch_array": "encode_batch_flat",
        "count": "len(encode_flat)",
    }

    def load(self, v: Vocabulary) -> None:
        # From the rank file, without specials: the flat and batch calls of a bundled vocabulary
        # turn the specials in a text into their ids.
        patterns = {
            "gpt2": self.lib.GPT2_PATTERN,
            "cl100k": self.lib.CL100K_BASE_PATTERN,
            "o200k": self.lib.O200K_BASE_PATTERN,
        }
        self.core = self.lib.Tokenizer(str(v.ranks_path), patterns[v.scheme])

    def load_fastest(self, v: Vocabulary) -> None:
        if v.scheme == "gpt2":
            self.load(v)
        else:
            self.core = self.lib.Tokenizer.from_pretrained(v.name)

    def encode_list(self, text: str) -> list[int]:
        return self.core.encode(text)

    def encode_array(self, text: str) -> Ids:
        return np.frombuffer(self.core.encode_flat(text), np.uint32)

    def batch_list(self, texts: list[str], threads: int) -> list[list[int]]:
        return self.core.encode_batch(texts)

    def batch_array(self, texts: list[str], threads: int) -> Ragged:
        ids, offsets = self.core.encode_batch_flat(texts)
        return np.frombuffer(ids, np.uint32), np.frombuffer(offsets, np.uint64)


class Fastokens(System):
    name = module = package = "fastokens"
    how: ClassVar[dict[str, str]] = {
        "load": "Tokenizer.from_tiktoken, rank file (GPT-2 vocabularies: tokenizer.json)",
        "array": "encode_batch_flat of one text",
        "list": "encode().ids",
        "batch_list": "encode_batch, ids of each",
        "batch_array": "encode_batch_flat",
        "count": "len(encode())",
    }

    def load(self, v: Vocabulary) -> None:
        # It knows the GPT-2 pattern in a tokenizer.json, four times as fast as the same regex
        # beside a rank file; and its rank loader refuses the gap in p50k_base.
        if v.scheme == "gpt2":
            self.core = self.lib.Tokenizer.from_file(str(v.json_path))
        else:
            self.core = self.lib.Tokenizer.from_tiktoken(
                str(v.ranks_path), pattern=v.pattern_plain, special_tokens={}
            )

    def encode_list(self, text: str) -> list[int]:
        return self.core.encode(text).ids

    def encode_array(self, text: str) -> Ids:
        return np.frombuffer(self.core.encode_batch_flat([text])[0], np.uint32)

    def batch_list(self, texts: list[str], threads: int) -> list[list[int]]:
        return [e.ids for e in self.core.encode_batch(texts)]

    def batch_array(self, texts: list[str], threads: int) -> Ragged:
        ids, offsets = self.core.encode_batch_flat(texts)
        return np.frombuffer(ids, np.uint32), np.frombuffer(offsets, np.uint64)

    def count(self, text: str) -> int:
        return len(self.core.encode(text))


class ReadOnly(System):
    """The baseline of each table: looks at every byte, and does nothing with it."""

    name = "read_only"
    module = package = "numpy"
    bytes_jobs = frozenset(
        {"array", "list", "batch_list", "batch_array", "count", "memory", "latency"}
    )
    how: ClassVar[dict[str, str]] = dict.fromkeys(
        ("array", "list", "batch_list", "batch_array", "count"), "sum of the bytes as u64"
    )
    has_ids = False

    def load(self, v: Vocabulary) -> None:
        pass

    def encode_list(self, text: Any) -> Any:
        return _touch(text)

    def encode_array(self, text: Any) -> Any:
        return _touch(text)

    def batch_list(self, texts: list[Any], threads: int) -> Any:
        return [_touch(text) for text in texts]

    def batch_array(self, texts: list[Any], threads: int) -> Any:
        return [_touch(text) for text in texts]

    def count(self, text: Any) -> Any:
        return _touch(text)


SYSTEMS: dict[str, type[System]] = {
    s.name: s
    for s in (
        Tokenmill,
        Gigatoken,
        Fastokens,
        TokenizersNext,
        Quicktok,
        Toktok,
        Splintr,
        Tiktoken,
        Tokenizers,
        ReadOnly,
    )
}


def _touch(data: bytes) -> int:
    # A numpy call alone takes 3 µs, so a short text goes another way.
    if len(data) < 1_000:
        return data.count(0)
    return int(np.frombuffer(data, np.uint64, len(data) // 8).sum())


def _ragged(arrays: Sequence[Ids]) -> Ragged:
    offsets = np.zeros(len(arrays) + 1, np.int64)
    np.cumsum([len(a) for a in arrays], out=offsets[1:])
    return np.concatenate(arrays), offsets


def _lists(ids: Ids, offsets: npt.NDArray[Any]) -> list[list[int]]:
    flat, cuts = ids.tolist(), offsets.tolist()
    return [flat[a:b] for a, b in itertools.pairwise(cuts)]
