"""Families of tokenizer.json → small files of each, with the parts that the real models have.

The vocabularies are learned here, by Hugging Face's trainer from the fixtures; normalizers,
pre-tokenizers, models' options, added tokens, post-processors and decoders are those of the models
that a family is named after.
"""

from __future__ import annotations

import functools
import json
from typing import Any

import tokenizers
from conftest import FIXTURES
from tokenizers import Tokenizer as Real

VOCAB_SIZE = 1200

_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
_PLAIN = {**_BYTE_LEVEL, "use_regex": False}
_REGEX = {**_BYTE_LEVEL, "use_regex": True}


def _split(pattern: str, behavior: str = "Isolated", invert: bool = False) -> dict[str, Any]:
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": behavior,
        "invert": invert,
    }


def _sequence(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": list(parts)}


_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_DEEPSEEK = (
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
)
_BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"
_DIGITS = {"type": "Digits", "individual_digits": True}


def _added(content: str, special: bool = True, **flags: bool) -> dict[str, Any]:
    usual = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": not special}
    return {"content": content, **usual, "special": special, **flags}


def _template(*special_tokens: str, end: tuple[str, ...] = ()) -> dict[str, Any]:
    def named(name: str, type_id: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": name, "type_id": type_id}}

    def around(sequence: str, type_id: int) -> list[dict[str, Any]]:
        middle = {"Sequence": {"id": sequence, "type_id": type_id}}
        front = [named(name, type_id) for name in special_tokens]
        return [*front, middle, *(named(name, type_id) for name in end)]

    return {
        "type": "TemplateProcessing",
        "single": around("A", 0),
        "pair": around("A", 0) + around("B", 1),
        "special_tokens": {name: name for name in (*special_tokens, *end)},
    }


# Family → normalizer, pre-tokenizer, post-processor, more of the model, added tokens.
BYTE_LEVEL: dict[str, tuple[Any, Any, Any, dict[str, Any], list[dict[str, Any]]]] = {
    "gpt2": (None, _REGEX, {**_REGEX, "trim_offsets": False}, {}, [_added("<|endoftext|>")]),
    "roberta": (
        None,
        {**_REGEX, "add_prefix_space": True},
        {
            "type": "RobertaProcessing",
            "sep": "</s>",
            "cls": "<s>",
            "trim_offsets": True,
            "add_prefix_space": True,
        },
        {},
        [_added("<s>"), _added("</s>"), _added("<mask>", lstrip=True)],
    ),
    "gpt_neox": (
        {"type": "NFC"},
        _REGEX,
        {**_REGEX, "add_prefix_space": False},
        {},
        [_added("<|endoftext|>"), *(_added(" " * n, special=False) for n in range(24, 1, -1))],
    ),
    "llama3": (
        None,
        _sequence(_split(_LLAMA3), _PLAIN),
        {
            "type": "Sequence",
            "processors": [{**_REGEX, "trim_offsets": False}, _template("<|begin_of_text|>")],
        },
        {"ignore_merges": True},
        [_added("<|begin_of_text|>"), _added("<|eot_id|>")],
    ),
    "qwen2": (
        {"type": "NFC"},
        _sequence(_split(_LLAMA3.replace("{1,3}", "")), _PLAIN),
        {**_PLAIN, "trim_offsets": False},
        {},
        [_added("<|im_start|>"), _added("<tool_call>", special=False, normalized=False)],
    ),
    "deepseek_v3": (
        {"type": "Sequence", "normalizers": []},
        _sequence(*map(_split, _DEEPSEEK), _PLAIN),
        {**_REGEX, "add_prefix_space": True, "trim_offsets": False},
        {},
        [_added("<｜begin▁of▁sentence｜>"), _added("<think>", special=False, normalized=False)],
    ),
    "command_r": (
        {"type": "NFC"},
        _sequence(_DIGITS, _REGEX),
        _template("<BOS_TOKEN>"),
        {},
        [_added("<BOS_TOKEN>"), _added("<|START_OF_TURN_TOKEN|>")],
    ),
    "starcoder": (None, _sequence(_DIGITS, _REGEX), None, {}, [_added("<fim_prefix>")]),
    "falcon": (
        None,
        _sequence(
            {"type": "Punctuation", "behavior": "Contiguous"},
            _REGEX,
            {"type": "Digits", "individual_digits": False},
            _split("[0-9][0-9][0-9]"),
        ),
        None,
        {},
        [_added(">>TITLE<<"), _added("<|endoftext|>")],
    ),
    "bloom": (
        None,
        _sequence(_split(_BLOOM), {**_PLAIN, "trim_offsets": True}),
        {**_PLAIN, "add_prefix_space": True, "trim_offsets": False},
        {},
        [_added("<s>")],
    ),
    "claude": ({"type": "NFKC"}, _BYTE_LEVEL, None, {}, [_added("<EOT>"), _added("<META>")]),
}

_UNDERSCORE = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
_LLAMA_NORMALIZER = {
    "type": "Sequence",
    "normalizers": [{"type": "Prepend", "prepend": "▁"}, _UNDERSCORE],
}
_LLAMA_SPECIALS = ("<unk>", "<s>", "</s>")


def _metaspace(scheme: str, split: bool) -> dict[str, Any]:
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}


# Family → normalizer, pre-tokenizer, strip at decoding, more of the model, added tokens.
PIECES: dict[str, tuple[Any, Any, bool, dict[str, Any], list[dict[str, Any]]]] = {
    "llama2": (_LLAMA_NORMALIZER, None, True, {}, []),
    "llama2_metaspace": (None, _metaspace("first", False), True, {}, []),
    "gemma": (
        _UNDERSCORE,
        {
            "type": "Split",
            "pattern": {"String": " "},
            "behavior": "MergedWithPrevious",
            "invert": False,
        },
        False,
        {},
        [_added(text, False, normalized=False) for text in ("\n\n", "▁▁", "\t", "<table>", "<b>")],
    ),
    "yi": (_UNDERSCORE, None, False, {}, [_added("<|im_start|>")]),
    "metaspace_split": (None, _metaspace("always", True), True, {}, [_added("<sep>")]),
    "unknowns": (
        _LLAMA_NORMALIZER,
        None,
        True,
        {"byte_fallback": False},
        [_added("<pad>", lstrip=True, rstrip=True)],
    ),
    "unknowns_apart": (
        None,
        _metaspace("always", True),
        True,
        {"byte_fallback": False, "fuse_unk": False},
        [],
    ),
}


@functools.cache
def texts() -> tuple[str, ...]:
    """The training texts of the vocabularies."""
    return tuple(path.read_text(encoding="utf-8")[:4000] for path in FIXTURES)


@functools.cache
def byte_level(name: str) -> str:
    """The tokenizer.json of a byte-level family."""
    normalizer, pre_tokenizer, processor, more, added = BYTE_LEVEL[name]
    real = Real(tokenizers.models.BPE())
    document = json.loads(real.to_str())
    document |= {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer}
    real = Real.from_str(json.dumps(document))
    real.train_from_iterator(
        texts(),
        tokenizers.trainers.BpeTrainer(
            vocab_size=VOCAB_SIZE,
            show_progress=False,
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    document = json.loads(real.to_str())
    document["model"] |= more
    document["decoder"] = {**_REGEX, "add_prefix_space": True}
    return _finished(document, processor, added)


@functools.cache
def pieces(name: str) -> str:
    """The tokenizer.json of a SentencePiece-style family."""
    normalizer, pre_tokenizer, strips, more, added = PIECES[name]
    learned = Real(tokenizers.models.BPE(unk_token="<unk>"))
    learned.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    learned.train_from_iterator(
        texts(),
        tokenizers.trainers.BpeTrainer(
            vocab_size=VOCAB_SIZE, show_progress=False, limit_alphabet=300
        ),
    )
    document = json.loads(learned.to_str())
    front = [*_LLAMA_SPECIALS, *(f"<0x{byte:02X}>" for byte in range(256))]
    if not more.get("byte_fallback", True):
        front = [*_LLAMA_SPECIALS]
    vocab = document["model"]["vocab"]
    listed = [*front, *(token for token in vocab if token not in front)]
    # Runs of ▁, which those files contain and no trainer learns.
    runs = ["▁" * n for n in (2, 4, 8) if "▁" * n not in listed]
    document["model"] |= {
        "vocab": {token: id_ for id_, token in enumerate([*listed, *runs])},
        "merges": [[run[: len(run) // 2], run[len(run) // 2 :]] for run in runs]
        + document["model"]["merges"],
        "fuse_unk": True,
        "byte_fallback": True,
    }
    document["model"] |= more
    steps = [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if strips:
        steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    document |= {
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "decoder": {"type": "Sequence", "decoders": steps},
    }
    special_tokens = [_added(content) for content in _LLAMA_SPECIALS]
    return _finished(document, _template("<s>"), [*special_tokens, *added])


def _finished(document: dict[str, Any], processor: Any, added: list[dict[str, Any]]) -> str:
    """With added tokens, at the ids that Hugging Face gives them, and what names those."""
    vocab = document["model"]["vocab"]
    ids: dict[str, int] = {}
    for one in added:
        content = one["content"]
        ids[content] = vocab.get(content, len(vocab) + sum(name not in vocab for name in ids))
    document["added_tokens"] = sorted(
        ({"id": ids[one["content"]], **one} for one in added), key=lambda one: one["id"]
    )
    document["post_processor"] = _with_ids(processor, ids)
    return json.dumps(document, ensure_ascii=False)


def _with_ids(processor: Any, ids: dict[str, int]) -> Any:
    if processor is None:
        return None
    if processor["type"] == "Sequence":
        return {**processor, "processors": [_with_ids(p, ids) for p in processor["processors"]]}
    if processor["type"] == "RobertaProcessing":
        named = {key: [processor[key], ids[processor[key]]] for key in ("sep", "cls")}
        return {**processor, **named}
    if processor["type"] == "TemplateProcessing":
        named = {
            name: {"id": name, "ids": [ids[name]], "tokens": [name]}
            for name in processor["special_tokens"]
        }
        return {**processor, "special_tokens": named}
    return processor


def all_families() -> dict[str, str]:
    """The tokenizer.json of every family."""
    made = {name: byte_level(name) for name in BYTE_LEVEL}
    return made | {name: pieces(name) for name in PIECES}
