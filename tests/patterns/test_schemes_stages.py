"""Stages → pretokens: the core compared with Hugging Face pre-tokenizers.

Tests of patterns/analysis.py, patterns/schemes.py and formats/build.py.
"""

from __future__ import annotations

import collections
import itertools
from random import Random

import hard_inputs
import numpy as np
import pytest
from compare import SOURCES, as_text, brute_truncate
from conftest import FIXTURES, SEED, examples, sample
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from test_oniguruma import EVERY, SPELLINGS, SURROGATES, patterns
from test_schemes import EDGES, ENDS
from tokenizers import Regex, pre_tokenizers

from tokenmill import Tokenizer, _native
from tokenmill.errors import PatternError
from tokenmill.formats import build
from tokenmill.patterns import compile_pattern, covers_all, unicode
from tokenmill.patterns.schemes import (
    KNOWN_STAGES,
    PATTERNS,
    STAGES,
    Literally,
    Pattern,
    Scheme,
    Stage,
    scheme_of,
    scheme_of_stages,
)

BEHAVIOURS = ["isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"]
CLASSES = {
    "digits": pre_tokenizers.Digits(individual_digits=True),
    "punctuation": pre_tokenizers.Punctuation("isolated"),
    "space": pre_tokenizers.WhitespaceSplit(),
}
BYTE_LEVEL = PATTERNS["r50k"][1]
# A stage that isolates each digit.
DIGITS = b"\1\0\0\0" + bytes(4)


def theirs_of(stage: Stage) -> pre_tokenizers.PreTokenizer:
    match stage.match:
        case Pattern(text, "oniguruma"):
            return pre_tokenizers.Split(Regex(text), stage.behaviour, stage.invert)
        case Literally(text):
            return pre_tokenizers.Split(text, stage.behaviour, stage.invert)
        case "punctuation":
            return pre_tokenizers.Punctuation(stage.behaviour)
        case "digits":
            return pre_tokenizers.Digits(individual_digits=stage.behaviour == "isolated")
        case _:
            return pre_tokenizers.WhitespaceSplit()


def pieces(scheme: Scheme, text: str) -> list[str]:
    data = text.encode()
    return [data[start:end].decode() for start, end in _native.split(scheme, data)]


def sample_texts(random: Random, count: int) -> list[str]:
    kinds = [*EDGES, "-", "_", "▁", "٣", "½", "。", "ー", "abc", "12", "   "]
    found = []
    for _ in range(count):
        some = random.sample(kinds, random.randrange(1, 6))
        found.append("".join(random.choices(some, k=random.randrange(16))) + random.choice(ENDS))
    return found


# ── Classes and patterns on every code point ─────────────────────────────────────────────────


@pytest.mark.parametrize("name", CLASSES)
def test_classes_equal_hugging_face_for_all_code_points(name):
    behaviour = "removed" if name == "space" else "isolated"
    text = "a".join(EVERY)
    expected = [piece for piece, _ in CLASSES[name].pre_tokenize_str(text)]
    assert pieces(scheme_of_stages((Stage(name, behaviour),), blank=False), text) == expected


def test_byte_level_is_r50k_for_all_code_points():
    """ByteLevel's own pattern, in each place where a character can make a difference."""
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    sets = [unicode.named("L"), unicode.named("N"), unicode.known("space")]
    bounds = {bound - back for each in sets for bound in each.bounds for back in (0, 1)}
    edges = [char for char in EVERY if ord(char) in bounds]
    contexts = ["a{}b", "1{}2", " {}", "{} ", "  {}  ", "!{}?", "\n{}\n", "'{}'s", "{}{}"]
    texts = ["".join(each.format(char, char) for char in edges) for each in contexts]
    for text in (EVERY, *texts):
        ends = [0, *itertools.accumulate(len(char.encode()) for char in text)]
        expected = [(ends[i], ends[j]) for _, (i, j) in byte_level.pre_tokenize_str(text)]
        assert _native.split("r50k", text) == expected


def test_whitespace_stage_equals_its_rust_pattern():
    """Not of Oniguruma: its \\w has the joiners."""
    stage = Stage(Pattern(r"\w+|[^\w\s]+", "tiktoken"), "removed", invert=True)
    expected = [piece for piece, _ in pre_tokenizers.Whitespace().pre_tokenize_str(EVERY)]
    assert pieces(scheme_of_stages((stage,), blank=False), EVERY) == expected


# ── Behaviours ───────────────────────────────────────────────────────────────────────────────

CUTS = [
    Pattern("-"),
    Pattern(r"\s+"),
    Pattern(r"\p{N}{1,3}"),
    Pattern("a*"),
    Pattern("(?=1)"),
    Pattern("|b"),
    Pattern(r"\b"),
    Pattern("$"),
    Pattern(r"(?<=a)-?"),
    Pattern(r"\s+(?!\S)|\s"),
    Literally(" "),
    Literally("ab"),
    Literally("▁"),
    Literally(".*"),
]


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
@pytest.mark.parametrize("match", CUTS, ids=str)
def test_behaviours_equal_hugging_face(match, behaviour):
    texts = ["".join(t) for n in range(4) for t in itertools.product("a- 1▁", repeat=n)]
    texts += map("".join, sample(list(itertools.product("a- 1▁", repeat=4)), (match, behaviour)))
    texts += sample_texts(Random(SEED), examples(300))
    for invert in (False, True):
        stages = (Stage(match, behaviour, invert),)
        scheme = scheme_of_stages(stages, blank=False)
        cutter = theirs_of(stages[0])
        for text in texts:
            expected = [piece for piece, _ in cutter.pre_tokenize_str(text)]
            assert pieces(scheme, text) == expected, f"{text!r} TOKENMILL_SEED={SEED}"


each_stage = st.one_of(
    st.builds(Stage, patterns.map(Pattern), st.sampled_from(BEHAVIOURS), st.booleans()),
    st.builds(Stage, st.sampled_from(CUTS), st.sampled_from(BEHAVIOURS), st.booleans()),
    st.builds(Stage, st.just("digits"), st.sampled_from(["isolated", "contiguous"])),
    st.builds(Stage, st.just("punctuation"), st.sampled_from(BEHAVIOURS)),
    st.builds(Stage, st.just("space"), st.just("removed")),
)


@settings(max_examples=examples(600))
@given(
    st.lists(each_stage, min_size=1, max_size=3).map(tuple),
    st.lists(st.text("aaabc A1-\n\né▁,½", max_size=12), min_size=4, max_size=4),
)
def test_random_stages_cut_as_in_hugging_face(stages, texts):
    try:
        scheme = scheme_of_stages(stages, blank=False)
        cutter = pre_tokenizers.Sequence([theirs_of(stage) for stage in stages])
    except Exception:  # either of them may refuse a pattern; neither may guess
        reject()
    for text in texts:
        expected = [piece for piece, _ in cutter.pre_tokenize_str(text)]
        assert pieces(scheme, text) == expected, repr(text)


# ── Real ones ────────────────────────────────────────────────────────────────────────────────


def split(pattern: str) -> Stage:
    return Stage(Pattern(pattern), "isolated")


REAL = {
    "DeepSeek V3": next(key[0] for key, name in KNOWN_STAGES.items() if name == "deepseek3"),
    "Command R, StarCoder": (Stage("digits", "isolated"), split(BYTE_LEVEL)),
    "Falcon": (
        Stage("punctuation", "contiguous"),
        split(BYTE_LEVEL),
        Stage("digits", "contiguous"),
        split("[0-9][0-9][0-9]"),
    ),
    "BLOOM": (split(r" ?[^(\s|[.,!?…。，、।۔،])]+"),),
    "DeepSeek Coder": (
        split(r"[\r\n]"),
        split(r"\s?\p{L}+"),
        split(r"\s?\p{P}+"),
        split("[一-龥ࠀ-一가-퟿]+"),
        Stage("digits", "isolated"),
    ),
    "SmolLM": (Stage("digits", "isolated"), split(BYTE_LEVEL)),
    "OLMo, GPT-NeoX": (split(BYTE_LEVEL),),
    "Whitespace and punctuation": (
        Stage("space", "removed"),
        Stage("punctuation", "merged_with_previous"),
    ),
}


@pytest.fixture(scope="module")
def real_texts() -> list[str]:
    texts = [text for text in hard_inputs.STRINGS if not set(text) & SURROGATES]
    texts += sample_texts(Random(SEED), 1_000)
    texts += [path.read_text(encoding="utf-8")[:4000] for path in FIXTURES]
    for source in SOURCES:
        texts += [text for text in map(as_text, source(SEED, 30_000)) if not set(text) & SURROGATES]
    return Random(SEED).sample(texts, examples(2_500))


@pytest.mark.parametrize("name", REAL)
def test_real_stages_cut_as_in_hugging_face(name, real_texts):
    fast, slow = (scheme_of_stages(REAL[name], blank=False, known=known) for known in (True, False))
    assert slow.startswith(STAGES)
    cutter = pre_tokenizers.Sequence([theirs_of(stage) for stage in REAL[name]])
    for text in real_texts:
        expected = [piece for piece, _ in cutter.pre_tokenize_str(text)]
        assert pieces(slow, text) == expected, f"{text[:300]!r} TOKENMILL_SEED={SEED}"
        assert pieces(fast, text) == expected, f"{text[:300]!r} TOKENMILL_SEED={SEED}"


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spelling_uses_its_scanner_if_hugging_face_cuts_equally(spelling, real_texts):
    pattern, name = SPELLINGS[spelling], spelling.split()[0]
    stages = (split(pattern),)
    scheme = scheme_of_stages(stages, blank=False)
    differs = 0
    cutter = theirs_of(stages[0])
    # The first two tell all spellings apart that Hugging Face reads otherwise.
    for text in ["1234", "a\r\n\t b", *real_texts, EVERY]:
        expected = [piece for piece, _ in cutter.pre_tokenize_str(text)]
        assert pieces(scheme, text) == expected, f"{text[:300]!r} TOKENMILL_SEED={SEED}"
        differs += pieces(name, text) != expected
    assert (scheme == name) == (differs == 0)


def test_metaspace_reads_spaces_as_hugging_face_reads_its_marker(real_texts):
    stages = (Stage(Literally("▁"), "merged_with_next"),)
    cutter = pre_tokenizers.Metaspace(prepend_scheme="never")
    slow, fast = (scheme_of_stages(stages, blank=True, known=known) for known in (False, True))
    for text in real_texts:
        folded = text.replace("▁", " ")
        expected = [piece.replace("▁", " ") for piece, _ in cutter.pre_tokenize_str(text)]
        assert pieces(slow, folded) == expected, repr(text)
        assert pieces(fast, folded) == expected, repr(text)


@settings(max_examples=examples(300))
@given(
    patterns | st.sampled_from(["▁", "▁?a+|▁", r"[^▁]+", r"\s", r"\w+▁", " "]),
    st.lists(st.text("aab 1▁-\n", max_size=12), min_size=4, max_size=4),
)
def test_patterns_read_spaces_as_hugging_face_reads_its_marker(pattern, texts):
    stages = (Stage(Pattern(pattern), "isolated"), Stage("space", "removed"))
    try:
        scheme = scheme_of_stages(stages, blank=True)
        cutter = pre_tokenizers.Sequence([theirs_of(stage) for stage in stages])
    except Exception:  # either of them may refuse a pattern; neither may guess
        reject()
    for text in texts:
        cut = cutter.pre_tokenize_str(text.replace(" ", "▁"))
        expected = [piece.replace("▁", " ") for piece, _ in cut]
        assert pieces(scheme, text.replace("▁", " ")) == expected, repr(text)


# ── Patterns whose matches cover all text ────────────────────────────────────────────────────

COVERS = [
    (r"\s+|\S+", True),
    (r"\s+|\S*\S", True),
    (r" ?+\p{L}++|[^\p{L}]", True),
    (r"\w?+\p{L}|\P{L}", False),
    (r"\w??\p{L}|\P{L}", True),
    (r"\s*|\S+", False),
    (r"\s+(?!\S)|\S+", False),
    (r"\s{2,}|\S+", False),
    (r"(?>\s+)|(?:\p{L}|[^\s\p{L}])", True),
    (r".", False),
    (r"(?m:.)", True),
    *((pattern, True) for pattern in SPELLINGS.values()),
]


@pytest.mark.parametrize(("pattern", "expected"), COVERS)
def test_covers_all_detects_patterns_that_match_all_text(pattern, expected):
    assert covers_all(pattern, "oniguruma") == expected


@settings(max_examples=examples(500))
@given(
    st.lists(patterns | st.sampled_from([r"\s+", r"\S", r"\w?+[^ ]", r"(?m:.)"]), max_size=4),
    st.lists(st.text("aaabc A1-\n\né▁,½", max_size=12), min_size=4, max_size=4),
)
def test_covers_all_is_true_only_without_gaps(alternatives, texts):
    pattern = "|".join(alternatives)
    try:
        program, covers = compile_pattern(pattern, "oniguruma"), covers_all(pattern, "oniguruma")
    except PatternError:
        reject()
    for text in texts:
        assert not covers or "".join(pieces(program, text)) == text, repr(text)


# ── Which scheme ─────────────────────────────────────────────────────────────────────────────


def test_stages_select_the_expected_scheme():
    assert scheme_of_stages((), blank=False) == "safe"
    assert scheme_of_stages((split(BYTE_LEVEL),), blank=False) == "r50k"
    assert scheme_of_stages((split(PATTERNS["cl100k"][0]),), blank=False) != "cl100k"
    assert scheme_of(PATTERNS["cl100k"][0]) == "cl100k"
    words = Stage(Pattern(r"\w+", "tiktoken"), "removed", invert=True)
    assert scheme_of_stages((words,), blank=False) == scheme_of(r"\w+")
    assert scheme_of_stages((split(BYTE_LEVEL),), blank=True).startswith(STAGES)
    grouped = (split(rf"(?:{BYTE_LEVEL})"),)
    assert scheme_of_stages(grouped, blank=False) == scheme_of(grouped[0].match.text, "oniguruma")
    assert scheme_of_stages((split("a"),), blank=False).startswith(STAGES)
    with pytest.raises(PatternError, match="the text of a stage must not be empty"):
        scheme_of_stages((Stage(Literally(""), "isolated"),), blank=False)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        (b"", "not the stages of a pre-tokenizer; there are 1 to 64"),
        (DIGITS * 65, "not the stages of a pre-tokenizer"),
        (DIGITS[:-1], "not the stages of a pre-tokenizer"),
        (b"\5" + DIGITS[1:], "not the stages of a pre-tokenizer"),
        (b"\0" + DIGITS[1:], "not a compiled pattern"),
    ],
)
def test_core_rejects_invalid_stages(stages, message):
    assert _native.split(STAGES + DIGITS * 64, "a12") == [(0, 1), (1, 2), (2, 3)]
    with pytest.raises((ValueError, PatternError), match=message):
        _native.split(STAGES + stages, b"a")


# ── Ids ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(params=REAL)
def tokenizer(request, pairs_file, monkeypatch) -> tuple[Tokenizer, Scheme]:
    """A tokenizer that cuts in stages; its ids show where."""
    scheme = scheme_of_stages(REAL[request.param], blank=False, known=False)
    monkeypatch.setattr(build, "scheme_of_stages", lambda *_: scheme)
    return Tokenizer.load(pairs_file, pattern="(?:x)"), scheme


def test_ids_equal_those_of_the_pretokens(tokenizer, pairs_file, monkeypatch, real_texts):
    made, scheme = tokenizer
    monkeypatch.undo()
    whole = Tokenizer.load(pairs_file, pattern=r"(?s:.)+")
    random = Random(SEED)
    texts: list[str | bytes] = [*random.sample(real_texts, examples(1500))]
    texts += sample(hard_inputs.BYTES)
    texts += ["".join(random.sample(real_texts, examples(300))) for _ in range(3)]
    expected = []
    for text in texts:
        data = text.encode() if isinstance(text, str) else bytes(text)
        cut = [data[start:end] for start, end in _native.split(scheme, data)]
        expected.append([id for ids in whole.encode_batch(cut) for id in ids])
    for text, wanted in zip(texts, expected, strict=True):
        assert made.encode(text) == wanted, f"{text[:300]!r} TOKENMILL_SEED={SEED}"
    assert made.encode_batch(texts, threads=3) == expected


def test_ids_of_a_long_text_are_independent_of_thread_count(tokenizer, real_texts):
    made, _ = tokenizer
    text = "".join(Random(SEED).choices(real_texts, k=20_000))
    expected = made.encode(text)
    assert made.encode_array(text, threads=3).tolist() == expected
    assert made.count(text, threads=3) == len(expected)


@pytest.mark.parametrize("side", ["right", "left"])
def test_truncate_returns_the_longest_prefix_or_suffix(tokenizer, side):
    made, _ = tokenizer
    random = Random(SEED)
    for text in sample_texts(random, examples(300)):
        max_tokens = random.randrange(12)
        expected = brute_truncate(made, text, max_tokens, side)
        assert made.truncate(text, max_tokens, side) == expected, f"{text!r} {max_tokens}"


def test_session_ids_equal_those_of_the_whole_text(tokenizer):
    made, _ = tokenizer
    random = Random(SEED)
    for _ in range(examples(10)):
        session, text = made.session(), ""
        for part in sample_texts(random, 60):
            session.append(part)
            text += part
            if random.random() < 0.2:
                back = random.randrange(min(len(text), 30) + 1)
                text = text[: len(text) - back]
                session.replace_from(len(text))
            assert session.ids == made.encode(text), f"{text!r} TOKENMILL_SEED={SEED}"


@pytest.mark.parametrize("name", REAL)
def test_counts_equal_those_of_the_pretokens(name, real_texts):
    scheme = scheme_of_stages(REAL[name], blank=False, known=False)
    texts = [*real_texts[:500], "".join(Random(SEED).choices(real_texts, k=10_000))]
    expected: collections.Counter[bytes] = collections.Counter()
    for text in texts:
        data = text.encode()
        expected.update(data[start:end] for start, end in _native.split(scheme, data))
    counter = _native.Counter(scheme, [], SEED, True)
    counter.add(texts, 3)
    data, lengths, counts = map(bytes, counter.take().arrays())
    ends = [0, *itertools.accumulate(np.frombuffer(lengths, np.uint32).tolist())]
    tokens = [data[start:end] for start, end in itertools.pairwise(ends)]
    found = zip(tokens, np.frombuffer(counts, np.uint64).tolist(), strict=True)
    assert dict(found) == dict(expected)
