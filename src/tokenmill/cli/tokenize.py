"""Inputs → shards: `tokenmill tokenize`."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from tokenmill.cli import streams, values
from tokenmill.cli.ending import QUARANTINED
from tokenmill.cli.output import add_json, count_of, say, say_json
from tokenmill.cli.tokenize_progress import STYLES, shown
from tokenmill.corpus.inputs import INPUT_FORMATS
from tokenmill.corpus.sources import STDIN
from tokenmill.errors import TokenizeError
from tokenmill.shards import layouts
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing.options import (
    FIELD,
    ON_ERROR,
    SHARD_TOKENS,
    UNIT_BYTES,
    UTF8,
    WHOLE_BYTES,
)
from tokenmill.tokenizing.run import MEMORY, Result, finish, tokenize

_FAILURES_SHOWN = 10

_EXAMPLES = """
tokenmill tokenize data/*.jsonl --tokenizer o200k_base --output shards/
tokenmill tokenize book.txt --separator '\\n' --tokenizer gpt2 --format nanogpt --output nano/
tokenmill tokenize data/ --tokenizer mine.json --eos none --pad 0 --pack 64 --output packed/
tokenmill tokenize data/ --tokenizer gpt2 --output all/ --progress none --json
tokenmill tokenize data/ --tokenizer gpt2 --output shards/ --rank 3 --world-size 8
tokenmill tokenize --finish --output ranks/
"""
_EPILOG = """\
The same command again goes on where a run was stopped. Exit codes: 0 all is there, 3 all is done
and some records were put aside (see errors.jsonl), 2 a mistake or a stop, 1 the system,
130 Ctrl-C."""


# What a plan does not say, and so may be said when it is finished.
_FINISHING = (
    "finish", "output", "workers", "memory", "engine", "ray_address", "progress", "json", "help",
    "debug",
)  # fmt: skip


def add_parser(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "tokenize",
        help="turn files into shards of ids for training",
        description="Turns the documents of files into shards of ids.",
        examples=_EXAMPLES,
        epilog=_EPILOG,
    )
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="INPUT",
        help="text, .jsonl, .parquet, .arrow, .csv, .wet, each also .gz, .zst, .xz or .bz2; "
        "folders, globs, and - for standard input",
    )
    parser.add_argument("--tokenizer", help="a name, a file or a folder")
    parser.add_argument(
        "--output", required=True, metavar="DIR", help="a folder, or s3://bucket/folder"
    )
    parser.add_argument(
        "--format", choices=layouts.NAMES, default="megatron", help="the layout of the shards"
    )
    _add_input_options(parser)
    _add_output_options(parser)
    _add_run_options(parser)
    _add_scale_options(parser)
    defaults = {action.dest: action.default for action in parser._actions}
    parser.set_defaults(run=run, defaults=defaults)


def _add_input_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("documents")
    group.add_argument(
        "--input-format", choices=INPUT_FORMATS, help="whatever the files' names say"
    )
    group.add_argument(
        "--field", default=FIELD, help="where records have their text; a.b leads into a (text)"
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
    add_json(group)


def _add_scale_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("many machines, one file system")
    values.add_engine(group)
    group.add_argument(
        "--rank", type=values.whole_number(0), metavar="R", help="do one share of the units"
    )
    group.add_argument(
        "--world-size", type=values.whole_number(1), metavar="N", help="of so many shares"
    )
    group.add_argument(
        "--finish", action="store_true", help="seal the output of ranks that have done all units"
    )


def run(options: argparse.Namespace) -> int:
    _check(options)
    try:
        result = _finish(options) if options.finish else _tokenize(options)
    except KeyboardInterrupt:
        sys.stderr.write("tokenmill: stopped; what is done stays, and the same command goes on\n")
        raise
    if options.json:
        say_json(_totals(result))
    else:
        _say(result)
    return 0 if result.is_complete else QUARANTINED


def _check(options: argparse.Namespace) -> None:
    others = [
        name
        for name, default in options.defaults.items()
        if name not in _FINISHING and getattr(options, name) not in (default, [])
    ]
    if options.finish and others:
        raise TokenizeError(
            f"--finish takes the folder as its plan has it, and no {_named(others[0])}: "
            "tokenmill tokenize --finish --output DIR"
        )
    if not options.finish and not (options.inputs and options.tokenizer):
        missing = "--tokenizer" if options.inputs else "INPUT"
        raise TokenizeError(f"{missing} is missing; tokenmill tokenize --help shows examples")


def _named(option: str) -> str:
    return "INPUT" if option == "inputs" else "--" + option.replace("_", "-")


def _finish(options: argparse.Namespace) -> Result:
    with shown(options.progress) as progress:
        return finish(
            options.output,
            workers=options.workers,
            memory=options.memory,
            engine=options.engine,
            ray_address=options.ray_address,
            progress=progress,
        )


def _tokenize(options: argparse.Namespace) -> Result:
    if STDIN in options.inputs:
        streams.check_inputs([STDIN])
    tokenizer = Tokenizer.load(options.tokenizer)
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
            engine=options.engine,
            ray_address=options.ray_address,
            rank=options.rank,
            world_size=options.world_size,
            progress=progress,
        )


def _totals(result: Result) -> dict[str, Any]:
    return result.totals | {
        "output": str(result.folder),
        "eos": result.options.eos,
        "units_resumed": result.units_resumed,
        "failures": [
            {"path": source["path"], "error": source["error"]} for source in result.failures
        ],
    }


def _say(result: Result) -> None:
    totals, options = result.totals, result.options
    eos = options.eos
    named = "nothing" if eos is None else f"{result.tokenizer.decode([eos])} ({eos})"
    verb = "begins" if options.layout == "llmc" else "ends"
    say(
        f"{result.folder}: {count_of(totals['documents'], 'document')}, "
        f"{count_of(totals['tokens'], 'token')} ({options.dtype}) in "
        f"{count_of(totals['shards'], 'shard')}; each {verb} with {named}"
    )
    if result.is_sealed and result.units_resumed == result.units_total:
        say("all of it was there already: nothing was left to do")
    if not result.is_sealed:
        say(
            f"this is {count_of(result.units, 'unit')} of "
            f"{result.units_total:,}; when all ranks are done: "
            f"tokenmill tokenize --finish --output {result.folder}"
        )
    if totals["quarantined"]:
        records = count_of(totals["quarantined"], "record")
        say(f"{records} gave no document: see {result.folder}/errors.jsonl")
    for source in result.failures[:_FAILURES_SHOWN]:
        say(f"{source['path']}: {source['error']}")
    if len(result.failures) > _FAILURES_SHOWN:
        say(f"and {len(result.failures) - _FAILURES_SHOWN:,} more inputs")
