"""Inputs → an output with shards: make a plan, do its tasks, finalize.

A run that was stopped resumes: it reads the journal and does only the other tasks.
"""

from __future__ import annotations

import importlib
import os
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias, Unpack

import numpy as np

from tokenmill import object_store, ray_cluster
from tokenmill.arguments import cpu_count
from tokenmill.corpus import (
    STDIN,
    Source,
    find,
    find_wrong_field,
    find_wrong_id_field,
    refuse_unused_patterns,
)
from tokenmill.errors import ClusterError, TokenizeError, TokenmillError
from tokenmill.files import name_resolver
from tokenmill.options import describe, resolve
from tokenmill.progress import Progress, Report, Tracker
from tokenmill.ray_cluster import RAY
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing import journal, plan
from tokenmill.tokenizing.executors import Order, Settings, load_tokenizer, run_orders
from tokenmill.tokenizing.journal import Entries
from tokenmill.tokenizing.options import (
    EXECUTORS,
    RunOptions,
    TokenizeOptions,
    check_effect,
    check_memory,
    planned_options,
    resolve_options,
    spec_of,
)
from tokenmill.tokenizing.output import (
    LOCK,
    LocalOutput,
    Output,
    StoreOutput,
    copy_stdin,
    open_output,
    raise_full_disk,
)
from tokenmill.tokenizing.plan import Plan
from tokenmill.tokenizing.shuffle import digest, shard_counts
from tokenmill.tokenizing.split import sets_of
from tokenmill.tokenizing.task import checksum_input, refuse_too_many

Path_: TypeAlias = "str | os.PathLike[str]"
Show: TypeAlias = Report | None
_NUMBERS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Result:
    """The output of a run, its totals, and the number of tasks that it resumed.

    `failures` are the inputs with missing documents, each with the reason. `errors` are the numbers
    of rejected records by reason, in which N stands for any number. `restarts` is the number of
    worker processes that died. `sets` are the totals of each set of a split output. `skipped` are
    the files of folders that are not inputs, each with the reason, and `may_be_data`.
    `bytes_written` are the bytes of all files that the manifest names. The rates are of this run,
    in bytes of text and of input files. The result of a rank has the totals of its own tasks, and
    its output is not complete.
    """

    output: Path | str  # a URL is a str
    documents: int
    tokens: int
    bytes: int
    quarantined: int
    shards: int
    failures: list[dict[str, Any]]
    skipped: list[dict[str, Any]]
    options: dict[str, Any]
    tokenizer: Tokenizer
    tasks: int
    tasks_total: int
    tasks_resumed: int
    is_final: bool = True
    was_complete: bool = False
    errors: dict[str, int] = field(default_factory=dict)
    restarts: int = 0
    sets: dict[str, dict[str, int]] = field(default_factory=dict)
    bytes_written: int = 0
    seconds: float = 0.0
    bytes_per_second: float = 0.0
    input_bytes_per_second: float = 0.0

    @property
    def is_complete(self) -> bool:
        """Whether no record was rejected and no input failed."""
        return not self.failures and not self.quarantined

    @property
    def manifest(self) -> dict[str, Any]:
        """The content of manifest.json."""
        return journal.require_manifest(open_output(self.output))


@dataclass(frozen=True, slots=True)
class Run:
    """The output, plan, tokenizer and options of a run."""

    output: Output
    staging: Path
    plan: Plan
    tokenizer: Tokenizer
    options: dict[str, Any]  # how the run is done
    progress: Show
    started: float

    def do_tasks(self, entries: Entries, tracker: Tracker, numbers: Iterable[int]) -> None:
        """Do the tasks without an entry. The largest go first, so that all threads end together."""
        sizes = tracker.sizes
        left = np.array([number for number in numbers if number not in entries.tasks], np.int64)
        ordered = left[np.argsort(-sizes[left], kind="stable")].tolist()
        self._do([Order(number) for number in ordered], entries, tracker)

    def do_shuffle(self, entries: Entries, tracker: Tracker) -> None:
        """Do the shards of the shuffle pass without an entry."""
        count = sum(shard_counts(entries, self.plan.options).values())
        # A task that failed before may be done now, which gives every shard other documents.
        made_of = digest(entries.documents())
        for entry in list(entries.shuffled.values()):
            if (entry["of"], entry["tasks"]) != (count, made_of):
                self.output.remove([name for name, _ in journal.files_of_entry(entry)])
                del entries.shuffled[entry["shuffled"]]
        numbers = [number for number in range(count) if number not in entries.shuffled]
        self._do([Order(number, count) for number in numbers], entries, tracker)

    def _do(self, orders: list[Order], entries: Entries, tracker: Tracker) -> None:
        if not orders:
            return  # a complete run does not start a cluster
        names = [source.name for source in self.plan.sources]
        engine, address = self.options["engine"], self.options["ray_address"]
        made_of = digest(entries.documents()) if orders[0].of else None
        module = importlib.import_module(f"tokenmill.tokenizing.{EXECUTORS[engine]}")
        with module.make_executor(self._settings(names), address, names) as executor:
            for message in run_orders(executor, orders):
                if "progress" in message:
                    tracker.update(message["progress"], message["memory"])
                    continue
                if "restart" in message:
                    entries.restarts += 1
                    count = len(message["orders"])
                    warnings.warn(
                        f"a worker process died ({message['restart']}) and was restarted; "
                        f"{count} task{'s'[: count != 1]} that it had begun will be done again",
                        RuntimeWarning,
                        stacklevel=2,
                    )
                    continue
                entry = message.get("entry") or self._give_up(message)
                if made_of is not None and entry["tasks"] != made_of:
                    raise TokenizeError(
                        "a machine did not find all tasks in the shuffle pass; run the same "
                        "command again when all machines have the same files"
                    )
                entries.add(entry)
                if "task" in entry:
                    tracker.finish_task(entry)
                    self.check_errors(tracker)

    def check_errors(self, tracker: Tracker) -> None:
        """Raise for too many rejected records. Their share is one of all records, as estimated from
        the bytes that are done."""
        now = tracker.finished
        part = now.done / now.total if now.total else 1.0
        records = (now.documents + now.quarantined) / max(part, 1e-9)
        refuse_too_many(now.quarantined, self.options["max_errors"], records)

    def _settings(self, names: list[str]) -> Settings:
        # The tasks of Ray are processes, each with a Python of its own.
        cores, is_ray = cpu_count(), self.options["engine"] == RAY
        threads = self.options["threads"] or (cores if is_ray else self.plan.useful_threads(cores))
        name = self.output.name
        if isinstance(self.output, LocalOutput):
            name = str(self.output.folder.resolve())
        in_store = isinstance(self.output, StoreOutput) and all(map(object_store.is_address, names))
        stdin = next((s.place for s in self.plan.sources if s.name == STDIN), None)
        cwd = None if in_store else str(Path.cwd())
        memory, max_errors = self.options["memory"], self.options["max_errors"]
        return Settings(name, threads, memory, max_errors, stdin, str(self.staging), cwd)

    def _give_up(self, message: dict[str, Any]) -> journal.Entry:
        """The entry of a failed task. Raise if the run has to stop."""
        if "stop" in message:
            raise_full_disk(message.get("errno"), message["stop"], self.output.name)
            if "errno" in message:
                raise OSError(message["errno"], message["stop"])
            raise TokenizeError(message["stop"])
        order, why = message["order"], message["given_up"]
        if self.plan.options["on_error"] == "fail" or order.of:
            raise TokenizeError(f"a task failed: {why}")
        entry = journal.failed_entry(self.plan.tasks[order.number], why, sets_of(self.plan.options))
        journal.write_entry(self.output, entry)
        return entry

    def finish(self, entries: Entries, resumed: int, tracker: Tracker) -> Result:
        """Do the shuffle pass, and finalize the output."""
        if self.plan.options["shuffle"] is not None:
            self.do_shuffle(entries, tracker)
        spec = spec_of(self.plan.options, self.tokenizer)
        content = journal.finalize(self.output, self.plan, entries, spec, self.staging)
        tracker.end()
        return self.result(content, resumed, tracker)

    def reuse(self, manifest: dict[str, Any]) -> Result:
        """The result of a complete output. A kill may have left files of its journal."""
        journal.clear(self.output, manifest)
        return self.result(manifest, len(self.plan.tasks), was_complete=True)

    def result(
        self,
        content: dict[str, Any],
        resumed: int,
        tracker: Tracker | None = None,
        tasks: int | None = None,
        *,
        was_complete: bool = False,
    ) -> Result:
        total = len(self.plan.tasks)
        seconds = time.monotonic() - self.started
        found = [*content["tasks"], *content["shuffled"]]
        files = [size for entry in found for name, size in journal.files_of_entry(entry)]
        files += [file["bytes"] for file in content.get("files", ())]
        return Result(
            self.output.location,
            **content["totals"],
            failures=[source for source in content["sources"] if "error" in source],
            skipped=content.get("skipped", []),
            options=self.plan.options,
            tokenizer=self.tokenizer,
            tasks=total if tasks is None else tasks,
            tasks_total=total,
            tasks_resumed=resumed,
            is_final=tasks is None,
            was_complete=was_complete,
            errors=content.get("errors", {}),
            restarts=content.get("restarts", 0),
            sets=content.get("sets", {}),
            bytes_written=sum(files),
            seconds=seconds,
            bytes_per_second=tracker.text_bytes / seconds if tracker else 0.0,
            input_bytes_per_second=tracker.input_bytes / seconds if tracker else 0.0,
        )

    def tracker(self, entries: Iterable[journal.Entry], share: range | None = None) -> Tracker:
        sizes = np.array([task.bytes for task in self.plan.tasks], np.int64)
        return Tracker(sizes, entries, self.progress, share)


@describe(TokenizeOptions)
def tokenize(
    inputs: Path_ | Iterable[Path_],
    output: Path_,
    tokenizer: Tokenizer | Path_,
    *,
    progress: Show = None,
    **options: Unpack[TokenizeOptions],
) -> Result:
    """Convert files to shards of token ids, in a folder or at a URL such as s3://bucket/out.

    The same call resumes a run that was stopped, and leaves a complete output as it is. The bytes
    of the shards depend on the inputs, the tokenizer and the options for inputs and shards.

    Args:
        inputs: Files, folders, globs, URLs, or `-` for standard input.
        output: A folder, which is made, or a URL.
        tokenizer: A tokenizer, or an argument of `Tokenizer.load`.
        progress: Function that gets a `Progress` several times per second.

    Options:

    Raises:
        TokenizeError: The run cannot start, or has to stop.
        MissingInputError: An input is not found.
        OSError: The operating system fails. The same call resumes the run.

    Examples:
        >>> _ = Path("corpus.txt").write_text("grain in")
        >>> result = tokenize("corpus.txt", "shards", "gpt2", threads=1)
        >>> result.documents, result.tokens, result.is_complete
        (1, 3, True)
    """
    used = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer.load(tokenizer)
    values = resolve_options(options, used)
    target = open_output(output)
    started = time.monotonic()
    is_wanted = _outside(target)
    found = find(inputs, values["input_format"], strict=values["strict"], is_wanted=is_wanted)
    sources = list(filter(lambda source: is_wanted(source.name), found))
    if not found:
        raise TokenizeError("no input is given; pass a file, a folder, a glob or a URL")
    if not sources:
        raise TokenizeError(f"all inputs are in the output {target.name!r}; pass another output")
    refuse_unused_patterns(values["field"], sources)
    check_effect(values, (source.kind for source in sources))
    _check_places(target, sources, values)
    ray_cluster.check_engine(values)
    is_new = isinstance(target, LocalOutput) and not target.folder.exists()
    target.make()
    try:
        with target.hold(shared=values["rank"] is not None), target.staging() as staging:
            try:
                copied = [copy_stdin(s, staging) if s.is_stdin else s for s in sources]
                planned = plan.make_plan(copied, planned_options(values), used, found.skipped)
                threads = values["threads"] or cpu_count()
                planned = _begin(target, planned, used, staging, threads, progress)
            except OSError as error:
                raise_full_disk(error.errno, str(error), target.name)
                raise
            run = Run(target, staging, planned, used, values, progress, started)
            return resume(run)
    except TokenmillError as error:
        if is_new and (isinstance(error, ClusterError) or target.read(plan.NAME) is None):
            target.remove([plan.NAME, journal.TOKENIZER, LOCK])
            with suppress(OSError):  # it has other files
                Path(target.name).rmdir()
        raise


def resume(run: Run) -> Result:
    """Do the tasks of a run or a rank that have no entry."""
    output, rank, count = run.output, run.options["rank"], len(run.plan.tasks)
    manifest = journal.load_manifest(output)
    with journal.reading(output.name):
        entries = journal.read_entries(output, run.plan, manifest)
        if manifest is not None:
            is_shuffled = bool(manifest["shuffled"])  # or merged
            found = len(entries.shuffled if is_shuffled else entries.tasks)
            is_whole = found == (len(manifest["shuffled"]) if is_shuffled else count)
            failed = [entry["task"] for entry in manifest["tasks"] if "failed" in entry]
            missing = journal.missing_files(output, manifest)
            for number in [n for n in entries.tasks if journal.errors_name(n) in missing]:
                del entries.tasks[number]
            is_whole = is_whole and not missing
            if rank is not None or (is_whole and not failed):
                return run.reuse(manifest)
    if manifest is not None and is_shuffled:
        if is_whole and not _retry(run, manifest, failed):
            return run.reuse(manifest)
        # The manifest is removed last. After a kill, its files are missing, and the next run
        # resumes.
        for entry in filter(journal.is_valid, manifest["shuffled"]):
            output.remove([name for name, _ in journal.files_of_entry(entry)])
        manifests = [f"{name}/{journal.MANIFEST}" for name in manifest.get("sets", ())]
        output.remove([*manifests, journal.MANIFEST])
        entries = journal.read_entries(output, run.plan)
    if manifest is not None:  # inputs may have new times, which the workers compare
        output.write(plan.NAME, run.plan.dump())
    numbers = range(count) if rank is None else range(rank, count, run.options["world_size"])
    done = [entries.tasks[number] for number in numbers if number in entries.tasks]
    tracker = run.tracker(done, numbers)
    run.do_tasks(entries, tracker, numbers)
    run.check_errors(tracker)
    if rank is None:
        return run.finish(entries, len(done), tracker)
    tracker.end()
    content = journal.describe(run.plan, [entries.tasks[number] for number in numbers], [])
    content["restarts"] = entries.restarts
    return run.result(content, len(done), tracker, len(numbers))


def _retry(run: Run, manifest: dict[str, Any], failed: list[int]) -> bool:
    """Try the failed tasks of a shuffled output again. Return whether one is done now.

    Then all tasks must be done again: one more document changes every shard, and the ids of the
    other tasks were removed.
    """
    entries = journal.read_entries(run.output, run.plan)
    done = (entry for entry in manifest["tasks"] if "failed" not in entry)
    before = run.output.read(plan.NAME)
    run.output.write(plan.NAME, run.plan.dump())
    run.do_tasks(entries, run.tracker(done), failed)
    is_done = any("failed" not in entries.tasks[number] for number in failed)
    if not is_done and before is not None:
        run.output.write(plan.NAME, before)
    return is_done


@describe(RunOptions)
def finalize(output: Path_, *, progress: Show = None, **options: Unpack[RunOptions]) -> Result:
    """Write the manifest of an output when all ranks of its run are done.

    Tasks that failed are named in the manifest. Tasks without an entry are an error. A shuffled run
    gets its shards now. A complete output stays as it is.

    Args:
        output: The folder or URL of the ranks.
        progress: Function that gets a `Progress` several times per second.

    Options:
    """
    values = resolve(RunOptions, options, TokenizeError) | {"max_errors": None}
    ray_cluster.check_options(values)
    check_memory(values)
    target = open_output(output)
    planned = plan.load(target)
    if planned is None:
        raise TokenizeError(f"{target.name!r} is not an output of tokenize: it has no {plan.NAME}")
    started = time.monotonic()
    with target.hold(shared=False), target.staging() as staging:
        used = load_tokenizer(target, planned)
        run = Run(target, staging, planned, used, values, progress, started)
        manifest = journal.load_manifest(target)
        if manifest is not None:
            return run.reuse(manifest)
        entries = journal.read_entries(target, planned, failed=True)
        missing = [number for number in range(len(planned.tasks)) if number not in entries.tasks]
        if missing:
            shown = ", ".join(map(str, missing[:_NUMBERS_SHOWN]))
            more = ", …" if len(missing) > _NUMBERS_SHOWN else ""
            raise TokenizeError(
                f"{len(missing):,} of {len(planned.tasks):,} tasks are not done ({shown}{more}); "
                "start their ranks again, or the same command without --rank"
            )
        tracker = run.tracker(entries.tasks.values())
        return run.finish(entries, len(entries.tasks), tracker)


# Checks before the first task.


def _outside(output: Output) -> Callable[[str], bool]:
    """A test whether an input is not in the output. Each name of an input is resolved once."""
    if isinstance(output, StoreOutput):
        prefix = object_store.whole_name(output.name) + "/"
        return lambda name: not name.startswith(prefix)
    inside = os.path.join(os.path.realpath(output.name), "")  # noqa: PTH118 (to end in /)
    real_name = name_resolver()
    return cache(
        lambda name: object_store.is_address(name) or not real_name(name).startswith(inside)
    )


def _check_places(output: Output, sources: list[Source], options: dict[str, Any]) -> None:
    """Raise for inputs and outputs that the workers cannot read or write."""
    names = [source.name for source in sources]
    in_store = isinstance(output, StoreOutput)
    if in_store and options["shuffle"] is not None:
        raise TokenizeError(
            f"--shuffle cannot write to {output.name!r}; tokenize into a folder and upload it"
        )
    if options["rank"] is not None and STDIN in names:
        raise TokenizeError("ranks cannot share standard input; write it to a file first")
    if options["engine"] != RAY:
        return
    if object_store.is_of_process([*names, output.name]):
        raise TokenizeError(
            "memory:// is visible to one process only and cannot be used with --engine ray"
        )
    if in_store and STDIN in names:
        raise TokenizeError(
            "other machines cannot read standard input; upload it first, or leave out --engine ray"
        )


def _begin(
    output: Output,
    planned: Plan,
    tokenizer: Tokenizer,
    staging: Path,
    threads: int,
    progress: Show,
) -> Plan:
    """Write the plan, or compare it with the plan of the output. Return the plan of the run."""
    others = set(output.sizes()) - {journal.TOKENIZER}
    is_ours = others & {plan.NAME, journal.MANIFEST} or any(map(journal.is_entry_file, others))
    if others and not is_ours:
        raise TokenizeError(
            f"{output.name!r} has other files, such as {min(others)!r}; pass an empty folder"
        )
    was = plan.load(output)
    if was is None:
        reading = plan.document_options(planned.options, 0)
        for find_error in (find_wrong_field, find_wrong_id_field):
            if (error := find_error(planned.sources, reading)) is not None:
                raise TokenizeError(error)
        if not output.write_new(plan.NAME, planned.dump()):  # another rank has written it
            was = plan.require(output)
    if was is not None:
        plan.refuse_difference(was, planned, output.name)
        tasks = [
            replace(task, id=old.id) for task, old in zip(planned.tasks, was.tasks, strict=True)
        ]
        planned = replace(planned, tasks=tasks)
        if names := plan.touched(was, planned):
            _refuse_new_content(output, planned, names, threads, progress)
            if journal.load_manifest(output) is None:  # a complete output and its digest stay
                output.write(plan.NAME, planned.dump())
    # A run that was killed may have a plan and no tokenizer.
    if not planned.tokenizer["embedded"] and journal.TOKENIZER not in output.sizes():
        tokenizer.save(staging / journal.TOKENIZER)
        output.commit(staging / journal.TOKENIZER, journal.TOKENIZER)
    return planned


def _refuse_new_content(
    output: Output, planned: Plan, names: set[str], threads: int, progress: Show
) -> None:
    """Raise if finished tasks have read other bytes than files with a new time contain now."""
    manifest = journal.load_manifest(output)
    entries = journal.read_entries(output, planned).tasks
    found = [*entries.values(), *filter(journal.is_valid, manifest["tasks"] if manifest else ())]
    read_before = {entry["task"]: entry["input"] for entry in found if entry["input"] is not None}
    tasks = [
        task
        for task in planned.tasks
        if task.number in read_before and names & {part.source.name for part in task.segments}
    ]
    done, total = 0, sum(task.bytes for task in tasks)
    with ThreadPoolExecutor(threads) as pool:
        checksums = pool.map(partial(checksum_input, planned.options), tasks)
        for task, checksum in zip(tasks, checksums, strict=True):
            if checksum != read_before[task.number]:
                pool.shutdown(wait=False, cancel_futures=True)
                shown = sorted(names & {part.source.name for part in task.segments})
                raise TokenizeError(
                    f"cannot resume {output.name!r}, because {shown[0]!r} was written again and "
                    "has other content; change it back, or pass another output"
                )
            done += task.bytes
            if progress is not None:
                progress(Progress("comparing inputs", done, total))
