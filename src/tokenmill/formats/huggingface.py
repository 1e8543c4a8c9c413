"""Contents → tokenizer.json, and vocab.json with merges.txt: Hugging Face's formats.

Their tokens are text: each byte is shown as a character of its own (GPT-2's table), and a special
as its name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from tokenmill.errors import VocabularyError
from tokenmill.formats.contents import Contents
from tokenmill.patterns.oniguruma import to_oniguruma

# Schemes whose pattern Oniguruma reads as it is written by the models that use it.
_SPELLINGS: dict[str, str] = {
    "cl100k": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s+\z|\s*[\r\n]|\s+(?!\S)|\s"
    ),
}
_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}


@cache
def byte_characters() -> tuple[str, ...]:
    """The character that stands for each byte: itself if it is visible, else one from U+0100 on."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = iter(range(0x100, 0x200))
    return tuple(chr(byte if byte in visible else next(hidden)) for byte in range(256))


def shown(token: bytes) -> str:
    """A token as these files write it."""
    characters = byte_characters()
    return "".join([characters[byte] for byte in token])


def bytes_of(text: str) -> bytes | None:
    """The token that is written like this; None if a character stands for no byte."""
    bytes_of_characters = _bytes_of_characters()
    found = [bytes_of_characters.get(character) for character in text]
    return None if None in found else bytes(byte for byte in found if byte is not None)


@cache
def _bytes_of_characters() -> dict[str, int]:
    return {character: byte for byte, character in enumerate(byte_characters())}


def write_tokenizer(contents: Contents) -> bytes:
    """The file tokenizer.json."""
    return tokenizer_json(
        dict(sorted(contents.specials.items(), key=lambda item: item[1])),
        pre_tokenizer=_pre_tokenizer(contents),
        post_processor={**_BYTE_LEVEL, "trim_offsets": False, "use_regex": True},
        decoder={**_BYTE_LEVEL, "use_regex": True},
        # tiktoken takes a pretoken that is a token as a whole, even if no merges make it.
        ignore_merges=not contents.is_reached,
        vocab=_vocabulary(contents),
        merges=[[shown(left), shown(right)] for left, right in contents.merges],
    )


def tokenizer_json(
    specials: Mapping[str, int],
    *,
    normalizer: object = None,
    pre_tokenizer: object,
    post_processor: object = None,
    decoder: object,
    **model: object,
) -> bytes:
    """A tokenizer.json with a model of BPE."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": id_, "content": name, **flags, "special": True} for name, id_ in specials.items()
        ],
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": post_processor,
        "decoder": decoder,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            **model,
        },
    }
    return (json.dumps(document, ensure_ascii=False, indent=2) + "\n").encode()


def write_vocabulary(contents: Contents) -> bytes:
    """The file vocab.json."""
    return json.dumps(_vocabulary(contents), ensure_ascii=False).encode()


def write_merges(contents: Contents) -> bytes:
    """The file merges.txt."""
    lines = [f"{shown(left)} {shown(right)}\n" for left, right in contents.merges]
    return ("#version: 0.2\n" + "".join(lines)).encode()


def _vocabulary(contents: Contents) -> dict[str, int]:
    """Tokens and specials by what is shown, in the order of their ids."""
    entries = {shown(token): id_ for id_, token in contents.tokens.items()}
    for name, id_ in contents.specials.items():
        if entries.setdefault(name, id_) != id_:
            raise VocabularyError(
                f"special {name!r} has id {id_} and is written like token {entries[name]}; Hugging "
                "Face's files cannot hold both: rename the special, or save to .tokenmill"
            )
    names = {id_: name for name, id_ in contents.specials.items()}
    for name, id_ in contents.specials.items():
        if names[id_] != name:
            raise VocabularyError(
                f"specials {name!r} and {names[id_]!r} have the same id {id_}, and Hugging Face's "
                "files give an id one name: save to .tokenmill"
            )
    return dict(sorted(entries.items(), key=lambda entry: entry[1]))


def _pre_tokenizer(contents: Contents) -> dict[str, Any]:
    if contents.scheme == "r50k":  # the one that ByteLevel has built in
        return {**_BYTE_LEVEL, "use_regex": True}
    # What no match covers is left out here, and kept as a piece by "Isolated".
    behavior, invert = ("Isolated", False) if contents.scheme else ("Removed", True)
    split = {
        "type": "Split",
        "pattern": {"Regex": _spelling(contents)},
        "behavior": behavior,
        "invert": invert,
    }
    return {"type": "Sequence", "pretokenizers": [split, {**_BYTE_LEVEL, "use_regex": False}]}


def _spelling(contents: Contents) -> str:
    if contents.scheme in _SPELLINGS:
        return _SPELLINGS[contents.scheme]
    if contents.scheme is not None and "++" not in contents.pattern:
        return contents.pattern
    return to_oniguruma(contents.pattern)
