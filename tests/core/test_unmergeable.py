"""Unmergeable tokens → whole pretokens only, as in Hugging Face, for any split.

The texts are of scripts without spaces, whose pretokens are encoded fragment by fragment. A token
that no merge produces must be found if it is a whole pretoken, and only then, for any state of the
cache.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from conftest import SEED, examples
from model_cases import NAMES, Case
from tokenizers import Regex, Tokenizer, pre_tokenizers

from tokenmill import _native

# A scanner, and one that the general engine runs.
PATTERNS = {
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "commas": r"[^、 ]+|[、 ]",
}
# Letters of three bytes that begin alike, and others of one, two and four.
WIDE = "กขคงาเแ漢字学かな"
LETTERS = WIDE * 3 + "abé🦀、"
LIMIT = _native.cache_limit()


@pytest.fixture(autouse=True)
def units_at_once() -> Iterator[None]:
    _native.use_units_after(0)
    yield
    _native.set_cache_limit(LIMIT)
    _native.use_simd(_native.simd_levels()[-1])


def spelt(token: bytes) -> str:
    return "".join(NAMES[byte] for byte in token)


def word(source: random.Random, length: int, letters: str = LETTERS) -> str:
    return "".join(source.choice(letters) for _ in range(source.randrange(1, length)))


def case_of(source: random.Random, whole: bool) -> tuple[Case, list[str]]:
    """A model whose merges are those of some text, in which tokens cut characters; its strangers.

    The strangers are tokens that no merge makes, or only merges of parts that are never there.
    """
    text = [bytes([byte]) for byte in word(source, 400, LETTERS + " ").encode()]
    tokens = [bytes([byte]) for byte in range(256)]
    merges: list[tuple[bytes, bytes]] = []
    for _ in range(source.randrange(5, 90)):
        if len(text) < 2:
            break
        at = source.randrange(len(text) - 1)
        pair = (text[at], text[at + 1])
        if len(b"".join(pair)) > 24:
            continue
        merges.append(pair)
        tokens.append(b"".join(pair))
        index = 0
        while index + 1 < len(text):
            if (text[index], text[index + 1]) == pair:
                text[index : index + 2] = [b"".join(pair)]
            index += 1
    strangers = [word(source, 6) for _ in range(source.randrange(1, 12))]
    strangers += [source.choice(WIDE), " " + word(source, 4, WIDE), word(source, 30, WIDE)]
    for stranger in strangers:
        token = stranger.encode()
        tokens.insert(source.randrange(256, len(tokens) + 1), token)
        cut = source.randrange(len(token))
        if token[:cut] in tokens and token[cut:] in tokens and source.random() < 0.3:
            merges.append((token[:cut], token[cut:]))
    merges = list(dict.fromkeys(merges))
    vocab = {spelt(token): index for index, token in enumerate(dict.fromkeys(tokens))}
    pairs = [(spelt(left), spelt(right)) for left, right in merges]
    return Case(vocab, pairs, characters=False, whole=whole), strangers


def peer_of(case: Case, pattern: str) -> Tokenizer:
    peer = case.peer()
    bytes_ = pre_tokenizers.ByteLevel(False, use_regex=False)
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    peer.pre_tokenizer = pre_tokenizers.Sequence([split, bytes_])
    return peer


def text_of(source: random.Random, strangers: list[str], words: int) -> str:
    """Strangers alone and among others, with what parts pretokens between them."""
    parts = []
    for _ in range(words):
        parts.append(source.choice(strangers) if source.random() < 0.4 else word(source, 9))
        parts.append(source.choice(["", " ", "、", "、", " 、"]))
    return "".join(parts)


def numbers(buffer: _native.Buffer) -> list[int]:
    return np.frombuffer(buffer, np.uint32).tolist()


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_unmergeable_tokens_are_whole_pretokens(pattern: str, whole: bool) -> None:
    for index in range(max(2, examples(25))):
        source = random.Random(f"{SEED} {pattern} {index}")
        case, strangers = case_of(source, whole)
        peer = peer_of(case, PATTERNS[pattern])
        # Short ones, then as many as are worth taking together, then one that is too long.
        texts = [text_of(source, strangers, words) for words in (3, 8, 900, 900)]
        texts.append("".join(source.choice([*strangers, "漢"]) for _ in range(900)))
        texts += strangers
        expected = [peer.encode(text).ids for text in texts]
        for level in _native.simd_levels():
            _native.use_simd(level)
            # Each level starts with an empty cache, which is filled in another order.
            core = case.core(PATTERNS[pattern])
            order = list(range(len(texts)))
            source.shuffle(order)
            for at in order:
                assert core.encode(texts[at], None) == expected[at], (case, texts[at])
                assert core.count(texts[at], None, 1) == len(expected[at])
        _native.set_cache_limit(source.choice([0, 1 << 18]))
        for text, ids in zip(texts, expected, strict=True):
            assert core.encode(text, None) == ids, "with little memory, or none"
            assert numbers(core.encode_buffer(text, None, False, 2)) == ids
            assert core.encode_with_offsets(text, None)[0] == ids
        _native.set_cache_limit(LIMIT)
        assert core.encode_batch(texts, None, 2) == expected


def test_run_of_several_chunks_is_left_only_between_tokens() -> None:
    source = random.Random(SEED)
    case, strangers = case_of(source, True)
    core = case.core(PATTERNS["llama3"])
    # A token that is all of the last part, if the run is left before it.
    han = "".join(chr(source.randrange(0x4E00, 0x9FA5)) for _ in range(400_000))
    for text in (han, han + strangers[-1], strangers[-1] * 20_000, han + "、" + strangers[-1]):
        expected = numbers(core.encode_buffer(text, None, False, 1))
        for threads in (2, 5):
            assert numbers(core.encode_buffer(text, None, False, threads)) == expected
            assert core.count(text, None, threads) == len(expected)
