"""Vocabularies × corpora → how many documents have equal ids, offsets and text: `make parity`.

Every vocabulary of the shared data and every family of tests/helpers/families.py is compared with
its library, on all corpora, the hard inputs and generated strings. The table goes into
docs/compatibility.md. A difference is printed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "helpers"), str(TESTS / "parity")]

import families  # noqa: E402
import hard_inputs  # noqa: E402
import pairs  # noqa: E402
import sides  # noqa: E402
from compare import as_text  # noqa: E402
from conftest import SEED  # noqa: E402
from sides import Sides  # noqa: E402

PAGE = TESTS.parent / "docs" / "compatibility.md"
BEGIN, END = "<!-- parity: begin -->", "<!-- parity: end -->"
BATCH = 200
HARD_BYTES = 20_000
FAMILY, FAMILY_DOCUMENTS = " (family)", 200


def compare(side: Sides, texts: Iterable[str]) -> tuple[int, list[str]]:
    """How many texts were compared, and what differs."""
    count = 0
    wrong: list[str] = []
    for batch in _batches(texts):
        expected = side.encode(batch)
        got = side.ours.encode_batch(batch, allowed_special=side.special_tokens)
        decoded = side.decode([ids for ids, _ in expected])
        for text, (ids, spans), ours, plain in zip(batch, expected, got, decoded, strict=True):
            count += 1
            if ours != ids:
                wrong.append(f"ids of {text[:200]!r}: {ours[:20]}, not {ids[:20]}")
                continue
            if side.ours.decode(ids) != plain:
                wrong.append(f"text of {ids[:20]}: {side.ours.decode(ids)[:99]!r}, not {plain!r}")
            if spans is None:
                continue
            found = side.ours.encode_with_offsets(text, allowed_special=side.special_tokens)
            if found != (ids, spans):
                at = next(i for i in range(len(ids)) if found[1][i] != spans[i])
                wrong.append(
                    f"offsets of {text[:200]!r}: id {at} is at {found[1][at]}, not {spans[at]}"
                )
    return count, wrong


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    left = iter(texts)
    while batch := list(islice(left, BATCH)):
        yield batch


def columns(side: Sides, options: argparse.Namespace) -> Iterator[tuple[str, Iterable[str]]]:
    """The texts of each column."""
    is_family = side.name.endswith(FAMILY)
    limit = min(options.documents, FAMILY_DOCUMENTS) if is_family else options.documents
    for name, path in sides.corpora().items():
        yield name, islice(sides.documents(path), limit)
    yield "hard", (as_text(data) for _, data in hard_inputs.files(HARD_BYTES))
    yield "strings", filter(sides.is_plain, hard_inputs.STRINGS)
    yield "generated", sides.generated(side.names, options.generated, SEED)


def all_sides() -> Iterator[Sides]:
    yield from sides.embedded_sides()
    yield from sides.shared_sides()
    for name, source in families.all_families().items():
        yield sides.of_tokenizers(name + FAMILY, source)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=10**9, help="of each corpus at most")
    parser.add_argument("--generated", type=int, default=10_000)
    parser.add_argument("--only", default="", help="vocabularies whose name holds this")
    parser.add_argument("--write", action="store_true", help="into docs/compatibility.md")
    options = parser.parse_args()
    rows: dict[str, dict[str, int]] = {}
    failed = 0
    for side in all_sides():
        if options.only not in side.name:
            continue
        start = time.perf_counter()
        row = rows.setdefault(f"{side.name}|{side.library}", {})
        for column, texts in columns(side, options):
            row[column], wrong = compare(side, texts)
            failed += _complain(side.name, column, wrong)
        if side.source:
            row["pairs"], wrong = pairs.compare(side, options.generated, SEED)
            failed += _complain(side.name, "pairs", wrong)
        seconds = time.perf_counter() - start
        print(f"{side.name}: {sum(row.values()):,} texts in {seconds:.0f} s", flush=True)
    table = render(rows)
    print(table)
    print(f"{sum(map(len, rows.values()))} cells, {failed} differences, seed {SEED}")
    if options.write:
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        PAGE.write_text(before + BEGIN + "\n" + table + END + rest.split(END)[1], encoding="utf-8")
    return int(failed > 0)


def _complain(name: str, column: str, wrong: list[str]) -> int:
    for line in wrong[:5]:
        print(f"{name} × {column}: {line}", file=sys.stderr)
    return len(wrong)


def render(rows: dict[str, dict[str, int]]) -> str:
    """A table in Markdown: how many documents are equal, all of them unless it says otherwise."""
    names = list(dict.fromkeys(column for row in rows.values() for column in row))
    lines = [
        "| vocabulary | library | " + " | ".join(names) + " |",
        "|---|---|" + "---:|" * len(names),
    ]
    for row, cells in rows.items():
        name, library = row.split("|")
        shown = (f"{cells[column]:,}" if column in cells else "" for column in names)
        lines.append(f"| {name} | {library} | " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
