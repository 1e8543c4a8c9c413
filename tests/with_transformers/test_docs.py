"""The code blocks about transformers in the documentation run."""

import contextlib
import sys
from pathlib import Path

import small

from tokenmill.compat.transformers import unpatch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "helpers"))

from run_page import Block, blocks_of, run_python

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_block_about_transformers_runs(tmp_path):
    page = DOCS / "migrate-transformers.md"
    run(page, [b for b in blocks_of(page.read_text()) if "from transformers" in b.text], tmp_path)


def test_page_about_serving_runs(tmp_path):
    page = DOCS / "serving.md"
    blocks = [b for b in blocks_of(page.read_text()) if b.language == "python"]
    run(page, blocks, tmp_path)


def run(page: Path, blocks: list[Block], folder: Path) -> None:
    small.folder("gpt2", folder / "gpt2-folder")
    with contextlib.chdir(folder):
        try:
            namespace: dict[str, object] = {}
            for block in blocks:
                run_python(block, page, namespace)
        finally:
            unpatch()
