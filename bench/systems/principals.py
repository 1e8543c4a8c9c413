"""The two systems that the goals compare, and the baseline of every table."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import importlib
from typing import Any, ClassVar

import numpy as np

# isort: split
from vocabularies import Vocabulary

from systems.base import Ids, Ragged, System


class Tokenmill(System):
    name = module = package = "tokenmill"
    bytes_jobs = frozenset({"array", "count", "memory"})
    how: ClassVar[dict[str, str]] = {
        "load": "Tokenizer.load, embedded",
        "array": "encode_array(bytes, threads=1)",
        "list": "encode",
        "batch_list": "encode_batch",
        "batch_array": "encode_ragged",
        "count": "count(bytes)",
    }
    direct: ClassVar[dict[str, str]] = {"list": "encode", "array": "encode_array"}

    def load(self, v: Vocabulary) -> None:
        self.core = self.lib.Tokenizer.load(v.name)

    def encode_list(self, text: str) -> list[int]:
        return self.core.encode(text)

    def encode_array(self, text: Any) -> Ids:
        return self.core.encode_array(text, threads=1)

    def encode_array_on(self, text: Any, threads: int) -> Ids:
        return self.core.encode_array(text, threads=threads)

    def batch_list(self, texts: list[str], threads: int) -> list[list[int]]:
        return self.core.encode_batch(texts, threads=threads)

    def batch_array(self, texts: list[str], threads: int) -> Ragged:
        ragged = self.core.encode_ragged(texts, threads=threads)
        return ragged.ids, ragged.offsets

    def count(self, text: Any) -> int:
        return self.core.count(text, threads=1)


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
    direct: ClassVar[dict[str, str]] = {"array": "encode"}

    def open(self) -> None:
        super().open()
        # The first batch call imports these modules in 160 ms, which is not encoding time.
        for module in ("awkward", "numpy.ma"):
            importlib.import_module(module)

    def load(self, v: Vocabulary) -> None:
        # The rank loader rejects ranks with a gap, and p50k_base has no id 50256.
        if v.ranks_name == "p50k_base":
            self.core = self.lib.Tokenizer(str(v.json_path))
        else:
            self.core = self.lib.Tokenizer.from_tiktoken(v.ranks_path, v.pre_tokenizer)

    def encode_list(self, text: str) -> list[int]:
        return self.core.encode(text).tolist()

    def encode_array(self, text: Any) -> Ids:
        return self.core.encode(text)

    def batch_list(self, texts: list[str], threads: int) -> list[list[int]]:
        return self.core.encode_batch_list(texts, parallel=threads > 1)

    def batch_array(self, texts: list[str], threads: int) -> Ragged:
        layout = self.core.encode_batch(texts, parallel=threads > 1).layout
        return layout.content.data, layout.offsets.data


class ReadOnly(System):
    """The baseline of each table: reads every byte and encodes none."""

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


def _touch(data: bytes) -> int:
    # A numpy call takes 3 µs, so short texts use bytes.count.
    if len(data) < 1_000:
        return data.count(0)
    return int(np.frombuffer(data, np.uint64, len(data) // 8).sum())
