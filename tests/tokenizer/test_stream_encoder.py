"""Text in pieces → ids that can no longer change: `StreamEncoder` of tokenmill/session.py."""

from __future__ import annotations

import random
import time

import families
import hard_inputs
import numpy as np
import pytest
from conftest import LETTERS_ONLY, SEED, examples
from test_session_families import FRAGMENTS, PIECES, loaded, real_texts

from tokenmill import Tokenizer
from tokenmill.errors import UnknownTokenError, VocabularyError

FAMILIES = [*families.BYTE_LEVEL, *families.PIECES]


def cut(rng: random.Random, text: str | bytes, longest: int) -> list[str | bytes]:
    """A text in pieces of at most `longest`, some of them empty."""
    pieces, start = [], 0
    while start < len(text):
        end = start + rng.randrange(longest + 1)
        pieces.append(text[start:end])
        start = end
    return pieces


def check(tokenizer: Tokenizer, pieces: list, whole: str | bytes, choice: object = False) -> None:
    """Compare the ids of the pieces with those of the whole text."""
    encoder = tokenizer.stream_encoder(allowed_special=choice)
    for _ in range(2):  # an encoder can be used again
        ids = [id_ for piece in pieces for id_ in encoder.push(piece)]
        assert ids + encoder.finish() == tokenizer.encode(whole, allowed_special=choice), pieces


@pytest.mark.parametrize("choice", [False, True, "none"])
@pytest.mark.parametrize("name", FAMILIES)
def test_pieces_have_the_ids_of_the_whole_text(name, choice):
    tokenizer, rng = loaded(name), random.Random(f"{SEED} {name} {choice}")
    for _ in range(examples(120)):
        parts = rng.choices([*PIECES, *FRAGMENTS], k=rng.randrange(1, 40))
        for whole in ("".join(parts), "".join(parts).encode()):
            check(tokenizer, cut(rng, whole, rng.choice([1, 3, 12, 100])), whole, choice)


def test_hard_texts_in_pieces_have_the_ids_of_the_whole(tokenizers):
    rng = random.Random(f"{SEED} hard")
    texts = [*hard_inputs.STRINGS, *hard_inputs.BYTES]
    for text in rng.sample(texts, min(len(texts), examples(2000))):
        tokenizer = rng.choice([*tokenizers.values()])
        check(tokenizer, cut(rng, text, 7), text, True)


def test_ids_come_soon_after_their_pretokens(cl100k):
    """An id is returned soon after its pretoken and the whitespace after that."""
    for tokenizer in (cl100k, loaded("qwen2"), loaded("llama3")):
        for text in real_texts(1500):
            data = text.encode()
            _, spans, words = tokenizer._core.encode_words(data, None)
            ends = {word: end for word, (_, end) in zip(words, spans, strict=True)}
            encoder, returned = tokenizer.stream_encoder(), 0
            for at in range(0, len(data), 5):
                returned += len(encoder.push(data[at : at + 5]))
                assert all(ends[word] + 80 > at for word in words[returned:]), at


def test_no_id_is_returned_that_later_text_changes(cl100k):
    rng = random.Random(f"{SEED} settled")
    for tokenizer in (cl100k, loaded("qwen2"), loaded("gemma"), loaded("deepseek_v3")):
        for _ in range(examples(300)):
            encoder, text, ids = tokenizer.stream_encoder(allowed_special=True), "", []
            for piece in rng.choices([*PIECES, "<|end", "of", "text|>"], k=12):
                text += piece
                ids += encoder.push(piece)
                after = text + rng.choice([*PIECES, "oftext|>", "'ll", "x"])
                assert tokenizer.encode(after, allowed_special=True)[: len(ids)] == ids


def test_a_character_in_two_pieces_is_whole(cl100k):
    check(cl100k, ["a\ud83d", "\ude42b"], "a🙂b")
    check(cl100k, ["a\ud83d", b"b", "\ude42"], "a\ufffdb\ufffd")
    check(cl100k, ["a\ud83d"], "a\ufffd")
    check(cl100k, [*map(bytes, zip("a🙂b".encode(), strict=True))], "a🙂b")
    check(cl100k, [memoryview(b"ab"), bytearray(b"\xf0")], b"ab\xf0")


def test_a_part_of_an_added_token_may_lack_bytes(tmp_path):
    path = tmp_path / "small.tiktoken"
    path.write_bytes(b"YQ== 0\nYg== 1\n")  # the tokens a and b
    tokenizer = Tokenizer.load(path, pattern=LETTERS_ONLY + "|.", special_tokens={"<x>": 2})
    check(tokenizer, ["a<", "x", ">b"], "a<x>b", True)
    encoder = tokenizer.stream_encoder(allowed_special=True)
    assert encoder.push("a<y>") == []
    with pytest.raises(VocabularyError):
        encoder.finish()
    with pytest.raises(VocabularyError):
        encoder.push("y" * 5000)


def test_arguments_are_checked(cl100k):
    with pytest.raises(UnknownTokenError):
        cl100k.stream_encoder(allowed_special={"<x>"})
    with pytest.raises(TypeError, match="a text must be a str or bytes-like"):
        cl100k.stream_encoder().push(5)
    with pytest.raises(TypeError, match="with items of 8 bytes; to turn ids into text use decode"):
        cl100k.stream_encoder().push(np.array([5]))


@pytest.mark.parametrize("text", ["a" * 30_000, "the mill grinds. " * 2_000, " " * 30_000])
def test_streams_take_linear_time(cl100k, text):
    def seconds(size: int) -> float:
        encoder, start = cl100k.stream_encoder(), time.process_time()
        for at in range(0, size, 10):
            encoder.push(text[at : at + 10])
        return time.process_time() - start

    seconds(3_000)
    short, whole = min(seconds(3_000) for _ in range(3)), min(seconds(30_000) for _ in range(2))
    assert whole < 40 * short
