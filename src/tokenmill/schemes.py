"""Patterns → schemes: which patterns have a hand-written scanner in the core.

A scheme is known by its name or by its exact pattern; nothing is guessed from a pattern that
merely looks similar. Every other pattern is compiled for the general engine.
"""

import re

from tokenmill.errors import PatternError
from tokenmill.patterns import compile_pattern
from tokenmill.vocabularies import EMBEDDED

_CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def _like_gpt4(numbers: str) -> tuple[str, ...]:
    """GPT-4's pattern as models after it write it, and as minbpe and nanochat do."""
    return (
        _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|" + numbers + r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|" + numbers + "|"
        r" ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    )


def _like_gpt4o(contraction: str, numbers: str) -> str:
    prefix = r"[^\r\n\p{L}\p{N}]?"
    words = f"{prefix}{_UPPER}*{_LOWER}+{contraction}|{prefix}{_UPPER}+{_LOWER}*{contraction}"
    return f"{words}|{numbers}" r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"


# Scheme → its spellings, of which the first is the official one: of tiktoken 0.14 for OpenAI's, of
# the model that gives the name for the others. The rest give the same pretokens on every text; a
# test compares them.
PATTERNS: dict[str, tuple[str, ...]] = {
    "r50k": (
        r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        r"'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    ),
    # The white space at the end of a text is one pretoken, which no other scheme does.
    "cl100k": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
        r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+$|\s*[\r\n]|\s+(?!\S)|\s",
    ),
    # Also GLM 4, and GPT-4 in older versions of tiktoken.
    "llama3": _like_gpt4(r"\p{N}{1,3}"),
    "nanochat": _like_gpt4(r"\p{N}{1,2}")[::-1],
    # Also Qwen 1, 2.5 and 3, StableLM 2.
    "qwen2": _like_gpt4(r"\p{N}"),
    "qwen35": (
        _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    # Also GPT-OSS and Llama 4.
    "o200k": (_like_gpt4o(_CONTRACTION + "?", r"\p{N}{1,3}"),),
    # Mistral since Nemo, Nemotron 3.
    "tekken": (_like_gpt4o("", r"\p{N}"),),
}

_ALIASES = {name: entry.scheme for name, entry in EMBEDDED.items()}


def pattern_of(pattern: str) -> str:
    """The pattern that a scheme's name stands for; a pattern stands for itself."""
    name = _ALIASES.get(pattern, pattern)
    if name in PATTERNS:
        return PATTERNS[name][0]
    if re.fullmatch(r"[\w -]*", pattern):
        # As a pattern it would match only itself, and all other text would be left out.
        names = ", ".join((*PATTERNS, *_ALIASES))
        raise PatternError(
            f"{pattern!r} is not the name of a scheme; there are {names}. "
            f"If it is meant as a regular expression, write {'(?:' + pattern + ')'!r}"
        )
    return pattern


def scheme_of(pattern: str) -> str | bytes:
    """What the core runs for a pattern: the name of a scanner, or a compiled program."""
    for name, spellings in PATTERNS.items():
        if pattern in spellings:
            return name
    return compile_pattern(pattern)
