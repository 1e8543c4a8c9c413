"""Names of GGUF's pretokenizers → stages.

A GGUF of byte-level tokens names its pretokenizer, and every reader has a table of its own. The
names and what goes with them are those of llama.cpp (src/llama-vocab.cpp at 00ad355); the patterns
are those of the models that it names, in Hugging Face's files, because llama.cpp has only something
near to some of them: in "tekken" and "gpt-4o" it takes letters outside of ASCII for capital and
small at once. Normalisers are not named in a GGUF, and llama.cpp runs none; so it is here. Names
whose models have a pattern that is not known for certain, or that tokenmill cannot run, are not in
the table.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenmill.formats.parts import Pattern, Stage


@dataclass(frozen=True, slots=True)
class Pretokenizer:
    """Stages, whether a pretoken that is a token is that one, and whether texts begin with BOS."""

    stages: tuple[Stage, ...]
    whole: bool = False
    add_bos: bool = False


def pretokenizer_of(name: str) -> Pretokenizer | None:
    """What a name stands for."""
    return _TABLE.get(name)


def _split(*patterns: str) -> tuple[Stage, ...]:
    return tuple(Stage(Pattern(pattern), "isolated") for pattern in patterns)


_CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_AFTER_NUMBERS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def _like_gpt4(numbers: str) -> str:
    return rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{numbers}{_AFTER_NUMBERS}"


def _like_gpt4o(contraction: str, numbers: str) -> str:
    first = r"[^\r\n\p{L}\p{N}]?"
    words = f"{first}{_UPPER}*{_LOWER}+{contraction}|{first}{_UPPER}+{_LOWER}*{contraction}"
    return rf"{words}|{numbers}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"


_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_HAN = "[一-龥\u3040-ゟ゠-ヿ]+"
# The ends of lines stand there as they are, in DeepSeek's file, too.
_DEEPSEEK3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
    "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
_DIGITS = Stage("digits", "isolated")

_NAMES = {
    Pretokenizer(_split(_GPT2)): (
        *("gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de"),
        *("a.x-4.0", "mellum", "modern-bert", "jina-v1-en", "jina-v2-code", "roberta-bpe", "mpt"),
        *("olmo", "jais", "trillion", "granite-docling", "exaone4"),
    ),
    Pretokenizer((_DIGITS, *_split(_GPT2))): (
        *("starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"),
        "mellum2",
    ),
    Pretokenizer(
        (
            Stage("punctuation", "contiguous"),
            *_split(_GPT2),
            Stage("digits", "contiguous"),
            *_split("[0-9][0-9][0-9]"),
        )
    ): ("falcon",),
    Pretokenizer(_split(_like_gpt4(r"\p{N}{1,3}")), whole=True, add_bos=True): (
        *("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0"),
        *("lfm2", "jina-v5-nano"),
    ),
    Pretokenizer(_split(_like_gpt4(r"\p{N}{1,3}"))): ("dbrx", "smaug-bpe", "glm4", "chatglm-bpe"),
    Pretokenizer(_split(_like_gpt4(r"\p{N}"))): (
        *("qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan"),
        *("solar-open", "grok-2"),
    ),
    Pretokenizer(
        _split(
            _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
            r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        )
    ): ("qwen35",),
    Pretokenizer(_split(r"\p{N}{1,3}", _like_gpt4(r"\p{N}+")), whole=True): ("minicpm5",),
    Pretokenizer(
        _split(
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
            r"|\s*[\r\n]|\s+(?!\S)|\s+"
        )
    ): ("bailingmoe", "bailingmoe2", "llada-moe"),
    Pretokenizer(
        _split(
            _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}"
            r"| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
        )
    ): ("seed-coder",),
    Pretokenizer(_split(_like_gpt4o(_CONTRACTION + "?", r"\p{N}{1,3}"))): (
        *("gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"),
    ),
    Pretokenizer(_split(_like_gpt4o("", r"\p{N}")), whole=True, add_bos=True): ("tekken",),
    Pretokenizer(_split(r"\p{N}{1,3}", _HAN, _DEEPSEEK3)): (
        *("deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"),
    ),
    Pretokenizer(
        (*_split(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥\u0800-一가-\ud7ff]+"), _DIGITS)
    ): ("deepseek-coder",),
    Pretokenizer(_split(_BLOOM)): ("poro-chat", "bloom", "gpt3-finnish"),
    Pretokenizer((*_split(_BLOOM), _DIGITS)): ("viking",),
}
_TABLE = {name: one for one, names in _NAMES.items() for name in names}
