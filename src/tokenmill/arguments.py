"""Arguments → what the core takes: checks, repairs, and errors that name the value."""

from __future__ import annotations

import difflib
import itertools
import operator
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import (
    TokenmillError,
    UnknownIdError,
    UnknownSpecialError,
    VocabularyError,
)
from tokenmill.formats.hub import is_name
from tokenmill.formats.parts import Added, Prefix
from tokenmill.native import _native
from tokenmill.vocabularies import EMBEDDED, MODELS

Result = TypeVar("Result")
# Names, their lengths, ids and flags, packed steps, and the prefix.
Front: TypeAlias = tuple[bytes, bytes, bytes, bytes, bytes, Prefix]

_LONG_TEXT_LEN = 1 << 18  # characters, of up to four bytes: the core's limit is a megabyte
_THREADS_MAX = 256


def read(call: Callable[..., Result], text: Any, *more: Any) -> Result:
    """A call of the core on a text; one that it cannot read as it is, is repaired first."""
    try:
        return call(text, *more)
    except (ValueError, TypeError, BufferError) as error:
        return call(repair(text, error), *more)


def read_all(call: Callable[..., Result], texts: list[Any], *more: Any) -> Result:
    """The same for a list of texts."""
    try:
        return call(texts, *more)
    except (ValueError, TypeError, BufferError) as error:
        return call(repair_all(texts, error), *more)


def repair(text: Any, error: Exception) -> Any:
    """A str with surrogates as UTF-8 can hold it, the way tiktoken does it; else the error.

    A surrogate pair becomes its character, a lone surrogate U+FFFD.
    """
    if isinstance(error, TokenmillError):
        raise error
    if isinstance(text, str):
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _contiguous(text, "a text")


def repaired_starts(text: Any) -> list[int]:
    """Where each character of a repaired str starts in the original, and where the last ends."""
    starts = []
    index = 0
    while index < len(text):
        starts.append(index)
        pair = (
            "\ud800" <= text[index] < "\udc00"
            and "\udc00" <= text[index + 1 : index + 2] < "\ue000"
        )
        index += 2 if pair else 1
    return [*starts, index]


def repair_all(texts: list[Any], error: Exception) -> list[Any]:
    """The texts of a batch, repaired; an item that is no text is named with its place."""
    if isinstance(error, TokenmillError):
        raise error
    return [
        repair(text, error) if isinstance(text, str) else _contiguous(text, f"texts[{index}]")
        for index, text in enumerate(texts)
    ]


def _contiguous(text: Any, name: str) -> bytes | memoryview:
    """Bytes that lie side by side; a view with steps is copied."""
    try:
        view = memoryview(text)
    except TypeError:
        raise TypeError(f"{name} must be a str or bytes-like, not {_shown(text)}") from None
    if view.itemsize != 1:
        raise TypeError(
            f"{name} must be a str or bytes-like, not {_shown(text)} whose items have "
            f"{view.itemsize} bytes; ids are turned into text by decode()"
        )
    return view if view.c_contiguous else view.tobytes()


def list_texts(texts: Any) -> list[Any]:
    """The texts of a batch as a list."""
    if isinstance(texts, str | bytes | bytearray | memoryview):
        raise TypeError(
            f"texts must be a list of texts, not one {type(texts).__name__}; "
            "for one text use the method without _batch or _ragged, or [text]"
        )
    if not isinstance(texts, Iterable):
        raise TypeError(f"texts must be a list of texts, not {_shown(texts)}")
    return texts if type(texts) is list else list(texts)


def thread_count(threads: Any) -> int:
    """How many threads to use: all processors that this process may use, unless told."""
    if threads is None:
        return min(_THREADS_MAX, processor_count())
    return min(_THREADS_MAX, whole_number(threads, "threads", 1, " (None for all processors)"))


def whole_number(value: Any, name: str, least: int, more: str = "") -> int:
    """An int, numpy's included, that is not too small."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an int{more}, not {value!r}")
    number = operator.index(value)
    if number < least:
        raise ValueError(f"{name} must be {least} or more{more}, not {number}")
    return number


def threads_for(text: Any, threads: Any) -> int:
    """The same for one text; a short one does not ask the system how many there are."""
    is_usual = type(text) is str or type(text) is bytes
    if threads is None and is_usual and len(text) < _LONG_TEXT_LEN:
        return 1
    return thread_count(threads)


def separator(value: Any) -> bytes:
    """What ends a document, as bytes; empty when nothing does."""
    if value is None:
        return b""
    if not isinstance(value, str | bytes | bytearray | memoryview):
        raise TypeError(f"separator must be a str, bytes or None, not {value!r}")
    raw = value.encode() if isinstance(value, str) else bytes(value)
    if not raw:
        raise ValueError("separator must not be empty; None makes each file one document")
    return raw


def processor_count() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def allowed_specials(
    choice: Any, names: Collection[str], always: Collection[str] = ()
) -> bytes | None:
    """One byte for each name in the core's order; None when no special is allowed.

    `always` are names of added tokens that are no specials.
    """
    if choice is True:
        return b"\x01" * (len(names) + len(always)) or None
    if choice is False:
        return None
    if isinstance(choice, str | bytes) or not isinstance(choice, Collection):
        raise TypeError(
            f"specials must be False, True or a set of names, not {_shown(choice)}; "
            "for one special use {name}"
        )
    for name in choice:
        if not isinstance(name, str) or name not in names:
            known = ", ".join(sorted(names)[:8]) or "none"
            more = ", …" if len(names) > 8 else ""
            raise UnknownSpecialError(f"no special is called {name!r}; there are: {known}{more}")
    if not choice:
        return None
    ordered = sorted([*names, *always], key=str.encode)
    return bytes(name in choice or name in always for name in ordered)


def pack_specials(specials: Mapping[str, int]) -> Front:
    """A front that only finds specials, as the core wants it."""
    for name, id_ in specials.items():
        if not isinstance(name, str) or not name:
            raise VocabularyError(f"a special's name is a str of at least one character: {name!r}")
        if not isinstance(id_, int) or isinstance(id_, bool) or not 0 <= id_ < 1 << 31:
            raise VocabularyError(f"special {name!r} needs an id from 0 to 2,147,483,647: {id_!r}")
    return pack_front([Added(name, id_) for name, id_ in specials.items()])


def pack_front(added: Iterable[Added], steps: bytes = b"", prefix: Prefix = "never") -> Front:
    """What is done before text is cut, as the core wants it: names in order of their bytes."""
    try:
        entries = sorted(
            ((entry.content.encode(), entry) for entry in added), key=operator.itemgetter(0)
        )
    except UnicodeEncodeError as error:
        raise VocabularyError(f"special {error.object!r} holds a lone surrogate") from None
    for (name, _), (following, _) in itertools.pairwise(entries):
        if name == following:
            raise VocabularyError(f"added token {name.decode()!r} is there twice; remove one")
    flags = [
        entry.special
        | entry.lstrip << 1
        | entry.rstrip << 2
        | entry.single_word << 3
        | entry.normalized << 4
        | entry.literal << 5
        for _, entry in entries
    ]
    lengths = np.array([len(name) for name, _ in entries], np.uint32)
    ids = np.array([entry.id for _, entry in entries], np.uint32)
    joined = b"".join(name for name, _ in entries)
    return joined, lengths.tobytes(), ids.tobytes(), bytes(flags), steps, prefix


def token_arrays(tokens: Mapping[bytes, int], source: object) -> tuple[bytes, bytes, bytes]:
    """Tokens end to end, their lengths and their ids, as the core wants."""
    biggest = max(tokens.values(), default=0)
    if biggest >= 1 << 32:
        raise VocabularyError(f"{source}: rank {biggest} is too large for an id")
    lengths = np.fromiter(map(len, tokens), np.uint32, len(tokens))
    ids = np.fromiter(tokens.values(), np.uint32, len(tokens))
    return b"".join(tokens), lengths.tobytes(), ids.tobytes()


def list_ids(ids: Any) -> list[int] | NDArray[np.int64]:
    """Ids as the core reads them: a list, or an array of int64."""
    if type(ids) is list:
        return ids
    if isinstance(ids, np.ndarray):
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise TypeError(
                f"ids must be a one-dimensional array of integers, not {ids.ndim}-dimensional "
                f"of {ids.dtype}; decode_batch takes several sequences"
            )
        if ids.dtype == np.uint64 and ids.size and int(ids.max()) >= 1 << 63:
            return [int(id_) for id_ in ids]
        return np.ascontiguousarray(ids, np.int64)
    if isinstance(ids, int | str | bytes) or not isinstance(ids, Iterable):
        hint = f"; for one id use decode([{ids}])" if isinstance(ids, int) else ""
        raise TypeError(f"ids must be a sequence of int, not {_shown(ids)}{hint}")
    return list(ids)


def decode(core: _native.Core, ids: Any) -> bytes:
    """The bytes of ids; the error names the one that is no id."""
    listed = list_ids(ids)
    try:
        return core.decode(listed)
    except OverflowError:
        huge = next(id_ for id_ in listed if not -(1 << 63) <= id_ < 1 << 63)
        raise UnknownIdError(
            f"id {huge} is not in this vocabulary, whose tokens end before id {core.ids_end()}"
        ) from None
    except TypeError:
        for index, id_ in enumerate(listed):
            if not hasattr(id_, "__index__"):
                raise TypeError(f"ids[{index}] is {_shown(id_)}; an id is an int") from None
        raise


def error_handler(errors: str) -> str:
    """A name that `bytes.decode` accepts for its errors."""
    try:
        b"\xff".decode("utf-8", errors)
    except UnicodeDecodeError:
        return errors
    except (LookupError, TypeError, ValueError):
        raise ValueError(
            f'errors must be "replace", "strict", "ignore" or another handler of bytes.decode, '
            f"not {errors!r}"
        ) from None
    return errors


def refuse_errors(errors: str, name: str) -> None:
    """A decoder of a file's own has one way to treat bytes that are not UTF-8."""
    if errors != "replace":
        raise ValueError(
            f"{name} has a decoder that replaces bytes that are not UTF-8, so errors={errors!r} "
            "cannot be; decode_bytes gives the bytes"
        )


def tokens_of(core: _native.Core) -> dict[int, bytes]:
    """All tokens of a core by id; ids that are gaps are left out."""
    joined, ends = core.tokens()
    tokens = {core.empty_id(): b""} if core.empty_id() >= 0 else {}
    start = 0
    for id_, end in enumerate(np.asarray(ends).tolist()):
        if end > start:
            tokens[id_] = joined[start:end]
        start = end
    return tokens


def check_name(name: str) -> None:
    """Refuses what is neither a file, a folder, nor a name that may be in the hub's cache."""
    path = Path(name)
    if name and path.exists():
        if not path.is_dir():
            raise VocabularyError(f"{name!r} is not a regular file, and so nothing to load")
        return
    if is_name(name):
        return
    near = difflib.get_close_matches(name.strip().lower(), [*EMBEDDED, *MODELS], 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise VocabularyError(
        f"{name!r} is neither a file, a folder, an embedded vocabulary, an OpenAI model, nor a "
        f"name of the hub (org/name); {hint}embedded are {', '.join(EMBEDDED)}"
    )


def refuse_shared_ids(specials: Mapping[str, int], added: Mapping[str, int]) -> None:
    """A special that is added has an id of its own: an id decodes to one name."""
    owners: dict[int, list[str]] = {}
    for name, id_ in specials.items():
        owners.setdefault(id_, []).append(name)
    for name, id_ in added.items():
        others = (other for other in owners.get(id_, ())[:2] if other != name)
        if (other := next(others, None)) is not None:
            raise VocabularyError(f"specials {name!r} and {other!r} have the same id {id_}")


def refuse_taken_ids(core: _native.Core, specials: Mapping[str, int]) -> None:
    """A special may share an id with a token only if it is that token."""
    inner = {special: id_ for special, id_ in specials.items() if id_ < core.ids_end()}
    if not inner:
        return
    tokens, buffer = core.tokens()
    ends = np.asarray(buffer)
    free = max(core.ids_end(), 1 + max(specials.values()))
    for special, id_ in inner.items():
        token = tokens[ends[id_ - 1] if id_ else 0 : ends[id_]]
        if token not in (b"", special.encode()):
            raise VocabularyError(
                f"special {special!r} has id {id_}, which is token {token!r}; "
                f"give it a free id, such as {free}"
            )


def _shown(value: object) -> str:
    """A value in a message: short, and with its type."""
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '…'}"
