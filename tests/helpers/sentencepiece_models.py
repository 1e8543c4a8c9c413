"""Small SentencePiece models with many options, and texts that are hard for them."""

from __future__ import annotations

import io
import random

import sentencepiece
from conftest import FIXTURES, SEED
from spec_reference import SPACE

LINES = [
    line[:300]
    for path in FIXTURES
    if "udhr" in str(path) or "code" in str(path)
    for line in path.read_text(encoding="utf-8").splitlines()[:60]
]
BITS = [
    *(" ", "  ", SPACE, SPACE * 2, "\n", "\t", "\x00", "\u3000", "\ufeff", "\u200b", "\u00a8"),
    *("a", "the", "The", " of", "ab", "ba", "Q", ".", "12", "3", "<sep>", "<se", "＜sep＞"),
    *("\u0338", "e\u0301", "é", "①", "ﬁ", "中", "国", "한", "\u1112\u1161\u11ab", "カ\u3099"),
    *("☃", "🌾", "<s>", "</s>", "<unk>", "<0x41>", "[U]", "ｱﾞ", "\u0301", "Σ"),
]  # fmt: skip
OPTIONS = {
    "usual": {},
    "bytes": {"byte_fallback": True},
    "symbols": {"user_defined_symbols": ["<sep>", "中", SPACE * 2, "ab"]},
    "symbols that are parts of rules": {
        "byte_fallback": True,
        "control_symbols": ["<ctl>"],
        "user_defined_symbols": ["<sep>", "<s", ">", "the", "e", "é", "カ", "e\u0301\u0302"],
    },
    "Gemma's": {
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "add_dummy_prefix": False,
        "byte_fallback": True,
        "user_defined_symbols": [SPACE * 2, SPACE * 3, "\n", "\n\n", "\t", "<sep>"],
        "allow_whitespace_only_pieces": True,
    },
    "Llama's": {
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "byte_fallback": True,
        "split_digits": True,
        "allow_whitespace_only_pieces": True,
    },
    "identity": {"normalization_rule_name": "identity", "user_defined_symbols": ["<sep>"]},
    "nfkc": {"normalization_rule_name": "nfkc", "remove_extra_whitespaces": False},
    "folded": {
        "normalization_rule_name": "nmt_nfkc_cf",
        "remove_extra_whitespaces": False,
        "add_dummy_prefix": False,
        "user_defined_symbols": ["Q", "é"],
    },
    "other names": {
        "unk_piece": "[U]", "unk_id": 3, "bos_id": 0, "eos_id": 1, "pad_id": 2,
        "bos_piece": "[B]", "unk_surface": " (?) ", "add_dummy_prefix": False,
    },
    "phrases": {"split_by_whitespace": False, "normalization_rule_name": "identity"},
}  # fmt: skip


def trained(**options) -> bytes:
    out = io.BytesIO()
    options = {"vocab_size": 1_500, "character_coverage": 0.98, "minloglevel": 2, **options}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=out, model_type="bpe", **options
    )
    return out.getvalue()


def texts(count: int) -> list[str]:
    rng = random.Random(SEED)
    found = ["".join(rng.choices(BITS, k=rng.randrange(14))) for _ in range(count)]
    return [*found, *(line[:100] for line in LINES[::7])]


TEXTS = texts(1_000)
