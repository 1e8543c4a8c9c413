"""What `encode` and `encode_batch` are given → texts, or lists of words."""

from __future__ import annotations

from typing import Any

import numpy as np

from tokenmill.compat.tokenizers import values
from tokenmill.compat.tokenizers.pipeline import Input, Pair

_TEXT = "TextInputSequence must be str"
_WORDS = "PreTokenizedInputSequence must be Union[List[str], Tuple[str]]"
_TEXTS = "TextEncodeInput must be Union[TextInputSequence, Tuple[InputSequence, InputSequence]]"
_LISTS = (
    "PreTokenizedEncodeInput must be Union[PreTokenizedInputSequence, "
    "Tuple[PreTokenizedInputSequence, PreTokenizedInputSequence]]"
)


def single_input(value: object, is_pretokenized: object) -> Input:
    """One sequence."""
    words = values.flag(is_pretokenized)
    found = _words(value) if words else _text(value)
    if found is None:
        raise TypeError(_WORDS if words else _TEXT)
    return found


def batch_inputs(value: object, is_pretokenized: object) -> list[Pair]:
    """Sequences and pairs of them."""
    words = values.flag(is_pretokenized)
    return [_pair(each, words) for each in values.sequence(value)]


def _pair(value: Any, words: bool) -> Pair:
    one = _words(value) if words else _text(value)
    if one is not None:
        return one, None
    if isinstance(value, tuple | list) and len(value) == 2:
        first, second = (_words(each) if words else _text(each) for each in value)
        if first is not None and second is not None:
            return first, second
        if isinstance(value, tuple):
            raise TypeError(_WORDS if words else _TEXT)
    raise TypeError(_LISTS if words else _TEXTS)


def _text(value: object) -> str | None:
    """A text that is UTF-8."""
    if not isinstance(value, str):
        return None
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return None
    return value


def _words(value: object) -> list[str] | None:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        return None
    found = [_text(word) for word in value]
    return None if None in found else [word for word in found if word is not None]
