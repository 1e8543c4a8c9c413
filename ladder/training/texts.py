"""A file, or the prose that comes with Python → the text that all steps train on.

The text of `python -m ladder training` is natural English that every machine has: the language
reference as `pydoc` shows it, then the docstrings of the standard library. It differs a little
from one version of Python to the next.
"""

from __future__ import annotations

import codecs
import importlib
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from ladder.errors import LadderError

_DOCSTRING = re.compile(r'^ *[rR]?"""(.*?)"""', re.DOTALL | re.MULTILINE)
_OTHERS = {"site-packages", "dist-packages", "test", "tests", "pydoc_data"}


def read(path: Path, bytes_max: int) -> str:
    """Return the start of a file, without a partial character at its end."""
    with path.open("rb") as file:
        data = file.read(bytes_max)
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=len(data) < bytes_max)
    except UnicodeDecodeError as error:
        raise LadderError(
            f"{path} is not UTF-8 text (byte {error.start:,}); the ladder reads plain text only"
        ) from None


def prose(bytes_max: int) -> bytes:
    """Return up to `bytes_max` bytes of Python's own documents, about 2 MB in all."""
    found = bytearray()
    for document in _documents():
        if len(found) >= bytes_max:
            break
        found += document.strip().encode(errors="replace") + b"\n\n"
    return bytes(found[:bytes_max])


def _documents() -> Iterator[str]:
    try:
        topics: dict[str, str] = importlib.import_module("pydoc_data.topics").topics
    except ImportError:  # some systems leave it out
        topics = {}
    for name in sorted(topics):
        yield topics[name]
    folder = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(folder.rglob("*.py")):
        if _OTHERS.isdisjoint(path.relative_to(folder).parts):
            yield from _DOCSTRING.findall(path.read_text(encoding="utf-8", errors="replace"))
