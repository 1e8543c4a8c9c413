"""Inputs and options → a folder for the output, with its plan."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

from tokenmill.corpus import remote
from tokenmill.corpus.sources import Source
from tokenmill.errors import TokenizeError
from tokenmill.mirror import Mirror
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing import desk, lock, manifest, plan, probe, standard_input
from tokenmill.tokenizing.options import Options
from tokenmill.tokenizing.plan import Plan


def prepare(
    folder: Path,
    sources: list[Source],
    options: Options,
    tokenizer: Tokenizer,
    *,
    alone: bool,
    mirror: Mirror | None = None,
) -> tuple[dict[str, Any] | None, Plan]:
    """The manifest if all is done, and the plan. One who is not `alone` is a rank."""
    if not alone and any(source.is_stdin for source in sources):
        raise TokenizeError("standard input cannot be shared by ranks; write it to a file first")
    try:
        copied = [
            standard_input.copy(source, folder) if source.is_stdin else source for source in sources
        ]
        planned = plan.make_plan(copied, options, tokenizer, folder)
        with desk.naming(folder, mirror):
            return _begin(folder, planned, tokenizer, alone, mirror), planned
    except BaseException as error:
        standard_input.remove(folder)
        if isinstance(error, OSError):
            refuse_full_disk(error.errno, str(error), folder)
        raise


def without(where: Path | str, sources: list[Source]) -> list[Source]:
    """The sources that do not lie in the output's folder, as its own files do after a stop."""
    start = where.resolve() if isinstance(where, Path) else remote.whole_name(where) + "/"
    found = [source for source in sources if not _lies_in(source.name, start)]
    if not found:
        raise TokenizeError(f"all inputs lie in the output's folder {str(where)!r}; give another")
    return found


def _lies_in(name: str, start: Path | str) -> bool:
    if isinstance(start, str):
        return name.startswith(start)
    return not remote.is_address(name) and start in Path(name).resolve().parents


def make(folder: Path, mirror: Mirror | None = None) -> None:
    """The folder of the output: new, empty, or one of ours."""
    if mirror is not None:
        _refuse_others({name.partition("/")[0] for name in mirror.listed}, mirror.address)
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise TokenizeError(f"{str(folder)!r} is a file, or lies in one; give a folder") from None
    names = {path.name for path in folder.iterdir()}
    # What a kill has left, and what NFS shows of files that are removed and still open.
    names = {name for name in names if not manifest.is_stray(name) and name[:4] != ".nfs"}
    _refuse_others(names, str(folder))


def _refuse_others(names: set[str], where: str) -> None:
    # Which is all that there may be without a plan.
    others = names - {lock.NAME, manifest.TOKENIZER, *standard_input.NAMES}
    if others and not others & {plan.NAME, manifest.NAME}:
        raise TokenizeError(
            f"{where!r} has files in it that are not a run's, such as "
            f"{min(others)!r}; give an empty folder"
        )


def _begin(
    folder: Path, planned: Plan, tokenizer: Tokenizer, alone: bool, mirror: Mirror | None
) -> dict[str, Any] | None:
    """Writes the plan, or checks that it is the one that is there; the manifest if all is done."""
    if (folder / plan.NAME).exists():
        plan.refuse_difference(plan.load(folder), planned, folder)
        _keep_tokenizer(folder, planned, tokenizer)  # a kill may have come before it
        if mirror is not None:
            desk.keep_tokenizer(mirror, folder, planned)
        sealed = manifest.load(folder)
        with manifest.reading(folder):
            is_open = sealed is None or (alone and manifest.reopen(folder, sealed, mirror))
        return None if is_open else sealed
    probe.refuse_wrong_field(planned)
    probe.refuse_wrong_id_field(planned)
    if not plan.write(planned, folder):  # another rank was faster
        plan.refuse_difference(plan.load(folder), planned, folder)
    _keep_tokenizer(folder, planned, tokenizer)
    if mirror is not None:
        desk.begin(mirror, folder, planned)
    return None


def _keep_tokenizer(folder: Path, planned: Plan, tokenizer: Tokenizer) -> None:
    """Saves the tokenizer beside a plan that it agrees with, for all who do its units."""
    path = folder / manifest.TOKENIZER
    if not planned.tokenizer["embedded"] and not path.exists():
        tokenizer.save(path)


def refuse_full_disk(number: int | None, said: str, folder: Path) -> None:
    if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        raise TokenizeError(
            f"the disk of {str(folder)!r} is full ({said}); make room, and the same command goes on"
        ) from None
