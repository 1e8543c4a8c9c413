"""The other peers, one small class each."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import importlib
import os
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import numpy as np

# isort: split
from vocabularies import Vocabulary

from systems.base import Ids, Ragged, System, UnsupportedError, lists, ragged


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
        # The GPT-2 pattern in a tokenizer.json is four times as fast as the same regex with a rank
        # file. The rank loader rejects the gap in p50k_base.
        if v.pre_tokenizer == "gpt2":
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
        return ragged([np.array(ids, np.uint32) for ids in self.batch_list(texts, threads)])

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
        return ragged([e.ids_array for e in encodings])


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
    direct: ClassVar[dict[str, str]] = {"list": "encode_ordinary"}

    def load(self, v: Vocabulary) -> None:
        if v.pre_tokenizer == "gpt2":
            raise UnsupportedError("has no GPT-2 pattern; bundled: cl100k_base, o200k_base")
        self.core = self.lib.get_encoding(v.name)

    def encode_list(self, text: str) -> list[int]:
        return self.core.encode_ordinary(text)

    def encode_array(self, text: str) -> Ids:
        return self.core.encode_batch([text], 1)[0]

    def batch_list(self, texts: list[str], threads: int) -> list[list[int]]:
        return lists(*self.core.encode_batch(texts, threads))

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
    direct: ClassVar[dict[str, str]] = {"list": "encode_ordinary"}

    def load(self, v: Vocabulary) -> None:
        if v.pre_tokenizer == "gpt2":
            raise UnsupportedError("has no GPT-2 vocabulary; bundled: cl100k_base, o200k_base")
        # The public calls only count, so the private encoder is used.
        self.core = self.lib._encoding(v.name)

    def encode_list(self, text: str) -> list[int]:
        return self.core.encode_ordinary(text)

    def encode_array(self, text: str) -> Ids:
        return self.core.encode_to_numpy(text, None, ())

    def batch_list(self, texts: list[str], threads: int) -> list[list[int]]:
        return lists(*self.core.encode_batch_to_numpy(texts, threads))

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
    direct: ClassVar[dict[str, str]] = {"list": "encode"}

    def load(self, v: Vocabulary) -> None:
        # A rank file has no special tokens. With a bundled vocabulary, the flat and batch calls
        # encode special tokens in a text as their ids.
        patterns = {
            "gpt2": self.lib.GPT2_PATTERN,
            "cl100k": self.lib.CL100K_BASE_PATTERN,
            "o200k": self.lib.O200K_BASE_PATTERN,
        }
        self.core = self.lib.Tokenizer(str(v.ranks_path), patterns[v.pre_tokenizer])

    def load_fastest(self, v: Vocabulary) -> None:
        if v.pre_tokenizer == "gpt2":
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
    direct: ClassVar[dict[str, str]] = {"list": "encode_ordinary"}

    def open(self) -> None:
        super().open()
        self.loader = importlib.import_module("tiktoken.load")
        os.environ["TIKTOKEN_CACHE_DIR"] = ""  # disables its copy of the rank file

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
            return ragged([self.encode_array(text) for text in texts])
        with ThreadPoolExecutor(threads) as pool:
            return ragged(list(pool.map(self.encode_array, texts)))
