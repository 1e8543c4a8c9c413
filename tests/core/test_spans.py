"""Where ids come from → the places and words that Hugging Face gives, on any path."""

import json
import random

import numpy as np
import pytest
import tokenizers
from conftest import SEED, examples, write_ranks
from hard_inputs import STRINGS
from hugging_face import FLAGS, add, byte_level, core_of, hf, random_text, with_ids
from test_added import NAMES, PIECES

from tokenmill import Tokenizer
from tokenmill.formats.build import pack_added
from tokenmill.formats.spec import Added
from tokenmill.native import _native


def spans_of(core, text, allowed, threads=1):
    ids, flat = core.encode_spans(text, allowed, threads)
    pairs = np.asarray(flat).reshape(-1, 2).tolist()
    return np.asarray(ids).tolist(), [tuple(pair) for pair in pairs]


def test_words_and_offsets_equal_hugging_face():
    generator = random.Random(SEED)
    for _ in range(max(4, examples(40))):
        names = generator.sample(NAMES, generator.randrange(1, 6))
        added = [
            Added(name, 0, normalized=generator.random() < 0.5, **generator.choice(FLAGS))
            for name in names
        ]
        prefix = generator.choice(["never", "missing"])
        tokenizer = byte_level(added, prefix == "missing")
        added = with_ids(tokenizer, added)
        core = core_of(tokenizer, added, prefix=prefix)
        allowed = b"\x01" * len(added)
        for _ in range(60):
            text = random_text(generator, PIECES)
            try:
                expected = tokenizer.encode(text, add_special_tokens=False)
            except BaseException as error:
                if type(error).__name__ == "PanicException":
                    continue
                raise
            given = (expected.ids, expected.offsets, expected.word_ids)
            assert core.encode_words(text, allowed) == given, text
            assert core.encode_with_offsets(text, allowed) == given[:2]
            assert spans_of(core, text, allowed) == given[:2]


def test_words_of_a_long_text_equal_hugging_face():
    tokenizer = byte_level([])
    core = core_of(tokenizer, [])
    generator = random.Random(SEED)
    text = random_text(generator, [*PIECES, "x" * 5000, "你好" * 900, "\xad"], 4000)
    expected = tokenizer.encode(text, add_special_tokens=False)
    ids, spans, words = core.encode_words(text, None)
    assert (ids, spans, words) == (expected.ids, expected.offsets, expected.word_ids)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_offsets_are_equal_on_every_path(tokenizer, threads):
    core = tokenizer._core
    names = "".join(tokenizer.special_tokens)
    texts = random.Random(SEED).sample(STRINGS, examples(400))
    # Texts of more than 1 MiB are encoded on several threads. Dashes fill fewer words up to that.
    count = examples(90_000)
    words = ("hello wörld 你好 " + "-" * (1_100_000 // count - 12)) * count
    texts += [words + names + "a" * 2000 + "\U0001f642" * 300, ""]
    allowed = b"\x01" * len(tokenizer.special_tokens) or None
    for text in texts:
        try:
            data = text.encode()
        except UnicodeEncodeError:
            continue
        for some in (text, data):
            expected = core.encode_with_offsets(some, allowed)
            assert expected[0] == core.encode(some, allowed)
            assert spans_of(core, some, allowed, threads) == expected
            assert core.encode_words(some, allowed)[:2] == expected
        # In bytes the tokens are adjacent.
        edges = [edge for span in expected[1] for edge in span]
        assert edges[:1] == [0][: len(edges)]
        assert edges[1:-1:2] == edges[2::2]
        assert edges[-1:] == [len(data)][: len(edges)]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("pattern", ["r50k", "[a-z]+|[^a-z]"])
def test_offsets_of_long_tokens_equal_those_of_their_bytes(tmp_path, pattern, threads):
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [b"a" * length for length in (2, 3, 127, 254, 255, 256, 257, 600)]
    path = write_ranks(tmp_path / "long.tiktoken", tokens)
    tokenizer = Tokenizer.load(path, pattern=pattern, special_tokens={"<x>": 600})
    lengths = [1, 2, 3, 127, 254, 255, 256, 257, 600]
    text = "".join("a" * length + mark for length in lengths for mark in (" ", "é", "<x>"))
    for some in (text, text.encode(), text * max(220, examples(400))):  # the last has threads
        ids, spans = tokenizer.encode_array(
            some, allowed_special=True, threads=threads, offsets=True
        )
        covered = [tokenizer.decode_bytes([one]) for one in ids.tolist()]
        ends = np.cumsum([len(one) for one in covered])
        told = [(end - len(one), end) for one, end in zip(covered, ends.tolist(), strict=True)]
        told = told if isinstance(some, bytes) else in_characters(some, told)
        assert [tuple(row) for row in spans.tolist()] == told
        assert set(lengths) <= {len(one) for one in covered}


def test_partial_character_covers_the_whole_character():
    tokenizer = byte_level([])
    core = core_of(tokenizer, [])
    text = "a\U0001f642é\u2581b"
    expected = tokenizer.encode(text)
    assert core.encode_with_offsets(text, None) == (expected.ids, expected.offsets)
    assert core.encode_with_offsets(text, None)[1][1:4] == [(1, 2)] * 3


# Hugging Face's normaliser and pre-tokenizer → the core's prefix and scheme.
BLANKS = [
    (None, ("always", True), "missing", "metaspace"),
    (None, ("first", True), "missing_first", "metaspace"),
    (None, ("never", True), "never", "metaspace"),
    (None, ("first", False), "missing_first", "safe"),
    ("prepend", None, "always", "safe"),
    ("replace", None, "never", "safe"),
]


def blank_pair(kind, added):
    """A character tokenizer in which "▁" is a space, and its core."""
    normaliser, metaspace, prefix, scheme = kind
    letters = "▁abc_<>.é你1\n"
    merges = [("a", "b"), ("▁", "ab"), ("▁", "a"), ("▁", "▁"), ("b", "c"), ("▁ab", "c"), ("é", "a")]
    tokens = [*letters, *("".join(pair) for pair in merges)]
    vocab = {token: index for index, token in enumerate(reversed(tokens))}
    tokenizer = hf.Tokenizer(hf.models.BPE(vocab, merges))
    replace = hf.normalizers.Replace(" ", "▁")
    if normaliser is not None:
        first = [hf.normalizers.Prepend("▁")] if normaliser == "prepend" else []
        tokenizer.normalizer = hf.normalizers.Sequence([*first, replace])
    if metaspace is not None:
        tokenizer.pre_tokenizer = hf.pre_tokenizers.Metaspace("▁", *metaspace)
    add(tokenizer, added)
    added = with_ids(tokenizer, added)
    more = [entry for entry in added if entry.content not in vocab]
    spelled = [token.encode() for token in (*tokens, *(entry.content for entry in more))]
    numbers = [*(vocab[token] for token in tokens), *(entry.id for entry in more)]
    kinds = [0] * len(tokens) + [2] * len(more)
    places = np.array([tokens.index(part) for pair in merges for part in pair], np.uint32)
    bundle = _native.pack_bundle(
        "model",
        b"".join(spelled),
        scheme,
        lengths=np.array([len(token) for token in spelled], np.uint32),
        ids=np.array(numbers, np.uint32),
        kinds=np.array(kinds, np.uint8),
        merges=places,
        characters=True,
        space_marker=True,
        missing="drop",
        **pack_added(added),
        prefix=prefix,
    )
    return tokenizer, _native.load(bundle, 5), added


@pytest.mark.parametrize("kind", BLANKS)
def test_prefixes_and_replaced_marks_equal_hugging_face(kind):
    generator = random.Random(SEED)
    for _ in range(max(3, examples(30))):
        added = [
            Added(name, 0, normalized=generator.random() < 0.4)
            for name in generator.sample(["<a>", "bb", "c_", "<", "1."], generator.randrange(4))
        ]
        tokenizer, core, added = blank_pair(kind, added)
        allowed = b"\x01" * len(added)
        pieces = ["a", "b", "c", " ", "▁", "<a>", "é", "你", ".", "_", "bb", "1.", "\n", "  "]
        for _ in range(80):
            text = random_text(generator, pieces)
            expected = tokenizer.encode(text, add_special_tokens=False)
            given = (expected.ids, expected.offsets, expected.word_ids)
            assert core.encode_words(text, allowed) == given, text
            assert spans_of(core, text, allowed) == given[:2]
            assert core.encode(text, allowed) == expected.ids


@pytest.mark.parametrize(
    "text", ["", "hello naïve 🙂 中文", "a\ud83d b \ud83d\ude42 c", b"\xff ab"]
)
def test_arrays_equal_lists(tokenizers, text):
    for tokenizer in tokenizers.values():
        ids, spans = tokenizer.encode_array(text, offsets=True)
        assert spans.shape == (len(ids), 2)
        assert (ids.tolist(), [tuple(row) for row in spans.tolist()]) == (
            tokenizer.encode_with_offsets(text)
        )


def metaspace_document(generator, *, unk):
    """A tokenizer.json of a few characters with Metaspace; others are left out without `unk`."""
    vocab = {"<unk>": 0} if unk else {}
    for character in [*generator.sample("abcé你🙂.", 5), "▁"]:
        vocab[character] = len(vocab)
    merges = []
    for _ in range(generator.randrange(6)):
        pair = generator.sample([*vocab][unk:], 2)
        if "".join(pair) not in vocab:
            merges.append(pair)
            vocab["".join(pair)] = len(vocab)
    flags = {key: generator.random() < 0.4 for key in ("lstrip", "rstrip", "single_word")}
    name = {"id": len(vocab), "content": "<x>", "normalized": generator.random() < 0.5, **flags}
    scheme = generator.choice(["always", "never", "first"])
    pre = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme}
    model = {"type": "BPE", "unk_token": "<unk>" if unk else None, "fuse_unk": False}
    return {
        "version": "1.0",
        "added_tokens": [{**name, "special": False}],
        "normalizer": generator.choice([None, {"type": "NFC"}, {"type": "Lowercase"}]),
        "pre_tokenizer": {**pre, "split": generator.random() < 0.5},
        "model": {**model, "byte_fallback": False, "vocab": vocab, "merges": merges},
    }


@pytest.mark.parametrize("unk", [False, True])
def test_offsets_next_to_dropped_text_equal_hugging_face(tmp_path, unk):
    generator = random.Random(SEED)
    path = tmp_path / "tokenizer.json"
    for _ in range(examples(120)):
        path.write_text(json.dumps(metaspace_document(generator, unk=unk)))
        theirs = tokenizers.Tokenizer.from_file(str(path))
        ours = Tokenizer.load(path)
        for _ in range(40):
            text = random_text(generator, [*"abcABé你🙂. ▁\n", "  ", "<x>", "e\u0301"], 14)
            expected = theirs.encode(text, add_special_tokens=False)
            found = ours.encode_with_offsets(text)
            assert found == (expected.ids, expected.offsets), (text, path.read_text())


# Text that all `NORMALISERS` keep, and text that some of them change.
KEPT = ["the cat ", "sat", "你好", "\U0001f642", ".", "12", "\n", "à", "ж"]
CHANGED = ["e\u0301", "\u212b", "A", "HELLO", "\u1100\u1161", "ﬁ", "  ", "▁", "b\u0323\u0307", "İ"]
NORMALISERS = [
    [{"type": "NFC"}],
    [{"type": "NFKC"}, {"type": "Lowercase"}],
    [{"type": "NFD"}, {"type": "Lowercase"}, {"type": "NFC"}],
    [{"type": "Replace", "pattern": {"String": "  "}, "content": "_"}, {"type": "NFC"}],
    [{"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "NFC"}],
]


def rarely_changed(generator, longest):
    """A text with a few changes, between stretches of any length up to `longest`."""
    text = ""
    for _ in range(generator.randrange(5)):
        stretch = generator.choice([1, 40, 600, longest])
        parts = generator.choices(KEPT, k=generator.randrange(1, len(KEPT)))
        while stretch > 0:
            text += generator.choice(parts)
            stretch -= generator.randrange(1, 9)
        text += "".join(generator.choices(CHANGED, k=generator.randrange(3)))
    return text


def in_characters(text, spans):
    """Spans of bytes as those of all characters of which they have a part."""
    data = text.encode()
    starts = np.frombuffer(data, np.uint8) & 0xC0 != 0x80
    before = np.concatenate([[0], np.cumsum(starts)])
    return [(int(before[start + 1]) - 1, int(before[end])) for start, end in spans]


@pytest.mark.parametrize("steps", NORMALISERS)
def test_offsets_between_changes_equal_hugging_face(tmp_path, steps):
    generator = random.Random(SEED)
    document = json.loads(byte_level([Added("<a>", 0)]).to_str())
    document["normalizer"] = {"type": "Sequence", "normalizers": steps}
    document["pre_tokenizer"]["trim_offsets"] = False
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(document))
    theirs, ours = tokenizers.Tokenizer.from_file(str(path)), Tokenizer.load(path)
    for _ in range(examples(150)):
        text = rarely_changed(generator, 9000)
        expected = theirs.encode(text, add_special_tokens=False)
        found = ours.encode_with_offsets(text)
        assert found == (expected.ids, expected.offsets), text
        ids, spans = ours.encode_with_offsets(text.encode())
        assert (ids, in_characters(text, spans)) == found
        array, rows = ours.encode_array(text, offsets=True)
        assert (array.tolist(), [tuple(row) for row in rows.tolist()]) == found


@pytest.mark.parametrize("kind", BLANKS)
def test_offsets_between_marks_equal_hugging_face(kind):
    generator = random.Random(SEED)
    tokenizer, core, added = blank_pair(kind, [Added("<a>", 0, normalized=True)])
    allowed = b"\x01" * len(added)
    for _ in range(examples(60)):
        text = ""
        for _ in range(generator.randrange(6)):
            size = generator.choice([1, 40, 600, 9000])
            text += "".join(generator.choices("ab c.é你1", k=generator.randrange(size)))
            text += generator.choice(["▁", "▁▁", " ▁", "<a>", "é▁", ""])
        expected = tokenizer.encode(text, add_special_tokens=False)
        assert spans_of(core, text, allowed) == (expected.ids, expected.offsets)


def test_change_keeps_the_offsets_of_other_bytes(tmp_path):
    document = json.loads(byte_level([]).to_str())
    document["normalizer"] = {"type": "NFC"}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(document))
    tokenizer = Tokenizer.load(path)
    text = "a\U0001f642é 你".encode()
    ids, spans = tokenizer.encode_with_offsets(text + b" ")
    more_ids, more_spans = tokenizer.encode_with_offsets(text + " e\u0301".encode())
    assert ids[:-1] == more_ids[: len(ids) - 1]
    assert spans[:-1] == more_spans[: len(ids) - 1]
