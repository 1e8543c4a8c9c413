"""truncation and padding of a tokenizer.json → the same, if Hugging Face reads them.

Nothing here cuts or fills: `compat.tokenizers` does, and a saved file has them again. A section
that no other library would read is refused when it is loaded, not when somebody uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenmill.formats.places import Place, shown

_DIRECTIONS = ("Left", "Right")
_STRATEGIES = ("LongestFirst", "OnlyFirst", "OnlySecond")
_SIZE_END = 1 << 64
_ID_END = 1 << 32


def check(document: Mapping[str, Any], place: Place) -> None:
    """Refuses sections that are not as they should be."""
    truncation = place.maybe(document, "truncation", dict)
    if truncation is not None:
        _check_truncation(truncation, place.inside("truncation"))
    padding = place.maybe(document, "padding", dict)
    if padding is not None:
        _check_padding(padding, place.inside("padding"))


def _check_truncation(values: Mapping[str, Any], place: Place) -> None:
    _number(values, "max_length", _SIZE_END, place)
    _number(values, "stride", _SIZE_END, place)
    _choice(values, "strategy", _STRATEGIES, place)
    if "direction" in values:
        _choice(values, "direction", _DIRECTIONS, place)


def _check_padding(values: Mapping[str, Any], place: Place) -> None:
    strategy = values.get("strategy")
    if isinstance(strategy, dict) and strategy.keys() == {"Fixed"}:
        _number(strategy, "Fixed", _SIZE_END, place.inside("strategy"))
    elif strategy != "BatchLongest":
        place.inside("strategy").refuse(
            f'is {shown(strategy)}; there are BatchLongest and {{"Fixed": 128}}'
        )
    _choice(values, "direction", _DIRECTIONS, place)
    if values.get("pad_to_multiple_of") is not None:
        _number(values, "pad_to_multiple_of", _SIZE_END, place)
    _number(values, "pad_id", _ID_END, place)
    _number(values, "pad_type_id", _ID_END, place)
    place.get(values, "pad_token", str)


def _number(values: Mapping[str, Any], key: str, end: int, place: Place) -> None:
    found = place.get(values, key, int)
    if not 0 <= found < end:
        place.inside(key).refuse(f"is {found}; it must be 0 or more, and less than {end}")


def _choice(values: Mapping[str, Any], key: str, choices: tuple[str, ...], place: Place) -> None:
    found = place.get(values, key, str)
    if found not in choices:
        place.inside(key).refuse(f"is {shown(found)}; there are {', '.join(choices)}")
