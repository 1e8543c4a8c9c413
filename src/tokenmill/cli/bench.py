"""A tokenizer and documents → ids and speed next to other libraries: `tokenmill bench`.

Every installed library that can load the tokenizer encodes the same documents. Each measurement
has a fresh process, and the processes of a round alternate between the libraries. The table shows
medians over the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata, util
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from rich.table import Table

import tokenmill
from tokenmill.arguments import thread_count
from tokenmill.cli import libraries
from tokenmill.cli.app import DIFFERENT
from tokenmill.cli.options import PATTERN, add_options, options_of
from tokenmill.cli.output import add_json, console, count_of, progress_console, say_json
from tokenmill.corpus import find
from tokenmill.corpus.documents import DocumentOptions, Segment, read
from tokenmill.corpus.options import ReadOptions
from tokenmill.display import printable
from tokenmill.errors import InputError, TokenmillError
from tokenmill.options import amount, number, resolve
from tokenmill.tokenizer import Tokenizer

_OURS = "tokenmill"
_SMALL_BYTES = 1_000_000
# The sample is always UTF-8, and rejected records are left out of it.
_NOT_READ = ("utf8", "on_error", "max_errors")

_EXAMPLES = """
tokenmill bench o200k_base book.txt
tokenmill bench tokenizer.json data/*.jsonl --bytes 100MB
tokenmill bench model/ data/ --threads 1 --rounds 5 --json
"""
_EPILOG = """\
Compared libraries: tokenizers, tiktoken, sentencepiece, gigatoken and transformers, if they are
installed and can load the tokenizer. A library whose own format is missing gets a file that
tokenmill writes. Exit code 4: ids differ."""


class BenchOptions(ReadOptions, total=False):
    """How documents are read and measured."""

    rounds: Annotated[int, number(3, "number of timed runs of each library")]
    bytes: Annotated[
        int,
        amount(10_000_000, "size of the sample, taken from the beginning of the inputs"),
    ]
    threads: Annotated[
        int | None, number(None, "number of threads of the column batch; without it, all cores")
    ]
    pattern: Annotated[str | None, PATTERN]


@dataclass(slots=True)
class Sample:
    """The documents that are encoded, and for each the input and its number there."""

    texts: list[str] = field(default_factory=list)
    origins: list[tuple[str, int]] = field(default_factory=list)
    bytes: int = 0
    rejected: int = 0


@dataclass(frozen=True, slots=True)
class Difference:
    """The first document with other ids. An id is None where a list of ids has ended."""

    document: int
    input: str
    position: int
    id: int | None
    tokenmill_id: int | None


@dataclass(slots=True)
class Row:
    """Figures of one library, medians over the rounds."""

    name: str
    version: str
    equal: bool = True
    difference: Difference | None = None
    bytes_per_second: float = 0.0
    tokens_per_second: float = 0.0
    batch_bytes_per_second: float = 0.0
    batch_tokens_per_second: float = 0.0
    load_seconds: float = 0.0
    peak_mb: float = 0.0


@dataclass(slots=True)
class Comparison:
    """All figures of a comparison. `left_out` has the reasons by library."""

    tokenizer: str
    documents: int
    bytes: int
    tokens: int
    rejected: int
    threads: int
    rounds: int
    libraries: list[Row]
    left_out: dict[str, str]

    @property
    def equal(self) -> bool:
        return all(row.equal for row in self.libraries)


def add_parser(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "bench",
        help="compare ids and speed with the installed libraries, on your documents",
        description="Encodes your documents with tokenmill and with every installed library that\n"
        "can load the tokenizer, compares the ids, and prints speed and memory.",
        examples=_EXAMPLES,
        epilog=_EPILOG,
    )
    parser.add_argument(
        "tokenizer", metavar="TOKENIZER", help="tokenizer: a name, a file or a folder"
    )
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="INPUT",
        help="documents: files, folders, globs, URLs, or - for standard input",
    )
    add_options(parser, BenchOptions, skip=_NOT_READ)
    add_json(parser, "all figures as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    given = options_of(arguments, BenchOptions, skip=_NOT_READ)
    options = resolve(BenchOptions, given)
    tokenizer = Tokenizer.load(arguments.tokenizer, pattern=options["pattern"])
    sample = read_sample(arguments.inputs, options)
    with progress_console().status("") as status:
        found = compare(
            tokenizer,
            arguments.tokenizer,
            sample,
            options,
            report=lambda line: status.update(f"{line} …"),
        )
    if arguments.json:
        say_json(asdict(found) | {"equal": found.equal})
    else:
        show(found)
    return 0 if found.equal else DIFFERENT


def read_sample(inputs: Sequence[str], options: Mapping[str, Any]) -> Sample:
    """The first `bytes` bytes of documents of the inputs. The last document may be cut."""
    bytes_max, separator = options["bytes"], options["separator"]
    how = DocumentOptions(
        field=options["field"],
        separator=None if separator is None else separator.encode(),
        utf8="replace",
    )
    sample, reason = Sample(), ""
    for source in find(inputs, options["input_format"]):
        number, begun = 0, b""
        for block in read(Segment(source), how):
            sample.rejected += len(block.problems)
            reason = reason or next((each.reason for each in block.problems), "")
            data = memoryview(block.data)
            for index, (start, end) in enumerate(block.spans.tolist()):
                begun += bytes(data[start:end])[: bytes_max - sample.bytes - len(begun)]
                is_full = sample.bytes + len(begun) >= bytes_max
                if block.goes_on and index == len(block.spans) - 1 and not is_full:
                    break
                number += 1
                sample.texts.append(begun.decode(errors="ignore" if is_full else "replace"))
                sample.origins.append((source.name, number))
                sample.bytes += len(begun)
                begun = b""
                if is_full:
                    return sample
    if not sample.bytes:
        why = f"; the first rejected record: {reason}" if reason else ""
        raise InputError(f"the inputs contain no text{why}; pass other inputs or another --field")
    return sample


def compare(
    tokenizer: Tokenizer,
    source: str,
    sample: Sample,
    options: Mapping[str, Any],
    report: Callable[[str], None] = lambda line: None,
) -> Comparison:
    """Compares ids, then measures the libraries in alternating processes."""
    threads, rounds = thread_count(options["threads"]), options["rounds"]
    rows, left_out = _installed()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "documents.json").write_text(json.dumps(sample.texts), encoding="utf-8")
        job = _files(tokenizer, source, options["pattern"], folder)
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        for row in list(rows):
            report(f"{row.name}: ids")
            found = _process("ids", row.name, folder, threads)
            if "error" in found:
                if row.name == _OURS:
                    raise TokenmillError(f"encoding failed: {found['error']}")
                left_out[row.name] = found["error"]
                rows.remove(row)
            elif row.name != _OURS:
                row.difference = _difference(folder, row.name, sample)
                row.equal = row.difference is None
        tokens = (folder / f"{_OURS}.ids").stat().st_size // np.dtype(np.uint32).itemsize
        runs: dict[str, list[dict[str, Any]]] = {row.name: [] for row in rows}
        for turn in range(rounds):
            for row in rows:
                report(f"{row.name}: round {turn + 1} of {rounds}")
                runs[row.name].append(_process("time", row.name, folder, threads))
    for row in rows:
        _fill(row, runs[row.name])
    return Comparison(
        tokenizer.name, len(sample.texts), sample.bytes, tokens, sample.rejected, threads, rounds,
        rows, left_out,
    )  # fmt: skip


def _installed() -> tuple[list[Row], dict[str, str]]:
    rows, left_out = [], {}
    for name in libraries.LIBRARIES:
        if util.find_spec(name) is None:
            left_out[name] = "not installed"
        else:
            rows.append(Row(name, _version(name)))
    return rows, left_out


def _version(library: str) -> str:
    if library == _OURS:
        return tokenmill.__version__
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "of unknown version"


def _files(
    tokenizer: Tokenizer, source: str, pattern: str | None, folder: Path
) -> dict[str, str | None]:
    """The files that the libraries load: those of the user, or copies that tokenmill writes."""
    path = Path(source)
    is_folder = path.is_dir()

    def found(name: str, *suffixes: str) -> str | None:
        if is_folder:
            return str((path / name).resolve()) if (path / name).is_file() else None
        return str(path.resolve()) if path.is_file() and path.name.endswith(suffixes) else None

    def written(name: str) -> str | None:
        try:
            tokenizer.save(folder / name)
        except TokenmillError:
            return None
        return str(folder / name)

    return {
        "source": str(path.resolve()) if path.exists() else source,
        "pattern": pattern,
        "regex": tokenizer.pattern,
        "folder": str(path.resolve()) if is_folder else None,
        "tokenizer_json": found("tokenizer.json", "tokenizer.json") or written("tokenizer.json"),
        "ranks": written("ranks.tiktoken") if tokenizer.pattern is not None else None,
        "model": found("tokenizer.model", ".model"),
    }


def _process(mode: str, library: str, folder: Path, threads: int) -> dict[str, Any]:
    """One library in a fresh process, without a network."""
    root = str(Path(libraries.__file__).parents[2])
    variables = {
        "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")])),
        "RAYON_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
    }
    words = [sys.executable, "-P", libraries.__file__, mode, library, str(folder), str(threads)]
    done = subprocess.run(
        words, env=os.environ | variables, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, errors="replace",
    )  # fmt: skip
    try:
        row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        lines = done.stderr.strip().splitlines() or [""]
        return {"error": f"its process ended with code {done.returncode}: {lines[-1]}"}
    return row


def _difference(folder: Path, library: str, sample: Sample) -> Difference | None:
    """The first difference between the ids of a library and ours."""
    ours, our_ends = _ids(folder, _OURS)
    theirs, their_ends = _ids(folder, library)
    if np.array_equal(ours, theirs) and np.array_equal(our_ends, their_ends):
        return None
    for index, (name, line) in enumerate(sample.origins):
        one = ours[our_ends[index] : our_ends[index + 1]].tolist()
        other = theirs[their_ends[index] : their_ends[index + 1]].tolist()
        if one != other:
            pairs = zip(one, other, strict=False)
            place = next(
                (at for at, (left, right) in enumerate(pairs) if left != right),
                min(len(one), len(other)),
            )
            ids = [each[place] if place < len(each) else None for each in (other, one)]
            return Difference(line, name, place, *ids)
    return None


def _ids(folder: Path, library: str) -> tuple[Any, Any]:
    lengths = np.fromfile(folder / f"{library}.lengths", np.uint64)
    ends = np.concatenate([np.zeros(1, np.uint64), np.cumsum(lengths)]).astype(np.int64)
    return np.fromfile(folder / f"{library}.ids", np.uint32), ends


def _fill(row: Row, runs: list[dict[str, Any]]) -> None:
    """Sets the figures of a row to the medians of its runs."""
    good = [run for run in runs if "error" not in run]
    if not good:
        raise TokenmillError(f"{row.name} failed while it was timed: {runs[0]['error']}")

    def median(value: Callable[[dict[str, Any]], float]) -> float:
        return statistics.median(map(value, good))

    row.bytes_per_second = median(lambda run: run["one"]["bytes"] / run["one"]["seconds"])
    row.tokens_per_second = median(lambda run: run["one"]["tokens"] / run["one"]["seconds"])
    row.batch_bytes_per_second = median(lambda run: run["batch"]["bytes"] / run["batch"]["seconds"])
    row.batch_tokens_per_second = median(
        lambda run: run["batch"]["tokens"] / run["batch"]["seconds"]
    )
    row.load_seconds = median(lambda run: run["load_seconds"])
    row.peak_mb = median(lambda run: run["memory"] / 1e6)


# ── the table ────────────────────────────────────────────────────────────────────────────────


def show(found: Comparison) -> None:
    page = console()
    title = (
        f"{printable(found.tokenizer)}: {count_of(found.documents, 'document')}, "
        f"{_size(found.bytes)}, {count_of(found.tokens, 'token')}"
    )
    page.print(title, markup=False)
    if found.rejected:
        page.print(f"{count_of(found.rejected, 'record')} rejected", markup=False)
    page.print()
    page.print(_table(found))
    page.print()
    for line in _verdict(found):
        page.print(line, markup=False)


def _table(found: Comparison) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("library", no_wrap=True)
    for head in ("MB/s", "tokens/s", "batch MB/s", "memory"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("ids", no_wrap=True)
    for row in found.libraries:
        verdict = "" if row.name == _OURS else "equal" if row.equal else "[red]DIFFER[/]"
        table.add_row(
            row.name,
            _digits(row.bytes_per_second / 1e6),
            f"{_digits(row.tokens_per_second / 1e6)} M",
            _digits(row.batch_bytes_per_second / 1e6),
            f"{_digits(row.peak_mb)} MB",
            verdict,
        )
    return table


def _verdict(found: Comparison) -> list[str]:
    ours, *others = found.libraries
    lines = []
    for row in others:
        if row.difference is not None:
            what = row.difference
            theirs, mine = (
                "no id" if each is None else f"id {each}" for each in (what.id, what.tokenmill_id)
            )
            lines.append(
                f"{row.name}: ids differ first in document {what.document:,} of "
                f"{printable(what.input)}, position {what.position:,}: {theirs} instead of "
                f"tokenmill's {mine}"
            )
    if others and found.equal:
        lines.append(f"All ids are equal in {count_of(found.documents, 'document')}.")
    for row in others:
        one = _digits(ours.bytes_per_second / row.bytes_per_second)
        batch = _digits(ours.batch_bytes_per_second / row.batch_bytes_per_second)
        lines.append(f"Speed relative to {row.name}: {one} ×, in batches {batch} ×.")
    if not others:
        lines.append("No other library was compared. To compare: pip install tokenizers tiktoken")
    if found.bytes < _SMALL_BYTES:
        lines.append("The sample is small and was repeated; a larger one gives fairer speeds.")
    versions = ", ".join(f"{row.name} {row.version}" for row in found.libraries)
    lines.append(
        f"{count_of(found.rounds, 'round')}, medians; one call per document on one thread; "
        f"batches on {count_of(found.threads, 'thread')}; memory that loading and encoding add. "
        f"{versions}."
    )
    missing = [name for name, reason in found.left_out.items() if reason == "not installed"]
    lines += [
        f"{name} cannot be compared: {printable(reason)}"
        for name, reason in found.left_out.items()
        if name not in missing
    ]
    return lines + ([f"Not installed: {', '.join(missing)}."] if missing else [])


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 100_000 else count_of(count, "byte")


def _digits(value: float) -> str:
    """Three digits at most."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
