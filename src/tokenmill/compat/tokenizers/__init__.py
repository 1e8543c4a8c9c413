"""Hugging Face's `tokenizers` on this engine: the same names, signatures, results and errors."""

from enum import Enum
from typing import TypeAlias

from tokenmill.compat.tokenizers import (
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
    values,
)
from tokenmill.compat.tokenizers.added import AddedToken
from tokenmill.compat.tokenizers.components import Regex
from tokenmill.compat.tokenizers.encoding import Encoding
from tokenmill.compat.tokenizers.implementations import (
    BertWordPieceTokenizer,
    ByteLevelBPETokenizer,
    CharBPETokenizer,
    SentencePieceBPETokenizer,
    SentencePieceUnigramTokenizer,
)
from tokenmill.compat.tokenizers.models import Token
from tokenmill.compat.tokenizers.tokenizer import Tokenizer

__version__ = "0.23.3"

# The names that callers annotate their own functions with.
Offsets: TypeAlias = tuple[int, int]
TextInputSequence: TypeAlias = str
PreTokenizedInputSequence: TypeAlias = list[str] | tuple[str]
TextEncodeInput: TypeAlias = (
    TextInputSequence | tuple[TextInputSequence, TextInputSequence] | list[TextInputSequence]
)
PreTokenizedEncodeInput: TypeAlias = (
    PreTokenizedInputSequence
    | tuple[PreTokenizedInputSequence, PreTokenizedInputSequence]
    | list[PreTokenizedInputSequence]
)
InputSequence: TypeAlias = TextInputSequence | PreTokenizedInputSequence
EncodeInput: TypeAlias = TextEncodeInput | PreTokenizedEncodeInput


class OffsetReferential(Enum):
    """Which text offsets are about."""

    ORIGINAL = "original"
    NORMALIZED = "normalized"


class OffsetType(Enum):
    """What offsets count."""

    BYTE = "byte"
    CHAR = "char"


class SplitDelimiterBehavior(Enum):
    """What becomes of a match at which text is cut."""

    REMOVED = "removed"
    ISOLATED = "isolated"
    MERGED_WITH_PREVIOUS = "merged_with_previous"
    MERGED_WITH_NEXT = "merged_with_next"
    CONTIGUOUS = "contiguous"


class NormalizedString:
    """Not here: the real library's is for components written in Python."""

    def __init__(self, sequence: str) -> None:
        values.not_there("NormalizedString")


class PreTokenizedString:
    """Not here: the real library's is for components written in Python."""

    def __init__(self, s: str) -> None:
        values.not_there("PreTokenizedString")


__all__ = [
    "AddedToken",
    "BertWordPieceTokenizer",
    "ByteLevelBPETokenizer",
    "CharBPETokenizer",
    "EncodeInput",
    "Encoding",
    "InputSequence",
    "NormalizedString",
    "OffsetReferential",
    "OffsetType",
    "Offsets",
    "PreTokenizedEncodeInput",
    "PreTokenizedInputSequence",
    "PreTokenizedString",
    "Regex",
    "SentencePieceBPETokenizer",
    "SentencePieceUnigramTokenizer",
    "SplitDelimiterBehavior",
    "TextEncodeInput",
    "TextInputSequence",
    "Token",
    "Tokenizer",
    "decoders",
    "models",
    "normalizers",
    "pre_tokenizers",
    "processors",
    "trainers",
]
