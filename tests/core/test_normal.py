"""Normalisers do what Hugging Face's and SentencePiece's do, to the text and to its places."""

from __future__ import annotations

import contextlib
import io
import random
import struct
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import pytest
import sentencepiece
from charsmaps import make_map
from conftest import SEED, examples, sample
from tokenizers import Regex, Tokenizer, models, normalizers

from tokenmill import _native
from tokenmill.errors import PatternError, VocabularyError
from tokenmill.formats.build import pack_steps
from tokenmill.formats.spec import Charsmap, Form, Lower, Prepend, Replace, Squeeze, Step, Strip
from tokenmill.patterns.schemes import Literally, Pattern

Span = tuple[int, int]
Pool = list[str]

FORMS = {
    "NFC": normalizers.NFC,
    "NFD": normalizers.NFD,
    "NFKC": normalizers.NFKC,
    "NFKD": normalizers.NFKD,
}
RULES = ["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf"]

# Samples only: the libraries give the expected results. Newlines separate them.
CODE_POINTS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and c != 0x0A]
# By default all up to U+2FFF and a sample of the others.
SOME_POINTS = CODE_POINTS[:0x3000] + sample(CODE_POINTS[0x3000:])
MARKS = [c for c in CODE_POINTS if unicodedata.combining(c)]
COMPOSED = [c for c in CODE_POINTS if unicodedata.decomposition(c)]
JAMO = [chr(c) for c in (*range(0x1100, 0x1113), *range(0x1161, 0x1176), *range(0x11A7, 0x11C3))]
SYLLABLES = [chr(c) for c in range(0xAC00, 0xD7A4, 7)]
JOINING = [*"\u0301\u0308\u0323\u0302\u0304\u0327\u0328\u031b\u0345\u0653\u0654\u3099\u309a\u09be"]
JOINING += [*"\u09d7\u0dcf\u0dca\u0344\u0f73\u0f71\u0f72\u0f74\u0f80"]
BASES = [*"aeiouAEIOUwyn \u1ea0\u00c4\u01b0\u01a1カハ\u0915\u09c7\u0dd9ßİΣΑﬁ½①ｱ▁\x01\u00ad"]
BASES += ["👩‍👩‍👧", "🇩🇪", "  ", "\u3000", "\n", "\x85", "ab", "ba", "abc", "ﷺ"]
POOLS: list[Pool] = [MARKS, COMPOSED, JAMO, SYLLABLES, JOINING, JOINING, BASES, BASES, [*"ab "]]


def texts(rng: random.Random, count: int) -> Iterator[str]:
    yield ""
    for _ in range(count - 1):
        pools = rng.choices(POOLS, k=rng.randint(1, 4))
        length = rng.choice([1, 2, 3, 5, 8, 13, 40, 80])
        yield "".join(rng.choice(rng.choice(pools)) for _ in range(length))


def normalize(packed: bytes, text: str) -> str:
    return _native.normalize(packed, text)[0]


def normalize_with_spans(packed: bytes, text: str) -> tuple[str, list[Span]]:
    """The normal text, and the characters that each of its own comes from."""
    normal, buffer = _native.normalize(packed, text)
    if buffer is None:
        assert normal == text
        return text, [(index, index + 1) for index in range(len(text))]
    starts = np.cumsum([0, *(len(character.encode()) for character in text)])
    places = np.searchsorted(starts, np.asarray(buffer).reshape(-1, 2))
    assert (starts[places] == np.asarray(buffer).reshape(-1, 2)).all()
    spans = []
    at = 0
    for character in normal:
        end = at + len(character.encode())
        assert (places[at:end] == places[at]).all()
        spans.append((int(places[at][0]), int(places[at][1])))
        at = end
    assert at == len(places)
    return normal, spans


def character_tokenizer(normalizer: normalizers.Normalizer) -> Tokenizer:
    """Every character is a token of its own, so its offsets are the places."""
    tokenizer = Tokenizer(models.BPE(vocab={"<unk>": 0}, merges=[], unk_token="<unk>"))
    tokenizer.normalizer = normalizer
    return tokenizer


@pytest.mark.parametrize("name", FORMS)
def test_forms_are_hugging_faces_for_every_code_point(name: str) -> None:
    text = "\n".join(SOME_POINTS)
    got = normalize(pack_steps((Form(name),)), text).split("\n")  # type: ignore[arg-type]
    wanted = FORMS[name]().normalize_str(text).split("\n")
    differ = [f"U+{ord(c):04X}" for c, a, b in zip(SOME_POINTS, got, wanted, strict=True) if a != b]
    assert not differ, (
        f"tokenizers has other tables than core/unicode/tables/forms.*: {differ[:50]}"
    )


def test_lower_case_is_hugging_faces_for_every_code_point() -> None:
    text = "\n".join(CODE_POINTS)
    got = normalize(pack_steps((Lower(),)), text).split("\n")
    wanted = normalizers.Lowercase().normalize_str(text).split("\n")
    differ = [f"U+{ord(c):04X}" for c, a, b in zip(CODE_POINTS, got, wanted, strict=True) if a != b]
    assert not differ, (
        f"tokenizers has other tables than core/unicode/tables/lower.*: {differ[:50]}"
    )


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_every_base_and_mark_are_hugging_faces(name: str) -> None:
    bases = {unicodedata.normalize("NFD", c)[0] for c in COMPOSED} | {*COMPOSED[::5], *"ab\u0f71"}
    seconds = [*JOINING, *random.Random(SEED).sample(MARKS, 60)]
    pairs = [base + second for base in sorted(bases) for second in seconds]
    pairs += [a + b for a in (*JAMO, *SYLLABLES[::20]) for b in (*JAMO, *SYLLABLES[::100])]
    pairs = sample(pairs, name)
    packed, text = pack_steps((Form(name),)), "\n".join(pairs)  # type: ignore[arg-type]
    got, wanted = normalize(packed, text), FORMS[name]().normalize_str(text)
    for pair, a, b in zip(pairs, got.split("\n"), wanted.split("\n"), strict=True):
        assert a == b, ascii(pair)


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_random_texts_have_hugging_face_alignment(name: str) -> None:
    normalizer = FORMS[name]()
    tokenizer = character_tokenizer(normalizer)
    packed = pack_steps((Form(name),))  # type: ignore[arg-type]
    for text in texts(random.Random(SEED), examples(2500)):
        wanted = normalizer.normalize_str(text), tokenizer.encode(text).offsets
        assert normalize_with_spans(packed, text) == wanted, ascii(text)


def random_step(rng: random.Random) -> tuple[Step, normalizers.Normalizer]:
    """The same step for us and for Hugging Face."""
    kind = rng.randrange(8)
    if kind == 0:
        name = rng.choice(["NFC", "NFD", "NFKC", "NFKD"])
        return Form(name), FORMS[name]()  # type: ignore[arg-type]
    if kind == 1:
        return Lower(), normalizers.Lowercase()
    if kind == 2:
        text = rng.choice(["_", "▁", "ab"])
        return Prepend(text), normalizers.Prepend(text)
    content = rng.choice(["", "X", "XY", "▁", "é", "a\u0301", " "])
    if kind == 3:
        text = rng.choice(["a", "ab", " ", "\u0301", "e", "ﬁ", "i", "▁"])
        return Replace(Literally(text), content), normalizers.Replace(text, content)
    if kind < 6:
        patterns = [
            r"\s+",
            "[ab]+",
            " {2,}",
            r"\p{L}",
            "[^a]",
            "a.",
            r"\p{M}+",
            "(?<=a)b",
            "b|$a",
            r"\w+$",
        ]
        text = rng.choice(patterns)
        return Replace(Pattern(text), content), normalizers.Replace(Regex(text), content)
    if kind == 6:
        data = random_map(rng)
        return Charsmap(data, True), normalizers.Precompiled(data)
    left, right = rng.random() < 0.5, rng.random() < 0.5
    return Strip(left, right), normalizers.Strip(left, right)


def test_several_steps_have_hugging_face_alignment() -> None:
    rng = random.Random(SEED)
    for _ in range(examples(400)):
        pairs = [random_step(rng) for _ in range(rng.choice([1, 1, 2, 3, 4]))]
        steps = tuple(step for step, _ in pairs)
        try:
            packed = pack_steps(steps)
        except VocabularyError as error:
            assert "times longer" in str(error)
            continue
        normalizer = normalizers.Sequence([other for _, other in pairs])
        tokenizer = character_tokenizer(normalizer)
        for text in texts(rng, 20):
            wanted = normalizer.normalize_str(text), tokenizer.encode(text).offsets
            assert normalize_with_spans(packed, text) == wanted, (steps, ascii(text))


def test_normalized_text_is_returned_unchanged() -> None:
    packed = pack_steps((Form("NFC"), Lower(), Strip(True, True), Replace(Literally("q"), "k")))
    for text in ("", "é ab" * 50, "กำนี้ 中文" * 20):
        normal, places = _native.normalize(packed, text)
        assert normal is text and places is None
    assert _native.normalize(packed, b"\xff ab") == (b"\xff ab", None)
    assert _native.normalize(b"", "A") == ("A", None)


@pytest.mark.parametrize("name", FORMS)
def test_invalid_utf8_is_kept_and_separates_its_neighbours(name: str) -> None:
    rng = random.Random(SEED)
    packed = pack_steps((Form(name), Lower()))  # type: ignore[arg-type]
    for invalid in (b"\xff", b"\xe1\x84", b"\x80", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xcc"):
        for _ in range(examples(200)):
            parts = [text for text, _ in zip(texts(rng, 9), range(rng.randint(1, 5)), strict=False)]
            # A mark after it starts a text of its own.
            wanted = invalid.join(normalize(packed, part).encode() for part in parts)
            got, places = _native.normalize(packed, invalid.join(p.encode() for p in parts))
            assert got == wanted
            assert places is None or len(places) == 2 * len(got)


def test_marks_in_disorder_take_no_more_than_sorting() -> None:
    text = "a" + "\u0301\u0323\u0f71" * 100_000
    got = normalize(pack_steps((Form("NFC"),)), text)
    assert got == "ạ" + "\u0f71" * 100_000 + "\u0323" * 99_999 + "\u0301" * 100_000


# SentencePiece


def fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message that hold bytes."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 2:
            length = varint()
            yield key >> 3, data[at : at + length]
            at += length
        elif key & 7 == 0:
            varint()
        else:
            at += {1: 8, 5: 4}[key & 7]


@cache
def trained(rule: str) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(  # type: ignore[attr-defined]
        sentence_iterator=iter(["hello world foo bar", "the cat é"]),
        model_writer=model,
        vocab_size=30,
        model_type="bpe",
        normalization_rule_name=rule,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return model.getvalue()


@cache
def charsmap(rule: str) -> bytes:
    specs = [value for number, value in fields(trained(rule)) if number == 3]
    return next(value for number, value in fields(specs[0]) if number == 2)


def normalizer_of(rule: str) -> Callable[[str], str]:
    normalizer = sentencepiece.SentencePieceNormalizer(  # type: ignore[attr-defined]
        rule_name=rule,
        add_dummy_prefix=False,
        escape_whitespaces=False,
        remove_extra_whitespaces=False,
    )
    function: Callable[[str], str] = normalizer.normalize
    return function


@pytest.mark.parametrize("rule", RULES)
def test_character_map_equals_sentencepiece(rule: str) -> None:
    packed, theirs = pack_steps((Charsmap(charsmap(rule), False),)), normalizer_of(rule)
    whole = "\x01".join(SOME_POINTS[1:])
    assert normalize(packed, whole) == theirs(whole)
    for text in texts(random.Random(SEED), examples(3000)):
        assert normalize(packed, text) == theirs(text), ascii(text)


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nfkc"])
def test_squeezed_texts_have_sentencepiece_alignment(rule: str) -> None:
    model = sentencepiece.SentencePieceProcessor(model_proto=trained(rule))
    packed = pack_steps((Charsmap(charsmap(rule), False), Squeeze()))
    rng = random.Random(SEED)
    count = examples(2000)
    samples = [*texts(rng, count)]
    samples += ["".join(rng.choices(" ab▁\x07\u3000½", k=rng.randint(1, 70))) for _ in range(count)]
    for text in samples:
        got, spans = normalize_with_spans(packed, text)
        wanted, starts = model.normalize(text, with_offsets=True)
        assert ("▁" + got if got else "").replace(" ", "▁") == wanted, ascii(text)
        if not got:
            continue
        # The first is the prefix space. All results of one character end with it.
        assert [start for start, _ in spans] == starts[1:-1], ascii(text)
        for (start, end), after in zip(spans, starts[2:], strict=True):
            assert after in (start, end), ascii(text)


# Each tells clusters apart that differ in what its middle is.
CLUSTERS = ["a%s", "%sa", "%s\u0301", "%s\u0301\u0301", "©\u200d%s", "%s\u0903", "\u0600%s"]
CLUSTERS += ["\u0915\u094d%s\u0301", "©%s\u200d©\u0301", "a%s\u200d©\u0301", "a\u0301%s\u0301"]
CLUSTERS += ["%s\u094d\u0915\u0301", "\u0915%s\u0915\u0301", "\u0915%s\u094d\u0915\u0301"]
CLUSTERS += ["%s\u11a8\u0301", "\u1100%s\u0301", "\U0001f1e6%sa", "\r%s\r"]


@pytest.mark.parametrize("plane", [0, 1, 14])
def test_grapheme_clusters_are_hugging_faces_for_every_code_point(plane: int) -> None:
    chars = [c for c in SOME_POINTS[1:] if ord(c) >> 16 == plane and ord(c) & 0xFFFFF < 0xE1000]
    rules = dict.fromkeys([*chars, *"a©\u0301\u0903\u200d\u0915\u094d"], "Q")
    data = make_map(rules)
    packed, theirs = pack_steps((Charsmap(data, True),)), normalizers.Precompiled(data)
    for cluster in CLUSTERS:
        text = "\n".join(cluster % c for c in chars)
        if normalize(packed, text) != theirs.normalize_str(text):
            differ = [
                f"U+{ord(c):04X}"
                for c in chars
                if normalize(packed, cluster % c) != theirs.normalize_str(cluster % c)
            ]
            pytest.fail(f"tokenizers has other clusters for {cluster!a}: {differ[:50]}")


def random_map(rng: random.Random) -> bytes:
    keys = {"".join(rng.choices([*"abe \u0301\u0308\r"], k=rng.randint(1, 3))) for _ in range(9)}
    keys |= set(rng.sample(BASES + JOINING, 8))
    return make_map({key: rng.choice(["", "x", "yz", "é", key, " ab"]) for key in keys})


def test_character_map_by_grapheme_has_hugging_face_alignment() -> None:
    rng = random.Random(SEED)
    others = (random_map(rng) for _ in range(examples(60)))
    maps = [charsmap("nmt_nfkc"), charsmap("nfkc_cf"), *others]
    for index, data in enumerate(maps):
        theirs = normalizers.Precompiled(data)
        normalizer = normalizers.Sequence([theirs, normalizers.Replace("x", "uv")])
        tokenizer = character_tokenizer(normalizer)
        packed = pack_steps((Charsmap(data, True), Replace(Literally("x"), "uv")))
        for text in texts(rng, examples(2500) if index < 2 else max(20, examples(100))):
            mixed = text + "".join(rng.choices([*"abe \u0301\u0308\r\n"], k=rng.randrange(12)))
            wanted = normalizer.normalize_str(mixed), tokenizer.encode(mixed).offsets
            assert normalize_with_spans(packed, mixed) == wanted, ascii(mixed)


def test_rules_of_any_map_are_applied_to_the_longest_match() -> None:
    packed = pack_steps((Charsmap(make_map({"a": "1", "abc": "3", "é": "", "x": "x"}), False),))
    assert normalize_with_spans(packed, "abx") == ("1bx", [(0, 1), (1, 2), (2, 3)])
    assert normalize_with_spans(packed, "xabcéa") == ("x31", [(0, 1), (1, 5), (5, 6)])
    assert _native.normalize(packed, b"\xffabc\xc3")[0] == b"\xff3\xc3"


def test_damaged_character_map_is_rejected_or_harmless() -> None:
    rng = random.Random(SEED)
    data = charsmap("nmt_nfkc")
    sample = "".join(texts(rng, 200))
    for _ in range(examples(150)):
        damaged = bytearray(data)
        for _ in range(rng.choice([1, 10, 1000])):
            damaged[rng.randrange(len(damaged) if rng.random() < 0.8 else 4)] = rng.randrange(256)
        cut = bytes(damaged[: rng.choice([len(damaged), rng.randrange(len(damaged))])])
        with contextlib.suppress(VocabularyError):
            _native.normalize(pack_steps((Charsmap(cut, rng.random() < 0.5),)), sample.encode())
    # A leaf that points at itself, at an unused entry, and after the end.
    for unit in (0x1FF, 0xFFFFFFFF, 0x80000000, 0x3FF):
        blob = struct.pack("<I", 1024) + struct.pack("<I", unit) * 256 + b"a\0"
        _native.normalize(pack_steps((Charsmap(blob, False),)), bytes(range(256)))


# Limits


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((Lower(),) * 65, r"the normalizer has 65 steps; at most 64 can be loaded"),
        (
            (Prepend("x" * 257),),
            r"a Prepend of the normalizer has a text of 257 bytes; at most 256",
        ),
        ((Replace(Literally("a"), "é" * 513),), r"a Replace .* has a text of 1026 bytes"),
        ((Replace(Literally("a"), "x" * 65),), r"replaces 'a' with 65 bytes, .* 65 times longer"),
        ((Replace(Literally("a"), "x" * 64),) * 2, r"could make a text 4096 times longer; at most"),
        ((Charsmap(b"\4\0\0\0aaaa" + b"x" * 65 + b"\0", False),), r"a replacement of 65 bytes"),
        ((Charsmap(bytes((16 << 20) + 1), False),), r"the map .* has 16777217 bytes; at most"),
    ],
)
def test_steps_with_too_much_memory_are_rejected(steps: tuple[Step, ...], message: str) -> None:
    with pytest.raises(VocabularyError, match=message):
        pack_steps(steps)


@pytest.mark.parametrize("match", [Literally(""), Pattern("a*"), Pattern("a|"), Pattern("(?=a)")])
def test_empty_replacement_pattern_is_rejected(match: Literally | Pattern) -> None:
    with pytest.raises(PatternError, match="also matches the empty text; change it so that"):
        pack_steps((Replace(match, "x"),))


@pytest.mark.parametrize(
    "packed",
    [b"\0", bytes(11), struct.pack("<BBxxII", 9, 0, 0, 0), struct.pack("<BBxxII", 0, 4, 0, 0)]
    + [struct.pack("<BBxxII", tag, 0, 0, 0) for tag in (3, 4, 6)]
    + [struct.pack("<BBxxII", 2, 0, 2, 0) + b"a", struct.pack("<BBxxII", 6, 0, 4, 0) + bytes(4)],
)
def test_invalid_packed_steps_are_rejected(packed: bytes) -> None:
    with pytest.raises(VocabularyError, match="the normalizer is damaged"):
        _native.normalize(packed, "a")
