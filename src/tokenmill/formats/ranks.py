"""Rank file ↔ tokens: tiktoken's format, a line `base64 rank` for each token."""

import binascii
import codecs
import re
from pathlib import Path

from tokenmill.errors import VocabularyError

# The largest real one has 4 MB; more than this is not a vocabulary.
_BYTES_MAX = 256 << 20

# How Whisper's file writes a token without bytes, which is only ever decoded.
_EMPTY = b"="


_LINE = re.compile(rb"(?:[A-Za-z0-9+/]+=*|=) [0-9]+\s*(?:\n|$)")


def is_rank_file(path: Path) -> bool:
    """Whether a file is named as one, or begins as one."""
    if path.suffix == ".tiktoken":
        return True
    with path.open("rb") as file:
        start = file.read(1 << 17)
    return _LINE.match(start.lstrip(b"\n")) is not None


def read(path: Path) -> dict[bytes, int]:
    """The tokens of a rank file, with their ranks."""
    if path.stat().st_size > _BYTES_MAX:
        raise VocabularyError(
            f"{path} has {path.stat().st_size:,} bytes: too large for a rank file"
        )
    ranks: dict[bytes, int] = {}
    taken: dict[int, bytes] = {}
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            encoded, rank = line.split()
            token = b"" if encoded == _EMPTY else binascii.a2b_base64(encoded, strict_mode=True)
            if not rank.isdigit():
                raise ValueError
            value = int(rank)
        except ValueError:
            if line.startswith(codecs.BOM_UTF8):
                raise VocabularyError(f"{path} begins with a byte-order mark: remove it") from None
            is_json = number == 1 and line.lstrip()[:1] in (b"{", b"[")
            what = "; JSON of Hugging Face is not read: save it as .tokenmill" * is_json
            raise VocabularyError(
                f"{path}, line {number}: {line[:60]!r} is not a token in base64, a space and a "
                f"rank, so this is not a tiktoken rank file{what}"
            ) from None
        if token in ranks:
            raise VocabularyError(f"{path}, line {number}: token {token!r} stands there twice")
        if value in taken:
            raise VocabularyError(
                f"{path}, line {number}: {token!r} has rank {value}, and so has {taken[value]!r}"
            )
        taken[value] = token
        ranks[token] = value
    if not ranks:
        raise VocabularyError(f"{path} holds no tokens, so it is not a tiktoken rank file")
    return ranks


def write(tokens: dict[int, bytes]) -> bytes:
    """The rank file of tokens by id, in the order of the ids."""
    encode = binascii.b2a_base64
    return b"".join(
        (encode(tokens[rank], newline=False) or _EMPTY) + b" %d\n" % rank for rank in sorted(tokens)
    )
