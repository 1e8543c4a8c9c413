"""Inputs → shards: `tokenmill tokenize` and `tokenmill finalize`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from tokenmill.cli import encode, progress
from tokenmill.cli.app import REJECTED
from tokenmill.cli.options import add_options, options_of
from tokenmill.cli.output import add_json, count_of, say, say_json
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing.options import RunOptions, TokenizeOptions
from tokenmill.tokenizing.run import Result, finalize, tokenize

_FAILURES_SHOWN = 10

_EXAMPLES = """
tokenmill tokenize data/*.jsonl --tokenizer o200k_base --output shards/
tokenmill tokenize book.txt --separator '\\n' --tokenizer gpt2 --format nanogpt --output nano/
tokenmill tokenize data/ --tokenizer gpt2 --sequence-length 64 --output packed/
tokenmill tokenize data/ --tokenizer gpt2 --output all/ --progress none --json
tokenmill tokenize data/ --tokenizer gpt2 --output shards/ --rank 3 --world-size 8
"""
_EPILOG = """\
The same command resumes a run that was stopped. Exit codes: 0 complete, 3 complete with rejected
records (see errors.jsonl), 2 wrong options or a run that has to stop, 1 OS error, 130 Ctrl-C."""


def add_parser(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "tokenize",
        help="convert files to shards of token ids",
        description="Convert the documents of files to shards of token ids.",
        examples=_EXAMPLES,
        epilog=_EPILOG,
    )
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="INPUT",
        help="text, .jsonl, .parquet, .arrow, .csv, .wet, each also .gz, .zst, .xz or .bz2; "
        "folders, globs, and - for standard input",
    )
    parser.add_argument("--tokenizer", required=True, help="tokenizer: a name, a file or a folder")
    parser.add_argument(
        "--output", required=True, metavar="DIR", help="folder or URL such as s3://bucket/folder"
    )
    add_options(parser, TokenizeOptions)
    progress.add_options(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def add_finalize_parser(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "finalize",
        help="complete the output of tokenize --rank",
        description="Write the manifest of an output when all ranks of its run are done.",
        examples="tokenmill finalize ranks/",
    )
    parser.add_argument("output", metavar="DIR", help="folder or URL of the ranks")
    add_options(parser, RunOptions)
    progress.add_options(parser)
    add_json(parser)
    parser.set_defaults(run=run_finalize)


def run(options: argparse.Namespace) -> int:
    encode.check_stdin(options.inputs)
    tokenizer = Tokenizer.load(options.tokenizer)
    given: Any = options_of(options, TokenizeOptions)
    return _report(
        options,
        lambda shown: tokenize(options.inputs, options.output, tokenizer, progress=shown, **given),
    )


def run_finalize(options: argparse.Namespace) -> int:
    given: Any = options_of(options, RunOptions)
    return _report(options, lambda shown: finalize(options.output, progress=shown, **given))


def _report(options: argparse.Namespace, act: Callable[[Any], Result]) -> int:
    try:
        with progress.show(options.progress) as shown:
            result = act(shown)
    except KeyboardInterrupt:
        sys.stderr.write("tokenmill: stopped; run the same command again to resume\n")
        raise
    if options.json:
        say_json(_as_json(result))
    else:
        _say(result)
    return 0 if result.is_complete else REJECTED


def _as_json(result: Result) -> dict[str, Any]:
    return {
        "documents": result.documents,
        "tokens": result.tokens,
        "bytes": result.bytes,
        "quarantined": result.quarantined,
        "shards": result.shards,
        "output": str(result.output),
        "eos": result.options["eos"],
        "tasks_resumed": result.tasks_resumed,
        "failures": [
            {"path": source["path"], "error": source["error"]} for source in result.failures
        ],
    }


def _say(result: Result) -> None:
    options = result.options
    eos = options["eos"]
    named = "nothing" if eos is None else f"{result.tokenizer.decode([eos])} ({eos})"
    verb = "begins" if options["format"] == "llmc" else "ends"
    say(
        f"{result.output}: {count_of(result.documents, 'document')}, "
        f"{count_of(result.tokens, 'token')} ({options['dtype']}) in "
        f"{count_of(result.shards, 'shard')}; each {verb} with {named}"
    )
    if result.is_final and result.tasks_resumed == result.tasks_total:
        say("the output was complete already")
    if not result.is_final:
        say(
            f"done: {count_of(result.tasks, 'task')} of {result.tasks_total:,}; when all ranks are "
            f"done, run tokenmill finalize {result.output}"
        )
    if result.quarantined:
        records = count_of(result.quarantined, "record")
        say(f"{records} rejected; see {result.output}/errors.jsonl")
    for source in result.failures[:_FAILURES_SHOWN]:
        say(f"{source['path']}: {source['error']}")
    if len(result.failures) > _FAILURES_SHOWN:
        say(f"and {len(result.failures) - _FAILURES_SHOWN:,} more inputs")
