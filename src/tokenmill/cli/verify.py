"""A folder of shards → whether it is what was written: `tokenmill verify`."""

from __future__ import annotations

import argparse
from typing import Any

from tokenmill.cli import values
from tokenmill.cli.app import DIFFERENT
from tokenmill.cli.output import add_json, count_of, say, say_json
from tokenmill.cpus import cpu_count
from tokenmill.tokenizing.verify import Verdict, verify

_EXAMPLES = """
tokenmill verify shards/
tokenmill verify shards/ --decode 5%
tokenmill verify shards/ --full --json
"""


def add_parser(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "verify",
        help="check shards: their checksums, and their documents against the sources",
        description="Compares shards with their manifest, and documents with their sources.",
        examples=_EXAMPLES,
        epilog="Exit codes: 0 all is as it was written, 4 it is not.",
    )
    parser.add_argument("folder", metavar="DIR", help="what tokenize wrote")
    depth = parser.add_mutually_exclusive_group()
    depth.add_argument(
        "--decode",
        type=values.percentage,
        default=0.0,
        metavar="5%",
        help="decode this share of the documents and compare them with their sources",
    )
    depth.add_argument("--full", action="store_true", help="decode all of them")
    parser.add_argument(
        "--threads", type=values.whole_number(1), help="number of threads (default: all cores)"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    share = 1.0 if options.full else options.decode
    threads = options.threads or cpu_count()
    verdict = verify(options.folder, decode=share, threads=threads)
    if options.json:
        say_json(_as_json(verdict))
    else:
        for line in [*verdict.findings, *verdict.notes]:
            say(line)
        if verdict.wrong > len(verdict.findings):
            say(f"and {count_of(verdict.wrong - len(verdict.findings), 'more thing')}")
        if verdict.files_wrong:
            say("delete the files that are wrong, and the same tokenize command makes them again")
        say(_summary(verdict, share))
    return 0 if verdict.is_good else DIFFERENT


def _summary(verdict: Verdict, share: float) -> str:
    looked = f"{count_of(verdict.files, 'file')}, {count_of(verdict.bytes, 'byte')}"
    if share and verdict.documents:
        looked += f", {count_of(verdict.documents, 'document')} compared with their sources"
    if verdict.is_good:
        return f"{looked}: all as it was written"
    return f"{looked}: {count_of(verdict.wrong, 'thing')} wrong"


def _as_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "good": verdict.is_good,
        "files": verdict.files,
        "bytes": verdict.bytes,
        "documents": verdict.documents,
        "wrong": verdict.wrong,
        "findings": verdict.findings,
        "notes": verdict.notes,
    }
