"""pattern → program: regular expressions for the general pretoken engine."""

from tokenmill.patterns.program import compile_pattern

__all__ = ["compile_pattern"]
