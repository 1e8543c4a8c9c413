"""Step 5, "native": the core. The same ideas, where a byte costs what a processor asks for it.

One idea: leave Python. Pretokens are found 64 bytes at a time by bit masks instead of a regular
expression; the cache is a table of fixed size, whose entries hold a short pretoken and its ids in
one cache line; a miss is scanned when it is short, and cut and merged in linear time when it is
long. A call comes back with a list whose numbers were made beforehand.

Costs: a compiler, and some thousand lines that need the steps before as their oracle.
Saves: about a hundred instructions of Python for each one that does something.
"""

from __future__ import annotations

from collections.abc import Mapping

from tokenmill import arguments
from tokenmill.ladder.encoding.pretokens import Encode
from tokenmill.tokenizer import Tokenizer


def prepare(ranks: Mapping[bytes, int], pattern: str) -> Encode:
    return tokenizer_of(ranks, pattern).encode


def tokenizer_of(ranks: Mapping[bytes, int], pattern: str) -> Tokenizer:
    arrays = arguments.token_arrays(ranks, "the ladder")
    return Tokenizer._from_arrays(arrays, pattern, {}, "ladder")
