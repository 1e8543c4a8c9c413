"""Pre-tokenizers: they split a text into pretokens."""

from __future__ import annotations

from tokenmill.compat.tokenizers import cutting
from tokenmill.compat.tokenizers.components import Component, Steps, check_text, refuse
from tokenmill.formats.names import byte_characters


class PreTokenizer(Component):
    """The base class of all pre-tokenizers."""

    def pre_tokenize_str(self, s: str) -> list[tuple[str, tuple[int, int]]]:
        """Return the pretokens of a text, each with its (start, end)."""
        return cutting.pre_tokenize(self.to_json(), check_text(s))

    def pre_tokenize(self, pretok: object) -> None:
        """Not supported: `PreTokenizedString` is part of the real library only."""
        refuse("PreTokenizedString")

    @staticmethod
    def custom(pretok: object) -> PreTokenizer:
        """Not supported: components written in Python need the real library."""
        refuse("a pre-tokenizer written in Python")


class ByteLevel(PreTokenizer):
    """GPT-2's pattern, then bytes as printable characters."""

    @staticmethod
    def alphabet() -> list[str]:
        """Return the characters that represent the 256 bytes."""
        return list(byte_characters())


class Sequence(PreTokenizer, Steps):
    """Pre-tokenizers in order, each on the pretokens of the one before."""


Split = PreTokenizer.define("Split")
Digits = PreTokenizer.define("Digits")
Punctuation = PreTokenizer.define("Punctuation")
Metaspace = PreTokenizer.define("Metaspace")
CharDelimiterSplit = PreTokenizer.define("CharDelimiterSplit")
FixedLength = PreTokenizer.define("FixedLength")
Whitespace = PreTokenizer.define("Whitespace")
WhitespaceSplit = PreTokenizer.define("WhitespaceSplit")
BertPreTokenizer = PreTokenizer.define("BertPreTokenizer")
UnicodeScripts = PreTokenizer.define("UnicodeScripts")
