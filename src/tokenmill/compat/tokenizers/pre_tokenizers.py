"""Pre-tokenizers: they split a text into pretokens."""

from __future__ import annotations

from tokenmill.compat.tokenizers import cutting
from tokenmill.compat.tokenizers.components import (
    BYTE_LEVEL,
    METASPACE,
    PATTERN,
    Component,
    Option,
    Steps,
    check_character,
    check_list,
    check_text,
    one_of,
    options_of,
    refuse,
)
from tokenmill.formats.names import byte_characters

_check_behavior = one_of(
    {
        "removed": "Removed", "isolated": "Isolated", "contiguous": "Contiguous",
        "merged_with_previous": "MergedWithPrevious", "merged_with_next": "MergedWithNext",
    }
)  # fmt: skip


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


class ByteLevel(PreTokenizer, options=options_of(**BYTE_LEVEL), unknown="ignore"):
    """GPT-2's pattern, then bytes as printable characters."""

    @staticmethod
    def alphabet() -> list[str]:
        """Return the characters that represent the 256 bytes."""
        return list(byte_characters())


class Sequence(
    PreTokenizer, Steps, options=[Option("pre_tokenizers", check_list, key="pretokenizers")]
):
    """Pre-tokenizers in order, each on the pretokens of the one before."""


Split = PreTokenizer.define(
    "Split",
    "Splits at matches.",
    PATTERN,
    Option("behavior", _check_behavior, read=str.lower),
    *options_of(invert=False),
)
Digits = PreTokenizer.define(
    "Digits", "Splits numbers from other text.", *options_of(individual_digits=False)
)
Punctuation = PreTokenizer.define(
    "Punctuation",
    "Splits at punctuation.",
    Option("behavior", _check_behavior, "isolated", read=str.lower),
)
Metaspace = PreTokenizer.define(
    "Metaspace", "SentencePiece's split, where a space is part of a word.", *METASPACE
)
CharDelimiterSplit = PreTokenizer.define(
    "CharDelimiterSplit",
    "Splits at a character and removes it.",
    Option("delimiter", check_character),
)
FixedLength = PreTokenizer.define(
    "FixedLength", "Chunks of `length` characters.", *options_of(length=5)
)
Whitespace = PreTokenizer.define("Whitespace", r"Splits by `\w+|[^\w\s]+`.")
WhitespaceSplit = PreTokenizer.define("WhitespaceSplit", "Splits at whitespace.")
BertPreTokenizer = PreTokenizer.define("BertPreTokenizer", "BERT's pre-tokenizer; cannot be run.")
UnicodeScripts = PreTokenizer.define("UnicodeScripts", "Splits between scripts; cannot be run.")
