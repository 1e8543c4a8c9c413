"""Rank files ↔ ranks, as tiktoken.load has it.

Files are read from the disk, or over https into the folder that TIKTOKEN_CACHE_DIR names, where
tiktoken finds them too.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import importlib
import json
import os
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from tokenmill.files import write_whole
from tokenmill.formats import byte_characters, ranks


def _blobfile() -> Any:
    try:
        return importlib.import_module("blobfile")
    except ImportError as error:
        raise ImportError(
            "blobfile is not installed. Please install it by running `pip install blobfile`."
        ) from error


def read_file(blobpath: str) -> bytes:
    """The bytes of a file, of an https address, or of what blobfile reads."""
    if "://" not in blobpath:
        return Path(blobpath).read_bytes()
    if blobpath.startswith(("http://", "https://")):
        with urllib.request.urlopen(blobpath) as answer:  # noqa: S310, the scheme is checked
            return bytes(answer.read())
    return bytes(_blobfile().read_bytes(blobpath))


def check_hash(data: bytes, expected_hash: str) -> bool:
    """Whether the SHA-256 of data is the one given in hexadecimal."""
    return hashlib.sha256(data).hexdigest() == expected_hash


def read_file_cached(blobpath: str, expected_hash: str | None = None) -> bytes:
    """The same, kept in the cache folder under tiktoken's name for it."""
    chosen = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if chosen == "":
        return read_file(blobpath)
    folder = Path(chosen or Path(tempfile.gettempdir(), "data-gym-cache"))
    kept = folder / hashlib.sha1(blobpath.encode()).hexdigest()  # noqa: S324, a name, no secret
    if kept.exists():
        data = kept.read_bytes()
        if expected_hash is None or check_hash(data, expected_hash):
            return data
        with contextlib.suppress(OSError):
            kept.unlink()
    data = read_file(blobpath)
    if expected_hash and not check_hash(data, expected_hash):
        raise ValueError(
            f"Hash mismatch for data downloaded from {blobpath} (expected {expected_hash}). "
            "This may indicate a corrupted download. Please try again."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(kept, data)
    except OSError:
        # Only a folder that was asked for has to work.
        if chosen is not None:
            raise
    return data


def load_tiktoken_bpe(tiktoken_bpe_file: str, expected_hash: str | None = None) -> dict[bytes, int]:
    """The ranks in a rank file."""
    found: dict[bytes, int] = {}
    for line in read_file_cached(tiktoken_bpe_file, expected_hash).splitlines():
        if not line:
            continue
        try:
            token, rank = line.split()
            found[base64.b64decode(token)] = int(rank)
        except Exception as error:
            raise ValueError(f"Error parsing line {line!r} in {tiktoken_bpe_file}") from error
    return found


def dump_tiktoken_bpe(bpe_ranks: dict[bytes, int], tiktoken_bpe_file: str) -> None:
    """Writes a rank file."""
    data = ranks.write({rank: token for token, rank in bpe_ranks.items()})
    if "://" not in tiktoken_bpe_file:
        write_whole(Path(tiktoken_bpe_file), data)
        return
    with _blobfile().BlobFile(tiktoken_bpe_file, "wb") as file:
        file.write(data)


def data_gym_to_mergeable_bpe_ranks(
    vocab_bpe_file: str,
    encoder_json_file: str,
    vocab_bpe_hash: str | None = None,
    encoder_json_hash: str | None = None,
    clobber_one_byte_tokens: bool = False,
) -> dict[bytes, int]:
    """The ranks of GPT-2's own two files, which must agree."""

    def token_of(text: str) -> bytes:
        token = byte_characters.bytes_of(text)
        if token is None:
            raise KeyError(text)
        return token

    lines = read_file_cached(vocab_bpe_file, vocab_bpe_hash).decode().split("\n")[1:-1]
    # Single bytes first: those that are visible, in their order, then the others.
    shown = {byte: byte_characters.shown(bytes([byte])) for byte in range(256)}
    order = sorted(range(256), key=lambda byte: (ord(shown[byte]) >= 256, byte))
    tokens = [bytes([byte]) for byte in order]
    tokens += [b"".join(map(token_of, line.split())) for line in lines]
    found = {token: rank for rank, token in enumerate(tokens)}
    encoder = json.loads(read_file_cached(encoder_json_file, encoder_json_hash))
    listed = {token_of(text): rank for text, rank in encoder.items()}
    for special in (b"<|endoftext|>", b"<|startoftext|>"):
        listed.pop(special, None)
    if clobber_one_byte_tokens:
        found |= {token: rank for token, rank in listed.items() if len(token) == 1}
    assert found == listed
    return found
