"""One corpus for all engines, and its expected ids."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import hard_inputs
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import tokenmill
from tokenmill import Tokenizer

# Workers are the interpreter that runs the tests, and find the package where it does.
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)

# A shell that starts the tests in the background has them ignore interrupts, and so would the
# programs that they interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

GUIDE = Path(__file__).parents[2] / "docs" / "engines.md"


def texts() -> list[str | None]:
    """Documents of all kinds, each tenth of them null."""
    found = [text for _, text in hard_inputs.files(2000) if isinstance(text, str)]
    found += [text.encode("utf-8", "replace").decode() for text in hard_inputs.STRINGS[::3]]
    return [None if index % 10 == 3 else text for index, text in enumerate(found)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pa.Table]:
    """The table of `corpus.parquet` in the folder where a module's tests run.

    An engine has to be started there: its processes keep the folder that they began with.
    """
    with contextlib.chdir(tmp_path_factory.mktemp("corpus")):
        rows = texts()
        table = pa.table({"id": range(len(rows)), "text": rows})
        pq.write_table(table, "corpus.parquet", row_group_size=100)
        yield table


def snippet(heading: str) -> CodeType:
    """The code that docs/engines.md shows under a heading."""
    section = GUIDE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    [code] = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    return compile(code, f"{GUIDE.name}, {heading}", "exec")


@pytest.fixture
def run_guide(corpus: pa.Table) -> Callable[[str], None]:
    """Runs what docs/engines.md shows under a heading, and checks the ids and the counts."""

    def run(heading: str) -> None:
        exec(snippet(heading), {})
        check_ids(corpus, pyarrow.dataset.dataset("tokens").to_table())
        pq.write_table(corpus, "corpus.parquet")
        tokenmill.count_pretokens("corpus.parquet", "expected.tmc", pattern="cl100k")
        assert Path("counts.tmc").read_bytes() == Path("expected.tmc").read_bytes()
        names: dict[str, Any] = {}
        exec(snippet("Train from the counts"), names)
        assert names["tokenizer"].vocab_size == 300

    return run


def check_ids(corpus: pa.Table, result: pa.Table, tokenizer: Tokenizer | None = None) -> None:
    """Each row is there once, with the ids of its text."""
    tokenizer = tokenizer or Tokenizer.load("gpt2")
    assert result.schema.names == ["id", "text", "tokens"]
    result = result.sort_by("id")
    assert result["id"].to_pylist() == corpus["id"].to_pylist()
    assert result["text"].to_pylist() == corpus["text"].to_pylist()
    for text, ids in zip(corpus["text"].to_pylist(), result["tokens"].to_pylist(), strict=True):
        assert ids == (None if text is None else tokenizer.encode(text))
