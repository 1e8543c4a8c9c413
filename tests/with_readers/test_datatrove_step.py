"""The example's step in a real datatrove pipeline → the files of datatrove's own tokenizer."""

from __future__ import annotations

import runpy
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hard_inputs
import pytest

from tokenmill import Tokenizer

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from datatrove.data import Document
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.tokens import DocumentTokenizer

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "datatrove_tokenizer.py")
TASKS = 2


def read(data: Any, rank: int, world_size: int) -> Iterator[Document]:
    """The documents of a task, without special tokens, which datatrove would match."""
    files = [text for _, text in hard_inputs.files(2000) if isinstance(text, str)]
    texts = [text for text in files if "<|" not in text]
    for index, text in enumerate(texts[rank::world_size]):
        yield Document(text=text, id=str(index))


@pytest.mark.parametrize("name", ["gpt2", "o200k_base"])
@pytest.mark.parametrize("shuffle", [{"shuffle_documents": False}, {"seed": 7}], ids=str)
def test_files_are_those_of_datatroves_own_tokenizer(name, shuffle, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Tokenizer.load(name).save("tokenizer.json")
    found = []
    for kind in (DocumentTokenizer, runpy.run_path(EXAMPLE)["TokenmillTokenizer"]):
        folder = tmp_path / kind.__name__
        options = {"eos_token": "<|endoftext|>", "batch_size": 7, **shuffle}
        step = kind(str(folder / "shards"), "tokenizer.json", **options)
        LocalPipelineExecutor(
            [read, step], TASKS, workers=1, logging_dir=str(folder / "logs")
        ).run()
        found.append({path.name: path.read_bytes() for path in (folder / "shards").iterdir()})
    assert len(found[0]) == 3 * TASKS  # ids, index and metadata
    assert found[0] == found[1]


def test_the_example_runs_and_is_short(tmp_path, monkeypatch, capsys):
    assert Path(EXAMPLE).read_text().count("\n") <= 40
    monkeypatch.chdir(tmp_path)
    runpy.run_path(EXAMPLE, run_name="__main__")
    assert "[48270   287 50256    83" in capsys.readouterr().out
