"""Definitions of the package → the generated tables of docs/: commands, errors and limits.

    python tools/reference_tables.py        # after a change of an option, an error or a limit

Each table replaces the text between two markers of its page. tests/project/test_docs.py compares
the pages with the package.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from tokenmill import errors, native
from tokenmill.cli import app
from tokenmill.corpus import csv, documents
from tokenmill.formats import build, checks, tokenizer_json
from tokenmill.patterns import parse, program
from tokenmill.tokenizing import options as tokenizing
from tokenmill.tokenizing import plan
from tokenmill.training import options as training
from tokenmill.training import sentencepiece

DOCS = Path(__file__).resolve().parents[1] / "docs"


def main() -> None:
    for name, make in PAGES.items():
        path = DOCS / name
        path.write_text(with_blocks(path.read_text("utf-8"), make()), "utf-8")


def with_blocks(page: str, blocks: dict[str, str]) -> str:
    """Return a page with new text between the markers of each block."""
    for name, block in blocks.items():
        marked = re.compile(f"(<!-- {name}:start -->\n).*?(<!-- {name}:end -->)", re.DOTALL)
        parts = marked.split(page)
        if len(parts) != 4:
            raise ValueError(f"the page needs one block {name!r}")
        page = f"{parts[0]}{parts[1]}{block}\n{parts[2]}{parts[3]}"
    return page


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    cells = ([cell.replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)


# Commands


def commands() -> dict[str, str]:
    found = app.COMMANDS.items()
    rows = [[f"[`tokenmill {name}`](#{name})", summary] for name, (_, summary) in found]
    sections = [section for name in app.COMMANDS for section in describe_command(name)]
    return {"commands": table(["command", "purpose"], rows), "options": "\n\n".join(sections)}


def describe_command(name: str) -> Iterator[str]:
    """Yield the heading of a command, its purpose, and a table per group of options."""
    [parser] = [p for p in app.every_parser(app.make_parser([name])) if p.prog.endswith(f" {name}")]
    yield f"### {name}"
    if parser.description:
        yield " ".join(parser.description.split())
    groups: dict[str, list[list[str]]] = {}
    for group in parser._action_groups:
        title = "arguments" if group.title in ("positional arguments", "options") else group.title
        rows = [option_row(action) for action in group._group_actions]
        groups.setdefault(title or "", []).extend(row for row in rows if row)
    for title, rows in groups.items():
        if rows:
            yield table([title, "meaning"], rows)


def option_row(action: argparse.Action) -> list[str]:
    """Return the cells of an option. Those of every command have none."""
    if action.dest in ("help", "debug"):
        return []
    value = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
    names = action.option_strings or [str(value)]
    shown = ", ".join(f"`{name}`" for name in names)
    if action.option_strings and value:
        shown = shown[:-1] + f" {value}`"
    return [shown, escape((action.help or "").replace("%%", "%"))]


def escape(text: str) -> str:
    """Mark flags, names in capitals with `=` and special tokens as code."""
    return re.sub(r"(<\|\w+\|>|\{\w+\}|\bPATTERN=FIELD\b|(?<!\w)--[a-z-]+)", r"`\1`", text)


# Errors and exit codes


def problems() -> dict[str, str]:
    found = [
        [f"`{name}`", ", ".join(f"`{base.__name__}`" for base in kind.__bases__), summary(kind)]
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and kind.__module__ == errors.__name__
    ]
    codes = [[str(code), meaning] for code, meaning in app.CODES.items()]
    return {
        "errors": table(["class", "also a", "meaning"], found),
        "exit-codes": table(["code", "meaning"], codes),
    }


def summary(kind: type) -> str:
    first = (inspect.getdoc(kind) or "").split("\n\n")[0]
    return " ".join(first.split()).rstrip(".")


# Limits


def limits() -> dict[str, str]:
    rows = [
        ["caches of all tokenizers of a process", amount(native.cache_limit()), "`cache_limit`"],
        ["record: a JSON line, a WARC record, a table cell", amount(documents.DOCUMENT_BYTES),
         "`--max-document-bytes`"],
        ["text without a safe split point, in `tokenize`", amount(tokenizing.MAX_UNSPLIT_BYTES),
         "`--max-unsplit-bytes`"],
        ["row of a CSV file", amount(csv.ROW_BYTES_MAX), ""],
        ["part of a rejected record that is kept", amount(documents.RECORD_BYTES_MAX), ""],
        ["tasks of a run", f"{plan.TASKS_MAX:,}", "`--task-bytes` grows with the inputs"],
        ["memory of `tokenize`, at least", f"{amount(tokenizing.MEMORY_MIN)} and "
         f"{amount(tokenizing.MEMORY_PER_THREAD)} per thread", "`--memory`"],
        ["memory of `train`, at least", amount(training._MEMORY_MIN), "`--memory`"],
        ["packed sequence", f"{tokenizing._SEQUENCE_MAX:,} tokens", "`--sequence-length`"],
        ["trained vocabulary", f"{training.VOCAB_SIZE_MAX:,} tokens", "`--vocab-size`"],
        ["line for SentencePiece's trainer", f"{sentencepiece.SENTENCE_BYTES_MAX:,} bytes", ""],
        ["tokenizer file", amount(checks.BYTES_MAX), ""],
        ["depth of a `tokenizer.json`", f"{checks.NESTING_MAX} components", ""],
        ["added tokens of a `tokenizer.json`", f"{tokenizer_json.ADDED_MAX:,}", ""],
        ["items of a template", f"{tokenizer_json.ITEMS_MAX}", ""],
        ["growth of a text by a normalizer", f"{build.GROWTH_MAX:,} times", ""],
        ["pattern", f"{parse.PATTERN_CHARS_MAX:,} characters, {program.INSTRUCTIONS_MAX} "
         "instructions", ""],
    ]  # fmt: skip
    return {"limits": table(["subject", "limit", "changed by"], rows)}


def amount(count: int) -> str:
    for shift, unit in ((20, "MiB"), (10, "KiB")):
        if count % (1 << shift) == 0:
            return f"{count >> shift:,} {unit}"
    return f"{count:,} bytes"


PAGES = {"cli.md": commands, "errors.md": problems, "limits.md": limits}

if __name__ == "__main__":
    main()
