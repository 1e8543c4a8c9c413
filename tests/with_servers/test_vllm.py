"""vLLM with and without the mode "tokenmill" → the same ids, offsets and streams.

Tests of compat/vllm.py.
"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from vllm.renderers import TokenizeParams
from vllm.renderers.registry import RENDERER_REGISTRY
from vllm.tokenizers import get_tokenizer
from vllm.tokenizers.hf import maybe_make_thread_pool

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "with_transformers"))

import small

from tokenmill.compat.transformers import is_patched, stored_core, unpatch
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


# The settings that a renderer reads when it is made. A whole configuration needs a model.
CONFIG = SimpleNamespace(
    model_config=SimpleNamespace(
        renderer_num_workers=3, supports_multimodal_inputs=False, hf_config=None
    ),
    parallel_config=SimpleNamespace(_api_process_rank=0),
)


def prompts() -> list[str]:
    """The turns of several conversations with rewritten ends, which take turns."""
    rng, words = random.Random(1), " ".join(small.TEXTS).split(" ")
    texts = [f"{number} " + " ".join(rng.choices(words, k=2000)) for number in range(4)]
    made = []
    for _ in range(8):
        made += [text + rng.choice(["<think>\n", "\n", "<s> é"]) for text in texts]
        texts = [f"{text} " + " ".join(rng.choices(words, k=50)) for text in texts]
    return made


async def rendered(mode: str, folder: str) -> list[Any]:
    """The ids and offsets of all prompts, encoded by a renderer in its threads."""
    tokenizer = get_tokenizer(folder, tokenizer_mode=mode)
    renderer = RENDERER_REGISTRY.load_renderer_cls(mode)(CONFIG, tokenizer)
    found = []
    for cut in ({}, {"truncate_prompt_tokens": 700}, {"return_token_offsets": True}):
        params = TokenizeParams(max_total_tokens=100_000, **cut)
        jobs = [renderer._tokenize_prompt_async({"prompt": each}, params) for each in prompts()]
        found += await asyncio.gather(*jobs)
    renderer.shutdown()
    return [(each["prompt_token_ids"], each.get("prompt_token_offsets")) for each in found]


@pytest.mark.parametrize("name", ["qwen2", "byte_level", "llama2"])
def test_renderer_with_a_prefix_store_gives_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(small.folder(name, tmp_path))
    want = asyncio.run(rendered("hf", folder))
    monkeypatch.setenv("TOKENMILL_PREFIX_STORE", "100MB")
    before = set(stored_core._shared)
    register()
    try:
        assert asyncio.run(rendered("tokenmill", folder)) == want
        # All copies of the tokenizer share one store, with each prompt once.
        (key,) = set(stored_core._shared) - before
        (store,) = stored_core._shared[key]._stores.values()
        assert len(store) == len(prompts())
        # The last prompts were found again, and another turn shares most of its ids.
        ids, kept = store.encode(prompts()[-1] + " and a turn")
        assert kept > len(ids) - 20
    finally:
        unpatch()
