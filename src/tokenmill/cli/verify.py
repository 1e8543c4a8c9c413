"""A folder of shards → whether it is what was written: `tokenmill verify`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from tokenmill.cli import values
from tokenmill.tokenizing.verify import Verdict, verify

# The folder is not what its manifest says.
DIFFERENT = 4


def add_parser(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "verify",
        help="check shards: their checksums, and their documents against the sources",
        epilog="examples:\n  tokenmill verify shards/\n  tokenmill verify shards/ --decode 5%\n"
        "  tokenmill verify shards/ --full\n\nExit codes: 0 all is as it was written, 4 it is not.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="what tokenize wrote")
    depth = parser.add_mutually_exclusive_group()
    depth.add_argument(
        "--decode",
        type=values.percentage,
        default=0.0,
        metavar="5%",
        help="decode this share of the documents and compare them with their sources",
    )
    depth.add_argument("--full", action="store_true", help="decode all of them")
    parser.add_argument("--workers", type=values.whole_number(1), help="all processors otherwise")
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    share = 1.0 if options.full else options.decode
    workers = options.workers or os.cpu_count() or 1
    verdict = verify(options.folder, decode=share, workers=workers)
    if options.json:
        sys.stdout.write(json.dumps(_as_json(verdict), ensure_ascii=False) + "\n")
    else:
        for line in [*verdict.findings, *verdict.notes]:
            sys.stdout.write(f"{line}\n")
        sys.stdout.write(_summary(verdict, share) + "\n")
    return 0 if verdict.is_good else DIFFERENT


def _summary(verdict: Verdict, share: float) -> str:
    looked = f"{verdict.files:,} files, {verdict.bytes:,} bytes"
    if share and verdict.documents:
        looked += f", {verdict.documents:,} documents compared with their sources"
    if verdict.is_good:
        return f"{looked}: all as it was written"
    return f"{looked}: {len(verdict.findings):,} thing{'s'[: len(verdict.findings) != 1]} wrong"


def _as_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "good": verdict.is_good,
        "files": verdict.files,
        "bytes": verdict.bytes,
        "documents": verdict.documents,
        "findings": verdict.findings,
        "notes": verdict.notes,
    }
