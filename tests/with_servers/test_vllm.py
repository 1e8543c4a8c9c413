"""vLLM with and without the mode "tokenmill" → the same ids, offsets and streams.

Tests of compat/vllm.py.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from vllm.tokenizers import get_tokenizer
from vllm.tokenizers.hf import maybe_make_thread_pool

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "with_transformers"))

import small

from tokenmill.compat.transformers import is_patched, unpatch
from tokenmill.compat.vllm import register

TEXTS = ["", "Hello world, it's 1234 tests!", "naïve 中文 🙂 <s> x", small.TEXTS[1]]


def results(tokenizer: Any) -> list[Any]:
    """The results of the calls that a server makes."""
    import tokenizers

    found: list[Any] = []
    for text in TEXTS:
        ids = tokenizer.encode(text)
        stream = tokenizers.decoders.DecodeStream(skip_special_tokens=True)
        pieces = [stream.step(tokenizer._tokenizer, id_) for id_ in ids]
        offsets = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
        found.append((ids, offsets, pieces, tokenizer.decode(ids)))
    return [*found, tokenizer(TEXTS)["input_ids"]]


@pytest.mark.parametrize("name", small.EXACT)
def test_mode_gives_the_same(name: str, tmp_path: Path) -> None:
    folder = str(small.folder(name, tmp_path))
    want = results(get_tokenizer(folder))
    register()
    try:
        tokenizer = get_tokenizer(folder, tokenizer_mode="tokenmill")
        assert is_patched(tokenizer)
        assert results(tokenizer) == want
        maybe_make_thread_pool(tokenizer)
        assert [tokenizer.encode(text) for text in TEXTS] == [ids for ids, *_ in want[:-1]]
    finally:
        unpatch()
