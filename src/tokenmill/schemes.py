"""Patterns → schemes: which patterns have a hand-written scanner in the core.

A scheme is known by its name or by its exact pattern; nothing is guessed from a pattern that
merely looks similar. Every other pattern is compiled for the general engine.
"""

from tokenmill.patterns import compile_pattern

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"

# Scheme → its spellings, of which the first is the official one of tiktoken 0.14. The others give
# the same pretokens on every text; a test compares them on the general engine.
PATTERNS: dict[str, tuple[str, ...]] = {
    "r50k": (
        r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        r"'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    ),
    "cl100k": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
        r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    ),
    "o200k": (
        r"[^\r\n\p{L}\p{N}]?" + _UPPER + "*" + _LOWER + "+" + _CONTRACTIONS + "|"
        r"[^\r\n\p{L}\p{N}]?" + _UPPER + "+" + _LOWER + "*" + _CONTRACTIONS + "|"
        r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
}

_ALIASES = {"gpt2": "r50k", "r50k_base": "r50k", "p50k": "r50k", "p50k_base": "r50k"} | {
    "cl100k_base": "cl100k",
    "o200k_base": "o200k",
    "o200k_harmony": "o200k",
}


def pattern_of(pattern: str) -> str:
    """The pattern that a scheme's name stands for; a pattern stands for itself."""
    name = _ALIASES.get(pattern, pattern)
    return PATTERNS[name][0] if name in PATTERNS else pattern


def scheme_of(pattern: str) -> str | bytes:
    """What the core runs for a pattern: the name of a scanner, or a compiled program."""
    for name, spellings in PATTERNS.items():
        if pattern in spellings:
            return name
    return compile_pattern(pattern)
