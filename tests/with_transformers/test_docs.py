"""The code blocks about transformers in the documentation run."""

import sys
from pathlib import Path

import pytest
import small

from tokenmill.compat.transformers import unpatch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "helpers"))

from run_page import blocks_of, run_python

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("name", ["migrate-transformers.md", "serving.md"])
def test_block_about_transformers_runs(name, tmp_path, monkeypatch):
    page = DOCS / name
    small.folder("gpt2", tmp_path / "gpt2-folder")
    monkeypatch.chdir(tmp_path)
    (block,) = [b for b in blocks_of(page.read_text()) if "from transformers" in b.text]
    try:
        run_python(block, page, {})
    finally:
        unpatch()
