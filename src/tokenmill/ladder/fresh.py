"""A step of a ladder in a fresh process → what it says of itself, and its peak memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import tokenmill
from tokenmill.errors import LadderError

_SAMPLE_SECONDS = 0.01


def run(module: str, arguments: list[str], name: str) -> tuple[dict[str, Any], int]:
    """The JSON object that a module prints, run with `python -m`, and its peak in bytes."""
    root = str(Path(tokenmill.__file__).parent.parent)
    paths = [root, os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    watch = _Watch(process)
    watch.start()
    try:
        said, wrong = process.communicate()
    finally:
        process.kill()
        watch.join()
    if process.returncode:
        lines = wrong.strip().splitlines() or ["it said nothing"]
        raise LadderError(f"the step {name!r} failed: {lines[-1]}")
    return json.loads(said), watch.bytes


class _Watch(threading.Thread):
    """Looks again and again at how much memory a process and its children have."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        super().__init__(daemon=True)
        self._process = process
        self.bytes = 0

    def run(self) -> None:
        while self._process.poll() is None:
            self.bytes = max(self.bytes, _tree_bytes(self._process.pid))
            time.sleep(_SAMPLE_SECONDS)


def _tree_bytes(pid: int) -> int:
    """What a process and all below it have in memory, without pages of files."""
    total = 0
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        total = sum(
            int(line.split()[1]) * 1024 for line in status.splitlines() if line[:7] == "RssAnon"
        )
        for task in Path(f"/proc/{pid}/task").iterdir():
            children = (task / "children").read_text().split()
            total += sum(_tree_bytes(int(child)) for child in children)
    except OSError:
        pass  # gone in the meantime, or no Linux
    return total
