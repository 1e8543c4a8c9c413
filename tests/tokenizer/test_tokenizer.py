"""The public contract of Tokenizer: load and save, decode, the vocabulary, and being a value.

Encoding, batches and truncation have files of their own; ids are compared with tiktoken's in
parity/.
"""

from __future__ import annotations

import array
import base64
import copy
import gc
import pickle
import random
import sys
import tracemalloc
import weakref
from pathlib import Path

import hard_inputs
import numpy as np
import pytest
from conftest import LETTERS_ONLY, SEED, TEXT, examples, read_ranks, sample, write_ranks

import tokenmill
from tokenmill import Tokenizer, reference

# ── load and save ────────────────────────────────────────────────────────────────────────────


def test_load_takes_a_name_a_model_and_a_path(tokenizers, rank_files):
    assert Tokenizer.load("cl100k_base") == Tokenizer.load("gpt-4") == tokenizers["cl100k_base"]
    original = tokenizers["cl100k_base"]
    for path in (rank_files["cl100k_base"], str(rank_files["cl100k_base"])):
        loaded = Tokenizer.load(
            path, pattern=original.pattern, special_tokens=dict(original.special_tokens)
        )
        assert loaded.encode(TEXT) == original.encode(TEXT)
        assert loaded.encode(TEXT, allowed_special=True) == original.encode(
            TEXT, allowed_special=True
        )
        assert loaded.vocab_size == original.vocab_size


def test_load_without_specials_has_none(rank_files):
    tokenizer = Tokenizer.load(rank_files["r50k_base"], pattern=r"\S+|\s+")
    assert dict(tokenizer.special_tokens) == {}
    assert tokenizer.encode("<|endoftext|>", allowed_special=True) == tokenizer.encode(
        "<|endoftext|>"
    )


def test_save_writes_the_loaded_file_back(rank_files, tmp_path):
    for name in ("r50k_base", "o200k_base"):
        tokenizer = Tokenizer.load(rank_files[name], pattern=r"\S+|\s+")
        tokenizer.save(tmp_path / "again.tiktoken")
        assert (tmp_path / "again.tiktoken").read_bytes() == rank_files[name].read_bytes()


def test_save_takes_a_str(cl100k, rank_files, tmp_path):
    cl100k.save(str(tmp_path / "x.tiktoken"))
    assert (tmp_path / "x.tiktoken").read_bytes() == rank_files["cl100k_base"].read_bytes()


def test_ids_need_not_be_contiguous(tmp_path):
    lines = [f"{token} {rank * 3 + 7}" for token, rank in _byte_lines()]
    path = tmp_path / "gaps.tiktoken"
    path.write_text("\n".join([*lines, "YWI= 5000", "YWJj 4000"]) + "\n")
    tokenizer = Tokenizer.load(path, pattern=r"\S+", special_tokens={"<s>": 1, "</s>": 9000})
    ranks, special_tokens = read_ranks(path.read_bytes()), {"<s>": 1, "</s>": 9000}
    for text in ("abc", "ab", "abcd", "xabc", "<s>abc</s>", "aabcab"):
        expected = reference.encode(text, ranks, r"\S+", special_tokens)
        assert tokenizer.encode(text, allowed_special=True) == expected
        assert tokenizer.decode(expected) == text
    assert tokenizer.vocab_size == 9001


def _byte_lines() -> list[tuple[str, int]]:
    return [(base64.b64encode(bytes([byte])).decode(), byte) for byte in range(256)]


def test_whole_pretoken_is_its_token_even_if_no_merge_reaches_it(tmp_path):
    tokens = [bytes([byte]) for byte in range(256)] + [b"abc"]
    tokenizer = Tokenizer.load(write_ranks(tmp_path / "v", tokens), pattern=r"\S+|\s")
    assert tokenizer.encode("abc abcd") == [256, 32, 97, 98, 99, 100]


def test_ranks_that_no_training_gives_encode_as_in_the_reference(tmp_path):
    """Tokens in random order: parts that rank after the whole, wholes without their parts."""
    rng = random.Random(SEED)
    for round in range(max(2, examples(20))):
        letters = b"ab " if round % 2 else "aé".encode()
        strings = {bytes(rng.choices(letters, k=rng.randrange(2, 9))) for _ in range(60)}
        tokens = [bytes([byte]) for byte in range(256)] + sorted(strings)
        rng.shuffle(tokens)
        path = write_ranks(tmp_path / f"{round}.tiktoken", tokens)
        pattern = rng.choice([r"\S+|\s", r"(?s:.)+", r"a+|b+|\s?.+"])
        tokenizer, ranks = Tokenizer.load(path, pattern=pattern), read_ranks(path.read_bytes())
        for _ in range(200):
            text = bytes(rng.choices(letters, k=rng.randrange(40)))
            expected = reference.encode(text, ranks, pattern)
            assert tokenizer.encode(text) == expected, f"{text!r} TOKENMILL_SEED={SEED}"


# ── decode ───────────────────────────────────────────────────────────────────────────────────


def test_decode_takes_any_sequence_of_ids(tokenizers):
    tokenizer = tokenizers["r50k_base"]
    ids = tokenizer.encode(TEXT)
    taken = [ids, tuple(ids), iter(ids), array.array("I", ids)]
    taken += [np.array(ids, dtype) for dtype in (np.uint32, np.uint16, np.int64, np.int32, ">u4")]
    taken += [np.repeat(np.array(ids, np.uint32), 2)[::2], tokenizer.encode_array(TEXT)]
    for some in taken:
        assert tokenizer.decode_bytes(some) == TEXT.encode()
    assert tokenizer.decode(tokenizer.encode_ragged([TEXT])[0]) == TEXT
    assert tokenizer.decode([]) == ""
    assert tokenizer.decode_bytes([]) == b""
    assert tokenizer.decode_batch([ids, [], np.array(ids)]) == [TEXT, "", TEXT]
    assert tokenizer.decode_batch(tokenizer.encode_ragged([TEXT, ""])) == [TEXT, ""]


def test_decode_handles_half_characters_as_asked(cl100k):
    ids = cl100k.encode("𠀀")
    assert len(ids) > 1
    data = cl100k.decode_bytes(ids[:-1])
    assert cl100k.decode(ids[:-1]) == data.decode(errors="replace") == "\ufffd"
    assert cl100k.decode(ids[:-1], errors="ignore") == ""
    assert cl100k.decode(ids[:-1], "backslashreplace") == data.decode(errors="backslashreplace")
    assert cl100k.decode_batch([ids, ids[:-1]], errors="ignore") == ["𠀀", ""]
    with pytest.raises(UnicodeDecodeError):
        cl100k.decode(ids[:-1], errors="strict")
    with pytest.raises(UnicodeDecodeError):
        cl100k.decode_batch([ids[:-1]], errors="strict")


def test_decode_gives_specials_their_names(tokenizer):
    for special, id in list(tokenizer.special_tokens.items())[:20]:
        assert tokenizer.encode(tokenizer.decode([id]), allowed_special=True) == [id]
        assert tokenizer.decode(tokenizer.encode(f"a{special} b", allowed_special=True)) in (
            f"a{special} b",
            f"a{tokenizer.decode([id])} b",
        )


def test_decode_skips_special_tokens_if_asked(tokenizer):
    end = tokenizer.special_tokens["<|endoftext|>"]
    ids = [end, *tokenizer.encode("hello world"), end]
    for given in (ids, np.array(ids), tuple(ids)):
        assert tokenizer.decode(given, skip_special_tokens=True) == "hello world"
        assert tokenizer.decode(given) == "<|endoftext|>hello world<|endoftext|>"
    assert tokenizer.decode_batch([ids, []], skip_special_tokens=True) == ["hello world", ""]


def test_encode_array_with_offsets_equals_encode_with_offsets(tokenizer):
    for text in ("", "naïve mill <|endoftext|>", "naïve".encode(), "a\ud800b"):
        ids, offsets = tokenizer.encode_array(text, offsets=True, allowed_special=True)
        expected = tokenizer.encode_with_offsets(text, allowed_special=True)
        assert (ids.tolist(), [tuple(row) for row in offsets.tolist()]) == expected
    if tokenizer.vocab_size <= 1 << 16:
        ids, _ = tokenizer.encode_array("naïve", offsets=True, dtype=np.uint16)
        assert ids.dtype == np.uint16


def test_stream_decoder_gives_whole_characters_only(tokenizer):
    for text in [TEXT, *sample(hard_inputs.random_code_points(SEED, 50_000))]:
        ids = tokenizer.encode(text)
        stream = tokenizer.stream_decoder()
        pieces = [stream.push(id) for id in ids]
        assert "".join(pieces) == text, f"TOKENMILL_SEED={SEED}"
        assert stream.finish() == ""


def test_stream_decoder_gives_a_character_as_soon_as_it_is_whole(cl100k):
    ids = cl100k.encode("a𠀀b")
    stream, fed = cl100k.stream_decoder(), b""
    shown = ""
    for id in ids:
        fed += cl100k.id_to_token(id)
        shown += stream.push(id)
        assert shown == fed.decode(errors="ignore")


@pytest.mark.parametrize("errors", ["replace", "ignore", "backslashreplace"])
def test_stream_of_any_ids_adds_up_to_decode(tokenizers, errors):
    tokenizer, rng = tokenizers["r50k_base"], random.Random(SEED)
    for _ in range(examples(2000)):
        # The first 256 ids are single bytes. Most of their texts are broken.
        ids = [rng.randrange(rng.choice([256, 50_257])) for _ in range(rng.randrange(12))]
        stream = tokenizer.stream_decoder(errors=errors)
        shown = "".join([stream.push(id) for id in ids]) + stream.finish()
        assert shown == tokenizer.decode(ids, errors), f"{ids} TOKENMILL_SEED={SEED}"


def test_stream_decoder_finishes_half_a_character(cl100k):
    stream = cl100k.stream_decoder()
    assert stream.push(cl100k.token_to_id(b"\xf0")) == ""
    assert stream.finish() == "\ufffd"
    strict = cl100k.stream_decoder(errors="strict")
    assert strict.push(cl100k.token_to_id(b"\xf0")) == ""
    with pytest.raises(UnicodeDecodeError):
        strict.finish()


def test_streams_are_independent(cl100k):
    first, second = cl100k.stream_decoder(), cl100k.stream_decoder()
    assert first.push(cl100k.token_to_id(b"\xf0")) == ""
    assert second.push(cl100k.token_to_id(b"a")) == "a"
    assert first.finish() == "\ufffd"


# ── the vocabulary ───────────────────────────────────────────────────────────────────────────


def test_ids_and_bytes_map_both_ways(tokenizer, ranks, name):
    for token, rank in list(ranks[name].items())[::997]:
        assert tokenizer.id_to_token(rank) == token
        assert type(tokenizer.id_to_token(rank)) is bytes
        assert tokenizer.token_to_id(token) == rank
        assert tokenizer.token_to_id(bytearray(token)) == rank
        assert tokenizer.id_to_token(np.uint32(rank)) == token


def test_vocab_size_is_the_largest_id_plus_one(tokenizers):
    assert {name: tokenizer.vocab_size for name, tokenizer in tokenizers.items()} == {
        "r50k_base": 50257,
        "p50k_base": 50281,
        "p50k_edit": 50284,
        "cl100k_base": 100277,
        "o200k_base": 200019,
        "o200k_harmony": 201088,
    }


def test_is_special_tells_specials_from_tokens(tokenizer):
    assert all(tokenizer.is_special(id) is True for id in tokenizer.special_tokens.values())
    assert all(tokenizer.is_special(id) is False for id in tokenizer.encode(TEXT))


def test_name_is_the_embedded_name(tokenizer, name):
    assert tokenizer.name == name
    assert Tokenizer.load("gpt-4o").name == "o200k_base"


def test_pattern_is_the_given_one(rank_files):
    assert Tokenizer.load(rank_files["r50k_base"], pattern=r"\S+|\s").pattern == r"\S+|\s"


# ── a value: equal, hashable, picklable, immutable ───────────────────────────────────────────


def test_equal_tokenizers_have_equal_hashes(tokenizers, rank_files, letters_only):
    for name, tokenizer in tokenizers.items():
        assert tokenizer == Tokenizer.load(name)
        assert hash(tokenizer) == hash(Tokenizer.load(name))
        assert tokenizer != name
    assert len(set(tokenizers.values())) == len(tokenizers)
    path, special_tokens = rank_files["r50k_base"], {"<|x|>": 60_000}
    again = Tokenizer.load(path, pattern=LETTERS_ONLY, special_tokens=special_tokens)
    assert again == letters_only
    assert hash(again) == hash(letters_only)
    assert letters_only != Tokenizer.load(path, pattern=LETTERS_ONLY)
    assert letters_only != Tokenizer.load(path, pattern=r"\p{L}", special_tokens=special_tokens)
    other = Tokenizer.load(
        rank_files["p50k_base"], pattern=LETTERS_ONLY, special_tokens=special_tokens
    )
    assert letters_only != other


def test_pickle_and_copy_give_an_equal_tokenizer(tokenizer):
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(tokenizer, protocol))
        assert again == tokenizer
        assert again.encode(TEXT, allowed_special=True) == tokenizer.encode(
            TEXT, allowed_special=True
        )
    assert copy.copy(tokenizer) == copy.deepcopy(tokenizer) == tokenizer


def test_pickle_calls_a_function_of_the_module(tokenizer):
    """cloudpickle in Daft saves class methods by value, which fails."""
    own = tokenmill.train_from_iterator(["grain in, tokens out"], vocab_size=260)
    for one in (tokenizer, own):
        function = one.__reduce__()[0]
        assert getattr(sys.modules[function.__module__], function.__name__) is function


def test_second_tokenizer_of_a_vocabulary_shares_it(tokenizer, name):
    for again in (
        Tokenizer.load(name),
        Tokenizer.from_object(tokenizer),
        pickle.loads(pickle.dumps(tokenizer)),
    ):
        assert again is not tokenizer
        assert again._core is tokenizer._core
        assert again == tokenizer
    more = Tokenizer.load(name, special_tokens={"<|more|>": 300_000})
    assert more._core is not tokenizer._core
    assert more._core is Tokenizer.from_object(more)._core
    assert more != tokenizer
    assert more.encode("<|more|>", allowed_special=True) == [300_000]
    assert Tokenizer.load(name, special_tokens={"<|more|>": 300_001}) != more


def test_second_tokenizer_takes_less_than_a_kilobyte(cl100k):
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = [Tokenizer.from_object(cl100k) for _ in range(1_000)]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert {id(one._core) for one in kept} == {id(cl100k._core)}
    assert (after - before) / len(kept) < 1_000


def test_vocabulary_goes_with_its_last_tokenizer():
    special_tokens = {"<|only this test has it|>": 300_000}
    tokenizer = Tokenizer.load("cl100k_base", special_tokens=special_tokens)
    loaded = weakref.ref(tokenizer._spec)
    again = Tokenizer.load("cl100k_base", special_tokens=special_tokens)
    del tokenizer
    gc.collect()
    assert loaded() is again._spec
    del again
    gc.collect()
    assert loaded() is None


def test_pickle_of_an_embedded_tokenizer_is_small(tokenizer):
    """It travels as its name and special tokens: every process has the vocabulary."""
    assert len(pickle.dumps(tokenizer)) < 50_000


def test_pickle_does_not_need_the_file(rank_files, tmp_path):
    path = tmp_path / "own.tiktoken"
    path.write_bytes(rank_files["r50k_base"].read_bytes())
    tokenizer = Tokenizer.load(path, pattern=r"\S+|\s", special_tokens={"<|x|>": 60_000})
    data, copied = pickle.dumps(tokenizer), copy.deepcopy(tokenizer)
    path.unlink()
    again = pickle.loads(data)
    assert again == copied == tokenizer
    assert again.encode(TEXT + "<|x|>", allowed_special=True) == tokenizer.encode(
        TEXT + "<|x|>", allowed_special=True
    )
    again.save(path)
    assert path.read_bytes() == rank_files["r50k_base"].read_bytes()


def test_repr_tells_name_and_size(tokenizer, name):
    assert name in repr(tokenizer)
    assert str(tokenizer.vocab_size) in repr(tokenizer).replace(",", "").replace("_", "")


def test_tokenizer_is_immutable(cl100k):
    for attribute in ("name", "pattern", "vocab_size", "special_tokens", "other"):
        with pytest.raises(AttributeError):
            setattr(cl100k, attribute, "x")
    with pytest.raises(AttributeError):
        del cl100k.name
    with pytest.raises(TypeError):
        cl100k.special_tokens["<|x|>"] = 1


def test_bundled_vocabularies_need_no_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Tokenizer.load("o200k_base").decode([24912]) == "hello"
    assert list(Path(tmp_path).iterdir()) == []
