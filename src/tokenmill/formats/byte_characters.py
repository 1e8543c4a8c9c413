"""Bytes ↔ the characters that show them in Hugging Face's files: GPT-2's table."""

from __future__ import annotations

from functools import cache


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
