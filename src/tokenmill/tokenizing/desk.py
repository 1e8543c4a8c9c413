"""An output at an address → a folder to work in, a desk, that looks as an output's folder does.

The desk has the plan, the tokenizer and the rows, and units while they are written. What is done
is uploaded under its final name: the files of a unit, its row last; at the end what belongs to all,
the manifest last. Whoever comes next has a desk of its own, and finds at the address what is done.
There is no lock: two who do one unit upload the same bytes, as ranks do.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from tokenmill.cluster import RAY
from tokenmill.corpus import remote
from tokenmill.corpus.sources import STDIN, Source
from tokenmill.errors import TokenizeError
from tokenmill.mirror import Mirror
from tokenmill.tokenizing import journal, lock, manifest, plan, quarantine
from tokenmill.tokenizing.crew import Settings
from tokenmill.tokenizing.plan import Plan

_ROWS = "rows.address.jsonl"
_PREFIX = "tokenmill-desk-"
_OWNER = "owner"
_SHORTENED = re.compile(r"[a-z][a-z0-9+.-]+:/[^/]")
_LOCAL = ("file://", "local://")


def place(output: str | os.PathLike[str]) -> Path | str:
    """A folder, or an address."""
    name = os.fspath(output)
    if isinstance(output, PurePath) and _SHORTENED.match(name):
        raise TokenizeError(f"a Path has no room for an address, as {name!r} shows; give a str")
    if not remote.is_address(name):
        if "://" in name:
            raise TokenizeError(
                f"{name!r} is neither a folder nor an address such as s3://bucket/x"
            )
        return Path(name)
    for start in _LOCAL:
        if name.startswith(start):
            return Path(name.removeprefix(start))
    if any(sign in name for sign in "*?["):
        raise TokenizeError(f"{name!r} stands for many addresses, with *, ? or [; give one")
    return name.rstrip("/")


@contextmanager
def opened(where: Path | str) -> Iterator[tuple[Path, Mirror | None]]:
    """The folder of an output; of an address a desk with what is there, which goes at the end."""
    if isinstance(where, Path):
        yield where, None
        return
    mirror = Mirror(where)
    with _own_folder() as folder:
        mirror.sizes()
        if plan.NAME in mirror.listed:
            with naming(folder, mirror):
                _fetch_begun(mirror, folder, manifest.TOKENIZER in mirror.listed)
        if manifest.NAME in mirror.listed:
            mirror.fetch(manifest.NAME, folder / manifest.NAME)
        names = [name for name in mirror.listed if name.startswith(journal.FOLDER + "/")]
        with (folder / _ROWS).open("wb") as file:
            for row in mirror.read_all(names):
                file.write(row.strip() + b"\n")
        yield folder, mirror


def borrowed(address: str) -> Path:
    """A desk for a process that only does tasks; it goes with the process."""
    owned = _own_folder()
    folder = owned.__enter__()
    atexit.register(owned.__exit__, None, None, None)
    _fetch_begun(Mirror(address), folder, has_tokenizer=True)
    return folder


@contextmanager
def _own_folder() -> Iterator[Path]:
    """A folder of this process. One that was killed leaves its own, which the next takes away."""
    _sweep()
    made = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}"))
    with (made / _OWNER).open("wb") as owner:
        lock.try_lock(owner.fileno())
        base = made.replace(made.with_name(made.name[1:]))  # found by others now that it is held
        try:
            (base / "desk").mkdir()
            yield base / "desk"
        finally:
            shutil.rmtree(base, ignore_errors=True)


def _sweep() -> None:
    for base in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError), (base / _OWNER).open("rb") as owner:
            if lock.is_left(owner.fileno()):
                shutil.rmtree(base, ignore_errors=True)


def _fetch_begun(mirror: Mirror, folder: Path, has_tokenizer: bool) -> None:
    """The plan, and the tokenizer, which a kill may have kept from being uploaded behind it."""
    mirror.fetch(plan.NAME, folder / plan.NAME)
    if has_tokenizer and not plan.load(folder).tokenizer["embedded"]:
        mirror.fetch(manifest.TOKENIZER, folder / manifest.TOKENIZER)


@contextmanager
def naming(folder: Path, mirror: Mirror | None) -> Iterator[None]:
    """Errors inside name the address, not the desk, of which the caller knows nothing."""
    try:
        yield
    except TokenizeError as error:
        if mirror is None:
            raise
        raise TokenizeError(str(error).replace(str(folder), mirror.address)) from None


def read(where: Path | str, name: str) -> bytes:
    """A file of an output."""
    if isinstance(where, Path):
        return (where / name).read_bytes()
    return b"".join(Mirror(where).read_all([name]))


def settle(where: Path | str, sources: list[Source], settings: Settings) -> Settings:
    """The settings for inputs and an output that may lie at addresses."""
    names = [source.name for source in sources]
    at_address = isinstance(where, str)
    is_inside = remote.is_of_process([*names, str(where)])
    is_ray = settings.engine.name == RAY
    if is_ray and is_inside:
        raise TokenizeError("memory:// is of one process, and --engine ray has many")
    if is_ray and at_address and STDIN in names:
        raise TokenizeError(
            f"standard input is not where tasks on other machines see it; write it to {where!r}'s "
            "store first, or leave --engine ray out"
        )
    shares_files = not (at_address and all(map(remote.is_address, names)))
    return replace(
        settings,
        address=where if isinstance(where, str) else None,
        is_inside=is_inside,
        shares_files=shares_files,
    )


def refuse_shuffle(where: Path | str, seed: int | None) -> None:
    """Raises for what cannot be done at an address."""
    if seed is not None and isinstance(where, str):
        raise TokenizeError(
            f"--shuffle reads documents of all units at once, which {where!r} cannot give; "
            "tokenize into a folder, and copy it there"
        )


def begin(mirror: Mirror, folder: Path, planned: Plan) -> None:
    """Uploads the plan; if there is one by now, it has to be the same."""
    if not mirror.write_new(plan.NAME, (folder / plan.NAME).read_bytes()):
        mirror.fetch(plan.NAME, folder / plan.NAME)
        plan.refuse_difference(plan.load(folder), planned, folder)
    keep_tokenizer(mirror, folder, planned)


def keep_tokenizer(mirror: Mirror, folder: Path, planned: Plan) -> None:
    """Uploads the tokenizer of a plan that it agrees with, if nobody has."""
    if not planned.tokenizer["embedded"] and manifest.TOKENIZER not in mirror.listed:
        mirror.put(folder / manifest.TOKENIZER, manifest.TOKENIZER)


def fetch_errors(mirror: Mirror, folder: Path, rows: journal.Rows) -> None:
    """Puts what was put aside onto the desk, to be written into one file."""
    for number, row in rows.units.items():
        if row["quarantined"] and "failed" not in row:
            local = quarantine.errors_path(folder, number)
            mirror.fetch(quarantine.errors_name(number), local)


def seal(mirror: Mirror, folder: Path, sealed: dict[str, Any]) -> None:
    """Uploads what a sealed desk has, and last of all the manifest."""
    for file in sealed["files"]:
        mirror.put(folder / file["suffix"], file["suffix"])
    mirror.put(folder / manifest.NAME, manifest.NAME)
    clear_sealed(mirror, sealed)


def clear_sealed(mirror: Mirror, sealed: dict[str, Any]) -> None:
    """Removes what a sealed output needs no more."""
    kept = {file["suffix"] for file in sealed["files"]}
    kept |= {
        quarantine.errors_name(row["unit"])
        for row in sealed["units"]
        if row["quarantined"] and "failed" not in row
    }
    ours = (journal.FOLDER + "/", quarantine.FOLDER + "/", quarantine.ERRORS)
    mirror.remove([name for name in mirror.sizes() if name.startswith(ours) and name not in kept])


@contextmanager
def fetched(where: Path | str) -> Iterator[Path]:
    """The folder of an output to read; of an address, a copy of all that is there."""
    if isinstance(where, Path):
        yield where
        return
    with tempfile.TemporaryDirectory(prefix="tokenmill-") as name:
        mirror = Mirror(where)
        mirror.fetch_all(Path(name))
        with naming(Path(name), mirror):
            yield Path(name)
