"""pattern → program: regular expressions for the general pretoken engine."""

from tokenmill.patterns.program import Dialect, compile_pattern

__all__ = ["Dialect", "compile_pattern"]
