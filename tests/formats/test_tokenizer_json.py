"""tokenizer.json → TokenizerSpec → tokenizer.json: equal in Hugging Face, or an error."""

from __future__ import annotations

import json
import lzma
import random
from dataclasses import replace

import numpy as np
import pytest
import tokenizers
from conftest import FUZZ, SEED, SHARED_DATA, examples
from hf_documents import (
    BYTE_LEVEL,
    DIGITS,
    MERGES,
    PREPEND,
    REPLACE,
    START,
    VOCAB,
    A,
    B,
    added,
    byte_tokens,
    byte_vocabulary,
    document,
    dumps,
    metaspace,
    sequence,
    split,
    template,
)
from smaller_files import beginning

from tokenmill.errors import VocabularyError
from tokenmill.formats import tokenizer_json
from tokenmill.formats.spec import (
    BYTE,
    DECODED,
    TOKEN,
    Added,
    Form,
    Item,
    Lower,
    Prepend,
    Replace,
    Strip,
    Template,
    TokenizerSpec,
)
from tokenmill.formats.tokenizer_json import BYTE_LEVEL as R50K
from tokenmill.patterns.schemes import Literally, Pattern, Stage

BYTES = {"vocab": byte_vocabulary(), "merges": []}
SPACED = Stage(Literally("▁"), "merged_with_next")


def read(document: dict) -> TokenizerSpec:
    return tokenizer_json.read(dumps(document), "x.json")


def theirs(data: bytes) -> str:
    return tokenizers.Tokenizer.from_str(data.decode()).to_str()


def tokens(parts: TokenizerSpec) -> dict[int, tuple[bytes, int]]:
    model = parts.model
    ends = np.cumsum(model.lengths)
    return {
        int(id_): (model.data[end - length : end], int(kind))
        for id_, end, length, kind in zip(model.ids, ends, model.lengths, model.kinds, strict=True)
    }


def sequence_of(key: str, *parts: dict) -> dict:
    return {"type": "Sequence", key: list(parts)}


# ── What parts become ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("normalizer", "pre_tokenizer", "expected"),
    [
        (None, None, {}),
        (sequence(), sequence(), {}),
        ({"type": "NFC"}, None, {"steps": (Form("NFC"),)}),
        (
            sequence({"type": "NFKD"}, sequence({"type": "Lowercase"})),
            None,
            {"steps": (Form("NFKD"), Lower())},
        ),
        (
            {"type": "Strip", "strip_left": True, "strip_right": False},
            None,
            {"steps": (Strip(True, False),)},
        ),
        (
            {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "$1"},
            None,
            {"steps": (Replace(Pattern("a+"), "$1"),)},
        ),
        ({"type": "Prepend", "prepend": ""}, None, {}),
        # Spaces become ▁: both orders, with other steps before it, or without a prefix.
        (sequence(PREPEND, REPLACE), None, {"blank": True, "prefix": "always"}),
        (sequence(REPLACE, PREPEND), None, {"blank": True, "prefix": "always"}),
        (REPLACE, None, {"blank": True}),
        (
            sequence({"type": "NFC"}, PREPEND, REPLACE),
            None,
            {"blank": True, "prefix": "always", "steps": (Form("NFC"),)},
        ),
        # Gemma: no space is left to split at.
        (REPLACE, split({"String": " "}, "MergedWithPrevious"), {"blank": True}),
        (REPLACE, DIGITS, {"blank": True, "stages": (Stage("digits", "isolated"),)}),
        (
            REPLACE,
            split({"String": "▁"}, "MergedWithNext"),
            {"blank": True, "stages": (SPACED,)},
        ),
        # Plain replacement: another step follows, or the difference is visible to it.
        (
            sequence(REPLACE, {"type": "NFC"}),
            None,
            {"steps": (Replace(Literally(" "), "▁"), Form("NFC"))},
        ),
        (
            sequence(PREPEND, {"type": "NFC"}, REPLACE),
            None,
            {"blank": True, "steps": (Prepend("▁"), Form("NFC"))},
        ),
        (PREPEND, None, {"steps": (Prepend("▁"),)}),
        (
            REPLACE,
            {"type": "WhitespaceSplit"},
            {"steps": (Replace(Literally(" "), "▁"),), "stages": (Stage("space", "removed"),)},
        ),
        (
            {"type": "Replace", "pattern": {"String": " "}, "content": "_"},
            None,
            {"steps": (Replace(Literally(" "), "_"),)},
        ),
        (
            None,
            metaspace(),
            {"blank": True, "prefix": "missing", "stages": (SPACED,)},
        ),
        (
            None,
            metaspace(prepend_scheme="first", split=False),
            {"blank": True, "prefix": "missing_first"},
        ),
        (None, metaspace(prepend_scheme="never", split=False), {"blank": True}),
        (
            None,
            {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True, "str_rep": "▁"},
            {"blank": True, "prefix": "missing", "stages": (SPACED,)},
        ),
        (
            None,
            sequence(DIGITS, metaspace(prepend_scheme="never")),
            {"blank": True, "stages": (Stage("digits", "isolated"), SPACED)},
        ),
        (
            None,
            {"type": "Digits", "individual_digits": False},
            {"stages": (Stage("digits", "contiguous"),)},
        ),
        (None, {"type": "Punctuation"}, {"stages": (Stage("punctuation", "isolated"),)}),
        (
            None,
            {"type": "Whitespace"},
            {
                "stages": (
                    Stage(
                        Pattern(r"[\w\x{200C}\x{200D}]+|[^\w\s\x{200C}\x{200D}]+"), "removed", True
                    ),
                )
            },
        ),
        (
            None,
            {"type": "CharDelimiterSplit", "delimiter": "-"},
            {"stages": (Stage(Literally("-"), "removed"),)},
        ),
        (
            None,
            split({"Regex": "a|b"}, "Contiguous", True),
            {"stages": (Stage(Pattern("a|b"), "contiguous", True),)},
        ),
    ],
)
def test_normalizer_and_pre_tokenizer_become_steps_and_stages(normalizer, pre_tokenizer, expected):
    made = document(normalizer=normalizer, pre_tokenizer=pre_tokenizer)
    parts = read(made)
    found = {key: getattr(parts, key) for key in ("steps", "blank", "prefix", "stages")}
    assert found == {"steps": (), "blank": False, "prefix": "never", "stages": (), **expected}
    assert parts.model.base == "characters"
    assert theirs(tokenizer_json.write(parts)) == theirs(dumps(made))
    # Written from the parts alone it is another file that says the same.
    again = tokenizer_json.read(tokenizer_json.write(replace(parts, extra={})), "y.json")
    assert {key: getattr(again, key) for key in found} == found


@pytest.mark.parametrize(
    ("pre_tokenizer", "prefix", "stages"),
    [
        (BYTE_LEVEL, "never", (R50K,)),
        ({k: v for k, v in BYTE_LEVEL.items() if k != "use_regex"}, "never", (R50K,)),
        ({**BYTE_LEVEL, "add_prefix_space": True}, "missing", (R50K,)),
        ({**BYTE_LEVEL, "use_regex": False}, "never", ()),
        (sequence(DIGITS, BYTE_LEVEL), "never", (Stage("digits", "isolated"), R50K)),
        (
            sequence(split({"Regex": "x"}), {**BYTE_LEVEL, "use_regex": False}),
            "never",
            (Stage(Pattern("x"), "isolated"),),
        ),
    ],
)
def test_byte_level_starts_with_bytes(pre_tokenizer, prefix, stages):
    made = document(BYTES, pre_tokenizer=pre_tokenizer)
    parts = read(made)
    assert (parts.model.base, parts.prefix, parts.stages) == ("bytes", prefix, stages)
    assert {token for token, _ in tokens(parts).values()} == {bytes([b]) for b in range(256)}
    for extra in (parts.extra, {}):
        written = tokenizer_json.write(replace(parts, extra=extra))
        assert theirs(written) == theirs(dumps(made))


def test_byte_level_normalizer_starts_with_bytes_too():
    made = document(BYTES, normalizer=sequence({"type": "NFC"}, {"type": "ByteLevel"}))
    parts = read(made)
    assert (parts.model.base, parts.steps, parts.stages) == ("bytes", (Form("NFC"),), ())
    assert theirs(tokenizer_json.write(parts)) == theirs(dumps(made))


def test_names_outside_of_the_byte_alphabet_are_only_decoded():
    vocab = {**byte_vocabulary(), "<｜x▁｜>": 256, "": 257, "Ġa": 258}
    made = document({"vocab": vocab, "merges": [["Ġ", "a"]]}, pre_tokenizer=BYTE_LEVEL)
    parts = read(made)
    found = tokens(parts)
    assert found[256] == ("<｜x▁｜>".encode(), DECODED)
    assert found[257] == (b"", DECODED)
    assert found[258] == (b" a", TOKEN)
    assert parts.model.merges.tolist() == [[vocab["Ġ"], vocab["a"]]]
    assert theirs(tokenizer_json.write(parts)) == theirs(dumps(made))


def test_options_of_the_model():
    parts = read(document())
    assert (parts.model.missing, parts.model.unk, parts.model.whole) == ("drop", None, False)
    options = {"unk_token": "<unk>", "fuse_unk": True, "ignore_merges": True, "dropout": 0.5}
    made = document(options)
    model = read(made).model
    assert (model.missing, model.unk, model.fuse_unk, model.whole) == ("unk", 5, True, True)
    assert model.dropout == 0.5
    assert theirs(tokenizer_json.write(read(made))) == theirs(dumps(made))
    # Null is false, a missing type is BPE, and unknown fields are ignored.
    loose = document({"fuse_unk": None, "byte_fallback": None, "ignore_merges": None, "x": 1})
    del loose["model"]["type"]
    assert not read(loose).model.fuse_unk
    assert theirs(tokenizer_json.write(read(loose))) == theirs(dumps(loose))


def test_byte_tokens_are_bytes():
    vocab = {**VOCAB, **byte_tokens()}
    made = document({"vocab": vocab, "unk_token": "<unk>", "byte_fallback": True})
    parts = read(made)
    assert (parts.model.missing, parts.model.unk) == ("bytes", 5)
    found = tokens(parts)
    assert found[6 + 0xE4] == (b"\xe4", BYTE)
    assert found[4] == ("▁ab".encode(), TOKEN)
    assert theirs(tokenizer_json.write(parts)) == theirs(dumps(made))
    # Without byte_fallback they are ordinary names. Without them byte_fallback has no effect.
    assert tokens(read(document({"vocab": vocab})))[6][0] == b"<0x00>"
    idle = document({"byte_fallback": True})
    assert read(idle).model.missing == "drop"
    assert theirs(tokenizer_json.write(read(idle))) == theirs(dumps(idle))


def test_tokens_with_a_space_are_only_decoded_if_spaces_are_replaced():
    vocab = {**VOCAB, "a b": 6, "x ": 7}
    found = tokens(read(document({"vocab": vocab}, normalizer=REPLACE)))
    assert [found[id_][1] for id_ in (4, 5, 6, 7)] == [TOKEN, TOKEN, DECODED, DECODED]
    assert tokens(read(document({"vocab": vocab})))[6][1] == TOKEN


def test_added_tokens_have_their_flags():
    made = document(
        added_tokens=[
            added("ab", 2, special=False, normalized=True),
            added("<s>", 6, lstrip=True),
            added("<x>", 7, rstrip=True),
            added("<x>", 7, single_word=True),  # once more: the last counts
            added("", 9),  # ignored
        ]
    )
    parts = read(made)
    assert parts.added == (
        Added("ab", 2, special=False, normalized=True),
        Added("<s>", 6, lstrip=True),
        Added("<x>", 7, single_word=True),
    )
    assert theirs(tokenizer_json.write(parts)) == theirs(dumps(made))


@pytest.mark.parametrize(
    ("post_processor", "expected"),
    [
        (None, Template()),
        ({**BYTE_LEVEL, "trim_offsets": False}, Template()),
        ({**BYTE_LEVEL, "add_prefix_space": True}, Template(trims=True, trim_prefix=True)),
        (
            sequence(BYTE_LEVEL, template()),
            Template(
                (Item("<s>", 0, (0,), ("<s>",)), Item("A", 0, None)),
                (Item("<s>", 0, (0,), ("<s>",)), Item("A", 0, None), Item("B", 1, None)),
                trims=True,
            ),
        ),
        (
            template(single=[A], pair=[B, A]),
            Template(pair=(Item("B", 1, None), Item("A", 0, None))),
        ),
        (
            {"type": "BertProcessing", "sep": ["b", 1], "cls": ["a", 0]},
            Template(
                (Item("a", 0, (0,), ("a",)), Item("A", 0, None), Item("b", 0, (1,), ("b",))),
                (
                    Item("a", 0, (0,), ("a",)),
                    Item("A", 0, None),
                    Item("b", 0, (1,), ("b",)),
                    Item("B", 1, None),
                    Item("b", 1, (1,), ("b",)),
                ),
            ),
        ),
        (
            {
                "type": "RobertaProcessing",
                "sep": ["b", 1],
                "cls": ["a", 0],
                "trim_offsets": True,
                "add_prefix_space": False,
            },
            Template(
                (Item("a", 0, (0,), ("a",)), Item("A", 0, None), Item("b", 0, (1,), ("b",))),
                (
                    Item("a", 0, (0,), ("a",)),
                    Item("A", 0, None),
                    Item("b", 0, (1,), ("b",)),
                    Item("b", 0, (1,), ("b",)),
                    Item("B", 0, None),
                    Item("b", 0, (1,), ("b",)),
                ),
                trims=True,
            ),
        ),
    ],
)
def test_post_processor_becomes_a_template(post_processor, expected):
    made = document(post_processor=post_processor)
    parts = read(made)
    assert parts.template == expected
    assert theirs(tokenizer_json.write(parts)) == theirs(dumps(made))
    again = tokenizer_json.read(tokenizer_json.write(replace(parts, extra={})), "y.json")
    assert again.template == expected
    one = tokenizers.Tokenizer.from_str(dumps(made).decode())
    other = tokenizers.Tokenizer.from_str(tokenizer_json.write(replace(parts, extra={})).decode())
    for pair in (("ab", None), ("ab", "aab")):
        first, second = one.encode(*pair), other.encode(*pair)
        assert (first.ids, first.type_ids) == (second.ids, second.type_ids)


def test_truncation_padding_and_decoder_are_kept():
    truncation = {"max_length": 5, "stride": 1, "strategy": "LongestFirst", "direction": "Left"}
    padding = {"strategy": {"Fixed": 7}, "direction": "Right", "pad_to_multiple_of": 8}
    padding |= {"pad_id": 1, "pad_type_id": 0, "pad_token": "b"}
    decoder = sequence(
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    )
    made = document(truncation=truncation, padding=padding, decoder=decoder)
    parts = read(made)
    assert parts.extra["truncation"] == truncation
    assert parts.extra["padding"] == padding
    assert parts.decoder == decoder
    assert theirs(tokenizer_json.write(parts)) == theirs(dumps(made))


def test_changed_spec_is_written_instead_of_the_file():
    parts = read(document(normalizer={"type": "NFC"}, post_processor=template()))
    written = json.loads(tokenizer_json.write(replace(parts, steps=(Lower(),), blank=True)))
    assert written["normalizer"] == sequence_of("normalizers", {"type": "Lowercase"}, REPLACE)
    written = json.loads(tokenizer_json.write(replace(parts, template=Template())))
    assert written["post_processor"] is None
    assert written["normalizer"] == {"type": "NFC"}


# ── Whole tokenizers ─────────────────────────────────────────────────────────────────────────


def test_trained_tokenizers_come_back_whole():
    rng = random.Random(SEED)
    lines = ["".join(rng.choices("abcde éß中 .", k=40)) for _ in range(200)]
    for pre_tokenizer, fallback in (("ByteLevel", False), ("Metaspace", True)):
        made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
        made.pre_tokenizer = getattr(tokenizers.pre_tokenizers, pre_tokenizer)()
        made.decoder = getattr(tokenizers.decoders, pre_tokenizer)()
        special = ["<unk>", "<s>", *(byte_tokens() if fallback else ())]
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=800, special_tokens=special, show_progress=False
        )
        made.train_from_iterator(lines, trainer)
        data = made.to_str().encode()
        parts = tokenizer_json.read(data, "trained")
        assert theirs(tokenizer_json.write(parts)) == made.to_str()
        bare = tokenizers.Tokenizer.from_str(
            tokenizer_json.write(replace(parts, extra={})).decode()
        )
        assert [e.ids for e in bare.encode_batch(lines)] == [
            e.ids for e in made.encode_batch(lines)
        ]


def test_damaged_documents_are_refused_or_read():
    """Any part replaced by anything: a VocabularyError or parts that can be written again."""
    rng = random.Random(SEED)
    whole = document(
        {"vocab": {**VOCAB, **byte_tokens()}, "byte_fallback": True, "unk_token": "<unk>"},
        normalizer=sequence({"type": "NFC"}, PREPEND, REPLACE),
        pre_tokenizer=sequence(DIGITS, split({"String": "-"})),
        post_processor=sequence(BYTE_LEVEL, template()),
        decoder=sequence({"type": "Fuse"}),
        added_tokens=[added("<unk>", 5), added("<s>", 262)],
    )
    read(whole)
    values = [None, 0, -1, 1.5, "", "x", "▁", True, [], {}, ["a"], {"type": "NFC"}, START, MERGES]
    for _ in range(examples(3_000)):
        made = json.loads(json.dumps(whole))
        at = made
        while True:
            key = rng.choice(list(at) if isinstance(at, dict) else range(len(at)))
            if not isinstance(at[key], dict | list) or not at[key] or rng.random() < 0.3:
                break
            at = at[key]
        at[key] = rng.choice(values)
        try:
            parts = read(made)
        except VocabularyError as error:
            assert str(error).startswith("x.json: ")
        else:
            assert tokenizer_json.read(tokenizer_json.write(parts), "again").stages == parts.stages


if SHARED_DATA is not None:
    FILES = sorted((SHARED_DATA / "vocab" / "hf").glob("*.xz"))

    @pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
    def test_real_files_come_back_whole(path):
        data = lzma.decompress(path.read_bytes())
        if FUZZ < 100:
            data = dumps(beginning(json.loads(data)))
        parts = tokenizer_json.read(data, path.stem)
        written = tokenizer_json.write(parts)
        assert theirs(written) == theirs(data)
        assert tokenizer_json.write(tokenizer_json.read(written, path.stem)) == written

    @pytest.mark.parametrize("path", FILES[-1:], ids=lambda path: path.stem)
    def test_real_files_that_are_damaged_are_refused(path):
        data = lzma.decompress(path.read_bytes())
        rng = random.Random(SEED)
        for _ in range(max(3, examples(20))):
            with pytest.raises(VocabularyError):
                tokenizer_json.read(data[: rng.randrange(len(data) - 2)], path.stem)
