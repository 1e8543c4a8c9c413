"""Step 4, "extreme": threads, blocks of bytes, and no Python object for a document.

The real pipeline. Bytes are read into blocks (not mapped, so memory stays bounded), the core finds
documents in them, takes texts out of JSON and encodes, all without the GIL; what comes back is one
array for a block, which is written as it is. And it keeps a plan, a journal and checksums.
"""

from __future__ import annotations

from pathlib import Path

from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing.run import tokenize


def run(inputs: list[Path], tokenizer: Tokenizer, folder: Path, dtype: str, eos: int) -> list[Path]:
    result = tokenize(inputs, folder, tokenizer, format="datatrove", dtype=dtype, eos=eos)
    shards = [shard for row in result.manifest["units"] for shard in row["shards"]]
    return [folder / (shard["stem"] + ".ds") for shard in shards]
