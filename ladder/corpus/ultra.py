"""Step 3, "ultra": files in parallel processes, and documents in batches.

Two ideas that belong together: a process per core, because Python objects need one each, and a
hundred documents per call. A file is the unit of work, so one large file uses one process. Each
file has its own output. With a slow encoder, the processes are nearly all of the gain. With a fast
one, most of the time is spent on reading JSON in Python.
"""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np

from tokenmill.tokenizer import Tokenizer

BATCH = 100


def run(inputs: list[Path], tokenizer: Tokenizer, folder: Path, dtype: str, eos: int) -> list[Path]:
    parts = [folder / f"{index:05d}.bin" for index in range(len(inputs))]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), context, _begin, (tokenizer, dtype, eos)) as pool:
        list(pool.map(_run_file, inputs, parts))
    return parts


def _begin(tokenizer: Tokenizer, dtype: str, eos: int) -> None:
    global _tokenizer, _dtype, _eos
    _tokenizer, _dtype, _eos = tokenizer, dtype, eos


def _run_file(path: Path, part: Path) -> None:
    with path.open(encoding="utf-8") as file, part.open("wb") as target:
        for texts in _batches(json.loads(line)["text"] for line in file):
            for ids in _tokenizer.encode_batch(texts, threads=1):
                target.write(np.array([*ids, _eos], _dtype).tobytes())


def _batches(texts: Iterator[str]) -> Iterator[list[str]]:
    while batch := list(islice(texts, BATCH)):
        yield batch


_tokenizer: Tokenizer
_dtype: str
_eos: int
