"""Documents → llm.c: a `.bin` of 256 numbers as its header, then ids.

The header is i32: magic, version, number of ids, zeros. GPT-2's files (magic 20240520, version 1)
hold u16, Llama 3's (20240801, version 7) u32. Its own scripts put the end of text *before* each
document. The ends of documents are in a side file that it does not look at.
Source: dev/data/data_common.py of karpathy/llm.c.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import ShardError
from tokenmill.shards.layouts import base
from tokenmill.shards.spec import File, Spec, path_of

HEADER_BYTES = 256 * 4
TOKENS_MAX = 2**31 - 1
# dtype → magic and version
KINDS = {"uint16": (20240520, 1), "uint32": (20240801, 7)}
# Whoever encodes for this layout puts the end of text in front.
EOS_FIRST = True


class Writer(base.EndsWriter):
    """One shard."""

    def _write_head(self) -> None:
        self._ids.write(bytes(HEADER_BYTES))

    def _finish(self) -> list[File]:
        if self.tokens > TOKENS_MAX:
            raise ShardError(
                f"llmc holds at most 2^31 − 1 ids in a shard, and {self.stem.name} has "
                f"{self.tokens:,}: set a smaller --shard-tokens"
            )
        header = np.zeros(256, "<i4")
        header[:3] = *KINDS[self.spec.dtype], self.tokens
        self._ids.patch(header.tobytes())
        return super()._finish()


def suffixes(spec: Spec) -> tuple[str, ...]:
    """The files of a shard."""
    return base.ends_suffixes(Writer.suffix, spec)


def refuse(spec: Spec) -> str | None:
    """Why this layout cannot hold it, or None."""
    if spec.dtype == "uint32" and spec.vocab_size <= base.NARROW_IDS:
        return (
            f"llm.c takes ids of uint32 for those of Llama 3, and GPT-2's loader refuses them; the "
            f"{spec.vocab_size:,} of {spec.tokenizer} fit uint16: give --dtype uint16"
        )
    return None


class Reader(base.FlatReader):
    """One shard."""

    def _read(self) -> NDArray[np.int64]:
        path = path_of(self.stem, Writer.suffix)
        with path.open("rb") as file:
            head = file.read(HEADER_BYTES)
        header = np.frombuffer(head.ljust(HEADER_BYTES, b"\0"), "<i4")
        if tuple(header[:2].tolist()) != KINDS[self.spec.dtype]:
            raise ShardError(f"{path} is no file of llm.c with ids of {self.spec.dtype}")
        self._ids = base.read_flat(path, self.spec.dtype, HEADER_BYTES)
        if int(header[2]) != len(self._ids):
            raise ShardError(f"{path} says that it has {header[2]} ids, and has {len(self._ids)}")
        return base.read_ends(self.stem, self.spec, len(self._ids))
