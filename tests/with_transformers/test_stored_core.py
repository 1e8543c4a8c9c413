"""Patched tokenizers with a prefix store → the same ids.

Tests of compat/transformers/stored_core.py.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import small

from tokenmill.compat.transformers import patch, stored_core, unpatch
from tokenmill.compat.transformers.stored_core import LONG
from tokenmill.errors import OptionError

LONG_TEXT = " ".join(small.TEXTS)[: 3 * LONG]
TEXTS = [LONG_TEXT, LONG_TEXT[:-9] + "<s> é", LONG_TEXT + " and more", LONG_TEXT[: LONG - 1]]


@pytest.fixture(autouse=True)
def _unpatched() -> Iterator[None]:
    yield
    unpatch()


@pytest.mark.parametrize("name", small.EXACT)
def test_ids_equal_those_without_a_store(name):
    tokenizer = small.fast(name)
    cuts = [{}, {"truncation": True, "max_length": 99}, {"add_special_tokens": False}]
    cuts.append({"split_special_tokens": True, "return_offsets_mapping": True})
    want = [[dict(tokenizer(text, **cut)) for text in TEXTS] for cut in cuts]
    before = set(stored_core._shared)
    with patch(prefix_store=10_000_000):
        found = [copy.deepcopy(tokenizer) for _ in range(3)]  # a server makes copies
        for each in found:
            assert [[dict(each(text, **cut)) for text in TEXTS] for cut in cuts] == want
        (key,) = set(stored_core._shared) - before
        stores = list(stored_core._shared[key]._stores.values())
        # With and without special tokens in a text. The three long texts are stored once.
        assert [len(store) for store in stores] == [3, 3]


def test_added_tokens_make_another_store():
    tokenizer = small.fast("byte_level")
    patch(prefix_store=10_000_000)
    tokenizer(LONG_TEXT)
    tokenizer.add_tokens(["rights"])
    ids = tokenizer(LONG_TEXT)["input_ids"]
    unpatch()
    assert ids == tokenizer(LONG_TEXT)["input_ids"]


def test_lone_surrogate_gives_the_error_of_the_library():
    tokenizer, text = small.fast("byte_level"), LONG_TEXT + "\ud800"
    with pytest.raises(TypeError) as want:
        tokenizer(text)
    patch(prefix_store=10_000_000)
    with pytest.raises(TypeError) as found:
        tokenizer(text)
    assert str(found.value) == str(want.value)


def test_environment_gives_the_memory(monkeypatch):
    monkeypatch.setenv("TOKENMILL_PREFIX_STORE", "1.5MB")
    assert stored_core.default_memory() == 1_500_000
    for word in ("", "0"):
        monkeypatch.setenv("TOKENMILL_PREFIX_STORE", word)
        assert stored_core.default_memory() == 0
    monkeypatch.setenv("TOKENMILL_PREFIX_STORE", "much")
    with pytest.raises(OptionError, match=r"^TOKENMILL_PREFIX_STORE must be a number of bytes"):
        patch()
    with pytest.raises(OptionError, match="prefix_store"):
        patch(prefix_store=-1)
