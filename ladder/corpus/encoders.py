"""A tokenizer and the name of a library → the encoder that the steps call.

The first four steps are the same program for any library, so a gain is a gain of the architecture.
Both encoders return the same ids. Each call of a step uses one thread, and the steps start the
threads or processes.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ladder.errors import LadderError
from tokenmill.tokenizer import Tokenizer

LIBRARIES = ("tokenmill", "tokenizers")


@dataclass(frozen=True, slots=True)
class Encoder:
    """Encodes with tokenmill."""

    tokenizer: Tokenizer

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text)

    def encode_batch(self, texts: list[str], threads: int | None = 1) -> list[list[int]]:
        """Encode texts on one thread, or on one per CPU core if `threads` is None."""
        return self.tokenizer.encode_batch(texts, threads=threads)


@dataclass(frozen=True, slots=True)
class HuggingFaceEncoder(Encoder):
    """Encodes with the library tokenizers, which also encodes for transformers."""

    other: Any

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.other.encode(text, add_special_tokens=False).ids
        return ids

    def encode_batch(self, texts: list[str], threads: int | None = 1) -> list[list[int]]:
        os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads is None else "false"
        return [each.ids for each in self.other.encode_batch_fast(texts, add_special_tokens=False)]


def load(library: str, name: str) -> Encoder:
    """Return an encoder for a tokenizer. The other library reads the file that tokenmill saves."""
    tokenizer = Tokenizer.load(name)
    if library == "tokenmill":
        return Encoder(tokenizer)
    try:
        import tokenizers
    except ImportError as error:
        raise LadderError("the library tokenizers is not found; pip install tokenizers") from error
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.json"
        tokenizer.save(path)
        saved = json.loads(path.read_text(encoding="utf-8"))
    saved["added_tokens"] = []  # special tokens in a document are text
    return HuggingFaceEncoder(tokenizer, tokenizers.Tokenizer.from_str(json.dumps(saved)))
