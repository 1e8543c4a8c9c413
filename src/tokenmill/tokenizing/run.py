"""Inputs → a folder of shards: plan, do what is not done, seal. `tokenmill.tokenize`."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from tokenmill.corpus import remote
from tokenmill.corpus.inputs import find_inputs
from tokenmill.corpus.sources import STDIN, Source
from tokenmill.errors import TokenizeError
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing import manifest, plan, probe
from tokenmill.tokenizing.crew import Crew, Settings, Task
from tokenmill.tokenizing.options import (
    AUTO,
    NONE,
    SHARD_TOKENS,
    UNIT_BYTES,
    WHOLE_BYTES,
    make_options,
)
from tokenmill.tokenizing.plan import Plan
from tokenmill.tokenizing.progress import Progress, Tracker
from tokenmill.tokenizing.shuffle import shard_count
from tokenmill.tokenizing.unit import refuse_too_many

Path_: TypeAlias = "str | os.PathLike[str]"
MEMORY = 2 << 30


@dataclass(frozen=True, slots=True)
class Result:
    """What a run left behind. `is_complete` says whether nothing at all was put aside."""

    folder: Path
    manifest: dict[str, Any]
    units_resumed: int

    def __getattr__(self, name: str) -> int:
        """Totals by name: documents, tokens, bytes, quarantined, shards."""
        try:
            return int(self.manifest["totals"][name])
        except KeyError:
            raise AttributeError(name) from None

    @property
    def is_complete(self) -> bool:
        return not self.failures and not self.manifest["totals"]["quarantined"]

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The inputs that gave nothing, or not all of themselves, each with its reason."""
        return [source for source in self.manifest["sources"] if "error" in source]


def tokenize(
    inputs: Path_ | Iterable[Path_],
    output: Path_,
    tokenizer: Tokenizer | Path_,
    *,
    format: str = "megatron",
    input_format: str | None = None,
    field: str = "text",
    id_field: str | None = None,
    separator: str | None = None,
    utf8: str = "strict",
    specials: bool = False,
    eos: int | str | None = AUTO,
    bos: int | str | None = NONE,
    dtype: str | None = None,
    shard_tokens: int = SHARD_TOKENS,
    pack: int | None = None,
    pad: int | None = None,
    shuffle: int | None = None,
    on_error: str = "quarantine",
    max_errors: int | None = None,
    workers: int | None = None,
    memory: int = MEMORY,
    unit_bytes: int = UNIT_BYTES,
    whole_bytes: int = WHOLE_BYTES,
    progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Turns files into shards of ids in the folder `output`.

    `inputs` are files, folders or globs; `format` is the layout of the shards. What was begun in
    the folder goes on where it stopped, and a folder that is complete is left as it is. The bytes
    depend on inputs, tokenizer and options alone, not on `workers` or `memory`. Records that give
    no document are put into quarantine/ and named in errors.jsonl, unless `on_error` is "fail".
    """
    used = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer.load(tokenizer)
    options = make_options(
        used,
        layout=format,
        eos=eos,
        bos=bos,
        dtype=dtype,
        field=field,
        id_field=id_field,
        separator=separator,
        utf8=utf8,
        specials=specials,
        shard_tokens=shard_tokens,
        sequence=pack,
        pad=pad,
        shuffle=shuffle,
        on_error=on_error,
        unit_bytes=unit_bytes,
        whole_bytes=whole_bytes,
    )
    count = os.cpu_count() or 1 if workers is None else workers
    settings = Settings(count, memory, max_errors)
    settings.check()
    sources = find_inputs(inputs, input_format)
    _refuse_stdin(sources)
    sources = _without(Path(output), sources)
    folder = _make_folder(Path(output))
    with manifest.locked(folder) as lock:
        planned = plan.make_plan(sources, options, used)
        sealed = _begin(folder, planned, used)
        if sealed is not None:
            return Result(folder, sealed, len(planned.units))
        return _go_on(folder, planned, used, replace(settings, lock=lock), progress)


def _refuse_stdin(sources: list[Source]) -> None:
    if any(source.name == STDIN for source in sources):
        raise TokenizeError(
            "standard input cannot be read a second time, which going on after a stop needs; "
            "write it to a file first"
        )


def _without(folder: Path, sources: list[Source]) -> list[Source]:
    """The sources that do not lie in the output's folder, as its own files do after a stop."""
    target = folder.resolve()
    found = [
        source
        for source in sources
        if remote.is_address(source.name) or target not in Path(source.name).resolve().parents
    ]
    if not found:
        raise TokenizeError(f"all inputs lie in the output's folder {str(folder)!r}; give another")
    return found


def _make_folder(folder: Path) -> Path:
    """The folder of the output: new, empty, or one of ours."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise TokenizeError(f"{str(folder)!r} is a file, or lies in one; give a folder") from None
    begun = {manifest.LOCK, manifest.TOKENIZER}  # which is all that there may be without a plan
    names = {path.name for path in folder.iterdir() if not manifest.is_stray(path.name)} - begun
    if names and not names & {plan.NAME, manifest.NAME}:
        raise TokenizeError(
            f"{str(folder)!r} has files in it that are not a run's, such as "
            f"{min(names)!r}; give an empty folder"
        )
    return folder


def _begin(folder: Path, planned: Plan, tokenizer: Tokenizer) -> dict[str, Any] | None:
    """Writes the plan, or checks that it is the one that is there; the manifest if all is done."""
    if (folder / plan.NAME).exists():
        plan.refuse_difference(plan.load(folder), planned, folder)
        sealed = manifest.load(folder)
        if sealed is None or manifest.reopen(folder, sealed):
            return None
        manifest.clear_sealed(folder)  # a kill may have come between the manifest and this
        return sealed
    probe.refuse_wrong_field(planned)
    if not planned.tokenizer["embedded"]:
        tokenizer.save(folder / manifest.TOKENIZER)
    plan.write(planned, folder)
    return None


def _go_on(
    folder: Path,
    planned: Plan,
    tokenizer: Tokenizer,
    settings: Settings,
    progress: Callable[[Progress], None] | None,
) -> Result:
    manifest.clear(folder)
    journal = manifest.Journal(folder, planned)
    rows = journal.rows
    resumed = len(rows.units)
    tracker = Tracker(planned, rows.units, progress)
    try:
        # The largest first, so that none of them is alone at the end.
        waiting = [unit for unit in planned.units if unit.number not in rows.units]
        waiting.sort(key=lambda unit: (-unit.bytes, unit.number))
        _do(folder, planned, settings, [Task(unit.number) for unit in waiting], journal, tracker)
        if planned.options.shuffle is not None:
            _do(folder, planned, settings, _mixes(planned, rows), journal, tracker)
        sealed = manifest.seal(folder, planned, rows, planned.options.spec(tokenizer))
    except BaseException:
        with suppress(OSError):  # of a disk that is full, say
            manifest.clear(folder)
        raise
    finally:
        journal.close()
    tracker.end()
    return Result(folder, sealed, resumed)


def _mixes(planned: Plan, rows: manifest.Rows) -> list[Task]:
    """The shards of a shuffled run that are still to be mixed."""
    tokens = sum(row["tokens"] for row in rows.units.values())
    documents = sum(row["documents"] for row in rows.units.values())
    count = shard_count(tokens, documents, planned.options.shard_tokens)
    rows.mixes = {number: row for number, row in rows.mixes.items() if row["of"] == count}
    return [Task(number, count) for number in range(count) if number not in rows.mixes]


def _do(
    folder: Path,
    planned: Plan,
    settings: Settings,
    tasks: list[Task],
    journal: manifest.Journal,
    tracker: Tracker,
) -> None:
    """Does tasks, and records each that is done."""
    with Crew(folder, settings, tasks) as crew:
        for message in crew.messages():
            if "progress" in message:
                tracker.running(message["progress"], message["memory"])
                continue
            if "stop" in message:
                _stop(message, folder)
            row = message.get("row") or _given_up(planned, message)
            journal.add(row)
            if "unit" in row:
                tracker.finished(row)
                refuse_too_many(tracker.quarantined, settings.max_errors)


def _given_up(planned: Plan, message: dict[str, Any]) -> dict[str, Any]:
    why = message["given_up"]
    if planned.options.on_error == "fail" or message["is_mix"]:
        raise TokenizeError(f"a part of the work could not be done: {why}")
    return manifest.failed_row(planned.units[message["task"]], why)


def _stop(message: dict[str, Any], folder: Path) -> None:
    if message.get("errno") in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        raise TokenizeError(
            f"the disk of {str(folder)!r} is full ({message['stop']}); make room, and the same "
            "command goes on"
        )
    if "errno" in message:
        raise OSError(message["errno"], message["stop"])
    raise TokenizeError(message["stop"])
