"""Arguments of the public interface → arguments of the core, with checks and repairs."""

from __future__ import annotations

import contextlib
import math
import operator
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tokenmill.errors import OptionError, TokenmillError, UnknownTokenError, VocabularyError, shown
from tokenmill.native import _native
from tokenmill.vocabularies import find_embedded

if TYPE_CHECKING:
    from pathlib import Path  # its import takes 3 ms, and `Tokenizer.load` does without

    from numpy.typing import NDArray


Result = TypeVar("Result")

_LONG_TEXT_LEN = 1 << 18  # characters, of up to four bytes: the core's limit is a megabyte
# Bytes of a batch below which threads cost more than they save. Measured with cl100k_base and
# documents of 8 KB, alternating calls with one and two threads: two threads took 4 times as long
# as one at 256 KB, and as long at 512 KB.
_BATCH_BYTES_MIN = 1 << 19
_BYTES_PER_CHARACTER_MAX = 4
_THREADS_MAX = 256


def read(call: Callable[..., Result], text: Any, *more: Any) -> Result:
    """Call the core with a text, and again with the repaired text if the core rejects it."""
    try:
        return call(text, *more)
    except (ValueError, TypeError, BufferError) as error:
        return call(repair(text, error), *more)


def read_all(call: Callable[..., Result], texts: list[Any], *more: Any) -> Result:
    """Call the core with a list of texts, as `read` does with one."""
    try:
        return call(texts, *more)
    except (ValueError, TypeError, BufferError) as error:
        repaired = [repair(text, error, f"texts[{at}]") for at, text in enumerate(texts)]
        return call(repaired, *more)


def repair(text: Any, error: Exception, name: str = "a text") -> Any:
    """Return a text that the core accepts, or raise the error for a value that is not a text.

    In a str, as in tiktoken, a surrogate pair becomes its character and a lone surrogate U+FFFD.
    A view with steps is copied.
    """
    if isinstance(error, TokenmillError):
        raise error
    if isinstance(text, str):
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    try:
        view = memoryview(text)
    except TypeError:
        raise TypeError(f"{name} must be a str or bytes-like, not {_describe(text)}") from None
    if view.itemsize != 1:
        raise TypeError(
            f"{name} must be a str or bytes-like, not {_describe(text)} with items of "
            f"{view.itemsize} bytes; to turn ids into text use decode()"
        )
    return view if view.c_contiguous else view.tobytes()


def utf8(text: Any, name: str = "a text") -> bytes:
    """Return the UTF-8 of a text as the core reads it; a bytes-like object stays as it is."""
    if type(text) is bytes:
        return text
    if isinstance(text, str):
        with contextlib.suppress(UnicodeEncodeError):
            return text.encode()
    repaired = repair(text, TypeError(), name)
    return repaired.encode() if isinstance(repaired, str) else bytes(repaired)


def repaired_starts(text: Any) -> list[int]:
    """Return the start of each character of the repaired text in the original, and its end."""
    if not isinstance(text, str):
        return [*range(len(text) + 1)]
    characters = re.finditer("[\ud800-\udbff][\udc00-\udfff]|.", text, re.DOTALL)
    return [*(character.start() for character in characters), len(text)]


def list_texts(texts: Any) -> list[Any]:
    """Return the texts of a batch as a list."""
    if isinstance(texts, str | bytes | bytearray | memoryview):
        raise TypeError(
            f"texts must be a list of texts, not one {type(texts).__name__}; "
            "for one text use the method without _batch or _ragged, or [text]"
        )
    if not isinstance(texts, Iterable):
        raise TypeError(f"texts must be a list of texts, not {_describe(texts)}")
    return texts if type(texts) is list else list(texts)


def thread_count(threads: Any) -> int:
    """Return the number of threads; None is all CPUs that this process may use."""
    if threads is None:
        return min(_THREADS_MAX, cpu_count())
    return min(_THREADS_MAX, whole_number(threads, "threads", 1, " (None for all CPUs)"))


def whole_number(value: Any, name: str, least: int, more: str = "") -> int:
    """Return an int, also one of numpy, that is at least `least`."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an int{more}, not {value!r}")
    number = operator.index(value)
    if number < least:
        raise OptionError(f"{name} must be {least} or more{more}, not {number}")
    return number


def threads_for(text: Any, threads: Any) -> int:
    """Return the number of threads for one text, which is one for a short text."""
    is_usual = type(text) is str or type(text) is bytes
    if threads is None and is_usual and len(text) < _LONG_TEXT_LEN:
        return 1
    return thread_count(threads)


def threads_for_batch(texts: list[Any], threads: Any) -> int:
    """Return the number of threads for a batch, which is one for a small batch."""
    if threads is not None:
        return thread_count(threads)
    try:
        size = sum(map(len, texts))
        if size < _BATCH_BYTES_MIN <= size * _BYTES_PER_CHARACTER_MAX:
            size = sum(map(_byte_length, texts))
    except TypeError:  # an item is not a text, which the core reports
        return 1
    return 1 if size < _BATCH_BYTES_MIN else thread_count(None)


def _byte_length(text: Any) -> int:
    if type(text) is not str or text.isascii():
        return len(text)
    return len(text.encode("utf-8", "surrogatepass"))


def separator(value: Any) -> bytes:
    """Return the bytes that end a document; empty if a file is one document."""
    if value is None:
        return b""
    if not isinstance(value, str | bytes | bytearray | memoryview):
        raise TypeError(f"separator must be a str, bytes or None, not {value!r}")
    raw = value.encode() if isinstance(value, str) else bytes(value)
    if not raw:
        raise OptionError("separator must not be empty; None makes each file one document")
    return raw


def allowed_specials(
    choice: Any, names: Collection[str], always: Collection[str] = ()
) -> bytes | None:
    """Return one byte per added token in the core's order; None for the core's default choice.

    `names` are the texts of the special tokens, `always` those of the other added tokens. The
    default is that only the others are found.
    """
    if choice is True:
        return b"\x01" * (len(names) + len(always)) or None
    if choice is False:
        return None
    if isinstance(choice, str) and choice == "none":
        return bytes(len(names) + len(always)) if always else None
    if isinstance(choice, str | bytes) or not isinstance(choice, Collection):
        raise TypeError(
            'allowed_special must be False, True, "none" or a set of special tokens, not '
            f"{_describe(choice)}; for one special token pass {{'<|endoftext|>'}}"
        )
    for name in choice:
        if not isinstance(name, str) or name not in names:
            known = ", ".join(sorted(names)[:8]) or "none"
            more = ", …" if len(names) > 8 else ""
            raise UnknownTokenError(f"{name!r} is not a special token; there are: {known}{more}")
    if not choice:
        return None
    ordered = sorted([*names, *always], key=str.encode)
    return bytes(name in choice or name in always for name in ordered)


def list_ids(ids: Any) -> list[int] | NDArray[np.int64]:
    """Return ids as the core reads them: a list, or an array of int64."""
    if type(ids) is list:
        return ids
    if isinstance(ids, np.ndarray):
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise TypeError(
                f"ids must be a one-dimensional array of integers, not {ids.ndim}-dimensional "
                f"of {ids.dtype}; for several sequences use decode_batch"
            )
        if ids.dtype == np.uint64 and ids.size and int(ids.max()) >= 1 << 63:
            return [int(id_) for id_ in ids]
        return np.ascontiguousarray(ids, np.int64)
    if isinstance(ids, int | str | bytes) or not isinstance(ids, Iterable):
        hint = f"; for one id use decode([{ids}])" if isinstance(ids, int) else ""
        raise TypeError(f"ids must be a sequence of int, not {_describe(ids)}{hint}")
    return list(ids)


def decode(core: _native.Core, ids: Any) -> bytes:
    """Return the bytes of ids; the error has the value that is not an id."""
    listed = list_ids(ids)
    try:
        return core.decode(listed)
    except OverflowError:
        huge = next(id_ for id_ in listed if not -(1 << 63) <= id_ < 1 << 63)
        raise UnknownTokenError(
            f"id {huge} is not in this vocabulary; its ids end before {core.ids_end()}"
        ) from None
    except TypeError:
        for index, id_ in enumerate(listed):
            if not hasattr(id_, "__index__"):
                raise TypeError(f"ids[{index}] must be an int, not {_describe(id_)}") from None
        raise


def check_error_handler(errors: str) -> None:
    """Raise OptionError unless `errors` is an error handler of `bytes.decode`."""
    try:
        b"\xff".decode("utf-8", errors)
    except UnicodeDecodeError:
        pass
    except (LookupError, TypeError, ValueError):
        raise OptionError(
            f'errors must be "replace", "strict", "ignore" or another handler of bytes.decode, '
            f"not {errors!r}"
        ) from None


def embedded_name(source: Any, pattern: Any) -> str | None:
    """Return the embedded vocabulary that `source` names; None if it is a path."""
    if pattern is not None and not isinstance(pattern, str):
        raise TypeError(f"pattern must be a str, a regular expression or a name, not {pattern!r}")
    if not isinstance(source, str | os.PathLike):
        raise TypeError(
            f"source must be a name or a path, not {_describe(source)}; for a tokenizer of another "
            "library use Tokenizer.from_object"
        )
    name = find_embedded(source) if isinstance(source, str) else None
    if name is not None and os.path.isfile(source):  # noqa: PTH113
        raise VocabularyError(
            f"{source!r} is a file and also a name of {name}; for the file use "
            f"pathlib.Path({source!r}), for the vocabulary use another working directory"
        )
    if name is not None and pattern is not None:
        raise VocabularyError(
            f"{name} has its own pattern; for another pattern, save its ranks with "
            f'Tokenizer.load("{name}").save("x.tiktoken") and load that file with pattern=…'
        )
    return name


def special_token_ids(special_tokens: Any) -> Mapping[str, int]:
    """Return the mapping of texts to ids; an empty one for None."""
    if special_tokens is not None and not isinstance(special_tokens, Mapping):
        raise TypeError(f"special_tokens must be a mapping of texts to ids, not {special_tokens!r}")
    return special_tokens or {}


def _describe(value: object) -> str:
    """Return the type and the shortened value for an error message."""
    return f"{type(value).__name__} {shown(value)}"


def cpu_count() -> int:
    """Return how many CPUs this process may use, by its affinity and its cgroup's quota."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    quota = _cgroup_quota()
    return count if quota is None else max(1, min(count, math.ceil(quota)))


@cache
def _cgroup_quota() -> float | None:
    from pathlib import Path

    return cgroup_quota(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))


def cgroup_quota(own: Path, mount: Path) -> float | None:
    """Return the CPUs that cgroups of version 1 or 2 allow; None without a limit.

    `own` is the process's list of cgroups. A limit of any cgroup above its own applies, too. In a
    container the path may be the host's. Folders that do not exist are skipped.
    """
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return None
    found: list[float | None] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        for name in (controllers, "cpu") if controllers else (".",):
            folder = mount / name / path.strip("/")
            above = [parent for parent in folder.parents if parent.is_relative_to(mount)]
            found += map(_quota_of, (folder, *above))
    return min((quota for quota in found if quota is not None), default=None)


def _quota_of(folder: Path) -> float | None:
    """Return the limit of one cgroup: `cpu.max` of version 2, two files of version 1."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        return int(quota) / int(period) if int(quota) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):  # "max" is not a number: no limit
        return None
