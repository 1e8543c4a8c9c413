"""tiktoken's `Encoding`: the same methods, arguments, results and exceptions."""

from __future__ import annotations

import functools
import os
import re
from bisect import bisect_left
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tokenmill import arguments
from tokenmill.arguments import cpu_count
from tokenmill.errors import UnknownTokenError
from tokenmill.formats.build import build, model_of
from tokenmill.formats.ranks import of_ranks
from tokenmill.native import _native
from tokenmill.patterns.schemes import scheme_of
from tokenmill.tokenizer import Tokenizer

Allowed: TypeAlias = Literal["all"] | AbstractSet[str]
Disallowed: TypeAlias = Literal["all"] | Collection[str]

_NONE: frozenset[str] = frozenset()
_WHOLE = r"(?s:.+)"
_WHITESPACE = b" \n\t"


class Encoding:
    """A BPE tokenizer with the interface of tiktoken.

    `get_encoding` returns the named ones. Others have a pattern, ranks and special tokens;
    `explicit_n_vocab` is a check of the number of tokens.

    Examples:
        >>> from tokenmill.compat.tiktoken import get_encoding
        >>> get_encoding("o200k_base").encode("hello world")
        [24912, 2375]
    """

    def __init__(
        self,
        name: str,
        *,
        pat_str: str,
        mergeable_ranks: dict[bytes, int],
        special_tokens: dict[str, int],
        explicit_n_vocab: int | None = None,
    ) -> None:
        largest = max(max(mergeable_ranks.values()), max(special_tokens.values(), default=0))
        if explicit_n_vocab:
            assert len(mergeable_ranks) + len(special_tokens) == explicit_n_vocab
            assert largest == explicit_n_vocab - 1
        core = build(of_ranks(mergeable_ranks, pat_str, special_tokens, name))
        self._fill(name, core, pat_str, special_tokens)
        self.max_token_value = largest
        self._mergeable_ranks = mergeable_ranks

    @classmethod
    def _embedded(cls, name: str) -> Encoding:
        """Return an embedded encoding; the dict of its ranks is created at the first use."""
        tokenizer = Tokenizer.load(name)
        self = cls.__new__(cls)
        vars(self)["_shared"] = tokenizer._spec  # as long as it is in use, others share it
        special_tokens = dict(tokenizer.special_tokens)
        assert tokenizer.pattern is not None
        self._fill(name, tokenizer._core, tokenizer.pattern, special_tokens)
        self.max_token_value = tokenizer.vocab_size - 1
        return self

    def _fill(
        self, name: str, core: _native.Core, pattern: str, special_tokens: dict[str, int]
    ) -> None:
        self.name = name
        self._core = core
        self._pat_str = pattern
        self._special_tokens = special_tokens
        self._special_token_values = set(special_tokens.values())
        # The core takes one byte per special token, in the order of their bytes.
        self._names = sorted(special_tokens, key=str.encode)
        self._choices: dict[frozenset[str], bytes | None] = {}

    def __repr__(self) -> str:
        return f"<Encoding {self.name!r}>"

    @functools.cached_property
    def _mergeable_ranks(self) -> dict[bytes, int]:
        return {token: id_ for id_, token in model_of(self._core).by_id().items()}

    # Encoding

    def encode_ordinary(self, text: str) -> list[int]:
        """Return the ids of a text; special tokens are encoded as ordinary text."""
        return self._encode(_check_text(text), None)

    def encode(
        self, text: str, *, allowed_special: Allowed = _NONE, disallowed_special: Disallowed = "all"
    ) -> list[int]:
        """Return the ids of a text, with the special tokens in `allowed_special`.

        ValueError if the text contains a token of `disallowed_special` ("all": every special token
        that is not allowed). Other special tokens are encoded as ordinary text.
        """
        return self._encode(text, self._choose(text, allowed_special, disallowed_special))

    def encode_to_numpy(
        self, text: str, *, allowed_special: Allowed = _NONE, disallowed_special: Disallowed = "all"
    ) -> NDArray[np.uint32]:
        """Return the ids of `encode` as an array."""
        choice = self._choose(text, allowed_special, disallowed_special)
        threads = arguments.threads_for(text, None)
        # Lone surrogates are an error: tiktoken raises UnicodeEncodeError here.
        return np.asarray(self._core.encode_buffer(text, choice, False, threads), np.uint32)

    def encode_ordinary_batch(self, text: list[str], *, num_threads: int = 8) -> list[list[int]]:
        """Return the ids of many texts; special tokens are encoded as ordinary text."""
        texts = [_check_text(one) for one in text]
        return arguments.read_all(self._core.encode_batch, texts, None, _threads(num_threads))

    def encode_batch(
        self,
        text: list[str],
        *,
        num_threads: int = 8,
        allowed_special: Allowed = _NONE,
        disallowed_special: Disallowed = "all",
    ) -> list[list[int]]:
        """Return the ids of many texts; special tokens are as in `encode`."""
        texts = list(text)
        choice = None
        for one in texts:
            choice = self._choose(one, allowed_special, disallowed_special)
        return arguments.read_all(self._core.encode_batch, texts, choice, _threads(num_threads))

    def encode_with_unstable(
        self, text: str, *, allowed_special: Allowed = _NONE, disallowed_special: Disallowed = "all"
    ) -> tuple[list[int], list[list[int]]]:
        """Return the ids that more text cannot change, and the possible continuations."""
        choice = self._choose(text, allowed_special, disallowed_special)
        return _complete(self, text.encode(), choice)

    def encode_single_token(self, text_or_bytes: str | bytes) -> int:
        """Return the id of a token or special token; KeyError for an unknown token."""
        token = text_or_bytes.encode() if isinstance(text_or_bytes, str) else text_or_bytes
        if not isinstance(token, bytes):
            raise TypeError(f"token must be str or bytes, got {type(token).__name__}")
        found = self._core.find(token) if token else self._mergeable_ranks.get(token, -1)
        if found >= 0:
            return found
        special = self._special_tokens.get(token.decode("utf-8", "surrogateescape"))
        if special is None:
            raise KeyError(token)
        return special

    # Decoding

    def decode_bytes(self, tokens: Sequence[int]) -> bytes:
        """Return the bytes of ids; KeyError for an unknown id."""
        try:
            return arguments.decode(self._core, tokens)
        except UnknownTokenError:
            for token in tokens:
                if not 0 <= token < 1 << 32:
                    raise OverflowError("out of range integral type conversion attempted") from None
                try:
                    self._core.decode([token])
                except UnknownTokenError:
                    raise KeyError(f"Invalid token for decoding: {token}") from None
            raise

    def decode(self, tokens: Sequence[int], errors: str = "replace") -> str:
        """Return the text of ids; `errors` is that of `bytes.decode`."""
        return self.decode_bytes(tokens).decode("utf-8", errors=errors)

    def decode_single_token_bytes(self, token: int) -> bytes:
        """Return the bytes of one id; KeyError for an unknown id."""
        try:
            return self.decode_bytes([token])
        except KeyError:
            raise KeyError(str(token)) from None

    def decode_tokens_bytes(self, tokens: Sequence[int]) -> list[bytes]:
        """Return the bytes of each id."""
        return [self.decode_single_token_bytes(token) for token in tokens]

    def decode_with_offsets(self, tokens: Sequence[int]) -> tuple[str, list[int]]:
        """Return the text of ids, and the character offset of the first byte of each."""
        parts = self.decode_tokens_bytes(tokens)
        offsets = []
        characters = 0
        for part in parts:
            offsets.append(max(0, characters - (0x80 <= part[0] < 0xC0)))
            characters += sum(not 0x80 <= byte < 0xC0 for byte in part)
        return b"".join(parts).decode("utf-8", errors="strict"), offsets

    def decode_batch(
        self, batch: Sequence[Sequence[int]], *, errors: str = "replace", num_threads: int = 8
    ) -> list[str]:
        """Return the texts of many sequences of ids."""
        return [self.decode(tokens, errors) for tokens in batch]

    def decode_bytes_batch(
        self, batch: Sequence[Sequence[int]], *, num_threads: int = 8
    ) -> list[bytes]:
        """Return the bytes of many sequences of ids."""
        return [self.decode_bytes(tokens) for tokens in batch]

    # The vocabulary

    def token_byte_values(self) -> list[bytes]:
        """Return the bytes of all tokens, sorted."""
        return sorted(self._mergeable_ranks)

    @property
    def eot_token(self) -> int:
        """The id of <|endoftext|>."""
        return self._special_tokens["<|endoftext|>"]

    @functools.cached_property
    def special_tokens_set(self) -> set[str]:
        """The texts of the special tokens."""
        return set(self._special_tokens)

    def is_special_token(self, token: int) -> bool:
        """Return whether an id is a special token."""
        assert isinstance(token, int)
        return token in self._special_token_values

    @property
    def n_vocab(self) -> int:
        """One more than the largest id."""
        return self.max_token_value + 1

    # Private methods that tiktoken's tests and some programs use

    def _encode_single_piece(self, text_or_bytes: str | bytes) -> list[int]:
        piece = text_or_bytes.encode() if isinstance(text_or_bytes, str) else text_or_bytes
        return self._whole_core.encode(piece, None)

    def _encode_only_native_bpe(self, text: str) -> list[int]:
        return self.encode_ordinary(text)

    def _encode_bytes(self, text: bytes) -> list[int]:
        try:
            return self.encode_ordinary(text.decode())
        except UnicodeDecodeError as error:
            ids, _, start = _split_end(self, text[: error.start], None)
            return ids + self._encode_single_piece(text[start:])

    @functools.cached_property
    def _whole_core(self) -> _native.Core:
        """A core that does not split texts."""
        return build(of_ranks(self._mergeable_ranks, _WHOLE, {}, self.name))

    def _split(self, text: bytes) -> list[tuple[int, int]]:
        return _native.split(scheme_of(self._pat_str), text)

    def _encode(self, text: str, choice: bytes | None) -> list[int]:
        try:
            return self._core.encode(text, choice)
        except ValueError as error:
            return self._core.encode(arguments.repair(text, error), choice)

    def _choose(self, text: str, allowed: Allowed, disallowed: Any) -> bytes | None:
        """Return the allowed special tokens as the core takes them, after the check of the text."""
        if type(text) is not str:
            _check_text(text)
        if allowed == "all":
            allowed = self.special_tokens_set
        if disallowed == "all":
            disallowed = self.special_tokens_set - allowed if allowed else self._all_names
        if disallowed:
            match = _find_any(frozenset(disallowed), text)
            if match is not None:
                raise_disallowed_special_token(match)
        if not allowed:
            return None
        key = frozenset(allowed)
        if key not in self._choices:
            if len(self._choices) > 64:
                self._choices.clear()
            choice = bytes(name in key for name in self._names)
            self._choices[key] = choice if any(choice) else None
        return self._choices[key]

    @functools.cached_property
    def _all_names(self) -> frozenset[str]:
        return frozenset(self._special_tokens)

    def __reduce__(self) -> tuple[Any, ...]:
        from tokenmill.compat.tiktoken import registry

        # A registered encoding is pickled as its name.
        if self is registry.ENCODINGS.get(self.name):
            return registry.get_encoding, (self.name,)
        return functools.partial(type(self), **self._arguments()), ()

    def _arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {
            "name": self.name,
            "pat_str": self._pat_str,
            "mergeable_ranks": self._mergeable_ranks,
            "special_tokens": self._special_tokens,
        }


@functools.lru_cache(maxsize=128)
def _finder(names: frozenset[str]) -> tuple[str, re.Pattern[str]]:
    """Return the common prefix of all names, and a pattern that matches any of them."""
    prefix = os.path.commonprefix([*names])  # noqa: RUF071, of characters
    return prefix, re.compile("|".join(map(re.escape, names)))


def _find_any(names: frozenset[str], text: str) -> str | None:
    beginning, pattern = _finder(names)
    # A substring search for the prefix is fast, and most texts do not contain "<|".
    if beginning not in text:
        return None
    match = pattern.search(text)
    return match.group() if match else None


def raise_disallowed_special_token(token: str) -> NoReturn:
    """Raise the error of `encode` for a special token that is not allowed."""
    raise ValueError(
        f"Encountered text corresponding to disallowed special token {token!r}.\n"
        "If you want this text to be encoded as a special token, "
        f"pass it to `allowed_special`, e.g. `allowed_special={{{token!r}, ...}}`.\n"
        "If you want this text to be encoded as normal text, disable the check for this token "
        f"by passing `disallowed_special=(enc.special_tokens_set - {{{token!r}}})`.\n"
        "To disable this check for all special tokens, pass `disallowed_special=()`.\n"
    )


def _check_text(text: Any) -> str:
    if isinstance(text, str):
        return text
    if isinstance(text, bytes | bytearray | memoryview):
        raise TypeError("cannot use a string pattern on a bytes-like object")
    raise TypeError("expected string or buffer")


def _threads(count: int) -> int:
    return arguments.thread_count(min(count, cpu_count()))


# Unstable ends. More text can extend the last pretoken, so its ids are not stable. The
# continuations are the encodings of all texts that begin with the last pretoken and end inside the
# token that crosses its end.


def _split_end(
    encoding: Encoding, text: bytes, choice: bytes | None
) -> tuple[list[int], list[int], int]:
    """Return the stable ids, the others, and the byte of the text where the others begin.

    The others are those of the last pretoken and of whitespace tokens before it.
    """
    ids, spans = encoding._core.encode_with_offsets(text, choice)
    start = 0
    if choice is not None:
        # The search is by id, because the text of a special token may also be ordinary text.
        special_tokens = encoding._special_token_values
        ends = [stop for id_, (_, stop) in zip(ids, spans, strict=True) if id_ in special_tokens]
        start = ends[-1] if ends else 0
    pretokens = encoding._split(text[start:])
    if not pretokens:
        return ids, [], len(text)
    begin = start + pretokens[-1][0]
    first = next((index for index, span in enumerate(spans) if span[0] >= begin), len(ids))
    if first == len(ids):
        return ids, [], len(text)

    def is_whitespace(index: int) -> bool:
        return not encoding.decode_single_token_bytes(ids[index]).strip(_WHITESPACE)

    if is_whitespace(first):
        while first > 0 and is_whitespace(first - 1):
            first -= 1
    return ids[:first], ids[first:], spans[first][0]


def _complete(
    encoding: Encoding, text: bytes, choice: bytes | None
) -> tuple[list[int], list[list[int]]]:
    """Return the stable ids, and all possible continuations."""
    stable, unstable, _ = _split_end(encoding, text, choice)
    if not unstable:
        return stable, []
    rest = encoding.decode_bytes(unstable)
    ranks, tokens = encoding._mergeable_ranks, encoding.token_byte_values()
    # One token that begins with all of the rest, or ids of a part and a token across the end.
    found: set[tuple[int, ...]] = {(ranks[token],) for token in _starting_with(tokens, rest)}
    for cut in range(1, len(rest)):
        for token in _starting_with(tokens, rest[cut:]):
            found.add(_until(encoding, rest[:cut] + token, len(rest)))
    last = rest.decode("utf-8", "ignore")[-1:]
    end = last.encode()
    if last.isspace() and len(rest) > len(end) and rest.endswith(end):
        # Whitespace at the end is a pretoken of its own before other text.
        parts = rest.removesuffix(end), end
        found.add(tuple(id_ for part in parts for id_ in encoding._encode_single_piece(part)))
    return stable, [list(one) for one in sorted(found)]


def _starting_with(tokens: list[bytes], start: bytes) -> list[bytes]:
    first = bisect_left(tokens, start)
    end = first
    while end < len(tokens) and tokens[end].startswith(start):
        end += 1
    return tokens[first:end]


def _until(encoding: Encoding, text: bytes, length: int) -> tuple[int, ...]:
    """Return the ids of a text up to the one that reaches `length` bytes."""
    try:
        ids = encoding.encode_ordinary(text.decode())
    except UnicodeDecodeError:
        ids = encoding._encode_single_piece(text)
    reached = 0
    for count, id_ in enumerate(ids, 1):
        reached += len(encoding.decode_single_token_bytes(id_))
        if reached >= length:
            return tuple(ids[:count])
    return tuple(ids)
