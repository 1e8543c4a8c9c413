"""Small documents of Hugging Face's: whole tokenizer.json files, to be changed in one place."""

from __future__ import annotations

import copy
import json
from typing import Any

from tokenmill.formats.names import byte_characters

VOCAB = {"a": 0, "b": 1, "ab": 2, "▁": 3, "▁ab": 4, "<unk>": 5}
MERGES = [["a", "b"], ["▁", "ab"]]
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
PREPEND = {"type": "Prepend", "prepend": "▁"}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
BYTE_LEVEL |= {"use_regex": True}
DIGITS = {"type": "Digits", "individual_digits": True}
A, B = ({"Sequence": {"id": name, "type_id": i}} for i, name in enumerate("AB"))
START = {"SpecialToken": {"id": "<s>", "type_id": 0}}


def metaspace(**options: Any) -> dict[str, Any]:
    usual = {"replacement": "▁", "prepend_scheme": "always", "split": True}
    return {"type": "Metaspace", **usual, **options}


def split(pattern: dict[str, str], behavior: str = "Isolated", invert: bool = False) -> dict:
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def sequence(*parts: dict[str, Any]) -> dict[str, Any]:
    """Of normalisers, pre-tokenizers, post-processors or decoders, whichever is read."""
    keys = ("normalizers", "pretokenizers", "processors", "decoders")
    return {"type": "Sequence", **{key: list(parts) for key in keys}}


def added(content: str, id_: int, **flags: bool) -> dict[str, Any]:
    usual = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": id_, "content": content, **usual, "special": True, **flags}


def template(**options: Any) -> dict[str, Any]:
    special_tokens = {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}
    usual = {"single": [START, A], "pair": [START, A, B], "special_tokens": special_tokens}
    return {"type": "TemplateProcessing", **usual, **options}


def byte_vocabulary() -> dict[str, int]:
    return {name: id_ for id_, name in enumerate(byte_characters())}


def byte_tokens() -> dict[str, int]:
    return {f"<0x{byte:02X}>": len(VOCAB) + byte for byte in range(256)}


def document(model: dict[str, Any] | None = None, **parts: Any) -> dict[str, Any]:
    """A file of characters a and b, with fields replaced by `model` and `parts`."""
    usual: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": VOCAB,
            "merges": MERGES,
        },
    }
    made = copy.deepcopy({**usual, **parts})
    made["model"].update(model or {})
    return made


def dumps(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()
