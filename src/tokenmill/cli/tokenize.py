"""Inputs → shards, and shards → a verdict: `tokenmill tokenize` and the commands for its output."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from rich.filesize import decimal

from tokenmill.cli import progress
from tokenmill.cli.app import DIFFERENT, EMPTY, REJECTED, Parser, name_flags
from tokenmill.cli.options import INPUTS, TOKENIZER, add_options, check_stdin, options_of
from tokenmill.cli.output import add_json, count_of, first, report
from tokenmill.corpus.inputs import Skipped, describe_skipped
from tokenmill.shards.folder import RESTORE
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing import journal
from tokenmill.tokenizing.merge import MergeOptions, merge_shards
from tokenmill.tokenizing.options import RunOptions, TokenizeOptions
from tokenmill.tokenizing.run import Result, finalize, tokenize
from tokenmill.tokenizing.verify import VerifyOptions, repair, verify

_COUNTS = (
    *("documents", "tokens", "bytes", "quarantined", "errors", "shards", "bytes_written"),
    *("tasks_resumed", "restarts"),
)
_RATES = ("seconds", "bytes_per_second", "input_bytes_per_second")
_FAILURES_SHOWN = 10
_REASONS_SHOWN = 5
_COUNTED = ("document", "token", "shard")

_TOKENIZE_HELP = """
Convert documents to shards: files of token ids that training programs read.

examples:
  tokenmill tokenize data/ --tokenizer gpt2 --output shards/
  tokenmill tokenize book.txt --separator '\\n' \\
    --tokenizer gpt2 --format nanogpt --output nano/
  tokenmill tokenize data/*.jsonl --sequence-length 64 \\
    --tokenizer gpt2 --output packed/
  tokenmill tokenize data/ --progress none --json \\
    --tokenizer o200k_base --output all/
  tokenmill tokenize data/ --split val=0.1% --shuffle 1 \\
    --tokenizer gpt2 --output sets/
  tokenmill tokenize data/ --rank 3 --world-size 8 \\
    --tokenizer gpt2 --output shards/

The same command resumes a run that was stopped. Exit code 3: complete, but some records were
rejected (see errors.jsonl). Exit code 5: complete, without a document.
"""
_FINALIZE_HELP = """
Complete an output that several processes wrote with tokenize --rank, when all of them are done.

examples:
  tokenmill finalize ranks/
"""
_MERGE_HELP = """
Write the documents of a complete output into another folder, in shards of another size.

examples:
  tokenmill merge shards/ merged/
  tokenmill merge shards/ merged/ --shard-tokens 1000000000

The documents have the same order. verify and the training programs take both folders.
"""
_VERIFY_HELP = """
Check that shards are as tokenize wrote them. With --sample, also encode documents of the inputs
again and compare the ids.

examples:
  tokenmill verify shards/
  tokenmill verify shards/ --sample 5%
  tokenmill verify shards/ --sample 100% --json

The digest in the last line stands for all files of the output. --expect compares it.
Exit codes: 0 the shards are as they were written, 4 they differ.
"""

_REPAIR_HELP = """
Make missing and changed files of a complete output again. The inputs must be as they were.

examples:
  tokenmill repair shards/

Run it in the working directory of tokenize. Files that do not belong to the output stay.
"""


def add_tokenize(parser: Parser) -> None:
    parser.explain(_TOKENIZE_HELP)
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help=INPUTS)
    parser.add_argument("--tokenizer", required=True, help=TOKENIZER)
    parser.add_argument(
        "--output", required=True, metavar="DIR", help="folder or URL such as s3://bucket/folder"
    )
    add_options(parser, TokenizeOptions)
    progress.add_flags(parser)
    parser.set_defaults(run=_run_tokenize)


def add_finalize(parser: Parser) -> None:
    parser.explain(_FINALIZE_HELP)
    parser.add_argument("output", metavar="DIR", help="output of tokenize --rank: a folder or URL")
    add_options(parser, RunOptions)
    progress.add_flags(parser)
    parser.set_defaults(run=_run_finalize)


def _run_tokenize(arguments: argparse.Namespace) -> int:
    check_stdin(arguments.inputs)
    given: Any = options_of(arguments, TokenizeOptions)
    whole = (arguments.inputs, arguments.output, Tokenizer.load(arguments.tokenizer))
    return _report(arguments, partial(tokenize, *whole, **given))


def _run_finalize(arguments: argparse.Namespace) -> int:
    given: Any = options_of(arguments, RunOptions)
    return _report(arguments, partial(finalize, arguments.output, **given))


def _report(arguments: argparse.Namespace, act: Callable[..., Result]) -> int:
    try:
        with progress.show(arguments.progress) as shown:
            result = act(progress=shown)
    except (KeyboardInterrupt, SystemExit):  # Ctrl-C, SIGTERM
        sys.stderr.write("tokenmill: stopped; run the same command again to resume\n")
        raise
    peak = _peak_memory()
    figures = {name: getattr(result, name) for name in _COUNTS} | {
        "output": str(result.output),
        "eos": result.options["eos"],
        "failures": [{"path": each["path"], "error": each["error"]} for each in result.failures],
        "peak_memory": peak,
        **{name: round(getattr(result, name), 3) for name in _RATES},
    }
    if result.skipped:
        figures["skipped"] = result.skipped
    if result.sets:
        figures["sets"] = result.sets
    report(arguments, figures, *_lines(result, peak))
    if result.is_final and not result.documents:
        return EMPTY
    return 0 if result.is_complete else REJECTED


def _peak_memory() -> int:
    """The peak memory of the largest process of the run on this machine. 0 if it is unknown."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    peak = max(resource.getrusage(each).ru_maxrss for each in whose)
    return peak if sys.platform == "darwin" else peak * 1024


def _lines(result: Result, peak: int) -> list[str]:
    options, output = result.options, result.output
    eos = options["eos"]
    token = "nothing" if eos is None else f"{result.tokenizer.decode([eos])} ({eos})"
    verb = "begins" if options["format"] == "llmc" else "ends"
    lines = [
        f"{output}: {count_of(result.documents, 'document')}, "
        f"{count_of(result.tokens, 'token')} ({options['dtype']}) in "
        f"{count_of(result.shards, 'shard')}",
        f"each document {verb} with {token}",
    ]
    for name, totals in result.sets.items():
        documents, tokens, shards = (count_of(totals[f"{one}s"], one) for one in _COUNTED)
        lines.append(f"{output}/{name}: {documents}, {tokens} in {shards}")
    if result.was_complete:
        lines.append("the output was complete already")
    elif result.is_final and result.tasks_resumed == result.tasks_total:
        done = count_of(result.tasks, "task")
        lines.append(f"finalized {done} of earlier runs; {journal.MANIFEST} is written now")
    if not result.is_final:
        lines.append(
            f"done: {count_of(result.tasks, 'task')} of {result.tasks_total:,}; when all ranks are "
            f"done, run tokenmill finalize {output}"
        )
    if result.quarantined:
        records = count_of(result.quarantined, "record")
        place = "errors.jsonl" if result.is_final else "quarantine/"
        lines.append(f"{records} rejected; see {output}/{place}")
        reasons = list(result.errors.items())[:_REASONS_SHOWN]
        lines += [f"{count:,} × {name_flags(reason)}" for reason, count in reasons]
    failures = [f"{each['path']}: {name_flags(each['error'])}" for each in result.failures]
    lines += first(failures, _FAILURES_SHOWN, "inputs")
    if result.is_final and not result.documents:
        lines.append("no document was found in any input")
    if result.bytes_per_second:
        lines.append(
            f"{result.seconds:.1f} s: text {decimal(round(result.bytes_per_second))}/s, "
            f"input {decimal(round(result.input_bytes_per_second))}/s, "
            f"output {decimal(result.bytes_written)}, peak memory {decimal(peak)}"
        )
    files = [Skipped(**each) for each in result.skipped]
    may_be_data = [file for file in files if file.may_be_data]
    not_text = [file for file in files if not file.may_be_data]
    return lines + [describe_skipped(some) for some in (may_be_data, not_text) if some]


def add_merge(parser: Parser) -> None:
    parser.explain(_MERGE_HELP)
    parser.add_argument("folder", metavar="DIR", help="output of tokenize")
    parser.add_argument("output", metavar="OUTPUT", help="empty folder, or URL")
    add_options(parser, MergeOptions)
    add_json(parser)
    parser.set_defaults(run=_run_merge)


def _run_merge(arguments: argparse.Namespace) -> int:
    given: Any = options_of(arguments, MergeOptions)
    totals = merge_shards(arguments.folder, arguments.output, **given)
    documents, tokens, shards = (count_of(totals[f"{name}s"], name) for name in _COUNTED)
    line = f"{arguments.output}: {documents}, {tokens} in {shards}"
    report(arguments, totals | {"output": arguments.output}, line)
    return 0


def add_repair(parser: Parser) -> None:
    parser.explain(_REPAIR_HELP)
    parser.add_argument("output", metavar="DIR", help="output of tokenize: a folder or URL")
    add_options(parser, RunOptions)
    progress.add_flags(parser)
    parser.set_defaults(run=_run_repair)


def _run_repair(arguments: argparse.Namespace) -> int:
    given: Any = options_of(arguments, RunOptions)
    return _report(arguments, partial(repair, arguments.output, **given))


def add_verify(parser: Parser) -> None:
    parser.explain(_VERIFY_HELP)
    parser.add_argument("folder", metavar="DIR", help="output of tokenize")
    add_options(parser, VerifyOptions)
    progress.add_flags(parser)
    parser.set_defaults(run=_run_verify)


def _run_verify(arguments: argparse.Namespace) -> int:
    given: Any = options_of(arguments, VerifyOptions)
    with progress.show(arguments.progress, late=True) as shown:
        found = verify(arguments.folder, progress=shown, **given)
    lines = [*found.findings, *found.notes]
    if found.wrong > len(found.findings):
        lines.append(f"and {count_of(found.wrong - len(found.findings), 'more difference')}")
    if found.files_wrong:
        lines.append(RESTORE)
    checked = f"{count_of(found.files, 'file')}, {count_of(found.bytes, 'byte')}"
    if found.documents:
        checked += f", {count_of(found.documents, 'document')} compared with their sources"
    verdict = "all as it was written" if found.is_good else count_of(found.wrong, "difference")
    names = ("files", "bytes", "documents", "wrong", "findings", "notes", "digest")
    figures = {"good": found.is_good} | {name: getattr(found, name) for name in names}
    report(arguments, figures, *lines, f"{checked}: {verdict}", f"digest {found.digest}")
    return 0 if found.is_good else DIFFERENT
