"""Inputs → a folder of shards: plan, do what is not done, seal. `tokenmill.tokenize`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from tokenmill.cluster import LOCAL, Engine
from tokenmill.corpus.inputs import find_inputs
from tokenmill.errors import TokenizeError
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing import desk, lock, manifest, plan, ranks
from tokenmill.tokenizing import folder as folders
from tokenmill.tokenizing.crew import Settings, Waiting
from tokenmill.tokenizing.journal import Journal
from tokenmill.tokenizing.options import (
    AUTO,
    FIELD,
    NONE,
    SHARD_TOKENS,
    UNIT_BYTES,
    WHOLE_BYTES,
    Options,
    make_options,
    refuse_without_effect,
)
from tokenmill.tokenizing.progress import Progress, Tracker
from tokenmill.tokenizing.tasks import Run
from tokenmill.tokenizing.worker import load_tokenizer

Path_: TypeAlias = "str | os.PathLike[str]"
MEMORY = 2 << 30


@dataclass(frozen=True, slots=True)
class Result:
    """What a run left behind: the `folder`, its `totals`, and how many units were there before.

    `documents`, `tokens`, `bytes`, `quarantined` and `shards` are the totals, and `failures` the
    inputs that gave nothing, or not all of themselves, each with its reason. Of a rank, whose
    folder is not sealed, they are of the rank's units.
    """

    folder: Path | str  # an address is a str
    totals: dict[str, int]
    failures: list[dict[str, Any]]
    options: Options
    tokenizer: Tokenizer
    units: int
    units_total: int
    units_resumed: int
    is_sealed: bool = True

    def __getattr__(self, name: str) -> int:
        """Totals by name: documents, tokens, bytes, quarantined, shards."""
        try:
            return self.totals[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def is_complete(self) -> bool:
        """Whether nothing at all was put aside."""
        return not self.failures and not self.totals["quarantined"]

    @property
    def manifest(self) -> dict[str, Any]:
        """What manifest.json says, with a row for each unit and source; it is read from there."""
        if not self.is_sealed:
            raise TokenizeError(
                f"{str(self.folder)!r} is not sealed, and so has no manifest; tokenmill.finish, or "
                "tokenize --finish, seals it when all ranks are done"
            )
        found: dict[str, Any] = json.loads(desk.read(self.folder, manifest.NAME))
        return found


def tokenize(
    inputs: Path_ | Iterable[Path_],
    output: Path_,
    tokenizer: Tokenizer | Path_,
    *,
    format: str = "megatron",
    input_format: str | None = None,
    field: str = FIELD,
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
    engine: str = LOCAL,
    ray_address: str | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Turns files into shards of ids in the folder `output`, or at an address such as s3://b/out.

    What was begun in the folder goes on where it stopped, and a folder that is complete is left as
    it is. The bytes depend on inputs, tokenizer and options alone, not on `workers` or `memory`. A
    run that cannot start or has to stop is a TokenizeError; inputs that are not there are a
    MissingInputError; what the system refuses is an OSError, and the same call goes on.

    Args:
        inputs: Files, folders, globs, `-` for standard input, or addresses such as s3://bucket/x.
        output: The folder; it is made.
        tokenizer: A tokenizer, or what `Tokenizer.load` takes.
        format: The layout of the shards, one of `tokenmill.shards.NAMES`.
        input_format: What files are, whatever their names: text, lines, jsonl, parquet, arrow, csv,
            tsv or warc.
        field: Where the text is in JSON lines and tables; `a.b` leads into objects.
        id_field: Where a document's own id is.
        separator: A text at which a document ends in text files; without one a file is a document.
        utf8: Bytes that are not UTF-8 are an error (`strict`), U+FFFD (`replace`) or stay as they
            are (`bytes`).
        specials: Whether specials are found in the text.
        eos: What ends each document: a name, an id, None, or `auto` for what the tokenizer has.
        bos: What begins each document.
        dtype: `uint16` or `uint32`; by default what the vocabulary needs.
        shard_tokens: A shard ends with the document that brings it to so many ids.
        pack: The length of sequences that documents are packed into, end to end.
        pad: The id that fills the last packed sequence; by default `eos`.
        shuffle: A seed; documents come in an order that it decides, over the whole corpus.
        on_error: What a record that gives no document does: `quarantine` keeps it in quarantine/
            and names it in errors.jsonl, `skip` only names it, `fail` stops the run.
        max_errors: More of them stop the run.
        workers: How many threads work; None is all processors.
        memory: Bytes for the blocks that are read.
        unit_bytes: How much of the inputs is one step of the work.
        whole_bytes: A longer text that can be cut nowhere is put aside.
        engine: `ray` does the units on a Ray cluster that shares the file system.
        ray_address: Where the cluster is; without it one is started on this machine.
        rank: Which share of the units this call does, beside others; `finish` seals the folder
            when all are done.
        world_size: How many shares there are.
        progress: Called with a `Progress` now and then.

    Examples:
        >>> _ = Path("corpus.txt").write_text("grain in")
        >>> result = tokenize("corpus.txt", "shards", "gpt2", workers=1)
        >>> result.documents, result.tokens, result.is_complete
        (1, 3, True)
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
    settings = Settings(count, memory, max_errors, engine=Engine(engine, ray_address))
    settings.check()
    share = ranks.check(rank, world_size)
    where = desk.place(output)
    desk.refuse_shuffle(where, shuffle)
    sources = folders.without(where, find_inputs(inputs, input_format))
    refuse_without_effect(options, (source.kind for source in sources))
    if max_errors is not None and on_error == "fail":
        raise TokenizeError(
            "--max-errors has no effect with --on-error fail, which stops at the first; leave one "
            "of them out"
        )
    settings = desk.settle(where, sources, settings)
    settings.engine.refuse_absence()
    with desk.opened(where) as (folder, mirror):
        folders.make(folder, mirror)
        with lock.locked(folder, shared=share is not None) as handle:
            sealed, planned = folders.prepare(
                folder, sources, options, used, alone=share is None, mirror=mirror
            )
            run = Run(folder, planned, replace(settings, lock=handle), progress, mirror)
            return _do(run, used, share, sealed)


def _do(
    run: Run, tokenizer: Tokenizer, share: tuple[int, int] | None, sealed: dict[str, Any] | None
) -> Result:
    """What is still to do of a run, or of a rank's share."""
    if share is not None and sealed is None:
        found, resumed = ranks.do(run, share)
        units = len(ranks.numbers(run.plan, share))
        return replace(_result(run, tokenizer, found, resumed), units=units, is_sealed=False)
    if sealed is None or (share is None and _retry(run, sealed)):
        return _go_on(run, tokenizer)
    return _left_as_it_is(run, tokenizer, sealed)


def _left_as_it_is(run: Run, tokenizer: Tokenizer, sealed: dict[str, Any]) -> Result:
    manifest.clear_sealed(run.folder)  # a kill may have come between the manifest and this
    if run.mirror is not None:
        desk.clear_sealed(run.mirror, sealed)
    return _result(run, tokenizer, sealed, len(run.plan.units))


def finish(
    output: Path_,
    *,
    workers: int | None = None,
    memory: int = MEMORY,
    engine: str = LOCAL,
    ray_address: str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Seals a folder whose units the ranks of a run have done; one that is sealed stays as it is.

    What a rank gave up is named in the manifest. Units that nobody has done are an error, and so
    are ranks that still work. Shards of a shuffled run are mixed now, by `engine`.
    """
    where = desk.place(output)
    count = os.cpu_count() or 1 if workers is None else workers
    settings = Settings(count, memory, engine=Engine(engine, ray_address))
    settings.check()
    with desk.opened(where) as (folder, mirror):
        if not (folder / plan.NAME).exists():
            raise TokenizeError(
                f"{str(where)!r} is no folder of a run: there is no {plan.NAME} in it"
            )
        with lock.locked(folder) as handle:
            with desk.naming(folder, mirror):
                planned, sealed = plan.load(folder), manifest.load(folder)
                tokenizer = load_tokenizer(folder, planned)
            run = Run(folder, planned, replace(settings, lock=handle), progress, mirror)
            if sealed is not None:
                return _left_as_it_is(run, tokenizer, sealed)
            ranks.refuse_missing(folder, planned, mirror)
            return _go_on(run, tokenizer, keeps_failed=True)


def _result(run: Run, tokenizer: Tokenizer, said: dict[str, Any], resumed: int) -> Result:
    where = run.folder if run.mirror is None else run.mirror.address
    failures = [source for source in said["sources"] if "error" in source]
    options = run.plan.options
    total = len(run.plan.units)
    return Result(where, said["totals"], failures, options, tokenizer, total, total, resumed)


def _go_on(run: Run, tokenizer: Tokenizer, *, keeps_failed: bool = False) -> Result:
    manifest.clear(run.folder)
    journal = Journal(run.folder, run.plan, keeps_failed=keeps_failed, mirror=run.mirror)
    rows = journal.rows
    resumed = len(rows.units)
    tracker = Tracker(run.plan.sizes, rows.units.values(), run.progress)
    try:
        run.do(run.units_but(rows), journal, tracker)
        if run.plan.options.shuffle is not None:
            run.do(run.mixes(rows), journal, tracker)
        if run.mirror is not None:
            desk.fetch_errors(run.mirror, run.folder, rows)
        sealed = manifest.seal(run.folder, run.plan, rows, run.plan.options.spec(tokenizer))
        if run.mirror is not None:
            desk.seal(run.mirror, run.folder, sealed)
    except BaseException:
        with suppress(OSError):  # of a disk that is full, say
            manifest.clear(run.folder)
        raise
    finally:
        journal.close()
    tracker.end()
    return _result(run, tokenizer, sealed, resumed)


def _retry(run: Run, sealed: dict[str, Any]) -> bool:
    """Tries again what failed in a shuffled run that is complete; whether it has to be mixed anew.

    One more document changes every shard, and the others' ids are gone: all units are done again
    then, but only then.
    """
    numbers = manifest.units_to_retry(sealed)
    if not numbers:
        return False
    manifest.clear(run.folder)
    with closing(Journal(run.folder, run.plan)) as journal:
        done = (row for row in sealed["units"] if row["unit"] not in numbers)
        tracker = Tracker(run.plan.sizes, done, run.progress)
        waiting = Waiting(number for number in numbers if number not in journal.rows.units)
        run.do(waiting, journal, tracker)
        if all("failed" in journal.rows.units[number] for number in numbers):
            return False
    manifest.unseal(run.folder, sealed)
    return True
