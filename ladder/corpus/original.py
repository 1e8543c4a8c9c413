"""Step 1, "original": append the ids of each document to one list, and save it now and then.

The obvious first program. A checkpoint after many documents writes the new ids, so that a crash
does not lose them. The list itself stays: a Python int takes 8 bytes for its pointer and up to 32
for itself, while the file needs 2 or 4. Memory grows with the corpus.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from ladder.corpus.encoders import Encoder

CHECKPOINT = 10_000  # documents


def run(inputs: list[Path], encoder: Encoder, folder: Path, dtype: str, eos: int) -> list[Path]:
    output = folder / "ids.bin"
    output.touch()
    ids: list[int] = []
    documents = saved = 0
    for path in inputs:
        with path.open(encoding="utf-8") as file:
            for line in file:
                ids.extend(encoder.encode(json.loads(line)["text"]))
                ids.append(eos)
                documents += 1
                if documents % CHECKPOINT == 0:
                    save(output, np.array(ids[saved:], dtype))
                    saved = len(ids)
    save(output, np.array(ids[saved:], dtype))
    return [output]


def save(output: Path, ids: np.ndarray) -> None:
    with output.open("ab") as target:
        target.write(ids.tobytes())
