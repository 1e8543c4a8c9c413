"""Step 11, native: the core.

The idea: leave Python. Bit masks find pretokens 64 bytes at a time instead of a regular expression.
The cache is a table of fixed size, and an entry has a short pretoken and its ids in one cache line.
A short miss is scanned, and a long one is split and merged in linear time. A call returns a list of
int objects that were made in advance.

Costs: a compiler, and several thousand lines that are tested against the previous steps.
Saves: 1.3 x over step 10, with a call from Python in its time; and long pretokens take linear time.
"""

from __future__ import annotations

from collections.abc import Mapping

from ladder.encoding.pretokens import Encode
from tokenmill.formats.ranks import of_ranks
from tokenmill.tokenizer import Tokenizer


def prepare(ranks: Mapping[bytes, int], pattern: str) -> Encode:
    return tokenizer_of(ranks, pattern).encode


def tokenizer_of(ranks: Mapping[bytes, int], pattern: str) -> Tokenizer:
    return Tokenizer._from_spec(of_ranks(ranks, pattern, {}, "the ladder"), "ladder")
