"""The ladders in this process, for tests that need neither times nor memory."""

from __future__ import annotations

import io
import json
import runpy
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from conftest import FUZZ
from in_process import Completed, run_main

from ladder import runner
from ladder.__main__ import main
from tokenmill.cli.libraries import memory_bytes


def run_ladder(*arguments: str | Path, **more: Any) -> Completed:
    """Runs `python -m ladder ARGUMENTS`."""
    return run_main(*arguments, program=main, **more)


def keep_steps(patch: pytest.MonkeyPatch, *apart: str) -> None:
    """By default the steps of a ladder run in this process, but for those of the names `apart`.

    In `make test-all` each step has a process of its own, as the ladders say.
    """
    if FUZZ >= 100:
        return
    run = runner.run_fresh

    def run_here(module: str, arguments: list[str], name: str) -> tuple[dict[str, Any], int]:
        if name in apart:
            return run(module, arguments, name)
        said = io.StringIO()
        with pytest.MonkeyPatch.context() as inner, warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the module was imported before
            inner.setattr(sys, "argv", [module, *arguments])
            inner.setattr(sys, "stdout", said)
            runpy.run_module(module, run_name="__main__")
        return json.loads(said.getvalue()), memory_bytes()

    patch.setattr(runner, "run_fresh", run_here)
