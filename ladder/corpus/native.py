"""Step 5, "native": threads, blocks of bytes, and no Python object per document.

This is `tokenmill.tokenize`. Bytes are read into blocks, so memory stays bounded. The core finds
the documents in a block, parses the JSON and encodes the texts, all without the GIL. It returns one
array per block, which is written unchanged. The run also has a plan, a journal and checksums.
"""

from __future__ import annotations

from pathlib import Path

from ladder.corpus.encoders import Encoder
from tokenmill.tokenizing.run import tokenize


def run(inputs: list[Path], encoder: Encoder, folder: Path, dtype: str, eos: int) -> list[Path]:
    result = tokenize(inputs, folder, encoder.tokenizer, format="datatrove", dtype=dtype, eos=eos)
    shards = [shard for row in result.manifest["tasks"] for shard in row["shards"]]
    return [folder / (shard["stem"] + ".ds") for shard in shards]
