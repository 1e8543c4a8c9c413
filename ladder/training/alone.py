"""A step and a command line → the merges that the step learns, printed one per line.

Each step is a program: `python ladder/training/step09_compaction.py corpus.txt --merges 20`. Python
finds this module next to the step.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Pair = tuple[int, int]
Train = Callable[[str, Any, int], list[Pair]]
ROOT = Path(__file__).resolve().parents[2]


def main(train: Train) -> None:
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    from ladder.errors import LadderError
    from ladder.training import texts
    from ladder.training.patterns import pattern_for
    from tokenmill.patterns.schemes import pattern_of

    module = sys.modules[train.__module__]
    title, _, idea = (module.__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=title, epilog=idea, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "file", type=Path, nargs="?", help="text file (default: Python's own documents)"
    )
    parser.add_argument("--max-mb", type=float, default=1, help="megabytes of text (default: 1)")
    parser.add_argument("--vocab-size", type=int, default=500, help="(default: 500)")
    parser.add_argument("--merges", type=int, default=20, help="merges to print (default: 20)")
    parser.add_argument("--pattern", default="gpt2", help="pattern or its name (default: gpt2)")
    options = parser.parse_args()
    bytes_max = int(options.max_mb * 1e6)
    try:
        if options.file:
            text = texts.read(options.file, bytes_max)
        else:
            text = texts.prose(bytes_max).decode(errors="ignore")
        pattern = pattern_for(pattern_of(options.pattern), text)
    except (OSError, LadderError) as error:
        parser.error(str(error))
    merges = train(text, pattern, options.vocab_size)
    sys.stdout.writelines(f"{line}\n" for line in lines(merges, options.merges))


def lines(merges: list[Pair], count: int) -> list[str]:
    """Return the first merges as text: the new id, the two ids, and the new token."""
    tokens = [bytes([byte]) for byte in range(256)]
    for left, right in merges:
        tokens.append(tokens[left] + tokens[right])
    shown = [
        f"{new:>6} = {left:>5} + {right:<5}  {tokens[left]!r} + {tokens[right]!r}"
        for new, (left, right) in enumerate(merges[:count], 256)
    ]
    if len(merges) > count:
        shown.append(f"and {len(merges) - count:,} more; pass --merges {len(merges)} for all")
    return shown
