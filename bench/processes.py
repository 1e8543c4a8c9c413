"""One measurement → its result, from a new process."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

# isort: split
import corpora
from machine import core_count, without_folders
from systems import SIDE_FOLDER

HERE = Path(__file__).resolve().parent
REFERENCES = corpora.CACHE / "references.json"
MEASUREMENT_SECONDS_MAX = 120

Result = dict[str, Any]


def measure(
    system: str, vocabulary: str, job: str, corpus: str, threads: int, megabytes: float
) -> Result:
    arguments = [system, vocabulary, job, "--corpus", corpus]
    arguments += ["--threads", str(threads), "--megabytes", str(megabytes)]
    return run("measure.py", arguments, MEASUREMENT_SECONDS_MAX)


def run(script: str, arguments: list[str], seconds_max: float) -> Result:
    """Run a script of this folder and return its last line as JSON, or the failure."""
    command = [sys.executable, str(HERE / script), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds_max)
    except subprocess.TimeoutExpired:
        return {"status": f"timed out after {seconds_max:.0f} s"}
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        why = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return {"status": f"failed: exit {done.returncode}: {without_folders(why)[:200]}"}
    result: Result = json.loads(lines[-1])
    result["status"] = without_folders(result["status"])
    return result


def reference(vocabulary: str, corpus: str, megabytes: float) -> Result:
    """Return tiktoken's digests of a text, computed once and stored in the cache."""
    known: dict[str, Result] = json.loads(REFERENCES.read_text()) if REFERENCES.exists() else {}
    key = f"{vocabulary} {corpus} {corpora.prepare(corpus)['digest']} {megabytes}"
    if key not in known:
        # This is not timed, so it uses all cores.
        threads = core_count()
        known[key] = measure("tiktoken", vocabulary, "reference", corpus, threads, megabytes)
        if known[key]["status"] != "ok":
            sys.exit(f"reference ids of tiktoken failed: {known[key]['status']}")
        REFERENCES.write_text(json.dumps(known))
    return known[key]


def install_side(requirement: str | None) -> bool:
    """Install a second version of a package in a folder that only its measurements use."""
    if requirement is None or (SIDE_FOLDER / requirement).exists():
        return True
    partial = SIDE_FOLDER / f"{requirement}.part"
    tail = ["install", "--quiet", "--no-deps", "--target", str(partial), requirement]
    tools = [[sys.executable, "-m", "pip"]]
    if uv := shutil.which("uv"):
        tools.append([uv, "pip"])
    for tool in tools:
        if subprocess.run([*tool, *tail], capture_output=True).returncode == 0:
            partial.rename(SIDE_FOLDER / requirement)
            return True
    return False
