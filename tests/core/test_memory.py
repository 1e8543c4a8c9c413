"""The cache and the CPU feature level never change an id."""

from __future__ import annotations

import functools
import random
import threading
from collections.abc import Iterator

import hard_inputs
import pytest
from conftest import FIXTURES, SEED, each_pattern, examples, write_ranks

from tokenmill import Tokenizer, _native, cache_limit, reference
from tokenmill.errors import OptionError

MB = 1 << 20
UNITS_AFTER = 32 << 10  # as in the core
WIDE = "中文字的是ありがとสวัสดี한국어ー。，"
# Of one page, and with the same low bytes in others.
THAI = "กาสวัดีนั丁、"


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    limit = cache_limit()
    yield
    cache_limit(limit)
    _native.use_simd(_native.simd_levels()[-1])
    _native.use_units_after(UNITS_AFTER)


@functools.cache
def texts() -> list[bytes]:
    """Fixtures, scripts, and the beginning of every hard input, which cuts some characters."""
    hard = [data.encode() if isinstance(data, str) else data for _, data in hard_inputs.files(3000)]
    fixtures = [path.read_bytes()[: examples(200_000)] for path in FIXTURES]
    return fixtures + scripts() + [data[:20_000] for data in hard]


def scripts() -> list[bytes]:
    """Every character of the first plane in order, and words of characters that are neighbours."""
    chars = [chr(code) for code in range(0x10000) if not 0xD800 <= code < 0xE000]
    rng = random.Random(SEED)
    words = []
    for _ in range(examples(5000)):
        page = rng.randrange(2, len(chars) >> 6) << 6
        words.append("".join(rng.choices(chars[page : page + 64], k=rng.randrange(1, 40))))
        words.append(rng.choice(["", " ", "'s", "!", "e", "E", "\u0301", "\n"]))
    return ["".join(chars).encode(), "".join(words).encode()]


def slow_ids(tokenizer: Tokenizer, text: bytes) -> list[int]:
    """The ids by the way that neither remembers nor takes 64 bytes at once."""
    return tokenizer.encode_with_offsets(text)[0]


@each_pattern
def test_every_cpu_feature_level_equals_the_scalar_reference(tokenizers, name):
    tokenizer = tokenizers[name]
    expected = [slow_ids(tokenizer, text) for text in texts()]
    for level in _native.simd_levels():
        _native.use_simd(level)
        assert [tokenizer.encode(text) for text in texts()] == expected, level


def test_unknown_cpu_feature_level_is_rejected():
    with pytest.raises(ValueError, match="SIMD level not supported"):
        _native.use_simd("v9")


@each_pattern
@pytest.mark.parametrize("limit", [0, MB // 4, MB, 64 * MB])
def test_ids_are_independent_of_the_cache(tokenizers, name, limit):
    tokenizer = tokenizers[name]
    rng = random.Random(SEED)
    documents = texts()
    expected = [slow_ids(tokenizer, text) for text in documents]
    cache_limit(limit)
    for _ in range(3):
        order = rng.sample(range(len(documents)), len(documents))
        for index in order:
            assert tokenizer.encode(documents[index]) == expected[index]
            assert tokenizer.count(documents[index]) == len(expected[index])


def test_full_cache_keeps_the_ids(tokenizers):
    """Words and long pretokens that never come again push each other out, and the store over."""
    tokenizer = tokenizers["o200k_base"]
    cache_limit(MB // 2)
    rng = random.Random(SEED)
    letters = "abcdefghij中文字的ไทยครับ_-é"
    for _ in range(examples(30)):
        words = ["".join(rng.choices(letters, k=rng.randrange(1, 60))) for _ in range(2000)]
        text = " ".join(words * 2).encode()
        assert tokenizer.encode(text) == slow_ids(tokenizer, text)


def test_zeros_are_words_like_others(tokenizers):
    """A key of sixteen zeros must not be taken for an empty line."""
    for tokenizer in tokenizers.values():
        for length in range(1, 40):
            text = b"\0" * length
            assert tokenizer.encode(text) == slow_ids(tokenizer, text)


def test_padding_bytes_of_keys_are_distinguished(tokenizers):
    for tokenizer in tokenizers.values():
        for text in (b"ab", b"ab\xff", b"ab\xff\xff", b"\xff", b"\xff" * 16, b"ab", b"ab\xff"):
            assert tokenizer.encode(text) == slow_ids(tokenizer, text)


@pytest.mark.parametrize("round_", range(40))
def test_cuts_between_characters_are_exact_for_any_vocabulary(tmp_path, round_):
    """Tokens of whole characters and of parts of them, in any order of ranks."""
    rng = random.Random(SEED + round_)
    characters = rng.sample(WIDE, rng.randrange(2, 6)) + rng.sample(list(" aé🙂"), 1)
    strings = set()
    for _ in range(rng.choice([5, 40, 150])):
        data = "".join(rng.choices(characters, k=rng.randrange(1, 6))).encode()
        start = rng.randrange(len(data)) if rng.random() < 0.4 else 0
        end = rng.randrange(start, len(data)) + 1 if rng.random() < 0.4 else len(data)
        strings.add(data[start:end])
    tokens = [bytes([byte]) for byte in range(256)]
    more = sorted(string for string in strings if len(string) > 1)
    more = rng.sample(more, len(more)) if rng.random() < 0.5 else sorted(more, key=len)
    ranks = {token: rank for rank, token in enumerate(tokens + more)}
    path = write_ranks(tmp_path / "wide.tiktoken", ranks)
    for pattern in ("o200k", r"(?s:.)+"):
        tokenizer = Tokenizer.load(path, pattern=pattern)
        for _ in range(examples(20)):
            text = "".join(rng.choices(characters, k=rng.randrange(1, 200)))
            expected = reference.encode(text, ranks, tokenizer.pattern)
            for _ in range(3):  # computed, remembered, found
                assert tokenizer.encode(text) == expected


@pytest.mark.parametrize("round_", range(12))
def test_many_pretokens_of_large_scripts_are_each_encoded_alone(tmp_path, round_):
    """Enough to be processed together, between others and with partial characters."""
    rng = random.Random(SEED + round_)
    characters = rng.sample(THAI if round_ % 2 else WIDE, rng.randrange(3, 9))
    strings = set()
    for _ in range(rng.choice([10, 100, 400])):
        data = "".join(rng.choices(characters, k=rng.randrange(1, 6))).encode()
        start = rng.randrange(len(data)) if rng.random() < 0.2 else 0
        end = rng.randrange(start, len(data)) + 1 if rng.random() < 0.2 else len(data)
        # With all that merging needs on its way, from left to right.
        strings.update(data[start : start + size] for size in range(2, end - start + 1))
    tokens = [bytes([byte]) for byte in range(256)] + sorted(strings, key=len)
    path = write_ranks(tmp_path / "wide.tiktoken", tokens)
    separators = ["。", "，", "\n", " ", "a ", "1", "🙂", "\ufffd", "é"]
    for pattern in ("o200k", "cl100k", r"\p{L}+|\P{L}"):
        tokenizer = Tokenizer.load(path, pattern=pattern)
        _native.use_units_after(300)
        parts = [
            "".join(rng.choices(characters, k=min(int(rng.paretovariate(0.6)), 300)))
            + rng.choices(separators, weights=[8, 8, 2, 2, 1, 1, 1, 1, 1])[0]
            for _ in range(max(1000, examples(2500)))
        ]
        text = "".join(parts).encode()
        if round_ % 3 == 0:
            place = rng.randrange(len(text))
            text = text[:place] + rng.randbytes(3) + text[place:]
        expected = slow_ids(tokenizer, text)
        for _ in range(3):
            assert tokenizer.encode(text) == expected
            assert tokenizer.count(text) == len(expected)


def new_characters(rng: random.Random, count: int) -> str:
    return "".join(chr(rng.randrange(0x4E00, 0x9F00)) for _ in range(count))


BYTES = [bytes([byte]) for byte in range(256)]


@pytest.mark.parametrize(
    ("tokens", "word"),
    [
        # Pairs that merge before their characters are whole.
        (["文字", "中文", b"\xe4\xb8", "中", b"\xe6\x96", "文", b"\xe5\xad", "字"], "。中文字，"),
        # A token that no merge reaches.
        (["，"], "，"),
    ],
)
def test_new_text_with_untrained_ranks_equals_the_reference(tmp_path, tokens, word):
    rng = random.Random(SEED)
    more = [token.encode() if isinstance(token, str) else token for token in tokens]
    path = write_ranks(tmp_path / "odd.tiktoken", BYTES + more)
    for pattern in ("r50k", "cl100k", "o200k", "qwen2"):
        tokenizer = Tokenizer.load(path, pattern=pattern)
        count = max(2000, examples(5000))
        text = "".join(new_characters(rng, 3) + word for _ in range(count)).encode()
        expected = slow_ids(tokenizer, text)
        for _ in range(2):
            assert tokenizer.encode(text) == expected
            assert tokenizer.count(text) == len(expected)


@pytest.mark.parametrize(
    ("missing", "token", "text"),
    [(b" ", b" \xe0", " \u0bd2\u0bd2"), (b"\x80", b"\x80\xea", "\ua740\ua74a")],
)
def test_character_with_ids_only_in_context_equals_the_reference(tmp_path, missing, token, text):
    tokens = [byte for byte in BYTES if byte != missing] + [token]
    path = write_ranks(tmp_path / "missing.tiktoken", tokens)
    for pattern in ("r50k", "cl100k", "o200k"):
        tokenizer = Tokenizer.load(path, pattern=pattern)
        tokenizer.encode("文字" * 20000)
        assert tokenizer.encode(text) == slow_ids(tokenizer, text.encode())


@pytest.mark.parametrize("limit", [300, 1 << 40])
def test_ids_are_the_same_for_all_starts_of_fragments(tmp_path, limit):
    rng = random.Random(SEED)
    path = write_ranks(tmp_path / "few.tiktoken", [bytes([byte]) for byte in range(256)])
    letters = WIDE + "  abcdé"
    text = "".join(rng.choices(letters, k=3000)).encode()
    _native.use_units_after(limit)
    for tokenizer in (Tokenizer.load("o200k_base"), Tokenizer.load(path, pattern="cl100k")):
        expected = slow_ids(tokenizer, text)
        for _ in range(3):
            assert tokenizer.encode(text) == expected


@pytest.mark.parametrize("name", ["r50k_base", "cl100k_base", "o200k_base"])
def test_runs_of_one_character_are_counted_as_they_are_encoded(name):
    """Also characters without split points, whose fragments have many ids."""
    tokenizer = Tokenizer.load(name)
    _native.use_units_after(0)
    rng = random.Random(SEED)
    characters = ["\ufebd", *map(chr, rng.sample([*range(0x800, 0xD800)], examples(150)))]
    for character in characters:
        runs = [character * length for length in (2, 3, 4, 19, 20, 21, 22, 40, 63, 64, 65, 130)]
        text = "中国".join(rng.sample(runs, len(runs)) * 4)
        expected = slow_ids(tokenizer, text.encode())
        assert tokenizer.encode(text) == expected, character
        assert tokenizer.count(text) == len(expected), character


@pytest.mark.parametrize("name", ["r50k_base", "cl100k_base", "o200k_base"])
def test_cached_character_excludes_the_next_invalid_byte(name):
    tokenizer = Tokenizer.load(name)
    _native.use_units_after(0)
    symbols = "※〒℃€↑♪☂✈⌘⊕∞♞➤⛵"
    for symbol in symbols:
        others = symbols.replace(symbol, "").encode()
        for invalid in (b"\xff", b"\xff\xff", b"\xfe", b"\xc3"):
            text = others + symbol.encode() + invalid
            assert tokenizer.encode(text) == slow_ids(tokenizer, text)
            assert tokenizer.encode(symbol) == slow_ids(tokenizer, symbol.encode())


def test_words_that_are_learnt_together_are_the_words_alone(tokenizers):
    rng = random.Random(SEED)
    for name in ("r50k_base", "cl100k_base", "o200k_base"):
        tokenizer = Tokenizer.load(name)
        for _ in range(max(5, examples(20))):
            count = rng.randrange(1, 400)
            letters = rng.choice(["abcdefghijklmnopqrstuvwxyz", "aeinrst", "ab\xe9\u4e2d", "(_-."])
            words = ["".join(rng.choices(letters, k=rng.randrange(1, 20))) for _ in range(count)]
            text = " ".join(rng.choices(words, k=2 * count)).encode()
            assert tokenizer.encode(text) == slow_ids(tokenizer, text)


def test_threads_share_cached_characters(tokenizers):
    tokenizer = Tokenizer.load("o200k_base")
    rng = random.Random(SEED)
    pool = [chr(rng.randrange(0x4E00, 0xA000)) for _ in range(3000)]
    documents = ["".join(rng.choices(pool, k=5000)) for _ in range(8)]
    results: dict[int, list[int]] = {}

    def work(index: int) -> None:
        results[index] = tokenizer.encode(documents[index])

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, document in enumerate(documents):
        assert results[index] == slow_ids(tokenizer, document.encode())


def words_of_all_kinds(rng: random.Random, count: int) -> list[str]:
    """Words with up to three ids and with more, longer ones, and runs of large scripts."""
    alphabets = ["aeinrst", "abcdefghijklmnopqrstuvwxyz_-", "xqzjé", WIDE]
    return [
        "".join(rng.choices(rng.choice(alphabets), k=rng.randrange(1, 45))) for _ in range(count)
    ]


@pytest.mark.parametrize("name", ["r50k_base", "o200k_base"])
@pytest.mark.parametrize("limit", [MB // 4, 64 * MB])
def test_threads_with_a_shared_cache_get_the_same_ids(name, limit):
    """In the small one entries are moved, lost and written over all the time."""
    tokenizer = Tokenizer.load(name)
    rng = random.Random(SEED)
    words = words_of_all_kinds(rng, 12_000)
    count = max(4, examples(12))
    documents = [" ".join(rng.choices(words, k=4000)).encode() for _ in range(count)]
    expected = [slow_ids(tokenizer, document) for document in documents]
    cache_limit(limit)
    _native.use_units_after(0)
    wrong: list[int] = []

    def work(seed: int) -> None:
        own = random.Random(seed)
        for _ in range(max(4, examples(20))):
            index = own.randrange(len(documents))
            if tokenizer.encode(documents[index]) != expected[index]:
                wrong.append(index)
            if tokenizer.count(documents[index]) != len(expected[index]):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(SEED + number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    whole = b" ".join(documents * 6)
    alone = tokenizer.encode_array(whole, threads=1).tolist()
    for count in (2, 5):
        assert tokenizer.encode_array(whole, threads=count).tolist() == alone


def test_threads_encode_while_the_bound_changes(tokenizers):
    tokenizer = tokenizers["o200k_base"]
    rng = random.Random(SEED)
    text = " ".join(words_of_all_kinds(rng, 3000)).encode()
    expected = slow_ids(tokenizer, text)
    results: list[bool] = []

    def work() -> None:
        results.extend(tokenizer.encode(text) == expected for _ in range(examples(30)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        cache_limit(rng.choice([0, MB // 4, MB, 64 * MB]))
    for thread in threads:
        thread.join()
    assert len(results) == 4 * examples(30) and all(results)


def test_the_bound_is_an_argument_of_the_process():
    cache_limit(3 * MB)
    assert cache_limit() == 3 * MB
    with pytest.raises(OptionError, match="-1"):
        cache_limit(-1)
    with pytest.raises(TypeError, match="'x'"):
        cache_limit("x")  # type: ignore[arg-type]
