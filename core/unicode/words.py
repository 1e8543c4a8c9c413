"""The tables of the pattern compiler → core/unicode/words.zig: the characters of \\w

Run by hand, after generate.py, from the root of the repository:

    python core/unicode/words.py

**Invariant**: the output depends on src/tokenmill/patterns/unicode16.bin alone.
"""

from pathlib import Path

from tokenmill.patterns import unicode

TABLE = Path(__file__).with_name("words.zig")
HEADER = """\
//! The code points of \\w in Rust's regex, as the starts and ends of runs.
//!
//! Written by core/unicode/words.py; do not edit.

pub const edges = [_]u21{
"""


def lines() -> list[str]:
    edges = [edge for run in unicode.word().ranges() for edge in run]
    rows = [edges[start : start + 10] for start in range(0, len(edges), 10)]
    return ["    " + " ".join(f"0x{edge:x}," for edge in row) for row in rows]


TABLE.write_text(HEADER + "\n".join(lines()) + "\n};\n")
