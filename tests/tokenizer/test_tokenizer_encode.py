"""Text → ids: encode, count and encode_with_offsets, on text, on bytes and on special tokens."""

from __future__ import annotations

import array
import pickle
import random

import hard_inputs
import numpy as np
from conftest import (
    LETTERS_ONLY,
    SEED,
    TEXT,
    each_pattern,
    examples,
    read_ranks,
    repaired,
    sample,
    write_ranks,
)

from tokenmill import Tokenizer, reference

# ── encode ───────────────────────────────────────────────────────────────────────────────────


class Text(str):
    """Strings come in subclasses, too."""


def test_encode_gives_a_list_of_ints(tokenizer):
    ids = tokenizer.encode(TEXT)
    assert type(ids) is list
    assert {type(id) for id in ids} == {int}


def test_encode_of_empty_text_is_empty(tokenizer):
    for text in ("", b"", bytearray(), memoryview(b"")):
        assert tokenizer.encode(text) == []
        assert tokenizer.encode(text, allowed_special=True) == []
        assert tokenizer.count(text) == 0
    assert len(tokenizer.encode_array("")) == 0


def test_bytes_encode_as_the_text_that_they_hold(tokenizer):
    for text in (TEXT, "", "a", "中", Text(TEXT), *hard_inputs.EMOJI):
        data = text.encode()
        expected = tokenizer.encode(text)
        assert tokenizer.encode(data) == expected
        assert tokenizer.encode(bytearray(data)) == expected
        assert tokenizer.encode(memoryview(data)) == expected
        assert tokenizer.encode(memoryview(b"x" + data + b"x")[1:-1]) == expected
        assert tokenizer.encode(array.array("B", data)) == expected
        assert tokenizer.encode(np.frombuffer(data, np.uint8)) == expected


def test_strings_of_every_width_encode_alike(tokenizer):
    """CPython stores a str in one, two or four bytes a character, by its widest."""
    for tail in ("", "é", "中", "🙂"):
        ids = tokenizer.encode("some words\n" + tail)
        assert tokenizer.decode(ids) == "some words\n" + tail
        assert ids[: len(tokenizer.encode("some words\n"))] == tokenizer.encode("some words\n")


def test_decode_restores_every_hard_string(tokenizer):
    strings = sample(hard_inputs.STRINGS, tokenizer.name)
    for text, ids in zip(strings, tokenizer.encode_batch(strings), strict=True):
        assert tokenizer.decode(ids) == repaired(text)


def test_decode_bytes_restores_any_bytes(tokenizer):
    documents = hard_inputs.BYTES + hard_inputs.random_bytes(SEED, examples(200_000))
    documents += [data for _, data in hard_inputs.files(5000) if isinstance(data, bytes)]
    for data, ids in zip(documents, tokenizer.encode_batch(documents), strict=True):
        assert tokenizer.decode_bytes(ids) == data, f"{data!r} TOKENMILL_SEED={SEED}"


def test_invalid_utf8_encodes_as_in_the_reference(tokenizer, ranks, name):
    documents = sample(hard_inputs.BYTES + hard_inputs.random_bytes(SEED, 60_000), name)
    files = hard_inputs.files(max(1000, examples(3000)))
    documents += [data for _, data in files if isinstance(data, bytes)]
    for data in documents:
        expected = reference.encode(data, ranks[name], tokenizer.pattern)
        assert tokenizer.encode(data) == expected, f"{data!r} TOKENMILL_SEED={SEED}"


@each_pattern
def test_invalid_utf8_splits_as_in_the_reference(pairs_file, tokenizers, name):
    pattern, ranks = tokenizers[name].pattern, read_ranks(pairs_file.read_bytes())
    tokenizer = Tokenizer.load(pairs_file, pattern=pattern)
    for data in sample(hard_inputs.BYTES + hard_inputs.random_bytes(SEED, 60_000), name):
        expected = reference.encode(data, ranks, pattern)
        assert tokenizer.encode(data) == expected, f"{data!r} TOKENMILL_SEED={SEED}"


def test_truncated_sequences_encode_as_in_the_reference(tokenizer, ranks, name):
    """Every cut through text of all lengths of characters, from both sides."""
    text = "aé 中文\u0301 🙂🙂 ' 𠀀s".encode()
    for start in range(len(text)):
        for end in range(start, len(text) + 1):
            expected = reference.encode(text[start:end], ranks[name], tokenizer.pattern)
            assert tokenizer.encode(text[start:end]) == expected, repr(text[start:end])


def test_invalid_utf8_splits_as_in_the_reference_with_any_pattern(pairs_file):
    ranks = read_ranks(pairs_file.read_bytes())
    for pattern in (r".", r"\ufffd+|[^\ufffd]", r"[^\s]+", LETTERS_ONLY, r"\p{So}+|\P{So}"):
        tokenizer = Tokenizer.load(pairs_file, pattern=pattern)
        documents = hard_inputs.BYTES[::3] + hard_inputs.random_bytes(SEED, 20_000)
        for data in sample(documents, pattern):
            expected = reference.encode(data, ranks, pattern)
            assert tokenizer.encode(data) == expected, f"{pattern} {data!r} TOKENMILL_SEED={SEED}"


def test_specials_in_invalid_utf8_encode_as_in_the_reference(cl100k, ranks):
    rng = random.Random(SEED)
    pieces = [
        *(name.encode() for name in cl100k.special_tokens),
        *hard_inputs.BYTES[-80:],
        b"\xf0\x9f",
    ]
    for _ in range(examples(500)):
        data = b"".join(rng.choices(pieces, k=rng.randrange(1, 8)))
        expected = reference.encode(
            data, ranks["cl100k_base"], cl100k.pattern, cl100k.special_tokens
        )
        assert cl100k.encode(data, allowed_special=True) == expected, (
            f"{data!r} TOKENMILL_SEED={SEED}"
        )


def test_text_that_no_match_covers_is_dropped(letters_only, ranks):
    tokens = ranks["r50k_base"]
    assert letters_only.encode("1 ab--c 2") == [tokens[b"ab"], tokens[b"c"]]
    assert letters_only.encode("123") == []
    assert letters_only.count("1 ab--c 2") == 2


def test_special_is_text_unless_asked_for(cl100k):
    as_text = cl100k.encode("a<|endoftext|>b")
    assert as_text == cl100k.encode("a<|endoftext|>b", allowed_special=set())
    assert cl100k.special_tokens["<|endoftext|>"] not in as_text
    assert cl100k.encode("a<|endoftext|>b", allowed_special=True) == [64, 100257, 65]
    for some in ({"<|endoftext|>"}, frozenset({"<|endoftext|>", "<|fim_prefix|>"})):
        assert cl100k.encode("a<|endoftext|>b", allowed_special=some) == [64, 100257, 65]
    assert cl100k.encode("a<|endoftext|>b", allowed_special={"<|fim_prefix|>"}) == as_text


def test_longest_special_wins_at_the_leftmost_place(tmp_path):
    special_tokens = {"<a>": 300, "<a><b>": 301, "<b>": 302, "a><": 303, "é": 304, "éa": 305}
    path = write_ranks(tmp_path / "v", [bytes([byte]) for byte in range(256)])
    tokenizer = Tokenizer.load(path, pattern=r"(?s).", special_tokens=special_tokens)
    ranks, rng = read_ranks(path.read_bytes()), random.Random(SEED)
    assert tokenizer.encode("<a><b><b><a>a><éa", allowed_special=True) == [301, 302, 300, 303, 305]
    for _ in range(examples(2000)):
        text = "".join(rng.choices(["<", "a", ">", "b", "é", "<a>", "<b>"], k=rng.randrange(12)))
        some = {name: id for name, id in special_tokens.items() if rng.random() < 0.6}
        expected = reference.encode(text, ranks, r"(?s).", some)
        assert tokenizer.encode(text, allowed_special=set(some)) == expected, repr((text, some))


def test_hundreds_of_specials_are_all_found(tokenizers):
    tokenizer = tokenizers["o200k_harmony"]
    for special, id in tokenizer.special_tokens.items():
        assert tokenizer.encode(f" {special}a", allowed_special=True) == [220, id, 64], special


def test_two_specials_may_share_an_id(tokenizers):
    """As in o200k_harmony, where tiktoken gives 200018 two names."""
    tokenizer = tokenizers["o200k_harmony"]
    ids = tokenizer.encode("<|endofprompt|><|reserved_200018|>", allowed_special=True)
    assert ids == [200018, 200018]
    assert tokenizer.decode(ids) == "<|endofprompt|><|endofprompt|>"


def test_specials_can_be_added_to_an_embedded_vocabulary(cl100k):
    tokenizer = Tokenizer.load("cl100k_base", special_tokens={"<|im_start|>": 100264})
    assert tokenizer.encode("<|im_start|><|endoftext|>", allowed_special=True) == [100264, 100257]
    assert tokenizer.encode(TEXT) == cl100k.encode(TEXT)
    assert tokenizer != cl100k
    assert pickle.loads(pickle.dumps(tokenizer)) == tokenizer


# ── count ────────────────────────────────────────────────────────────────────────────────────


def test_count_is_the_length_of_encode(tokenizer, mixed_texts):
    for text in mixed_texts[: examples(1500)]:
        assert tokenizer.count(text) == len(tokenizer.encode(text)), repr(text[:80])


def test_count_with_specials_is_the_length_of_encode(tokenizer):
    texts = [*hard_inputs.SPECIALS, *hard_inputs.NEAR_SPECIALS, *hard_inputs.SURROGATES, TEXT]
    for special_tokens in (True, False, {"<|endoftext|>"}):
        expected = [len(tokenizer.encode(text, allowed_special=special_tokens)) for text in texts]
        assert [tokenizer.count(text, allowed_special=special_tokens) for text in texts] == expected
        assert tokenizer.count_batch(texts, allowed_special=special_tokens) == expected


# ── offsets ──────────────────────────────────────────────────────────────────────────────────


def test_spans_of_text_cover_the_characters_that_a_token_touches(tokenizer):
    texts = [text for text in hard_inputs.STRINGS if text == repaired(text)]
    texts += hard_inputs.random_code_points(SEED, 100_000)
    for text in sample(texts, tokenizer.name):
        ids, spans = tokenizer.encode_with_offsets(text)
        assert ids == tokenizer.encode(text)
        owner = [index for index, character in enumerate(text) for _ in character.encode()]
        at, expected = 0, []
        for id in ids:
            end = at + len(tokenizer.id_to_token(id))
            expected.append((owner[at], owner[end - 1] + 1))
            at = end
        assert spans == expected, f"{text!r} TOKENMILL_SEED={SEED}"


def test_spans_of_bytes_are_the_bytes_of_each_token(tokenizer):
    documents = hard_inputs.BYTES[::5] + hard_inputs.random_bytes(SEED, 50_000)
    for data in sample(documents, tokenizer.name):
        ids, spans = tokenizer.encode_with_offsets(data)
        assert ids == tokenizer.encode(data)
        assert [data[start:end] for start, end in spans] == [tokenizer.id_to_token(i) for i in ids]
        assert [0, *(end for _, end in spans)] == [*(start for start, _ in spans), len(data)]


def test_spans_are_tuples_of_ints(cl100k):
    ids, spans = cl100k.encode_with_offsets("a b")
    assert (ids, spans) == ([64, 293], [(0, 1), (1, 3)])
    assert type(spans) is list
    assert {type(span) for span in spans} == {tuple}
    assert cl100k.encode_with_offsets("") == ([], [])


def test_spans_count_specials(cl100k):
    ids, spans = cl100k.encode_with_offsets("é<|endoftext|>🙂", allowed_special=True)
    assert ids == cl100k.encode("é<|endoftext|>🙂", allowed_special=True)
    assert spans[0] == (0, 1)
    assert spans[1] == (1, 14)
    assert set(spans[2:]) == {(14, 15)}


def test_spans_skip_dropped_text(letters_only):
    ids, spans = letters_only.encode_with_offsets("1 é--ab 2<|x|>c", allowed_special=True)
    assert ids == letters_only.encode("1 é--ab 2<|x|>c", allowed_special=True)
    assert [*dict.fromkeys(spans)] == [(2, 3), (5, 7), (9, 14), (14, 15)]
    _, spans = letters_only.encode_with_offsets("1 é--ab 2".encode())
    assert spans[-1] == (6, 8)


def test_spans_index_the_text_that_was_given(cl100k):
    """A surrogate pair in a str is two of its characters, though it encodes as one."""
    for text in hard_inputs.SURROGATES:
        ids, spans = cl100k.encode_with_offsets(text, allowed_special=True)
        assert ids == cl100k.encode(text, allowed_special=True)
        for id, (start, end) in zip(ids, spans, strict=True):
            assert 0 <= start < end <= len(text)
            assert cl100k.id_to_token(id) in reference.to_bytes(text[start:end]), repr(text)
        assert {i for start, end in spans for i in range(start, end)} == set(range(len(text)))
