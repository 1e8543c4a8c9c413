"""Paths of outputs → errors before hours of work."""

from __future__ import annotations

import os
from pathlib import Path

from tokenmill.errors import OptionError, TrainingError


def check_plot(path: Path) -> None:
    """Raise if a plot is not an SVG file."""
    if path.suffix.lower() != ".svg" and (path.is_file() or not path.exists()):
        raise OptionError(f"plot must be an SVG file such as plot.svg, got {str(path)!r}")


def check_outputs(paths: list[Path], inputs: list[str]) -> None:
    """Raise if an output cannot be written, or would replace an input or another output."""
    read = {os.path.realpath(name) for name in inputs if Path(name).exists()}
    written: set[str] = set()
    for path in paths:
        if str(path) == "-":
            raise TrainingError(
                "output must be a file, got '-'; pass a name such as tokenizer.json"
            )
        if path.is_dir():
            raise TrainingError(f"output {str(path)!r} is a folder; pass a file inside it")
        if not path.parent.is_dir():
            raise TrainingError(f"folder of output {str(path)!r} not found; create it first")
        if path.exists() and not path.is_file():
            continue
        if not os.access(path.parent, os.W_OK):
            raise TrainingError(
                f"output {str(path)!r} is in a read-only folder; pass another folder"
            )
        target = os.path.realpath(path)
        if target in read:
            raise TrainingError(f"output {str(path)!r} is also an input; pass another path")
        if target in written:
            raise TrainingError(f"output {str(path)!r} is given twice; pass another path")
        written.add(target)
