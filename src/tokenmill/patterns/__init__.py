"""pattern → program: regular expressions for the general pretoken engine."""

from tokenmill.patterns.analysis import covers_all
from tokenmill.patterns.parse import Dialect
from tokenmill.patterns.program import compile_pattern

__all__ = ["Dialect", "compile_pattern", "covers_all"]
