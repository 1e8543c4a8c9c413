"""Corpora for the tests of `tokenize`: documents, files, and the contents of a folder."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from tokenmill import Tokenizer
from tokenmill.tokenizing.output import LOCK

WORDS = ["the", "of", "and", "to", "in", "a", "is", "that", "for", "it", "was", "with", "by", "I"]
OTHER = ["naïve café", "中文文本", "🙂🙃", "def f(x):\n    return x + 1", "1,234.5", "\n\n", "\t"]


def texts(count: int, seed: int = 0) -> list[str]:
    """Documents of many lengths; some are empty."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        words = chance.choices(WORDS + OTHER, k=chance.choice([0, 3, 20, 80]))
        found.append(f"{number} " * bool(words) + " ".join(words))
    return found


def write_jsonl(path: Path, documents: list[Any], field: str = "text") -> Path:
    lines = [json.dumps({"n": index, field: text}) for index, text in enumerate(documents)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def expected_ids(tokenizer: Tokenizer, documents: list[str], eos: int | None) -> list[list[int]]:
    tail = [] if eos is None else [eos]
    return [ids + tail for ids in tokenizer.encode_batch(documents)]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, without the lock."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != LOCK
    }


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "tokenmill", *map(str, arguments)]


def run(
    *arguments: str | Path, env: dict[str, str] | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | (env or {}),
        **more,
    )
