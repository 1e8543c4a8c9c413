"""Normalizers: what is done to a text before it is cut."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from collections.abc import Sequence as Sequence_
from typing import Any

from tokenmill.compat.tokenizers import cutting, values
from tokenmill.compat.tokenizers.components import (
    Component,
    Family,
    Field,
    IndexedSteps,
    PatternField,
    Regex,
    Variant,
    pattern_of,
)


class Normalizer(Component):
    """The base of all normalizers."""

    KIND = "Normalizer"

    def normalize_str(self, sequence: str) -> str:
        """The normal form of a text."""
        return cutting.normalize(self.to_json(), values.text(sequence))

    def normalize(self, normalized: object) -> None:
        """Not here: `NormalizedString` belongs to the real library."""
        values.not_there("NormalizedString")

    @staticmethod
    def custom(obj: object) -> Normalizer:
        """Not here: parts written in Python belong to the real library."""
        values.not_there("a normalizer written in Python")


class NFC(Normalizer):
    """Unicode's NFC."""


class NFD(Normalizer):
    """Unicode's NFD."""


class NFKC(Normalizer):
    """Unicode's NFKC."""


class NFKD(Normalizer):
    """Unicode's NFKD."""


class Lowercase(Normalizer):
    """Everything in lower case."""


class Nmt(Normalizer):
    """What Google's NMT does to control characters."""


class StripAccents(Normalizer):
    """Without marks."""


class ByteLevel(Normalizer):
    """Bytes as characters."""


class Strip(Normalizer):
    """Without white space at the ends."""

    def __init__(self, left: bool = True, right: bool = True) -> None:
        self._data = {"strip_left": values.flag(left), "strip_right": values.flag(right)}

    left = Field("strip_left", values.flag)
    right = Field("strip_right", values.flag)


class Prepend(Normalizer):
    """A text in front."""

    def __init__(self, prepend: str = "▁") -> None:
        self._data = {"prepend": values.text(prepend)}

    prepend = Field("prepend", values.text)


class Replace(Normalizer):
    """Something else for each match."""

    def __init__(self, pattern: str | Regex, content: str) -> None:
        self._data = {"pattern": pattern_of(pattern), "content": values.text(content)}

    pattern = PatternField("replace")
    content = Field("content", values.text)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Component:
        return super().from_data({**data, "pattern": Variant(data["pattern"])})


class BertNormalizer(Normalizer):
    """What BERT does."""

    def __init__(
        self,
        clean_text: bool = True,
        handle_chinese_chars: bool = True,
        strip_accents: bool | None = None,
        lowercase: bool = True,
    ) -> None:
        self._data = {
            "clean_text": values.flag(clean_text),
            "handle_chinese_chars": values.flag(handle_chinese_chars),
            "strip_accents": None if strip_accents is None else values.flag(strip_accents),
            "lowercase": values.flag(lowercase),
        }

    clean_text = Field("clean_text", values.flag)
    handle_chinese_chars = Field("handle_chinese_chars", values.flag)
    strip_accents = Field[bool | None]("strip_accents", lambda v: v if v is None else bool(v))
    lowercase = Field("lowercase", values.flag)


class Precompiled(Normalizer):
    """SentencePiece's compiled map."""

    def __init__(self, precompiled_charsmap: Sequence_[int]) -> None:
        data = bytes(precompiled_charsmap)
        self._data = {"precompiled_charsmap": base64.b64encode(data).decode()}


class Sequence(Normalizer, IndexedSteps):
    """Several normalizers, one behind the other."""

    KEY = "normalizers"

    def __init__(self, normalizers: list[Normalizer]) -> None:
        self._hold(normalizers)

    def __len__(self) -> int:
        return len(self._parts)


FAMILY = Family(
    Normalizer, NFC, NFD, NFKC, NFKD, Lowercase, Nmt, StripAccents, ByteLevel, Strip, Prepend,
    Replace, BertNormalizer, Precompiled, Sequence,
)  # fmt: skip
NORMALIZERS = {"nfc": NFC, "nfd": NFD, "nfkc": NFKC, "nfkd": NFKD}


def unicode_normalizer_from_str(normalizer: str) -> Normalizer:
    """The normalizer with this name."""
    if normalizer not in NORMALIZERS:
        raise ValueError(
            f"{normalizer} is not a known unicode normalizer. Available are {NORMALIZERS.keys()}"
        )
    return NORMALIZERS[normalizer]()
