"""pattern → program: regular expressions for the general pretoken engine."""

from typing import Literal, TypeAlias

from tokenmill.patterns.program import compile_pattern

__all__ = ["Dialect", "compile_pattern"]

# Whose reading of a pattern is meant.
Dialect: TypeAlias = Literal["tiktoken", "oniguruma"]
