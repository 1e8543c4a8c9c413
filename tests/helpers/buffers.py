"""Buffers of the core → Python's own types."""

from typing import Any


def numbers(buffer: Any) -> list[int]:
    return memoryview(buffer).tolist()


def pieces(buffer: Any, spans: Any) -> list[bytes]:
    data, places = bytes(buffer), numbers(spans)
    return [data[a:b] for a, b in zip(places[::2], places[1::2], strict=True)]
