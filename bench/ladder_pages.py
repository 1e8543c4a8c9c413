"""The training ladder, small and large → results/ladder.json, and docs/ladder.md with its plot.

    ladder_pages.py [--runs 3]     measures and renders: 15 minutes on an idle machine
    ladder_pages.py --only large --large-mb 40 --large-size 10000     one run with other sizes
    ladder_pages.py --render       renders the measured results

The small run is `python -m ladder training`: all steps on the documentation of Python. The large
run omits the steps that would take hours. Its text is English of the shared data, or of installed
packages. The results contain no text.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import corpora
import machine
from markdown import table, write_block

sys.path.insert(0, str(machine.ROOT))

from ladder.runner import megabytes, speed_up, spread
from ladder.training.command import plot
from ladder.training.steps import STEPS, Measurement, Skipped, Step

ROOT = machine.ROOT
RESULTS = ROOT / "bench" / "results" / "ladder.json"
PAGE = ROOT / "docs" / "ladder.md"
PICTURE = ROOT / "docs" / "ladder.svg"
SOURCES = ROOT / "ladder" / "training"
LARGE_CORPUS = "en-real"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--runs", type=int, default=3, help="number of interleaved runs (default: 3)"
    )
    parser.add_argument(
        "--only", choices=("small", "large"), help="run that is measured (default: both)"
    )
    parser.add_argument("--large-mb", type=int, default=4)
    parser.add_argument(
        "--large-size",
        type=int,
        default=3000,
        help="vocabulary size of the large run (default: 3000)",
    )
    parser.add_argument("--render", action="store_true", help="render the measured results")
    options = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if not options.render:
        load = round(os.getloadavg()[0], 1)
        results |= {"machine": machine.describe(), "load": load, "date": time.strftime("%Y-%m-%d")}
        for name, arguments in runs(options).items():
            if options.only in (None, name):
                results[name] = _ladder(*arguments) | {"runs": options.runs}
                RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    render(results)


def runs(options: argparse.Namespace) -> dict[str, tuple[str, ...]]:
    """Return the arguments of both runs, and write the text of the large one."""
    common = ("--limit", "0", "--runs", str(options.runs))
    text = corpora.FOLDER / "ladder.txt"
    if options.only != "small":
        corpora.prepare(LARGE_CORPUS)
        documents = corpora.first(LARGE_CORPUS, options.large_mb)
        text.write_text(corpora.SEPARATOR.join(documents), encoding="utf-8")
    sizes = ("--max-mb", str(options.large_mb), "--vocab-size", str(options.large_size))
    return {
        "small": ("--max-mb", "1", "--vocab-size", "500", *common),
        "large": (str(text), *sizes, "--steps", "5-15", *common),
    }


def _ladder(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "ladder", "training", *arguments, "--json"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def render(results: dict[str, Any]) -> None:
    small, large = results["small"], results["large"]
    rows = [Measurement(**row) for row in small["steps"]]
    skipped = [Skipped(**row) for row in small["skipped"]]
    PICTURE.write_text(plot(rows, skipped, _configuration(small)), encoding="utf-8")
    block = steps_table(rows, large)
    print(block)
    write_block(PAGE, "ladder", block)
    write_block(PAGE, "machine", machine_line(results))
    write_block(PAGE, "changes", changes())


def steps_table(rows: list[Measurement], large: dict[str, Any]) -> str:
    large_rows = {row["step"]: Measurement(**row) for row in large["steps"]}
    small_rows = {row.step: row for row in rows}
    first = small_rows.get(1)
    lines = [
        [
            "step",
            "new lines",
            "CPU time",
            "over previous",
            "over step 1",
            "memory",
            "large: CPU time",
            "memory",
        ]
    ]
    for row in rows:
        big = large_rows.get(row.step)
        lines.append([
            f"{row.step} [{row.name}](../{_source(row.step).relative_to(ROOT).as_posix()})",
            str(new_lines(STEPS[row.step - 1])),
            spread(row.cpu_seconds, row.cpu_min, row.cpu_max),
            _times(small_rows.get(STEPS[row.step - 1].base), row),
            _times(first, row),
            megabytes(row.added_mb),
            spread(big.cpu_seconds, big.cpu_min, big.cpu_max) if big else "",
            megabytes(big.added_mb) if big else "",
        ])  # fmt: skip
    return table(lines)


def _times(other: Measurement | None, row: Measurement) -> str:
    if other is None or other.step == row.step:
        return ""
    return speed_up(other.cpu_seconds, row.cpu_seconds)


def _source(number: int) -> Path:
    return SOURCES / f"{STEPS[number - 1].module}.py"


def new_lines(step: Step) -> int:
    """Return how many lines of code a step adds to the step that it builds on."""
    return sum(line[:1] == "+" and line[:3] != "+++" and line[1:] > "" for line in step.changes())


def changes() -> str:
    """Return a folded block per step with its change, as `--diff` shows it."""
    blocks = []
    for step in STEPS[1:]:
        base = STEPS[step.base - 1]
        diff = "\n".join(line.rstrip() for line in step.changes())
        title = f"{step.number} {step.name}: {new_lines(step)} new lines after step {base.number}"
        blocks.append(
            f'<details markdown="1">\n<summary>{title}</summary>\n\n'
            f"```diff\n{diff}\n```\n\n</details>"
        )
    return "\n\n".join(blocks)


def _size(run: dict[str, Any]) -> str:
    return f"{run['text_bytes'] / 1e6:.0f} MB, {256 + run['merges']:,}"


def _configuration(run: dict[str, Any]) -> str:
    return f"{_size(run)} tokens, Python {run['python']}"


def machine_line(results: dict[str, Any]) -> str:
    where, small, large = results["machine"], results["small"], results["large"]
    return (
        f"{where['cpu']}, {where['cores']} cores, {where['system']}, Python {small['python']}, "
        f"{results['date']}, load average at the start {results['load']}; medians of interleaved "
        f"runs, each in a new process. Small: {_size(small)} tokens, documentation of Python, "
        f"runs: {small['runs']}. Large: {_size(large)} tokens, English, runs: {large['runs']}. "
        "`make ladder`."
    )


if __name__ == "__main__":
    main()
