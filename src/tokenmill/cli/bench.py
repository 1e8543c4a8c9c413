"""A tokenizer and documents → ids and speed next to other libraries: `tokenmill bench`.

Every installed library that can load the tokenizer encodes the same documents (`libraries.py`).
Each measurement has a fresh process, and the processes of a round alternate between the libraries.
The figures are medians over the rounds.
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
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import metadata, util
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from rich.table import Table

import tokenmill
from tokenmill.arguments import thread_count
from tokenmill.cli import libraries
from tokenmill.cli.app import DIFFERENT, Parser
from tokenmill.cli.options import INPUTS, PATTERN, TOKENIZER, add_options, options_of, reading_of
from tokenmill.cli.output import add_json, console, count_of, progress_console, say_json
from tokenmill.corpus import Rejections, Segment, find, read_once
from tokenmill.corpus.options import ReadOptions
from tokenmill.display import printable
from tokenmill.errors import InputError, TokenmillError
from tokenmill.options import amount, number, resolve
from tokenmill.tokenizer import Tokenizer

_OURS = "tokenmill"
_NOT_INSTALLED = "not installed"
_SMALL_BYTES = 1_000_000
# The sample is always UTF-8, and rejected records are left out of it.
_NOT_READ = ("utf8", "on_error", "max_errors")

_HELP = """
Encode your documents with tokenmill and with every installed library that can load the tokenizer,
compare the ids, and print speed and memory.

examples:
  tokenmill bench o200k_base book.txt
  tokenmill bench tokenizer.json data/*.jsonl --bytes 100MB
  tokenmill bench model/ data/ --threads 1 --rounds 5 --json

The libraries are tokenizers, tiktoken, sentencepiece, gigatoken and transformers. One whose own
format is missing gets a file that tokenmill writes. Exit code 4: ids differ.
"""


class BenchOptions(ReadOptions, total=False):
    """How documents are read and measured."""

    rounds: Annotated[int, number(3, "number of timed runs of each library")]
    bytes: Annotated[
        int, amount(10_000_000, "size of the sample, taken from the beginning of the inputs")
    ]
    threads: Annotated[
        int | None, number(None, "number of threads of batches; without it, all cores")
    ]
    pattern: Annotated[str | None, PATTERN]


def add_bench(parser: Parser) -> None:
    parser.explain(_HELP)
    parser.add_argument("tokenizer", metavar="TOKENIZER", help=TOKENIZER)
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help=INPUTS)
    add_options(parser, BenchOptions, skip=_NOT_READ)
    add_json(parser, "all figures as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    options = resolve(BenchOptions, options_of(arguments, BenchOptions, skip=_NOT_READ))
    tokenizer = Tokenizer.load(arguments.tokenizer, pattern=options["pattern"])
    sample = read_sample(arguments.inputs, options)
    with progress_console().status("") as status:
        found = compare(
            tokenizer, arguments.tokenizer, sample, options, lambda line: status.update(f"{line} …")
        )
    if arguments.json:
        say_json(found)
    else:
        _print(found)
    return 0 if found["equal"] else DIFFERENT


@dataclass(slots=True)
class Sample:
    """The documents that are encoded, and for each the input and its number there."""

    texts: list[str] = field(default_factory=list)
    origins: list[tuple[str, int]] = field(default_factory=list)
    bytes: int = 0
    rejected: int = 0


def read_sample(inputs: Sequence[str], options: Mapping[str, Any]) -> Sample:
    """The first `bytes` bytes of documents of the inputs. The last document may be cut."""
    sample, rejections = Sample(), Rejections("skip", None)
    for source in find(inputs, options["input_format"], strict=options["strict"]):
        begun, number = b"", 1
        for block in read_once(Segment(source), replace(reading_of(options), utf8="replace")):
            rejections.add(block.problems)
            data, last = memoryview(block.data), len(block.spans) - 1
            for index, (start, end) in enumerate(block.spans.tolist()):
                begun += bytes(data[start:end])[: options["bytes"] - sample.bytes]
                sample.bytes += min(end - start, options["bytes"] - sample.bytes)
                is_full = sample.bytes == options["bytes"]
                if is_full or not block.goes_on or index < last:
                    sample.texts.append(begun.decode(errors="ignore"))  # a character may be cut
                    sample.origins.append((source.name, number))
                    begun, number = b"", number + 1
                if is_full:
                    sample.rejected = rejections.count
                    return sample
    sample.rejected = rejections.count
    if not sample.bytes:
        why = f"; the first rejected record: {rejections.first}" if rejections.count else ""
        raise InputError(f"the inputs contain no text{why}; pass other inputs or another --field")
    return sample


def compare(
    tokenizer: Tokenizer,
    source: str,
    sample: Sample,
    options: Mapping[str, Any],
    show: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Measure the libraries in alternating processes, and compare their ids.

    `left_out` has the reason for each library without figures.
    """
    threads, rounds = thread_count(options["threads"]), options["rounds"]
    left_out = {
        name: _NOT_INSTALLED for name in libraries.LIBRARIES if util.find_spec(name) is None
    }
    runs: dict[str, list[dict[str, float]]] = {
        name: [] for name in libraries.LIBRARIES if name not in left_out
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job = {"texts": sample.texts, **_files(tokenizer, source, options["pattern"], folder)}
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        for turn in range(rounds):
            for library in list(runs):
                show(f"{library}: round {turn + 1} of {rounds}")
                found = _process(library, folder, threads)
                if "error" not in found:
                    runs[library].append(found)
                elif library == _OURS:
                    raise TokenmillError(f"encoding failed: {found['error']}")
                elif turn == 0:
                    left_out[library] = found["error"]
                    del runs[library]
        rows = [_row(library, each, folder, sample) for library, each in runs.items()]
        tokens = len(np.fromfile(folder / f"{_OURS}.ids", np.uint32))
    return {
        "tokenizer": tokenizer.name, "documents": len(sample.texts), "bytes": sample.bytes,
        "tokens": tokens, "rejected": sample.rejected, "threads": threads, "rounds": rounds,
        "libraries": rows, "left_out": left_out, "equal": all(row["equal"] for row in rows),
    }  # fmt: skip


def _files(
    tokenizer: Tokenizer, source: str, pattern: str | None, folder: Path
) -> dict[str, str | None]:
    """The files that the libraries load: those of the user, or copies that tokenmill writes."""
    path = Path(source)

    def found(name: str, *suffixes: str) -> str | None:
        file = path / name if path.is_dir() else path
        return str(file.resolve()) if file.is_file() and file.name.endswith(suffixes) else None

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
        "folder": str(path.resolve()) if path.is_dir() else None,
        "tokenizer_json": found("tokenizer.json", "tokenizer.json") or written("tokenizer.json"),
        "ranks": written("ranks.tiktoken") if tokenizer.pattern is not None else None,
        "model": found("tokenizer.model", ".model"),
    }


def _process(library: str, folder: Path, threads: int) -> dict[str, Any]:
    """Measure one library in a fresh process, without a network."""
    root = str(Path(libraries.__file__).parents[2])
    variables = {
        "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")])),
        "RAYON_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
    }
    done = subprocess.run(
        [sys.executable, "-P", libraries.__file__, library, str(folder), str(threads)],
        env=os.environ | variables, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        errors="replace",
    )  # fmt: skip
    try:
        row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        lines = done.stderr.strip().splitlines() or [""]
        return {"error": f"its process ended with code {done.returncode}: {lines[-1]}"}
    return row


def _row(
    library: str, runs: list[dict[str, float]], folder: Path, sample: Sample
) -> dict[str, Any]:
    """The figures of a library: medians over its runs."""
    version = "of unknown version"
    with suppress(metadata.PackageNotFoundError):
        version = tokenmill.__version__ if library == _OURS else metadata.version(library)
    difference = _difference(folder, library, sample)
    row = {"name": library, "version": version, "equal": difference is None}
    medians = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    return {**row, "difference": difference, **medians}


def _difference(folder: Path, library: str, sample: Sample) -> dict[str, Any] | None:
    """The first document with other ids than ours. An id is None where a list of ids has ended."""

    def documents(name: str) -> list[Any]:
        ends = np.cumsum(np.fromfile(folder / f"{name}.lengths", np.uint64).astype(np.int64))
        return np.split(np.fromfile(folder / f"{name}.ids", np.uint32), ends[:-1])

    both = zip(documents(library), documents(_OURS), sample.origins, strict=True)
    for theirs, ours, (name, document) in both:
        if not np.array_equal(theirs, ours):
            pairs = enumerate(zip_longest(theirs.tolist(), ours.tolist()))
            position, (id_, own) = next((at, pair) for at, pair in pairs if pair[0] != pair[1])
            place = {"document": document, "input": name, "position": position}
            return place | {"id": id_, "tokenmill_id": own}
    return None


def _print(found: dict[str, Any]) -> None:
    size = found["bytes"]
    shown = f"{size / 1e6:,.1f} MB" if size >= 100_000 else count_of(size, "byte")
    documents, tokens = count_of(found["documents"], "document"), count_of(found["tokens"], "token")
    title = f"{printable(found['tokenizer'])}: {documents}, {shown}, {tokens}"
    table = Table("library", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for head in ("MB/s", "tokens/s", "batch MB/s", "memory"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("ids", no_wrap=True)
    for row in found["libraries"]:
        speeds = ("bytes_per_second", "tokens_per_second", "batch_bytes_per_second")
        one, per_second, batch = (_digits(row[name] / 1e6) for name in speeds)
        verdict = "" if row["name"] == _OURS else "equal" if row["equal"] else "[red]DIFFER[/]"
        memory = f"{_digits(row['peak_mb'])} MB"
        table.add_row(row["name"], one, f"{per_second} M", batch, memory, verdict)
    page = console()
    page.print(title, markup=False)
    if found["rejected"]:
        page.print(f"{count_of(found['rejected'], 'record')} rejected", markup=False)
    page.print("", table, "", sep="\n")
    for line in _verdict(found):
        page.print(line, markup=False)


def _verdict(found: dict[str, Any]) -> list[str]:
    ours, *others = found["libraries"]
    lines = []
    for row in others:
        if what := row["difference"]:
            theirs, mine = (
                "no id" if what[key] is None else f"id {what[key]}"
                for key in ("id", "tokenmill_id")
            )
            lines.append(
                f"{row['name']}: ids differ first in document {what['document']:,} of "
                f"{printable(what['input'])}, position {what['position']:,}: {theirs} instead of "
                f"tokenmill's {mine}"
            )
    if others and found["equal"]:
        lines.append(f"All ids are equal in {count_of(found['documents'], 'document')}.")
    for row in others:
        one, batch = (
            _digits(ours[key] / row[key]) for key in ("bytes_per_second", "batch_bytes_per_second")
        )
        lines.append(f"Speed relative to {row['name']}: {one} ×, in batches {batch} ×.")
    if not others:
        lines.append("No other library was compared. To compare: pip install tokenizers tiktoken")
    if found["bytes"] < _SMALL_BYTES:
        lines.append("The sample is small and was repeated; a larger one gives fairer speeds.")
    versions = ", ".join(f"{row['name']} {row['version']}" for row in found["libraries"])
    lines.append(
        f"{count_of(found['rounds'], 'round')}, medians; one call per document on one thread; "
        f"batches on {count_of(found['threads'], 'thread')}; memory that loading and encoding add. "
        f"{versions}."
    )
    left_out = found["left_out"].items()
    lines += [
        f"{name} cannot be compared: {printable(reason)}"
        for name, reason in left_out
        if reason != _NOT_INSTALLED
    ]
    missing = [name for name, reason in left_out if reason == _NOT_INSTALLED]
    return lines + ([f"Not installed: {', '.join(missing)}."] if missing else [])


def _digits(value: float) -> str:
    """Three digits at most."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
