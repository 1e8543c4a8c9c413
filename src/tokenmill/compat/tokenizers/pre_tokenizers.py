"""Pre-tokenizers: how a text is cut before it is merged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenmill.compat.tokenizers import cutting, values
from tokenmill.compat.tokenizers.components import (
    Bare,
    Component,
    Family,
    Field,
    IndexedSteps,
    MetaspaceOptions,
    PatternField,
    Regex,
    Variant,
    byte_level_data,
    pattern_of,
)
from tokenmill.formats.byte_characters import byte_characters

_BEHAVIORS = {
    "removed": "Removed", "isolated": "Isolated", "merged_with_previous": "MergedWithPrevious",
    "merged_with_next": "MergedWithNext", "contiguous": "Contiguous",
}  # fmt: skip


class PreTokenizer(Component):
    """The base of all pre-tokenizers."""

    KIND = "PreTokenizer"

    def pre_tokenize_str(self, s: str) -> list[tuple[str, tuple[int, int]]]:
        """The words of a text, each with its (start, end)."""
        return cutting.pre_tokenize(self.to_json(), values.text(s))

    def pre_tokenize(self, pretok: object) -> None:
        """Not here: `PreTokenizedString` belongs to the real library."""
        values.not_there("PreTokenizedString")

    @staticmethod
    def custom(pretok: object) -> PreTokenizer:
        """Not here: parts written in Python belong to the real library."""
        values.not_there("a pre-tokenizer written in Python")


def behavior_of(value: object) -> Bare:
    """What becomes of a match, as tokenizer.json writes it."""
    name = values.text(getattr(value, "value", value))
    if name not in _BEHAVIORS:
        raise ValueError(
            f"Wrong value for SplitDelimiterBehavior, expected one of: `{', '.join(_BEHAVIORS)}`"
        )
    return Bare(_BEHAVIORS[name])


class Behavior(Field[str]):
    """A behaviour, which is read without the underscores that it is written with."""

    def __init__(self) -> None:
        super().__init__("behavior", behavior_of)

    def __get__(self, component: Component, owner: object = None) -> str:
        return str(super().__get__(component)).lower()


class ByteLevel(PreTokenizer):
    """GPT-2's way: its pattern, and bytes as characters."""

    def __init__(
        self,
        add_prefix_space: bool = True,
        trim_offsets: bool = True,
        use_regex: bool = True,
        **_kwargs: object,
    ) -> None:
        self._data = {
            "add_prefix_space": values.flag(add_prefix_space),
            "trim_offsets": values.flag(trim_offsets),
            "use_regex": values.flag(use_regex),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Component:
        return super().from_data(byte_level_data(data))

    add_prefix_space = Field("add_prefix_space", values.flag)
    trim_offsets = Field("trim_offsets", values.flag)
    use_regex = Field("use_regex", values.flag)

    @staticmethod
    def alphabet() -> list[str]:
        """The characters that stand for the 256 bytes."""
        return list(byte_characters())


class Split(PreTokenizer):
    """Cuts at matches."""

    def __init__(self, pattern: str | Regex, behavior: Any, invert: bool = False) -> None:
        self._data = {
            "pattern": pattern_of(pattern),
            "behavior": behavior_of(behavior),
            "invert": values.flag(invert),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Component:
        made = {"pattern": Variant(data["pattern"]), "behavior": Bare(data["behavior"])}
        return super().from_data({**data, **made})

    pattern = PatternField("split")
    behavior = Behavior()
    invert = Field("invert", values.flag)


class Digits(PreTokenizer):
    """Cuts numbers from other text."""

    def __init__(self, individual_digits: bool = False) -> None:
        self._data = {"individual_digits": values.flag(individual_digits)}

    individual_digits = Field("individual_digits", values.flag)


class Punctuation(PreTokenizer):
    """Cuts at punctuation."""

    def __init__(self, behavior: Any = "isolated") -> None:
        self._data = {"behavior": behavior_of(behavior)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Component:
        return super().from_data({"behavior": Bare(data.get("behavior", "Isolated"))})

    behavior = Behavior()


class Metaspace(PreTokenizer, MetaspaceOptions):
    """SentencePiece's way: blanks are characters of words."""


class CharDelimiterSplit(PreTokenizer):
    """Cuts at a character, which is left out."""

    def __init__(self, delimiter: str) -> None:
        self._data = {"delimiter": values.character(delimiter)}

    delimiter = Field("delimiter", values.character)


class FixedLength(PreTokenizer):
    """Pieces of so many characters."""

    def __init__(self, length: int = 5) -> None:
        self._data = {"length": values.unsigned(length)}

    length = Field("length", values.unsigned)


class Whitespace(PreTokenizer):
    r"""`\w+|[^\w\s]+`."""


class WhitespaceSplit(PreTokenizer):
    """Cuts at white space."""


class BertPreTokenizer(PreTokenizer):
    """What BERT does."""


class UnicodeScripts(PreTokenizer):
    """Cuts where the script changes."""


class Sequence(PreTokenizer, IndexedSteps):
    """Several pre-tokenizers, each on the pieces of the one before."""

    KEY = "pretokenizers"

    def __init__(self, pre_tokenizers: list[PreTokenizer]) -> None:
        self._hold(pre_tokenizers)


FAMILY = Family(
    PreTokenizer, ByteLevel, Split, Digits, Punctuation, Metaspace, CharDelimiterSplit, FixedLength,
    Whitespace, WhitespaceSplit, BertPreTokenizer, UnicodeScripts, Sequence,
)  # fmt: skip
