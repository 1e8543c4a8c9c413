"""Step 3, "ultra": files in parallel processes, documents in batches, and large writes.

Three ideas that belong together: a process per CPU core, because Python objects need one each, a
hundred documents per call, and one write per batch. A file is the unit of work, so one large file
uses one process. Each file has its own output.

With a slow encoder, the processes are nearly all of the gain. With a fast one, most of the time is
spent on reading JSON in Python, and on starting processes that load the tokenizer again.
"""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np

from ladder.corpus.encoders import Encoder
from tokenmill.arguments import cpu_count

BATCH = 100
WRITE_BYTES = 1 << 20


def run(inputs: list[Path], encoder: Encoder, folder: Path, dtype: str, eos: int) -> list[Path]:
    parts = [folder / f"{index:05d}.bin" for index in range(len(inputs))]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(cpu_count(), context, _begin, (encoder, dtype, eos)) as pool:
        list(pool.map(_run_file, inputs, parts))
    return parts


def _begin(encoder: Encoder, dtype: str, eos: int) -> None:
    global _encoder, _dtype, _eos
    _encoder, _dtype, _eos = encoder, dtype, eos


def _run_file(path: Path, part: Path) -> None:
    with path.open(encoding="utf-8") as file, part.open("wb", buffering=WRITE_BYTES) as target:
        for texts in batches(json.loads(line)["text"] for line in file):
            target.write(ids_of(texts, _encoder, _dtype, _eos))


def batches(texts: Iterator[str]) -> Iterator[list[str]]:
    while batch := list(islice(texts, BATCH)):
        yield batch


def ids_of(texts: list[str], encoder: Encoder, dtype: str, eos: int) -> bytes:
    """Return the ids of a batch as they are in the file."""
    found = encoder.encode_batch(texts)
    return b"".join(np.array([*ids, eos], dtype).tobytes() for ids in found)


_encoder: Encoder
_dtype: str
_eos: int
