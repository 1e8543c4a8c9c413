"""Inputs → shards: `tokenmill tokenize`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tokenmill.cli import values
from tokenmill.cli.tokenize_progress import STYLES, shown
from tokenmill.corpus.inputs import INPUT_FORMATS
from tokenmill.shards import layouts
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing.options import ON_ERROR, SHARD_TOKENS, UNIT_BYTES, UTF8, WHOLE_BYTES
from tokenmill.tokenizing.run import MEMORY, Result, tokenize

# The run is over, and something was put aside.
QUARANTINED = 3
_FAILURES_SHOWN = 10

_EXAMPLES = """examples:
  tokenmill tokenize data/*.jsonl.zst --tokenizer o200k_base --output shards/
  tokenmill tokenize corpus.txt --separator '<|endoftext|>' --tokenizer gpt2 \\
      --format nanogpt --output shards/
  tokenmill tokenize data/ --tokenizer tokenizer.json --pack 2048 --shuffle 1 --output shards/

The same command again goes on where a run was stopped. Exit codes: 0 all is there, 3 all is done
and some records were put aside (see errors.jsonl), 2 a mistake or a stop, 1 the system, 130 Ctrl-C.
"""


def add_parser(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "tokenize",
        help="turn files into shards of ids for training",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="INPUT",
        help="text, .jsonl, .parquet, .arrow, .csv, .wet, each also .gz, .zst, .xz or .bz2; "
        "folders and globs",
    )
    parser.add_argument("--tokenizer", required=True, help="a name, a file or a folder")
    parser.add_argument("--output", required=True, type=Path, metavar="DIR", help="a folder")
    parser.add_argument(
        "--format", choices=layouts.NAMES, default="megatron", help="the layout of the shards"
    )
    _add_input_options(parser)
    _add_output_options(parser)
    _add_run_options(parser)
    parser.set_defaults(run=run)


def _add_input_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("documents")
    group.add_argument(
        "--input-format", choices=INPUT_FORMATS, help="whatever the files' names say"
    )
    group.add_argument(
        "--field", default="text", help="where records have their text; a.b leads into a (text)"
    )
    group.add_argument("--id-field", help="where records have a name, for layouts that keep it")
    group.add_argument(
        "--separator",
        type=values.escaped,
        metavar="TEXT",
        help=r"a document of a text ends here, as at <|endoftext|> or \n; otherwise a file is one",
    )
    group.add_argument(
        "--utf8", choices=UTF8, default="strict", help="what to do with bytes that are not UTF-8"
    )
    group.add_argument(
        "--specials", action="store_true", help="names of specials in the text are specials"
    )


def _add_output_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("shards")
    group.add_argument("--eos", default="auto", metavar="auto|none|ID", help="ends each document")
    group.add_argument("--bos", default="none", metavar="auto|none|ID", help="begins each document")
    group.add_argument("--dtype", choices=("uint16", "uint32"), help="by the vocabulary otherwise")
    group.add_argument(
        "--shard-tokens",
        type=values.whole_number(1),
        default=SHARD_TOKENS,
        metavar="N",
        help=f"a shard ends with the document that reaches this ({SHARD_TOKENS:,})",
    )
    group.add_argument(
        "--pack", type=values.whole_number(1), metavar="LENGTH", help="sequences of this length"
    )
    group.add_argument("--pad", type=values.whole_number(0), metavar="ID", help="fills the last up")
    group.add_argument(
        "--shuffle", type=values.whole_number(0), metavar="SEED", help="documents in random order"
    )


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the run")
    group.add_argument(
        "--unit-bytes",
        type=values.amount,
        default=UNIT_BYTES,
        metavar="64MB",
        help="how much of the inputs is done, and lost by a kill, at a time; shards end with it",
    )
    group.add_argument(
        "--whole-bytes",
        type=values.amount,
        default=WHOLE_BYTES,
        metavar="16MB",
        help="a document that can be cut nowhere is put aside if it is larger",
    )
    group.add_argument("--workers", type=values.whole_number(1), help="all processors otherwise")
    group.add_argument(
        "--memory", type=values.memory, default=MEMORY, metavar="2GB", help="a bound that is kept"
    )
    group.add_argument(
        "--on-error", choices=ON_ERROR, default="quarantine", help="for records without a document"
    )
    group.add_argument(
        "--max-errors", type=values.whole_number(0), metavar="N", help="more of them stop the run"
    )
    group.add_argument(
        "--progress", choices=STYLES, default="auto", help="a bar, lines, JSON lines or nothing"
    )
    group.add_argument("--json", action="store_true", help="totals as JSON on stdout")


def run(options: argparse.Namespace) -> int:
    tokenizer = Tokenizer.load(options.tokenizer)
    try:
        result = _tokenize(options, tokenizer)
    except KeyboardInterrupt:
        sys.stderr.write("tokenmill: stopped; what is done stays, and the same command goes on\n")
        raise
    if options.json:
        sys.stdout.write(json.dumps(_totals(result), ensure_ascii=False) + "\n")
    else:
        _say(result, tokenizer)
    return 0 if result.is_complete else QUARANTINED


def _tokenize(options: argparse.Namespace, tokenizer: Tokenizer) -> Result:
    with shown(options.progress) as progress:
        return tokenize(
            options.inputs,
            options.output,
            tokenizer,
            format=options.format,
            input_format=options.input_format,
            field=options.field,
            id_field=options.id_field,
            separator=options.separator,
            utf8=options.utf8,
            specials=options.specials,
            eos=options.eos,
            bos=options.bos,
            dtype=options.dtype,
            shard_tokens=options.shard_tokens,
            pack=options.pack,
            pad=options.pad,
            shuffle=options.shuffle,
            on_error=options.on_error,
            max_errors=options.max_errors,
            workers=options.workers,
            memory=options.memory,
            unit_bytes=options.unit_bytes,
            whole_bytes=options.whole_bytes,
            progress=progress,
        )


def _totals(result: Result) -> dict[str, Any]:
    return dict(result.manifest["totals"]) | {
        "output": str(result.folder),
        "eos": result.manifest["eos"],
        "units_resumed": result.units_resumed,
        "failures": [
            {"path": source["path"], "error": source["error"]} for source in result.failures
        ],
    }


def _say(result: Result, tokenizer: Tokenizer) -> None:
    totals = result.manifest["totals"]
    eos = result.manifest["eos"]
    named = "nothing" if eos is None else f"{tokenizer.decode([eos])} ({eos})"
    verb = "begins" if result.manifest["layout"] == "llmc" else "ends"
    _write(
        f"{result.folder}: {_count(totals['documents'], 'document')}, "
        f"{_count(totals['tokens'], 'token')} ({result.manifest['dtype']}) in "
        f"{_count(totals['shards'], 'shard')}; each {verb} with {named}"
    )
    if totals["quarantined"]:
        records = _count(totals["quarantined"], "record")
        _write(f"{records} gave no document: see {result.folder / 'errors.jsonl'}")
    for source in result.failures[:_FAILURES_SHOWN]:
        _write(f"{source['path']}: {source['error']}")
    if len(result.failures) > _FAILURES_SHOWN:
        _write(f"and {len(result.failures) - _FAILURES_SHOWN:,} more inputs")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s'[: number != 1]}"


def _write(text: str) -> None:
    sys.stdout.write(text + "\n")
