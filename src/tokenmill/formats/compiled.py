"""Parts and their core ↔ a file in the user's cache: a large tokenizer is worked out only once.

The file is known by the path of its source, and holds the SHA-256 of all that was read then; who
loads it compares. It may be deleted at any time, and a damaged one, one of another version or one
of somebody else is as good as none.

Layout: magic, SHA-256 of the sources, SHA-256 of what follows up to the arrays, three lengths (u64:
head, core, arrays), the head (`.tokenmill` without tokens), the core's own form, and the tokens and
merges, which are read only if somebody asks for them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np

from tokenmill.errors import VocabularyError
from tokenmill.formats import directory, own
from tokenmill.formats.parts import Model, Parts
from tokenmill.formats.places import Place
from tokenmill.formats.reading import BYTES_MAX, read_start

_MAGIC = b"TMCACHE1"
_FRONT = struct.Struct("<8s32s32s3Q")
_SOURCE_BYTES_MIN = 1 << 20  # smaller files are read as fast as this one
_FILES_MAX = 32
_PART_SECONDS = 3600
_ARRAYS = (("lengths", "<u4"), ("ids", "<u4"), ("kinds", "u1"), ("merges", "<u4"), ("order", "<u4"))
_PAIR = ("vocab.json", "merges.txt")
_EMPTY = np.zeros(0, np.uint32)
_MISSING = struct.Struct("<Bq")
_MISSINGS = get_args(get_type_hints(Model)["missing"])


@dataclass(frozen=True, slots=True)
class Compiled:
    """What was in the file. `head` has no tokens; `parts` gives all of them."""

    head: Parts
    core: bytes
    parts: Callable[[], Parts]
    digest: bytes  # of the sources, as they were


def folder() -> Path | None:
    """Where the files lie: TOKENMILL_CACHE (0 for nowhere), or the user's cache."""
    chosen = os.environ.get("TOKENMILL_CACHE")
    if chosen is not None:
        return Path(chosen) if chosen not in ("", "0") else None
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(base) / "tokenmill" if base else Path.home() / ".cache" / "tokenmill"
    except RuntimeError:  # nobody's home is known
        return None


def sources_of(path: Path) -> list[Path]:
    """All files that a tokenizer is read from, if keeping it is worth it."""
    if folder() is None:
        return []
    if path.is_dir():
        files = directory.files_of(path)
    elif path.name in _PAIR:
        files = [path.with_name(name) for name in _PAIR]
    else:
        files = [path]
    found = [file for file in files if file.is_file()]
    size = sum(file.stat().st_size for file in found)
    # Of a GGUF file only a small part is read.
    is_read = size <= BYTES_MAX and not any(read_start(file, 4) == b"GGUF" for file in found)
    return found if is_read and size >= _SOURCE_BYTES_MIN else []


def digest_of(sources: list[Path]) -> bytes:
    """What the files hold, names included."""
    found = hashlib.sha256()
    for source in sources:
        with source.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
        found.update(source.name.encode() + b"\0" + digest)
    return found.digest()


def place_of(path: Path, pattern: str | None, version: str) -> Path | None:
    """The file for a source."""
    base = folder()
    key = repr((os.path.realpath(path), pattern, version, sys.byteorder))
    name = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:32]
    return None if base is None else base / f"{name}.tmcache"


def read(place: Path) -> Compiled | None:
    """What a file holds; None if it is not there, or not what it should be."""
    try:
        with place.open("rb") as file:
            if not _is_own(os.fstat(file.fileno())):
                return None
            fields = _FRONT.unpack(file.read(_FRONT.size))
            magic, digest, check, head_size, core_size, _ = fields
            if magic != _MAGIC or head_size + core_size > os.fstat(file.fileno()).st_size:
                return None
            head, core = file.read(head_size), file.read(core_size)
        found = hashlib.sha256(head)
        found.update(core)
        if found.digest() != check:
            return None
        parts = own.read_bare(head, str(place))
    except (OSError, struct.error, VocabularyError):
        return None
    return Compiled(parts, core, partial(_whole, place, parts, check), digest)


def _is_own(status: os.stat_result) -> bool:
    """Whether nobody else can have written it."""
    if not hasattr(os, "getuid"):
        return True
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


def _whole(place: Path, head: Parts, check: bytes) -> Parts:
    """With tokens and merges; OSError or VocabularyError if the file is not there any more."""
    with place.open("rb") as file:
        fields = _FRONT.unpack(file.read(_FRONT.size))
        if fields[2] != check:
            raise VocabularyError(f"{place} was written anew")
        start = _FRONT.size + fields[3] + fields[4]
        if start + fields[5] != os.fstat(file.fileno()).st_size:
            raise VocabularyError(f"{place} is damaged")
        file.seek(start)
        rest = file.read(fields[5])
    if hashlib.sha256(rest[32:]).digest() != rest[:32]:
        raise VocabularyError(f"{place} is damaged")
    try:
        model = _unpack(rest, head.model)
    except (struct.error, ValueError, IndexError) as error:
        raise VocabularyError(f"{place} is damaged ({error})") from None
    return replace(head, model=own.checked(model, Place(str(place))))


def _unpack(rest: bytes, bare: Model) -> Model:
    kind, unk = _MISSING.unpack_from(rest, 32)
    at = 32 + _MISSING.size
    arrays: dict[str, Any] = {}
    for name, dtype in _ARRAYS:
        (size,) = struct.unpack_from("<q", rest, at)
        at += 8
        # The core takes arrays that are aligned, and so does not know what numpy calls "=I".
        found = None if size < 0 else np.frombuffer(rest, dtype, size, at)
        arrays[name] = None if found is None else np.require(found, requirements="A")
        if size < 0 and name not in ("merges", "order"):
            raise ValueError(f"no {name}")
        at += max(size, 0) * np.dtype(dtype).itemsize
    merges = arrays["merges"]
    if merges is not None:
        arrays["merges"] = merges.reshape(-1, 2)
    arrays |= {"missing": _MISSINGS[kind], "unk": None if unk < 0 else unk}
    return replace(bare, data=rest[at:], **arrays)


def write(place: Path, parts: Parts, core: bytes, digest: bytes) -> None:
    """Keeps a tokenizer. A disk that is full or read-only keeps nothing, and nobody minds."""
    model = parts.model
    bare = replace(
        model,
        data=b"",
        lengths=_EMPTY,
        ids=_EMPTY,
        kinds=_EMPTY.astype(np.uint8),
        merges=None,
        order=None,
        # What it says about tokens is not checked where there are none.
        missing="fail",
        unk=None,
    )
    head = own.write_bare(replace(parts, model=bare))
    rest = _pack(model)
    check = hashlib.sha256(head + core).digest()
    sizes = (len(head), len(core), len(rest))
    data = b"".join([_FRONT.pack(_MAGIC, digest, check, *sizes), head, core, rest])
    with contextlib.suppress(OSError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _forget(place.parent)
        handle, name = tempfile.mkstemp(dir=place.parent, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(name).replace(place)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _pack(model: Model) -> bytes:
    unk = -1 if model.unk is None else model.unk
    found = [_MISSING.pack(_MISSINGS.index(model.missing), unk)]
    for name, dtype in _ARRAYS:
        array = getattr(model, name)
        size = -1 if array is None else array.size
        found += [struct.pack("<q", size), b"" if array is None else array.astype(dtype).tobytes()]
    body = b"".join([*found, model.data])
    return hashlib.sha256(body).digest() + body


def _forget(base: Path) -> None:
    """Deletes the oldest files, if there are many."""
    for part in base.glob("*.part"):  # of a writer that was killed
        if time.time() - part.stat().st_mtime > _PART_SECONDS:
            part.unlink(missing_ok=True)
    files = sorted(base.glob("*.tmcache"), key=lambda file: file.stat().st_mtime)
    for file in files[: max(0, len(files) - _FILES_MAX + 1)]:
        file.unlink(missing_ok=True)
