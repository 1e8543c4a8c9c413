"""Scanners without a single equivalent pattern → pretokens, compared with Hugging Face.

`safe` cuts where no token reaches across, so its ids are those of the text as one pretoken.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import hard_inputs
import numpy as np
import pytest
from compare import brute_truncate
from conftest import SEED, examples, sample
from model_cases import LETTERS, WHOLE, random_case
from tokenizers import Regex, pre_tokenizers

from tokenmill import Tokenizer
from tokenmill.formats.ranks import of_ranks
from tokenmill.native import _native
from tokenmill.patterns import compile_pattern
from tokenmill.patterns.schemes import KNOWN_STAGES, STAGES, scheme_of_stages
from tokenmill.tokenizer import _Shared

# The pretokens of `metaspace`, in a text with spaces for "▁".
METASPACE = r" ?[^ ]+| "
JOB_BYTES = 512 << 10  # as in the core

# As the models' files have them. Bytes are left as they are.
SEQUENCES = {
    "deepseek3": [
        pre_tokenizers.Split(Regex(pattern), "isolated")
        for pattern in (
            r"\p{N}{1,3}",
            "[一-龥\u3040-ゟ゠-ヿ]+",
            "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
            "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*"
            "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
        )
    ],
}
SEQUENCES["digits_r50k"] = [
    pre_tokenizers.Digits(individual_digits=True),
    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
]
# The last two see bytes as characters, and cut inside of real ones.
SEQUENCES["falcon"] = [
    pre_tokenizers.Punctuation("contiguous"),
    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    pre_tokenizers.Digits(individual_digits=False),
    pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
]
each_sequence = pytest.mark.parametrize("scheme", SEQUENCES)

# One of each kind that the patterns tell apart; the first letters and digits that they do not
# know as such, or not all of them.
EDGES = [
    *("a", "Bc", "é", "中", "あ", "カ", "・", "゛", "\u3040", "\u3099", "\u9fa5", "\u9fa6", "한"),
    *("1", "23", "²", "٣", "Ⅳ", "\U00011de0", "\U00016ff4", " ", "  ", "\n", "\r", "\t", "\u3000"),
    *(
        "!",
        "'",
        "'s",
        "'ll",
        "-",
        "$",
        "“",
        "…",
        "🙂",
        "\u0301",
        "\u0e31",
        "\u200b",
        "\x00",
        "\x85",
    ),
    *("\ue000", "\U000e0001", "\U0001d7d8"),
    # Bytes that are shown as digits, in each place of a character of each kind.
    *("½", "¹", "፲", "３", "，", "Ｒ", "겼", "𝟹", "®", "\u0e39", "»", "ﾲ"),
]

# One of each kind that `safe` tells apart, bytes of characters, and those of longer ones.
PARTS = [
    *(b" ", b"\n", b"1", b"2", b"a", b"b", b"B", b".", b"_", b"'", b"\r", b"\t", b"\x00"),
    *("é", "è", "中", "国", "。", "“", "”", "«", "！", "あ", "ไ", "🙂", "\u0301", "\u2f00"),
]
PIECES = [part if isinstance(part, bytes) else part.encode() for part in PARTS]


def is_text(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


def every_character(context: str) -> Iterator[str]:
    """All characters there are, each in a context, many to a text; of the planes that have none,
    or only private ones, some. By default only a sample of those from U+0800 on is there."""
    others = [code for code in range(0x800, 0x32400) if code >> 11 != 0x1B]
    others += [*range(0xE0000, 0xE0200), *range(0x32400, 0x110000, 997), 0x10FFFF]
    codes = [*range(0x800), *sample(others)]
    for start in range(0, len(codes), 500):
        yield "".join(context.format(chr(code)) for code in codes[start : start + 500])


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    _native.use_simd(_native.simd_levels()[-1])
    _native.use_job_bytes(JOB_BYTES)


def merged(text: bytes, ranks: dict[bytes, int]) -> list[bytes]:
    parts = [bytes([byte]) for byte in text]
    while True:
        pairs = [ranks.get(a + b, len(ranks)) for a, b in itertools.pairwise(parts)]
        if min(pairs, default=len(ranks)) == len(ranks):
            return parts
        at = pairs.index(min(pairs))
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


def random_tokens(rng: random.Random, *, closed: bool = True) -> list[bytes]:
    """All bytes, and some tokens of a few kinds of characters, in the order of their ranks."""
    tokens = [bytes([byte]) for byte in range(256)]
    ranks = {token: rank for rank, token in enumerate(tokens)}
    some = rng.sample(PIECES, rng.randrange(2, 9))
    for piece in some:
        for end in range(2, len(piece) + 1):
            if rng.random() < 0.8 and piece[:end] not in ranks:
                ranks[piece[:end]] = len(tokens)
                tokens.append(piece[:end])
    for _ in range(rng.randrange(60)):
        known = [*some, *tokens[256:]]
        token = rng.choice(known) + rng.choice(known)
        # A token that merging does not reach is found only as a whole pretoken.
        if token in ranks or len(token) > 40 or (closed and len(merged(token, ranks)) != 2):
            continue
        ranks[token] = len(tokens)
        tokens.append(token)
    return tokens


def load(tokens: list[bytes], scheme: str | bytes) -> Tokenizer:
    lengths = np.array([len(token) for token in tokens], np.uint32)
    ids = np.arange(len(tokens), dtype=np.uint32)
    bundle = _native.pack_bundle("ranks", b"".join(tokens), scheme, lengths=lengths, ids=ids)
    core = _native.load(bundle, 7)
    ranks = {token: id_ for id_, token in enumerate(tokens)}
    spec = of_ranks(ranks, WHOLE, {}, "scanned")
    return Tokenizer._of(_Shared("scanned", spec, core))


def random_texts(rng: random.Random, tokens: list[bytes], count: int, length: int) -> list[bytes]:
    """Tokens, characters, and now and then a byte that is none."""
    texts = []
    for _ in range(count):
        kinds = rng.choices([*tokens[256:], *PIECES], k=rng.randrange(1, 12))
        parts = rng.choices(kinds, k=rng.randrange(length))
        if rng.random() < 0.1:
            parts.insert(rng.randrange(len(parts) + 1), rng.choice([b"\xff", b"\x80", b"\xe2\x80"]))
        texts.append(b"".join(parts))
    return texts


@pytest.mark.parametrize("scheme", ["safe", "metaspace"])
def test_safe_cuts_keep_the_ids(scheme):
    rng = random.Random(SEED)
    pattern = WHOLE if scheme == "safe" else METASPACE
    for round_ in range(max(10, examples(150))):
        tokens = random_tokens(rng, closed=round_ % 5 != 0)
        fast, slow = load(tokens, scheme), load(tokens, compile_pattern(pattern))
        texts = random_texts(rng, tokens, 60, rng.choice([8, 60, 400]))
        expected = slow.encode_batch(texts)
        for level in _native.simd_levels():
            _native.use_simd(level)
            for text, ids, wanted in zip(texts, fast.encode_batch(texts), expected, strict=True):
                assert ids == wanted, f"{tokens[256:]} {text!r} {level} TOKENMILL_SEED={SEED}"


@pytest.mark.parametrize(("scheme", "pattern"), [("safe", WHOLE), ("metaspace", METASPACE)])
def test_safe_cuts_keep_the_ids_of_any_model(scheme, pattern):
    """Characters as a base, unknown ones, those that are left out, tokens that are not reached."""
    rng = random.Random(SEED)
    for _ in range(examples(400)):
        case = random_case(rng)
        fast, slow = case.core(scheme), case.core(pattern)
        for _ in range(12):
            kinds = rng.choices([*LETTERS, *case.vocab, "  ", "x", "\n", "."], k=6)
            text = "".join(rng.choices(kinds, k=rng.randrange(30)))
            ids = slow.encode(text, None)
            assert fast.encode(text, None) == ids, f"{case} {text!r} TOKENMILL_SEED={SEED}"


def test_metaspace_cuts_as_in_tokenizers():
    oracle = pre_tokenizers.Metaspace(prepend_scheme="never", split=True)
    rng = random.Random(SEED)
    edges = ["a", "é", "中", "▁", " ", "  ", "\n", "\t", "1", ".", "🙂", "\u3000", "\u0301"]
    texts = [text for text in hard_inputs.STRINGS if is_text(text)]
    texts += ["".join(rng.choices(edges, k=rng.randrange(200))) for _ in range(examples(10_000))]
    for text in [*texts, *every_character("a{0} {0}b")]:
        data = text.replace("▁", " ").encode()
        got = [data[start:end].decode() for start, end in _native.split("metaspace", data)]
        wanted = [piece.replace("▁", " ") for piece, _ in oracle.pre_tokenize_str(text)]
        assert got == wanted, f"{text!r} TOKENMILL_SEED={SEED}"


@pytest.mark.parametrize("scheme", ["safe", "metaspace", *SEQUENCES])
def test_truncate_sessions_and_threads_keep_the_ids(scheme):
    rng = random.Random(SEED)
    for _ in range(max(2, examples(12))):
        tokens = random_tokens(rng)
        tokenizer = load(tokens, scheme)
        check_truncate(tokenizer, random_texts(rng, tokens, 10, 14), rng)
        check_session(tokenizer, random_texts(rng, tokens, 40, 150), rng)
        check_jobs(tokenizer, random_texts(rng, tokens, 3, 20_000), rng)


def utf8_spans(text: str, pieces: list[tuple[str, tuple[int, int]]]) -> list[tuple[int, int]]:
    """Spans of characters as spans of bytes."""
    offsets = [0, *itertools.accumulate(len(char.encode()) for char in text)]
    return [(offsets[start], offsets[end]) for _, (start, end) in pieces]


def spelled_spans(pieces: list[tuple[str, tuple[int, int]]]) -> list[tuple[int, int]]:
    """Spans of bytes, each of which is shown as a character."""
    ends = [0, *itertools.accumulate(len(piece) for piece, _ in pieces)]
    return list(itertools.pairwise(ends))


@each_sequence
def test_sequences_cut_as_in_tokenizers(scheme):
    oracle = pre_tokenizers.Sequence(SEQUENCES[scheme])
    rng = random.Random(SEED)
    strings = sample(hard_inputs.STRINGS, scheme)
    texts = [text for text in strings if is_text(text) and len(text) < 100_000]
    texts += ["".join(each) for size in range(2) for each in itertools.product(EDGES, repeat=size)]
    texts += map("".join, sample(list(itertools.product(EDGES, repeat=2)), scheme))
    for _ in range(examples(10_000)):
        kinds = rng.sample(EDGES, rng.randrange(1, 6))
        texts.append("".join(rng.choices(kinds, k=rng.randrange(150))))
    texts += every_character("a{0}b {0} !{0}1{0}\n中{0}中'{0}s\0{0}\0")
    for text in texts:
        pieces = oracle.pre_tokenize_str(text)
        wanted = spelled_spans(pieces) if scheme == "falcon" else utf8_spans(text, pieces)
        assert _native.split(scheme, text) == wanted, f"{text[:300]!r} TOKENMILL_SEED={SEED}"


@each_sequence
def test_sequences_cut_any_bytes_like_their_stages(scheme):
    stages = next(stages for (stages, _), name in KNOWN_STAGES.items() if name == scheme)
    general = scheme_of_stages(stages, blank=False, known=False)
    assert general.startswith(STAGES)
    rng = random.Random(SEED)
    edges = [edge.encode() for edge in EDGES]
    parts = [*edges, *(edge[:-1] for edge in edges), *(bytes([byte]) for byte in range(256))]
    for _ in range(examples(20_000)):
        kinds = rng.sample(parts, rng.randrange(1, 8))
        text = b"".join(rng.choices(kinds, k=rng.randrange(60)))
        assert _native.split(scheme, text) == _native.split(general, text), (
            f"{text!r} TOKENMILL_SEED={SEED}"
        )


@each_sequence
def test_sequences_cut_equally_at_every_cpu_feature_level(scheme):
    rng = random.Random(SEED)
    pairs = [a + b for a in PIECES for b in PIECES]
    tokens = [bytes([byte]) for byte in range(256)] + rng.sample(pairs, 200)
    tokens = list(dict.fromkeys(tokens))
    # Bytes inside a character have other classes than the same bytes alone.
    tokenizer, whole = load(tokens, scheme), load(tokens, compile_pattern(WHOLE))
    texts = random_texts(rng, tokens, examples(500), 400)
    count = examples(2000)
    texts += ["".join(rng.choices(EDGES, k=rng.randrange(400))).encode() for _ in range(count)]
    wanted = []
    for text in texts:
        # One by one the scalar scanner finds them.
        pieces = [text[start:end] for start, end in _native.split(scheme, text)]
        wanted.append([i for ids in whole.encode_batch(pieces, threads=1) for i in ids])
    for level in _native.simd_levels():
        _native.use_simd(level)
        for text, ids in zip(texts, wanted, strict=True):
            assert tokenizer.encode(text) == ids, f"{level} {text!r} TOKENMILL_SEED={SEED}"


def check_truncate(tokenizer: Tokenizer, texts: list[bytes], rng: random.Random) -> None:
    for text in texts:
        for side in ("right", "left"):
            limit = rng.randrange(20)
            expected = brute_truncate(tokenizer, text, limit, side)
            assert tokenizer.truncate(text, limit, side) == expected, f"TOKENMILL_SEED={SEED}"


def check_session(tokenizer: Tokenizer, texts: list[bytes], rng: random.Random) -> None:
    session, text = tokenizer.session(b""), b""
    for new in texts:
        back = min(len(text), rng.choice([0, 0, 1, 5, 300]))
        text = text[: len(text) - back] + new
        if back:
            session.replace_from(-back, new)
        else:
            session.append(new)
        assert session.ids == tokenizer.encode(text), f"TOKENMILL_SEED={SEED}"


def check_jobs(tokenizer: Tokenizer, texts: list[bytes], rng: random.Random) -> None:
    expected = tokenizer.encode_ragged(texts, threads=1)
    for threads in (2, 3):
        _native.use_job_bytes(int(10 ** rng.uniform(2, 4.5)))
        got = tokenizer.encode_ragged(texts, threads=threads)
        assert np.array_equal(got.ids, expected.ids), f"TOKENMILL_SEED={SEED}"
        assert np.array_equal(got.offsets, expected.offsets), f"TOKENMILL_SEED={SEED}"
