"""The interface of Hugging Face's `tokenizers` on tokenmill's core.

Names, signatures, results and exception types are the same.
"""

from enum import Enum
from typing import TypeAlias

from tokenmill.compat.tokenizers import (
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from tokenmill.compat.tokenizers.components import AddedToken, Regex, refused_class
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

# Types for the annotations of callers.
Offsets: TypeAlias = tuple[int, int]
TextInputSequence: TypeAlias = str
PreTokenizedInputSequence: TypeAlias = list[str] | tuple[str]
TextEncodeInput: TypeAlias = str | tuple[str, str] | list[str]
PreTokenizedEncodeInput: TypeAlias = (
    PreTokenizedInputSequence
    | tuple[PreTokenizedInputSequence, PreTokenizedInputSequence]
    | list[PreTokenizedInputSequence]
)
InputSequence: TypeAlias = TextInputSequence | PreTokenizedInputSequence
EncodeInput: TypeAlias = TextEncodeInput | PreTokenizedEncodeInput

# The text that offsets refer to, the unit of offsets, and how a match becomes part of pretokens.
OffsetReferential = Enum("OffsetReferential", {"ORIGINAL": "original", "NORMALIZED": "normalized"})
OffsetType = Enum("OffsetType", {"BYTE": "byte", "CHAR": "char"})
SplitDelimiterBehavior = Enum(
    "SplitDelimiterBehavior",
    {
        "REMOVED": "removed", "ISOLATED": "isolated",
        "MERGED_WITH_PREVIOUS": "merged_with_previous", "MERGED_WITH_NEXT": "merged_with_next",
        "CONTIGUOUS": "contiguous",
    },
)  # fmt: skip

NormalizedString = refused_class(object, "NormalizedString", "NormalizedString")
PreTokenizedString = refused_class(object, "PreTokenizedString", "PreTokenizedString")

__all__ = [
    "AddedToken", "BertWordPieceTokenizer", "ByteLevelBPETokenizer", "CharBPETokenizer",
    "EncodeInput", "Encoding", "InputSequence", "NormalizedString", "OffsetReferential",
    "OffsetType", "Offsets", "PreTokenizedEncodeInput", "PreTokenizedInputSequence",
    "PreTokenizedString", "Regex", "SentencePieceBPETokenizer", "SentencePieceUnigramTokenizer",
    "SplitDelimiterBehavior", "TextEncodeInput", "TextInputSequence", "Token", "Tokenizer",
    "decoders", "models", "normalizers", "pre_tokenizers", "processors", "trainers",
]  # fmt: skip
