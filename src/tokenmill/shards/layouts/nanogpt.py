"""Documents → nanoGPT: a `.bin` of nothing but u16 ids, as its `np.memmap` reads it.

Its loader takes windows anywhere, so the end of text stands behind each document among the ids.
The ends of documents are in a side file that it does not look at.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenmill.shards.layouts import base
from tokenmill.shards.spec import Spec, path_of

Writer = base.EndsWriter


def suffixes(spec: Spec) -> tuple[str, ...]:
    """The files of a shard."""
    return base.ends_suffixes(Writer.suffix, spec)


def refuse(spec: Spec) -> str | None:
    """Why this layout cannot hold it, or None."""
    if spec.dtype != "uint16":
        if spec.vocab_size <= base.NARROW_IDS:
            return (
                f"nanogpt holds ids of uint16, and not of {spec.dtype}; the {spec.vocab_size:,} of "
                f"{spec.tokenizer} fit: give --dtype uint16"
            )
        return (
            f"nanogpt holds ids below 65,536 (uint16), and {spec.tokenizer} has "
            f"{spec.vocab_size:,}: use npy, llmc or megatron"
        )
    return None


class Reader(base.FlatReader):
    """One shard."""

    def _read(self) -> NDArray[np.int64]:
        self._ids = base.read_flat(path_of(self.stem, Writer.suffix), "<u2")
        return base.read_ends(self.stem, self.spec, len(self._ids))
