"""Encodings → encodings that are short enough, with what is left over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tokenmill.compat.tokenizers import values
from tokenmill.compat.tokenizers.components import Bare, Struct
from tokenmill.compat.tokenizers.encoding import Encoding
from tokenmill.errors import TokenizersError

_STRATEGIES = {
    "longest_first": "LongestFirst", "only_first": "OnlyFirst", "only_second": "OnlySecond",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Truncation:
    """How long encodings may get."""

    max_length: int
    stride: int = 0
    strategy: str = "longest_first"
    direction: str = "right"

    @classmethod
    def of(cls, max_length: object, options: Mapping[str, Any]) -> Truncation:
        values.ignore(options, ("stride", "strategy", "direction"))
        return cls(
            values.unsigned(max_length),
            values.unsigned(options.get("stride", 0)),
            values.choice(options.get("strategy", "longest_first"), "strategy", [*_STRATEGIES]),
            values.choice(options.get("direction", "right"), "direction", ("left", "right"), "."),
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Truncation:
        names = {shown: name for name, shown in _STRATEGIES.items()}
        return cls(
            data["max_length"], data["stride"], names[data["strategy"]],
            data.get("direction", "Right").lower(),
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        return {
            "direction": self.direction.capitalize(), "max_length": self.max_length,
            "strategy": _STRATEGIES[self.strategy], "stride": self.stride,
        }  # fmt: skip

    def shown(self) -> Struct:
        """As the repr of a tokenizer has it."""
        data = self.to_json()
        bare = {name: Bare(data[name]) for name in ("direction", "strategy")}
        return Struct("TruncationParams", {**data, **bare})

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def check_stride(self, added: int) -> None:
        """Refuses a stride that leaves no room for anything new."""
        room = self.max_length - added
        if 0 <= room < self.stride:
            raise ValueError(
                f"tokenizer stride set to {self.stride}, which is greater than or equal to its "
                f"effective max length of {room} (= {self.max_length} original max length - "
                f"{added} added special tokens), "
            )

    def lengths(self, first: int, second: int | None, added: int) -> tuple[int, int | None]:
        """How many tokens stay of two sequences; None for the second if there is none.

        `added` is what will be put around them. Where that alone is too long nothing is cut.
        """
        longest = self.max_length - added
        if longest < 0:
            return first, second
        if longest == 0:
            return 0, None if second is None else 0
        removed = first + (second or 0) - longest
        if removed <= 0:
            return first, second
        if self.strategy == "longest_first":
            if second is None:
                return longest, None
            return _balanced(first, second, longest)
        if self.strategy == "only_second" and second is None:
            raise TokenizersError("Truncation error: Second sequence not provided")
        target = first if self.strategy == "only_first" else second or 0
        if target <= removed:
            raise TokenizersError(
                "Truncation error: Sequence to truncate too short to respect the provided "
                "max_length"
            )
        if self.strategy == "only_first":
            return first - removed, second
        return first, target - removed

    def cut(self, first: Encoding, second: Encoding | None, added: int) -> None:
        """Cuts both where they are, and leaves the rest in what overflows."""
        count = None if second is None else len(second)
        kept, kept_second = self.lengths(len(first), count, added)
        first._truncate(kept, self.stride, self.direction == "left")
        if second is not None and kept_second is not None:
            second._truncate(kept_second, self.stride, self.direction == "left")


def _balanced(first: int, second: int, longest: int) -> tuple[int, int]:
    """Both as long as they may be: the shorter stays, or they share alike."""
    short, long = sorted((first, second))
    long = short if short > longest else max(short, longest - short)
    if short + long > longest:
        short = longest // 2
        long = short + longest % 2
    return (short, long) if first <= second else (long, short)
