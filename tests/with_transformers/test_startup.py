"""TOKENMILL_PATCH=transformers patches programs that do not name tokenmill.

Tests of compat/startup.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import small

SRC = Path(__file__).resolve().parents[2] / "src"
# A server loads its tokenizer in another process, which does not inherit a patch.
PROGRAM = """
import multiprocessing, sys

def encode(folder):
    from transformers import AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(folder)
    patched = "tokenmill.compat.transformers" in sys.modules
    if patched:
        from tokenmill.compat.transformers import is_patched
        patched = is_patched(tokenizer)
    return patched, tokenizer("Hello world, 1234")["input_ids"]

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print([encode(sys.argv[1]), *pool.map(encode, [sys.argv[1]])])
"""


def run(tmp_path: Path, value: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python as if tokenmill.pth were in its folder of packages."""
    code = f"import site; site.addsitedir({str(SRC)!r})"
    (tmp_path / "sitecustomize.py").write_text(code)
    paths = os.pathsep.join([str(tmp_path), str(SRC)])
    variables = {**os.environ, "PYTHONPATH": paths, "TOKENMILL_PATCH": value}
    command = (sys.executable, *command)
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=True)


def test_processes_are_patched(tmp_path):
    program, folder = tmp_path / "program.py", small.folder("gpt2", tmp_path / "gpt2")
    program.write_text(PROGRAM)
    ids = small.fast("gpt2")("Hello world, 1234")["input_ids"]
    for value, patched in (("transformers", True), ("", False)):
        done = run(tmp_path, value, str(program), str(folder))
        assert done.stdout == f"{[(patched, ids)] * 2}\n"


def test_nothing_is_imported_before_transformers(tmp_path):
    code = (
        "import sys; print([name for name in sys.modules if 'tokeni' in name or name == 'numpy'])"
    )
    assert run(tmp_path, "transformers", "-c", code).stdout == "[]\n"


def test_other_value_is_an_error_that_names_it(tmp_path):
    done = run(tmp_path, "tiktoken", "-c", "print(1)")
    assert done.stdout == "1\n"
    assert "TOKENMILL_PATCH must be 'transformers', not 'tiktoken'" in done.stderr
