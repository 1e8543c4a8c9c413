"""Hugging Face's tokenizers → core/pretokens/classes.zig

The Digits and Punctuation pre-tokenizers use other versions of Unicode than the patterns: 17.0 from
Rust, and an older list of punctuation. The script runs the library on each code point. Run it where
tokenizers is installed:

    python core/pretokens/generate_classes.py
"""

import subprocess
import sys
from pathlib import Path

import tokenizers
from tokenizers.pre_tokenizers import Digits, PreTokenizer, Punctuation

TARGET = Path(__file__).with_name("classes.zig")


def members(cutter: PreTokenizer) -> list[int]:
    """Return the code points that are a separate piece between two letters."""
    found = []
    for code_point in range(0x110000):
        if 0xD800 <= code_point < 0xE000:
            continue
        if len(cutter.pre_tokenize_str(f"a{chr(code_point)}a")) == 3:
            found.append(code_point)
    return found


def ranges(code_points: list[int]) -> list[tuple[int, int]]:
    """Return runs of code points, with exclusive ends."""
    runs: list[tuple[int, int]] = []
    for code_point in code_points:
        if runs and runs[-1][1] == code_point:
            runs[-1] = (runs[-1][0], code_point + 1)
        else:
            runs.append((code_point, code_point + 1))
    return runs


def table(name: str, code_points: list[int]) -> str:
    """A sorted array of the bounds where membership changes."""
    bounds = [f"0x{bound:X}" for run in ranges(code_points) for bound in run]
    lines = (bounds[start : start + 8] for start in range(0, len(bounds), 8))
    rows = "".join("    " + ", ".join(line) + ",\n" for line in lines)
    return f"pub const {name} = [_]u21{{\n{rows}}};\n"


def main() -> None:
    text = (
        f"//! Digits and punctuation of tokenizers {tokenizers.__version__} → the code points\n"
        "//! where membership begins and ends, in turn.\n"
        "//!\n"
        "//! Written by core/pretokens/generate_classes.py; do not edit.\n"
        "\n"
        + table("digits", members(Digits(individual_digits=True)))
        + "\n"
        + table("punctuation", members(Punctuation("isolated")))
    )
    zig = [sys.executable, "-m", "ziglang", "fmt", "--stdin"]
    formatted = subprocess.run(zig, input=text, capture_output=True, text=True, check=True)
    TARGET.write_text(formatted.stdout)


if __name__ == "__main__":
    main()
