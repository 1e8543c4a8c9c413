"""Rank files ↔ ranks, with the interface of tiktoken.load.

Files are local, or downloaded over https into the cache directory TIKTOKEN_CACHE_DIR, which
tiktoken uses as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import urllib.request
from pathlib import Path

from tokenmill.errors import VocabularyError, import_package
from tokenmill.files import write_whole
from tokenmill.formats import names, ranks


def read_file(blobpath: str) -> bytes:
    """Return the bytes of a file, of an https URL, or of a URL that blobfile reads."""
    if "://" not in blobpath:
        return Path(blobpath).read_bytes()
    if blobpath.startswith(("http://", "https://")):
        with urllib.request.urlopen(blobpath) as answer:  # noqa: S310, the scheme is checked
            return bytes(answer.read())
    return bytes(import_package("blobfile", blobpath).read_bytes(blobpath))


def check_hash(data: bytes, expected_hash: str) -> bool:
    """Return whether data has this SHA-256, in hexadecimal."""
    return hashlib.sha256(data).hexdigest() == expected_hash


def read_file_cached(blobpath: str, expected_hash: str | None = None) -> bytes:
    """Return the bytes of `read_file`, cached under tiktoken's file name."""
    chosen = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if chosen == "":
        return read_file(blobpath)
    folder = Path(chosen or Path(tempfile.gettempdir(), "data-gym-cache"))
    cached = folder / hashlib.sha1(blobpath.encode()).hexdigest()  # noqa: S324, not for security
    if cached.exists():
        data = cached.read_bytes()
        if expected_hash is None or check_hash(data, expected_hash):
            return data
        with contextlib.suppress(OSError):
            cached.unlink()
    data = read_file(blobpath)
    if expected_hash and not check_hash(data, expected_hash):
        raise ValueError(
            f"Hash mismatch for data downloaded from {blobpath} (expected {expected_hash}). "
            "This may indicate a corrupted download. Please try again."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(cached, data)
    except OSError:
        # The default directory is optional; one that the user set must work.
        if chosen is not None:
            raise
    return data


def load_tiktoken_bpe(tiktoken_bpe_file: str, expected_hash: str | None = None) -> dict[bytes, int]:
    """Return the ranks of a rank file; ValueError for an invalid file."""
    data = read_file_cached(tiktoken_bpe_file, expected_hash)
    try:
        return ranks.parse(data, tiktoken_bpe_file)
    except VocabularyError as error:
        raise ValueError(f"Error parsing line: {error}") from error


def dump_tiktoken_bpe(bpe_ranks: dict[bytes, int], tiktoken_bpe_file: str) -> None:
    """Write a rank file."""
    data = ranks.write_ranks({rank: token for token, rank in bpe_ranks.items()})
    if "://" not in tiktoken_bpe_file:
        write_whole(Path(tiktoken_bpe_file), data)
        return
    blobfile = import_package("blobfile", tiktoken_bpe_file)
    with blobfile.BlobFile(tiktoken_bpe_file, "wb") as file:
        file.write(data)


def data_gym_to_mergeable_bpe_ranks(
    vocab_bpe_file: str,
    encoder_json_file: str,
    vocab_bpe_hash: str | None = None,
    encoder_json_hash: str | None = None,
    clobber_one_byte_tokens: bool = False,
) -> dict[bytes, int]:
    """Return the ranks of GPT-2's two original files, which must agree."""

    def token_of(text: str) -> bytes:
        token = names.bytes_of(text)
        if token is None:
            raise KeyError(text)
        return token

    lines = read_file_cached(vocab_bpe_file, vocab_bpe_hash).decode().split("\n")[1:-1]
    # Single bytes first: the visible ones in order, then the others.
    spelled = {byte: names.spell(bytes([byte])) for byte in range(256)}
    order = sorted(range(256), key=lambda byte: (ord(spelled[byte]) >= 256, byte))
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
