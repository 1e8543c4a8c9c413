"""Mistral's tekken.json → TokenizerSpec.

The file contains ranks and a pattern, as in tiktoken. Special tokens have the first ids, and ranks
are the ids after them (mistral_common 1.13, tokens/tokenizers/tekken.py). Only the first tokens,
up to `default_vocab_size`, are used.
"""

from __future__ import annotations

import binascii
import json
from typing import Any

from tokenmill.errors import VocabularyError
from tokenmill.formats.names import byte_level
from tokenmill.formats.ranks import pattern_stage
from tokenmill.formats.spec import Added, Model, TokenizerSpec

BYTES_MAX = 256 << 20
_TOKENS_MAX = 1 << 20
_TOKEN_BYTES_MAX = 1 << 16
_SPECIALS_MAX = 1 << 17

# The special tokens of files that do not list them, up to version v7.
_SPECIALS = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]"),
    *("[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
    "[TOOL_CONTENT]",
)
_VERSION_WITHOUT_SPECIALS_MAX = 7


def read(data: bytes, source: str) -> TokenizerSpec:
    """Return the specification of a tekken.json. `source` is the file name for errors."""
    if len(data) > BYTES_MAX:
        raise VocabularyError(f"{source} has {len(data):,} bytes: too large for a tekken.json")
    try:
        document = json.loads(data, parse_constant=_no_constant)
        config = document["config"]
        pattern, size, count = (
            config["pattern"],
            config["default_vocab_size"],
            config["default_num_special_tokens"],
        )
        if not isinstance(pattern, str) or type(size) is not int or type(count) is not int:
            raise TypeError(f"config is {config!r:.200}")
        names = _names(document, count)
        tokens = _tokens(document["vocab"], size - count)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)[:300]
        raise VocabularyError(
            f"{source} is damaged or not a tekken.json ({what}); download the file again"
        ) from None
    ids = range(count, count + len(tokens))
    return TokenizerSpec(
        Model.of(tokens, ids, whole=True),
        added=tuple(Added(name, id_) for id_, name in enumerate(names)),
        stages=(pattern_stage(pattern),),
        decoder=byte_level(False),
    )


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _names(document: dict[str, Any], count: int) -> list[str]:
    """Return the special tokens by id. Ids without one get a name."""
    listed = document.get("special_tokens")
    if not 0 <= count <= _SPECIALS_MAX:
        raise ValueError(f"default_num_special_tokens is {count}")
    if listed is None:
        version = str(document["config"]["version"])
        if not version[1:].isdigit() or int(version[1:5]) > _VERSION_WITHOUT_SPECIALS_MAX:
            raise ValueError(f"version {version!r:.20} must have special_tokens")
        names = list(_SPECIALS)
    else:
        names = [one["token_str"] for one in listed]
        for place, one in enumerate(listed):
            if one["rank"] != place or not isinstance(one["token_str"], str):
                raise ValueError(f"special token {place} is {one!r:.200}")
    if len(names) > count:
        raise ValueError(f"it has {len(names)} special tokens, and should have {count}")
    names += [f"<SPECIAL_{id_}>" for id_ in range(len(names), count)]
    if len(set(names)) != count or "" in names:
        raise ValueError("a special token is empty, or is there twice")
    return names


def _tokens(vocabulary: list[dict[str, Any]], count: int) -> list[bytes]:
    """Return the tokens by rank."""
    if not 256 <= count <= min(len(vocabulary), _TOKENS_MAX):
        raise ValueError(f"{count:,} of {len(vocabulary):,} tokens are required")
    decode = binascii.a2b_base64
    tokens = [decode(one["token_bytes"], strict_mode=True) for one in vocabulary[:count]]
    if [one["rank"] for one in vocabulary[:count]] != list(range(count)):
        raise ValueError("ranks do not count up from 0")
    if tokens[:256] != [bytes([byte]) for byte in range(256)]:
        raise ValueError("the first 256 tokens are not the bytes")
    if len(set(tokens)) != count or max(map(len, tokens)) > _TOKEN_BYTES_MAX or b"" in tokens:
        raise ValueError("a token is empty, too long, or there twice")
    return tokens
