"""Fixtures → small tokenizers of several families, as objects and as folders of transformers."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Real
from transformers import PreTrainedTokenizerFast

DATA = Path(__file__).resolve().parents[1] / "data"
TEXTS = [path.read_text(encoding="utf-8")[:3000] for path in sorted(DATA.glob("udhr/*"))]
SIZE = 900

_QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CHAT = (
    "{{ bos_token or '' }}{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}\n"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def _train(real: Real, trainer: Any = None) -> Real:
    if trainer is None:
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        options = {"vocab_size": SIZE, "show_progress": False, "initial_alphabet": alphabet}
        trainer = tokenizers.trainers.BpeTrainer(**options)
    real.train_from_iterator(TEXTS, trainer)
    return real


def byte_level() -> Real:
    """With a template, and added tokens of all kinds."""
    real = Real(models.BPE())
    real.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    real.decoder = decoders.ByteLevel()
    _train(real)
    real.add_special_tokens([AddedToken("<s>"), AddedToken("</s>"), "<|user|>", "<|assistant|>"])
    real.add_special_tokens([AddedToken("<mask>", lstrip=True), AddedToken("<pad>", rstrip=True)])
    real.add_tokens([AddedToken("tokenmill", single_word=True), "foo bar"])
    real.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> $B:1 </s>:1",
        special_tokens=[(name, real.token_to_id(name)) for name in ("<s>", "</s>")],
    )
    return real


def gpt2() -> Real:
    real = Real(models.BPE())
    real.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    real.decoder = decoders.ByteLevel()
    real.post_processor = processors.ByteLevel(trim_offsets=False)
    _train(real).add_special_tokens(["<|endoftext|>"])
    return real


def qwen2() -> Real:
    real = Real(models.BPE())
    real.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(tokenizers.Regex(_QWEN), "isolated")
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    real.pre_tokenizer = pre_tokenizers.Sequence([split, plain])
    real.decoder = decoders.ByteLevel()
    real.post_processor = processors.ByteLevel(trim_offsets=False)
    _train(real).add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    real.add_tokens([AddedToken("<tool_call>", normalized=False)])
    return real


def _pieces(normalizer: Any, pre_tokenizer: Any, added: list[AddedToken]) -> Real:
    learned = Real(models.BPE(unk_token="<unk>"))
    learned.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    options = {"vocab_size": SIZE, "show_progress": False, "limit_alphabet": 200}
    _train(learned, tokenizers.trainers.BpeTrainer(**options))
    document = json.loads(learned.to_str())
    front = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokens = [*front, *(token for token in document["model"]["vocab"] if token not in front)]
    document["model"] |= {
        "vocab": {token: id_ for id_, token in enumerate(tokens)},
        "fuse_unk": True,
        "byte_fallback": True,
    }
    document["pre_tokenizer"] = None
    real = Real.from_str(json.dumps(document))
    real.normalizer, real.pre_tokenizer = normalizer, pre_tokenizer
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    real.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)])
    real.add_special_tokens(["<unk>", "<s>", "</s>"])
    real.add_tokens(added)
    real.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    return real


def llama2() -> Real:
    steps = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    return _pieces(normalizers.Sequence(steps), None, [])


def gemma() -> Real:
    split = pre_tokenizers.Split(" ", "merged_with_previous")
    added = [AddedToken(text, normalized=False) for text in ("\n\n", "▁▁", "\t", "<b>")]
    return _pieces(normalizers.Replace(" ", "▁"), split, added)


def word_piece() -> Real:
    real = Real(models.WordPiece(unk_token="[UNK]"))
    real.normalizer = normalizers.BertNormalizer()
    real.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    names = ["[UNK]", "[CLS]", "[SEP]", "[PAD]"]
    options = {"vocab_size": SIZE, "show_progress": False, "special_tokens": names}
    return _train(real, tokenizers.trainers.WordPieceTrainer(**options))


def unigram() -> Real:
    pieces = [("<unk>", 0.0), ("▁", -2.0), *((chr(code), -4.0) for code in range(33, 127))]
    real = Real(models.Unigram([*pieces, ("the", -1.0), ("and", -1.5)], unk_id=0))
    real.pre_tokenizer = pre_tokenizers.Metaspace()
    return real


# Name → its factory, its special tokens, and the class that a folder names.
EXACT: dict[str, tuple[Any, dict[str, str], str]] = {
    "byte_level": (
        byte_level,
        {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>"},
        "PreTrainedTokenizerFast",
    ),
    "gpt2": (
        gpt2,
        dict.fromkeys(("bos_token", "eos_token", "unk_token", "pad_token"), "<|endoftext|>"),
        "GPT2TokenizerFast",
    ),
    "qwen2": (
        qwen2,
        {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": "<|endoftext|>"},
        "Qwen2TokenizerFast",
    ),
    "llama2": (
        llama2,
        {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "</s>"},
        "LlamaTokenizerFast",
    ),
    "gemma": (
        gemma,
        {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "</s>"},
        "PreTrainedTokenizerFast",
    ),
}
REFUSED: dict[str, tuple[Any, dict[str, str], str]] = {
    "word_piece": (word_piece, {"pad_token": "[PAD]", "unk_token": "[UNK]"}, ""),
    "unigram": (unigram, {"pad_token": "<unk>", "unk_token": "<unk>"}, ""),
}


@functools.cache
def document(name: str) -> str:
    return {**EXACT, **REFUSED}[name][0]().to_str()


def fast(name: str) -> PreTrainedTokenizerFast:
    """A new fast tokenizer of a family."""
    _, special_tokens, _ = {**EXACT, **REFUSED}[name]
    real = Real.from_str(document(name))
    return PreTrainedTokenizerFast(tokenizer_object=real, chat_template=CHAT, **special_tokens)


def folder(name: str, path: Path) -> Path:
    """A folder as transformers saves it, with the class of the family."""
    fast(name).save_pretrained(path)
    config = path / "tokenizer_config.json"
    settings = json.loads(config.read_text())
    config.write_text(json.dumps({**settings, "tokenizer_class": EXACT[name][2]}))
    return path
