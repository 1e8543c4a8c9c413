"""Step 1, "original": one document at a time into a list that grows until the end.

What everybody writes first. A Python int in a list takes 8 bytes for its place and up to 32 for
itself, where the file needs 2 or 4; nothing is on the disk before all of it is in memory. So memory
grows with the corpus: the guide's run died at 50 GB.
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
