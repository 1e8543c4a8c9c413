"""Addresses (s3://…, gs://…, hf://…) → files, through fsspec, which is an extra."""

from __future__ import annotations

import glob
import importlib
import re
from collections.abc import Callable
from typing import Any

from tokenmill.errors import InputError, MissingExtraError, MissingInputError

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
# Reading goes straight on, so what is fetched ahead is used.
_FETCH_BYTES = 4 << 20


def is_address(name: str) -> bool:
    """Whether a name is an address, and not that of a file."""
    return _ADDRESS.match(name) is not None


def expand(name: str, is_input: Callable[[str], bool]) -> list[tuple[str, int | None, int | None]]:
    """Address, size and time (in ns, if known) of each file that an address stands for."""
    files, path = _file_system(name)
    try:
        if files.isfile(path):
            paths = [path]
        elif files.isdir(path):
            paths = [found for found in sorted(files.find(path)) if is_input(found)]
        elif glob.has_magic(path):
            paths = [found for found in sorted(files.glob(path)) if files.isfile(found)]
        else:
            paths = []
        if not paths:
            raise MissingInputError(f"{name!r} is not there, or has no files of a known kind")
        return [_described(files, found) for found in paths]
    except MissingInputError:
        raise
    except Exception as error:  # each file system has its own: no access, no such bucket
        raise InputError(f"{name!r} cannot be looked at ({_shown(error)})") from error


def open_address(name: str) -> Any:
    """The file at an address, open for reading; OSError if that cannot be."""
    files, path = _file_system(name)
    try:
        return files.open(path, "rb", block_size=_FETCH_BYTES)
    except OSError:
        raise
    except Exception as error:
        raise OSError(_shown(error)) from error


def _described(files: Any, path: str) -> tuple[str, int | None, int | None]:
    size = files.info(path).get("size")
    try:
        modified = int(files.modified(path).timestamp() * 1e9)
    except Exception:  # not every file system knows it
        modified = None
    return files.unstrip_protocol(path), size, modified


def _file_system(name: str) -> tuple[Any, str]:
    try:
        core = importlib.import_module("fsspec.core")
    except ImportError as error:
        raise MissingExtraError(
            f'{name}, an address, needs the package fsspec: pip install "tokenmill[remote]"'
        ) from error
    try:
        files, path = core.url_to_fs(name)
    except ImportError as error:
        raise MissingExtraError(f"{name}, an address, needs a package of its own ({error})") from (
            error
        )
    except ValueError as error:
        raise InputError(f"{name!r} is an address that fsspec does not know ({error})") from error
    return files, path


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
