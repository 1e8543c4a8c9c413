"""Step 1, "original": append the ids of each document to one list, and write it at the end.

The obvious first program. A Python int in a list takes 8 bytes for its pointer and up to 32 for
itself, while the file needs 2 or 4. All ids are in memory before the file is written, so memory
grows with the corpus.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tokenmill.tokenizer import Tokenizer


def run(inputs: list[Path], tokenizer: Tokenizer, folder: Path, dtype: str, eos: int) -> list[Path]:
    ids: list[int] = []
    for path in inputs:
        with path.open(encoding="utf-8") as file:
            for line in file:
                ids.extend(tokenizer.encode(json.loads(line)["text"]))
                ids.append(eos)
    output = folder / "ids.bin"
    np.array(ids, dtype).tofile(output)
    return [output]
