"""rustbpe's interface: `import tokenmill.compat.rustbpe as rustbpe`.

Names, arguments, merges and ids are those of rustbpe 0.1.0, the trainer of nanochat.
docs/migrate-rustbpe.md lists the differences.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tokenmill import arguments
from tokenmill.errors import InputError, PatternError, UnknownTokenError
from tokenmill.formats.ranks import of_ranks
from tokenmill.tokenizer import Tokenizer as _Tokenizer
from tokenmill.training.options import VOCAB_SIZE_MAX
from tokenmill.training.train import train_from_iterator

__all__ = ["Tokenizer"]

_BYTES = {bytes([byte]): byte for byte in range(256)}
_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)
_MATCHES_NEVER = "(?!)"


class Tokenizer:
    """A byte-level BPE tokenizer that learns its merges from texts.

    Examples:
        >>> tokenizer = Tokenizer()
        >>> tokenizer.train_from_iterator(["the mill mills the meal"] * 9, 260)
        >>> tokenizer.encode("the mill")
        [259, 256, 258, 108]
    """

    __slots__ = ("_core", "_pattern", "_tokenizer")

    def __init__(self) -> None:
        self._use(_untrained(_MATCHES_NEVER), "")

    def _use(self, tokenizer: _Tokenizer, pattern: str) -> None:
        self._tokenizer, self._core, self._pattern = tokenizer, tokenizer._core, pattern

    def train_from_iterator(
        self,
        iterator: Iterable[str],
        vocab_size: int,
        buffer_size: int = 8192,
        pattern: str | None = None,
    ) -> None:
        """Learn `vocab_size - 256` merges from texts, or all merges if the texts have fewer.

        `pattern` is a regular expression, GPT-4's by default. The texts are counted while they are
        read, so `buffer_size` has no effect.
        """
        size = operator.index(vocab_size)
        for number, bits in ((size, 32), (operator.index(buffer_size), 64)):
            if not 0 <= number < 1 << bits:
                raise OverflowError(f"{number} is not in the range of {bits} bits")
        if size < 256:
            raise ValueError(f"vocab_size must be at least 256, got {size}")
        pattern = _PATTERN if pattern is None else _check_text(pattern, "pattern")
        # The name of a pre-tokenizer, such as "llama3", is a regular expression here.
        expression = f"(?:{pattern})" if re.fullmatch(r"[\w -]*", pattern) else pattern
        texts = map(_read, iter(iterator))
        bounded = min(size, VOCAB_SIZE_MAX)
        try:
            trained = train_from_iterator(texts, bounded, pattern=expression, trainer="rustbpe")
        except PatternError as error:
            raise ValueError(f"Invalid regex pattern: {error}") from error
        except InputError:  # the texts are empty, or the pattern matches nothing
            trained = _untrained(expression)
        if trained.vocab_size == VOCAB_SIZE_MAX < size:
            raise ValueError(f"vocab_size must be at most {VOCAB_SIZE_MAX:,} for these texts")
        self._use(trained, pattern)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text. Text that the pattern does not match has no ids."""
        ids: list[int] = self._core.encode(_check_text(text, "text"), None)
        return ids

    def batch_encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of many texts, encoded on several threads if they are long."""
        listed = [_check_text(text, "a text") for text in _check_sequence(texts, "texts")]
        threads = arguments.threads_for_batch(listed, None)
        ids: list[list[int]] = self._core.encode_batch(listed, None, threads)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; ValueError for an id that is not in the vocabulary."""
        numbers = [operator.index(id_) for id_ in _check_sequence(ids, "ids")]
        for number in numbers:
            if not 0 <= number < 1 << 32:
                raise OverflowError(f"id {number} is not in the range of 32 bits")
        try:
            return arguments.decode(self._core, numbers).decode()
        except UnknownTokenError:
            unknown = next(number for number in numbers if number >= self.vocab_size)
            raise ValueError(f"Unknown token id: {unknown}") from None

    def get_pattern(self) -> str:
        """Return the regular expression, which is empty before the first training."""
        return self._pattern

    def get_mergeable_ranks(self) -> list[tuple[bytes, int]]:
        """Return the bytes of each token with its id, in the order of the ids."""
        return [(token, id_) for id_, token in sorted(self._tokenizer._tokens().items())]

    @property
    def vocab_size(self) -> int:
        """The number of bytes and merges together."""
        return self._tokenizer.vocab_size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tokenizer):
            return NotImplemented
        return (self._pattern, self._tokenizer) == (other._pattern, other._tokenizer)

    def __hash__(self) -> int:
        return hash((self._pattern, self._tokenizer))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._tokenizer, self._pattern)


def _rebuild(cls: type[Tokenizer], tokenizer: _Tokenizer, pattern: str) -> Tokenizer:
    restored = cls()
    restored._use(tokenizer, pattern)
    return restored


def _untrained(pattern: str) -> _Tokenizer:
    """Return a tokenizer of bytes without merges."""
    return _Tokenizer._from_spec(of_ranks(_BYTES, pattern, {}, "rustbpe"), "rustbpe")


def _read(text: Any) -> str | bytes:
    """Return a text for training; UnicodeEncodeError if it contains a lone surrogate."""
    checked = _check_text(text, "a text")
    return checked if checked.isascii() else checked.encode()


def _check_text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, got {type(value).__name__}")
    return value


def _check_sequence(value: Any, name: str) -> Sequence[Any]:
    is_sequence = hasattr(value, "__getitem__") and hasattr(value, "__len__")
    if not is_sequence or isinstance(value, str | Mapping):
        raise TypeError(f"{name} must be a sequence such as a list, got {type(value).__name__}")
    sequence: Sequence[Any] = value
    return sequence
