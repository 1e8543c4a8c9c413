"""Patterns and stages → pre-tokenizers of the core: scanners or compiled programs.

A pattern has a hand-written scanner only if it equals one of the spellings below exactly. Every
other pattern is compiled for the general engine. The stages of Hugging Face's pre-tokenizers are
treated in the same way.
"""

import re
import struct
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from tokenmill.errors import PatternError
from tokenmill.patterns import Dialect, compile_pattern, covers_all
from tokenmill.vocabularies import EMBEDDED

# In the order of the core.
Class = Literal["digits", "punctuation", "space", "spelled_digits"]
Behaviour = Literal["isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression in the dialect of a library."""

    text: str
    dialect: Dialect = "oniguruma"


@dataclass(frozen=True, slots=True)
class Literally:
    """A text that matches itself."""

    text: str


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a pre-tokenizer, applied to each pretoken of the stage before.

    `match` finds spans; with `invert` the spans between them are the matches. "digits" are
    characters of \\p{N}, "punctuation" is Hugging Face's, "space" is White_Space. "spelled_digits"
    are bytes that byte-level vocabularies spell as digits. Such a byte may be part of a character.
    """

    match: Pattern | Literally | Class
    behaviour: Behaviour
    invert: bool = False


# A pre-tokenizer of the core: the name of a scanner, or a compiled program or stages as bytes
# (core/pretokens/serialized.zig).
Scheme: TypeAlias = str | bytes
STAGES = b"tmS1"
_STAGE = struct.Struct("<BB?xI")

# GPT-2's pattern as Hugging Face's ByteLevel has it.
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def like_gpt4(numbers: str) -> tuple[str, ...]:
    """Return GPT-4's pattern as later models write it, and as minbpe and nanochat write it."""
    return (
        CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|" + numbers + r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|" + numbers + "|"
        r" ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    )


def like_gpt4o(contraction: str, numbers: str) -> str:
    """Return GPT-4o's pattern with another rule for contractions and numbers."""
    prefix = r"[^\r\n\p{L}\p{N}]?"
    words = f"{prefix}{_UPPER}*{_LOWER}+{contraction}|{prefix}{_UPPER}+{_LOWER}*{contraction}"
    return f"{words}|{numbers}" r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"


# Pre-tokenizer → its spellings. The first one is official: that of tiktoken 0.14 for OpenAI's, and
# that of the model with this name for the others. All give the same pretokens on every text; a test
# compares them.
PATTERNS: dict[str, tuple[str, ...]] = {
    "r50k": (
        r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
        GPT2,
        r"'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    ),
    # Only here is all whitespace at the end of a text one pretoken.
    "cl100k": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
        r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+$|\s*[\r\n]|\s+(?!\S)|\s",
    ),
    # Also GLM 4, and GPT-4 in older versions of tiktoken.
    "llama3": like_gpt4(r"\p{N}{1,3}"),
    "nanochat": like_gpt4(r"\p{N}{1,2}")[::-1],
    # Also Qwen 1, 2.5 and 3, StableLM 2.
    "qwen2": like_gpt4(r"\p{N}"),
    "qwen35": (
        CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    # Also GPT-OSS and Llama 4.
    "o200k": (like_gpt4o(CONTRACTION + "?", r"\p{N}{1,3}"),),
    # Mistral since Nemo, Nemotron 3.
    "tekken": (like_gpt4o("", r"\p{N}"),),
}

# Oniguruma gives these another meaning: `{1,3}+` repeats a repetition, and `$` also matches before
# a newline. A test compares all others with Hugging Face's Split.
_TIKTOKEN_ONLY = frozenset(PATTERNS["cl100k"])

HAN = "[一-龥\u3040-ゟ゠-ヿ]+"
DEEPSEEK_WORDS = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# DeepSeek's file has the two characters instead of the escapes.
DEEPSEEK_OWN_WORDS = DEEPSEEK_WORDS.replace(r"\r\n", "\r\n")


def isolated(*patterns: str) -> tuple[Stage, ...]:
    """Return stages that split at both ends of every match."""
    return tuple(Stage(Pattern(pattern), "isolated") for pattern in patterns)


def _deepseek(words: str) -> tuple[Stage, ...]:
    return isolated(r"\p{N}{1,3}", HAN, words)


_FALCON = (
    Stage("punctuation", "contiguous"),
    *isolated(GPT2),
    Stage("spelled_digits", "contiguous"),
    *isolated("[0-9][0-9][0-9]"),
)

# Stages, and whether their text has "▁" instead of spaces → the scanner with the same result.
KNOWN_STAGES: dict[tuple[tuple[Stage, ...], bool], str] = {
    ((), False): "safe",
    ((), True): "safe",
    ((Stage(Literally("▁"), "merged_with_next"),), True): "metaspace",
    (_deepseek(DEEPSEEK_WORDS), False): "deepseek3",
    (_deepseek(DEEPSEEK_OWN_WORDS), False): "deepseek3",
    (_FALCON, False): "falcon",
    ((Stage("digits", "isolated"), *isolated(GPT2)), False): "digits_r50k",
}

_ALIASES = {name: entry.scheme for name, entry in EMBEDDED.items()}


def pattern_of(pattern: str) -> str:
    """Return the pattern of a pre-tokenizer's name; a pattern is returned unchanged."""
    name = _ALIASES.get(pattern, pattern)
    if name in PATTERNS:
        return PATTERNS[name][0]
    if re.fullmatch(r"[\w -]*", pattern):
        # As a pattern it would match only itself, and all other text would be lost.
        names = ", ".join((*PATTERNS, *_ALIASES))
        raise PatternError(
            f"{pattern!r} is not the name of a pre-tokenizer; there are {names}; "
            f"for a regular expression write {'(?:' + pattern + ')'!r}"
        )
    return pattern


def scheme_of(pattern: str, dialect: Dialect = "tiktoken") -> str | bytes:
    """Return the name of the scanner of a pattern, or a compiled program."""
    name = name_of(pattern, dialect)
    return compile_pattern(pattern, dialect) if name is None else name


def name_of(pattern: str, dialect: Dialect = "tiktoken") -> str | None:
    """Return the name of the scanner of a pattern, or None."""
    if dialect != "tiktoken" and pattern in _TIKTOKEN_ONLY:
        return None
    return next((name for name, spellings in PATTERNS.items() if pattern in spellings), None)


def scheme_of_stages(stages: tuple[Stage, ...], blank: bool, known: bool = True) -> Scheme:
    """Return the pre-tokenizer of stages; PatternError if a pattern is not supported.

    `blank`: the stages match "▁" where the core's text has a space. Without `known` no scanner is
    used: tests compare with this reference implementation.
    """
    name = KNOWN_STAGES.get((stages, blank))
    if name is not None and (known or not stages):
        return name
    if known and not blank:
        match stages:
            case (Stage(Pattern(pattern, dialect), "removed", True),):
                return scheme_of(pattern, dialect)
            case (Stage(Pattern(pattern, dialect), "isolated"),):
                scheme = scheme_of(pattern, dialect)
                # A scanner's matches cover the text. A program drops the text between its matches.
                if isinstance(scheme, str) or covers_all(pattern, dialect):
                    return scheme
    return STAGES + b"".join(_pack(stage, blank) for stage in stages)


def _pack(stage: Stage, blank: bool) -> bytes:
    kind, program = 0, b""
    match stage.match:
        case Pattern(text, dialect):
            program = compile_pattern(text, dialect, blank)
        case Literally(text):
            if not text:
                raise PatternError("the text of a stage must not be empty; remove the stage")
            escaped = "".join(rf"\x{{{ord(char):x}}}" for char in text)
            program = compile_pattern(escaped, escaped_spaces=blank)
        case "space" if blank:
            program = compile_pattern(r"\s", escaped_spaces=True)
        case name:
            kind = get_args(Class).index(name) + 1
    behaviour = get_args(Behaviour).index(stage.behaviour)
    return _STAGE.pack(kind, behaviour, stage.invert, len(program)) + program
