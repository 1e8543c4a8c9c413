"""A build of the core → instructions per call, compared with a baseline.

    instructions.py --save FILE        measure and save a baseline
    instructions.py --check FILE       measure, compare with a baseline, and fail if it is worse
    instructions.py --functions 8      also print the functions with the most instructions

The calls are encoding (cold and warm), counting, offsets, truncation, sessions and short calls in
five languages and three vocabularies, and training. Valgrind counts the instructions between two
client requests, so the result does not depend on the names of functions. Counts repeat from run to
run, unlike times. Valgrind has no AVX-512, so scanning is counted at x86-64-v3.

A check fails if a cell has over 2 % more instructions, if ids, merges or counts differ, if a cell
is missing, and if a count is too small to be true.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import itertools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

# isort: split
from documents import packed, unpack
from instruction_cells import LANGUAGES

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
VOCABULARIES = ("r50k_base", "cl100k_base", "o200k_base")
GROUPS = (*VOCABULARIES, "training")
BYTES = 100_000  # of text per language
GROWTH_MAX = 2  # per cent
CELL_MIN = 10_000  # instructions; the smallest cell has more
PER_BYTE_MIN = 1.0  # instructions; a call that reads a text has more

MARKER = """
const callgrind = @import("std").valgrind.callgrind;
export fn begin() void { callgrind.zeroStats(); }
export fn end(name: [*:0]const u8) void { callgrind.dumpStatsAt(name); }
"""

Cells = dict[str, dict[str, Any]]
Report = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--save", type=Path, help="file of the baseline to write")
    parser.add_argument("--check", type=Path, help="file of the baseline to compare with")
    parser.add_argument("--functions", type=int, default=0, help="number of functions (default: 0)")
    parser.add_argument("--groups", nargs="+", default=GROUPS, choices=GROUPS, help="groups to run")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("valgrind not found; install it with: apt install valgrind")
    if options.save and tuple(options.groups) != GROUPS:
        sys.exit("--save needs all groups; omit --groups")
    tasks = list(itertools.product(options.groups, LANGUAGES))
    report = measure(tasks, options.functions)
    if options.save:
        problems = find_problems(report)
        options.save.write_text(json.dumps(report, indent=1, sort_keys=True) + "\n")
    elif options.check:
        baseline = json.loads(options.check.read_text())
        baseline["cells"] = {
            name: cell
            for name, cell in baseline["cells"].items()
            if name.split()[0] in options.groups
        }
        problems = compare(baseline, report)
        if problems:
            # Memory addresses differ between runs, and a few counts with them. A cell is worse if
            # both of two counts are.
            failed = {tuple(name.split()[:2]) for name in grown(baseline, report)}
            again = measure([task for task in tasks if task in failed])
            keep_smaller(report, again)
            problems = compare(baseline, report)
    else:
        problems = find_problems(report)
    for name, cell in report["cells"].items():
        print(f"{cell['instructions']:>14,}  {name}")
    if problems:
        sys.exit("\n".join(problems))


def find_problems(report: Report) -> list[str]:
    """Return the measurements that cannot be true."""
    problems = [] if report["cells"] else ["no cell was measured"]
    for name, cell in report["cells"].items():
        least = max(CELL_MIN, PER_BYTE_MIN * cell["bytes"])
        if cell["instructions"] < least:
            problems.append(f"{name}: {cell['instructions']} instructions, expected {least:.0f}")
        warm = report["cells"].get(name.removesuffix("cold") + "warm")
        if name.endswith(" cold") and warm and cell["instructions"] <= warm["instructions"]:
            problems.append(f"{name}: not more instructions than warm")
    return problems


def compare(baseline: Report, report: Report) -> list[str]:
    """Return the reasons for a report to fail against a baseline, none if it passes."""
    if baseline["setting"] != report["setting"]:
        was, now = baseline["setting"], report["setting"]
        names = [name for name in {**was, **now} if was.get(name) != now.get(name)]
        return [f"{name}: baseline {was.get(name)}, now {now.get(name)}" for name in sorted(names)]
    before, after = baseline["cells"], report["cells"]
    problems = find_problems(baseline) + find_problems(report)
    problems += [f"{name}: not measured" for name in before if name not in after]
    problems += [f"{name}: not in the baseline" for name in after if name not in before]
    changes = []
    for name in before.keys() & after.keys():
        if before[name]["digest"] != after[name]["digest"]:
            problems.append(f"{name}: the result differs")
        if before[name]["bytes"] != after[name]["bytes"]:
            problems.append(f"{name}: the text differs")
        change = after[name]["instructions"] / max(before[name]["instructions"], 1) - 1
        changes.append((change, name))
    growth = {name: change for change, name in changes}
    problems += [f"{name}: {growth[name]:+.2%} instructions" for name in grown(baseline, report)]
    if changes:
        (least, best), (most, worst) = min(changes), max(changes)
        print(f"{len(changes)} cells, from {least:+.2%} ({best}) to {most:+.2%} ({worst})")
    if "module_bytes" in baseline:
        print(f"module: {baseline['module_bytes']:,} → {report['module_bytes']:,} bytes")
    return problems


def grown(baseline: Report, report: Report) -> list[str]:
    """Return the cells with too many instructions."""
    before, after = baseline["cells"], report["cells"]
    return [
        name
        for name in before.keys() & after.keys()
        if after[name]["instructions"] * 100 > before[name]["instructions"] * (100 + GROWTH_MAX)
    ]


def keep_smaller(report: Report, again: Report) -> None:
    """Replace counts by smaller ones of a second run with the same results."""
    for name, cell in again["cells"].items():
        first = report["cells"][name]
        if cell["digest"] == first["digest"]:
            first["instructions"] = min(first["instructions"], cell["instructions"])


def measure(tasks: list[tuple[str, str]], functions: int = 0, size: int = BYTES) -> Report:
    """Build the core, run all cells of these groups and languages, and return their counts."""
    with fixed_folder() as folder:
        package = folder / "package" / "tokenmill"
        shutil.copytree(
            ROOT / "src" / "tokenmill", package, ignore=shutil.ignore_patterns("__pycache__")
        )
        build = [sys.executable, ROOT / "core" / "build.py", "--out", package]
        names = {"TOKENMILL_KEEP_NAMES": "1"} if functions else {}
        subprocess.run(build, env={**os.environ, **names}, stdout=subprocess.DEVNULL, check=True)
        setting = {"python": platform.python_version(), "valgrind": valgrind_version()}
        for language in LANGUAGES:
            text = read_text(language, size)
            setting[language] = hashlib.sha256(text).hexdigest()[:16]
            (folder / f"{language}.txt").write_bytes(text)
        marker = compile_marker(folder)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            runs = pool.map(
                lambda task: run_task(*task, folder, marker, functions, size),
                tasks,
            )
            cells = {cell: count for run in runs for cell, count in run.items()}
        module = next(package.glob("_native.*.so")).stat().st_size
    return {"setting": setting, "module_bytes": module, "cells": cells}


@contextlib.contextmanager
def fixed_folder() -> Iterator[Path]:
    """An empty folder with the same path in every run, since Python hashes and copies paths."""
    folder = Path(tempfile.gettempdir()) / "tokenmill-instructions"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # waits for another run
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        yield folder
        shutil.rmtree(folder)


def read_text(language: str, size: int) -> bytes:
    """Return the first bytes of the packed documents of a language."""
    files = packed()
    if language not in files:
        sys.exit(f"corpus {language!r} not found; set TOKENMILL_DATA to a folder with corpus/")
    text = b""
    for document in unpack(files[language]):
        text += document.encode() + b"\n\n"
        if len(text) >= size:
            break
    return text[:size].decode("utf-8", "ignore").encode()


def valgrind_version() -> str:
    return subprocess.run(
        ["valgrind", "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()


def compile_marker(folder: Path) -> Path:
    """Compile the library whose two functions start and end a count."""
    sys.path.insert(0, str(ROOT / "core"))
    import build

    source, library = folder / "marker.zig", folder / "marker.so"
    source.write_text(MARKER)
    options = ["-O", "ReleaseSafe", "-fvalgrind", f"-femit-bin={library}"]
    build.zig("build-lib", "-dynamic", *options, source)
    return library


def run_task(
    group: str, language: str, folder: Path, marker: Path, functions: int, size: int
) -> Cells:
    """Run the cells of a group and a language, and join their results with callgrind's counts.

    Each task is a new process. Tokenizers of one vocabulary share a cache in a process, so a second
    language would not be cold.
    """
    here = folder / f"{group}-{language}"
    here.mkdir()
    results, dump = here / "results.json", here / "callgrind"
    # Without random addresses, objects have the same order in hash tables.
    fixed = ["setarch", "-R"] if shutil.which("setarch") else []
    command = [*fixed, "valgrind", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no"]
    command += [f"--callgrind-out-file={dump}", sys.executable, "-s", "-B"]
    arguments = [group, language, folder / f"{language}.txt", marker, results]
    # The size of the environment moves the stack, so it is the same in every run.
    environment = {"PYTHONHASHSEED": "0", "PYTHONPATH": str(folder / "package"), "PATH": "/usr/bin"}
    environment["OPENBLAS_NUM_THREADS"] = "1"
    done = subprocess.run(
        [*command, HERE / "instruction_cells.py", *map(str, arguments)],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{group} {language}: the measurement failed:\n{done.stderr[-2000:]}")
    cells: Cells = json.loads(results.read_text())
    counts = {}
    for path in here.glob("callgrind.*"):
        text = path.read_text()
        if found := re.search(r"^desc: Trigger: Client Request: (.+)$", text, re.MULTILINE):
            counts[found[1]] = read_total(text)
            if functions:
                print_functions(found[1], text, functions)
    return join_counts(cells, counts)


def join_counts(cells: Cells, counts: dict[str, int]) -> Cells:
    """Add its count to each cell. Exit if cells and counts do not match."""
    if cells.keys() != counts.keys():
        sys.exit(f"cells without a count or a result: {sorted(cells.keys() ^ counts.keys())}")
    return {name: {**cell, "instructions": counts[name]} for name, cell in cells.items()}


def read_total(dump: str) -> int:
    """Return the instructions of one dump of callgrind, 0 if it has none."""
    found = re.search(r"^(?:totals|summary): (\d+)", dump, re.MULTILINE)
    return int(found[1]) if found else 0


def print_functions(cell: str, dump: str, most: int) -> None:
    counts: Counter[str] = Counter()
    function, is_call = "", False
    for line in dump.splitlines():
        if line.startswith("fn="):
            function = re.sub(r"__anon_\d+", "", line[3:])
        elif line.startswith("calls="):
            is_call = True  # The next line has the instructions of the callee.
        elif re.match(r"[+*-]?\d* \d+$", line):
            if not is_call:
                counts[function] += int(line.split()[1])
            is_call = False
    for function, count in counts.most_common(most):
        print(f"{count:>14,}  {cell}: {function}")


if __name__ == "__main__":
    main()
