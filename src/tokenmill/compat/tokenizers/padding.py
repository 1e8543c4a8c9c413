"""Encodings → encodings of one length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tokenmill.compat.tokenizers import values
from tokenmill.compat.tokenizers.components import Bare, Struct, Variant
from tokenmill.compat.tokenizers.encoding import Encoding

_NAMES = ("direction", "pad_to_multiple_of", "pad_id", "pad_type_id", "pad_token", "length")


@dataclass(frozen=True, slots=True)
class Padding:
    """What encodings are filled up with, and how far: None is the longest of a batch."""

    length: int | None = None
    pad_to_multiple_of: int | None = None
    pad_id: int = 0
    pad_token: str = "[PAD]"
    pad_type_id: int = 0
    direction: str = "right"

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Padding:
        given = dict(options)
        if "max_length" in given:
            said = (
                "enable_padding(max_length=X) is deprecated, use enable_padding(length=X) instead"
            )
            values.say(said)
            given["length"] = given.pop("max_length")
        values.ignore(given, _NAMES)
        length, multiple = given.get("length"), given.get("pad_to_multiple_of")
        return cls(
            None if length is None else values.unsigned(length),
            None if multiple is None else values.unsigned(multiple),
            values.unsigned(given.get("pad_id", 0), 32),
            values.text(given.get("pad_token", "[PAD]")),
            values.unsigned(given.get("pad_type_id", 0), 32),
            values.choice(given.get("direction", "right"), "direction", ("left", "right")),
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Padding:
        strategy = data["strategy"]
        length = None if strategy == "BatchLongest" else strategy["Fixed"]
        return cls(
            length, data.get("pad_to_multiple_of"), data["pad_id"], data["pad_token"],
            data["pad_type_id"], data["direction"].lower(),
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        return {
            "strategy": "BatchLongest" if self.length is None else {"Fixed": self.length},
            "direction": self.direction.capitalize(),
            "pad_to_multiple_of": self.pad_to_multiple_of,
            "pad_id": self.pad_id, "pad_type_id": self.pad_type_id, "pad_token": self.pad_token,
        }  # fmt: skip

    def shown(self) -> Struct:
        """As the repr of a tokenizer has it."""
        data = self.to_json()
        strategy = Bare("BatchLongest") if self.length is None else Variant(data["strategy"])
        bare = {"strategy": strategy, "direction": Bare(data["direction"])}
        return Struct("PaddingParams", {**data, **bare})

    def to_dict(self) -> dict[str, Any]:
        return {
            "length": self.length, "pad_to_multiple_of": self.pad_to_multiple_of,
            "pad_id": self.pad_id, "pad_token": self.pad_token, "pad_type_id": self.pad_type_id,
            "direction": self.direction,
        }  # fmt: skip

    def target(self, longest: int) -> int:
        """How long everything gets where the longest has so many tokens."""
        length = longest if self.length is None else self.length
        multiple = self.pad_to_multiple_of or 1
        return -(-length // multiple) * multiple

    def fill(self, encodings: Sequence[Encoding]) -> None:
        target = self.target(max(map(len, encodings), default=0))
        for each in encodings:
            self.fill_to(each, target)

    def fill_to(self, encoding: Encoding, target: int) -> None:
        left = self.direction == "left"
        encoding._pad(target, self.pad_id, self.pad_type_id, self.pad_token, left)
