"""pattern → program: regular expressions for the general pretoken engine."""

from tokenmill.patterns.coverage import covers_all
from tokenmill.patterns.program import Dialect, compile_pattern

__all__ = ["Dialect", "compile_pattern", "covers_all"]
