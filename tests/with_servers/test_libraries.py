"""The blocks of docs/serving-programs.md → the same ids, counts and texts without tokenmill.

Each block runs in a process of its own, and again without its line that replaces a library.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "helpers"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "with_transformers"))

import small
from run_page import blocks_of

TESTS = Path(__file__).resolve().parents[1]
# litellm contains the file of cl100k_base, which tiktoken would download.
LITELLM = importlib.util.find_spec("litellm").submodule_search_locations[0]
CACHE = Path(LITELLM) / "litellm_core_utils" / "tokenizers"
BLOCKS = blocks_of((TESTS.parent / "docs" / "serving-programs.md").read_text(encoding="utf-8"))
TEXTS = ["", "Hello world, it's 1234 tests!", "naïve 中文 🙂 x", *small.TEXTS[:3]]
# A word of a block → the calls whose results are compared. `texts` are TEXTS.
CALLS = {
    "litellm": """[
        [litellm.token_counter(model="gpt-4", text=text) for text in texts],
        [litellm.encode(model="gpt-4", text=text) for text in texts],
        litellm.decode(model="gpt-4", tokens=litellm.encode(model="gpt-4", text=texts[-1])),
        litellm.token_counter(
            model="gpt-4", messages=[{"role": "user", "content": text} for text in texts]
        ),
    ]""",
    "langchain": "[splitter.split_text(text) for text in texts]",
    "llama_index": """[
        [SentenceSplitter(chunk_size=50, chunk_overlap=9).split_text(text) for text in texts],
        [__import__("llama_index.core").core.utils.get_tokenizer()(text) for text in texts],
    ]""",
    "torchtitan": """[
        [(ids := tokenizer.encode(text, add_bos=True)), tokenizer.decode(ids)] for text in texts
    ]""",
}


def results(code: str, calls: str, folder: Path) -> Any:
    """The results of calls after a block, and whether the core of tokenmill was loaded."""
    program = folder / "program.py"
    lines = [code, "import json, pathlib", "texts = json.loads(pathlib.Path('texts').read_text())"]
    end = f"found = {calls}\nprint(json.dumps([found, 'tokenmill._native' in sys.modules]))"
    program.write_text("\n".join([*lines, end]))
    (folder / "texts").write_text(json.dumps(TEXTS))
    variables = {**os.environ, "PYTHONPATH": str(TESTS.parent / "src")}
    # Without downloads.
    variables |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "TIKTOKEN_CACHE_DIR": str(CACHE)}
    command = [sys.executable, str(program)]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", CALLS)
def test_library_gives_the_same(name: str, tmp_path: Path) -> None:
    (block,) = [each.text for each in BLOCKS if "sys.modules" in each.text and name in each.text]
    small.folder("gpt2", tmp_path / "gpt2-folder")
    lines = block.splitlines()
    without = [line for line in lines if "sys.modules" not in line and "tokenmill" not in line]
    want, is_ours = results("\n".join(without), CALLS[name], tmp_path)
    assert not is_ours
    assert results(block, CALLS[name], tmp_path) == [want, True]
