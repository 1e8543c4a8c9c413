"""The names that a user gives → sources (files, folders, globs, URLs, standard input) → segments.

A folder means all files in it of a known format, at any depth, sorted by name. If the suffix of a
name tells no format, the content is looked at. Skipped files are listed. The same file must not be
given twice, also not by another name or a link, because its documents would be read
twice. Objects of the caller become sources too: texts, Arrow columns, and counts in a mapping.

A large file is cut into segments that can be read separately. A cut is the end of a document for
any earlier documents: after a newline, or after a separator that overlaps no earlier one. A
separator of two newlines may overlap itself. In a run of newlines, only the first two are certainly
a separator. Cuts depend only on the file and `unit_bytes`.
"""

from __future__ import annotations

import codecs
import glob
import math
import os
import re
import stat
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from tokenmill import object_store
from tokenmill.corpus import tables
from tokenmill.corpus.blocks import open_file
from tokenmill.corpus.detect import look_at, not_text
from tokenmill.corpus.documents import STDIN, DocumentOptions, Segment, Source, raise_system_error
from tokenmill.corpus.options import INPUT_FORMATS, READERS, TABLES
from tokenmill.corpus.streams import COMPRESSIONS, compression_of
from tokenmill.errors import InputError, InputWarning, MissingInputError, OptionError
from tokenmill.files import name_resolver

COUNTS = "counts"
# A folder with these files is an output of `tokenize`.
_SHARDS = {"manifest.json", "plan.json"}
_SUFFIXES = {suffix: name for name, reader in READERS.items() for suffix in reader.suffixes}
# Files that Spark and Hadoop write next to the data, and the folder of their unfinished tasks.
# Hidden folders are not read either.
_MARKERS = re.compile(r"_SUCCESS|_(common_)?metadata|_(started|committed)_.*|.*\.crc")
_LEFT_OUT = re.compile(r"/(\.[^/]*|_temporary)/")
_COPIES = (".bak", ".tmp", ".old", ".orig", ".part", ".crdownload", ".swp", "~")
_NAMES_SHOWN = 3
_NAME_CHARS_MAX = 255
_LOOK_BYTES = 1 << 16
_EXPECTED = "expected a file, a folder, a glob such as 'data/*.jsonl', a URL or - for stdin"


class Skipped(NamedTuple):
    """A file of a folder or of a glob that is not read, and the reason."""

    path: str
    reason: str
    may_be_data: bool


class Sources(list[Source]):
    """The sources of inputs, and the files that were skipped."""

    skipped: list[Skipped]


def find(
    inputs: Any,
    input_format: str | None = None,
    weights: Mapping[Any, float] | None = None,
    *,
    counts: bool = False,
    pipes: bool = False,
    strict: bool = False,
    is_wanted: Callable[[str], bool] = lambda _: True,
) -> Sources:
    """The sources of one name or of several, in their order.

    `weights` maps names, globs or folders to factors. With `counts`, .tmc files of pretoken counts
    are inputs, too. With `pipes`, named pipes and devices are, which can be read only once. Skipped
    files that may have documents are a warning, or with `strict` an error, if they are wanted.
    """
    known = (*INPUT_FORMATS, COUNTS) if counts else INPUT_FORMATS
    if input_format is not None and input_format not in known:
        raise InputError(f"input_format must be one of {', '.join(known)}, got {input_format!r}")
    finder = _Finder(input_format, counts, pipes, is_wanted)
    found: list[tuple[str, Source]] = []
    for item in _items(inputs):
        if isinstance(item, Source):
            found.append((item.name, item))
        else:
            name = os.fspath(item)
            found += [(name, source) for source in finder.find(name)]
    _refuse_duplicates([source for _, source in found])
    sources = Sources(_weigh(found, weights or {}))
    sources.skipped = finder.skipped
    _warn_of_skipped(sources.skipped, strict=strict)
    return sources


def _warn_of_skipped(skipped: list[Skipped], *, strict: bool) -> None:
    """Warn of the files that may have documents, or raise."""
    files = [file for file in skipped if file.may_be_data]
    if not files:
        return
    text = f"{describe_skipped(files)}; pass --input-format, name them one by one, or remove them"
    if strict:
        raise InputError(text)
    warnings.warn(InputWarning(text, skipped), stacklevel=3)


def describe_skipped(files: list[Skipped]) -> str:
    """The number of files, and the names and reasons of the first ones."""
    shown = [f"{file.path} ({file.reason})" for file in files[:_NAMES_SHOWN]]
    more = f" and {len(files) - _NAMES_SHOWN:,} more" if len(files) > _NAMES_SHOWN else ""
    count = "1 file was" if len(files) == 1 else f"{len(files):,} files were"
    return f"{count} skipped: {', '.join(shown)}{more}"


def from_python(given: Any) -> Source:
    """The source for texts, an Arrow column or table, or a mapping of pretokens to counts."""
    if isinstance(given, Mapping):
        return Source("counts", "mapping", given=given)
    if hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__"):
        return Source("the column", "column", given=given)
    if isinstance(given, str | bytes | bytearray | memoryview):
        raise TypeError(f"expected a list of texts, got one {type(given).__name__}; pass [text]")
    if not isinstance(given, Iterable):
        raise TypeError(
            "expected a path, an iterable of texts, an Arrow column or a mapping of counts, got "
            f"{given!r}"
        )
    return Source("texts", "texts", given=given)


def is_changed(source: Source) -> bool:
    """Whether a file is not the one that was found. A file that is gone counts as unchanged."""
    try:
        if object_store.is_address(source.name):
            found = tuple(object_store.look_at(source.name)[1:])
        else:
            status = os.stat(source.path)  # noqa: PTH116 (faster)
            found = (status.st_size, status.st_mtime_ns, None)
    except OSError:
        return False
    planned = (source.size, source.modified, source.etag)
    return any(value is not None for value in planned) and found != planned


def format_of(name: str) -> tuple[str | None, str | None]:
    """The input format and the compression that the suffixes of a name mean."""
    stem, suffix = os.path.splitext(name.lower())  # noqa: PTH122 (faster)
    compression = COMPRESSIONS.get(suffix)
    if compression:
        suffix = os.path.splitext(stem)[1]  # noqa: PTH122 (faster)
    return COUNTS if suffix == ".tmc" else _SUFFIXES.get(suffix), compression


def _items(inputs: Any) -> list[Any]:
    is_several = isinstance(inputs, Iterable) and not isinstance(inputs, str | bytes | os.PathLike)
    items = list(inputs) if is_several else [inputs]
    for item in items:
        if not isinstance(item, str | os.PathLike | Source):
            raise TypeError(f"an input must be a path, a glob, a URL or -, got {item!r}")
    return items


class _Finder:
    """Names → sources. Of the files in folders and globs, those that are not inputs are listed."""

    def __init__(
        self,
        input_format: str | None,
        counts: bool,
        pipes: bool,
        is_wanted: Callable[[str], bool],
    ) -> None:
        self._input_format, self._counts, self._pipes = input_format, counts, pipes
        self._is_wanted = is_wanted
        self._look_at = cache(look_at)
        self.skipped: list[Skipped] = []

    def find(self, name: str) -> list[Source]:
        """The sources of one name."""
        if name == STDIN:
            return [self._source(name)]
        before = len(self.skipped)
        if object_store.is_address(name):
            folder = object_store.whole_name(name)
            remote = object_store.expand(name, partial(self._select, folder))
            found = [self._source(*one) for one in remote]
        else:
            paths = _expand(name, self._is_input)
            found = [self._source(path, *_identity(path, self._pipes)) for path in paths]
        if not found:
            known, skipped = ", ".join(_SUFFIXES), self.skipped[before:]
            why = f"; {describe_skipped(skipped)}" if skipped else ""
            what = "glob" if glob.has_magic(name) else "folder"
            raise MissingInputError(
                f"{what} {name!r} contains no files with a suffix of {known}{why}"
            )
        return found

    def _source(self, name: str, *identity: Any) -> Source:
        kind, compression = format_of(name)
        if self._input_format is None and kind is None and identity:
            content = self._look_at(name)
            if content.problem:
                raise InputError(
                    f"{name!r} {content.problem}; pass input_format (--input-format), or leave it "
                    "out"
                )
            kind, compression = content.kind, compression or content.compression
        kind = self._input_format or kind or "text"
        if name == STDIN and kind in (COUNTS, *TABLES):
            raise InputError(f"{kind} is not read in order and cannot come from a pipe")
        if kind == COUNTS and not self._counts:
            raise InputError(
                f"{name!r} contains pretoken counts, not documents; pass the documents"
            )
        return Source(name, kind, compression, *identity)

    def _select(self, name: str, addresses: list[str], is_folder: bool) -> list[str]:
        """The inputs of a remote folder or glob."""
        folders: dict[str, set[str]] = {}
        for address in addresses:
            folder, _, base = address.rpartition("/")
            folders.setdefault(folder, set()).add(base)
        outputs = tuple(f"{folder}/" for folder, files in folders.items() if files >= _SHARDS)
        return [
            address
            for address in addresses
            if not (is_folder and address.startswith(outputs))
            and not (is_folder and _LEFT_OUT.search(address, len(name)))
            and self._is_input(address, is_folder)
        ]

    def _is_input(self, name: str, in_folder: bool) -> bool:
        """Whether a file of a folder or of a glob is an input."""
        base = os.path.basename(name)  # noqa: PTH119 (faster)
        if _MARKERS.fullmatch(base):
            return False
        if not self._is_wanted(name):
            return format_of(name)[0] in INPUT_FORMATS
        skipped = self._why_not(name, base, in_folder=in_folder)
        if skipped is not None and skipped.reason:
            self.skipped.append(skipped)
        return skipped is None

    def _why_not(self, name: str, base: str, *, in_folder: bool) -> Skipped | None:
        kind, _ = format_of(name)
        if in_folder and base.startswith("."):
            is_data = kind in INPUT_FORMATS and not base.startswith("._")
            return Skipped(name, "is hidden" if is_data else "", is_data)
        if kind in INPUT_FORMATS:
            return None
        if what := not_text(name):
            return Skipped(name, f"is {what}", may_be_data=False)
        if self._input_format is not None:
            return None
        if kind == COUNTS:
            return Skipped(name, "has pretoken counts", self._counts) if in_folder else None
        if in_folder and base.lower().endswith(_COPIES):
            return Skipped(name, "is a copy or incomplete, as its name tells", may_be_data=True)
        content = self._look_at(name)
        if content.problem and (in_folder or not content.may_be_data):
            return Skipped(name, content.problem, content.may_be_data)
        if in_folder and content.kind == "text":
            return Skipped(name, "its format is unknown", may_be_data=True)
        return None


def _identity(path: str, pipes: bool) -> tuple[int, int] | tuple[()]:
    """The size and time of a file."""
    try:
        status = os.stat(path)  # noqa: PTH116 (faster)
    except FileNotFoundError:  # a dangling link: reading it reports the error
        return ()
    if stat.S_ISREG(status.st_mode):
        return status.st_size, status.st_mtime_ns
    if not pipes:
        raise InputError(
            f"{path!r} is not a regular file and can be read only once; write its output to a file"
        )
    return ()


def _expand(name: str, is_input: Callable[[str, bool], bool]) -> list[str]:
    if not name:
        raise MissingInputError(f"the name of an input must not be empty; {_EXPECTED}")
    path = Path(name)
    try:
        is_there, is_folder = path.exists(), path.is_dir()
    except PermissionError as error:
        raise _unreadable(error, name) from None
    except (OSError, ValueError):  # too long, or with a zero byte
        is_there = is_folder = False
    if is_folder:
        return _walk(name, is_input)
    if is_there:
        return [name]
    if "\n" in name or len(name) > _NAME_CHARS_MAX:
        raise MissingInputError(f"file not found: {name[:60]!r}…; pass a text as [text]")
    if not glob.has_magic(name):
        raise MissingInputError(f"file not found: {name!r}; {_EXPECTED}")
    _refuse_unreadable(name)
    names = sorted(match for match in _matches(name) if Path(match).is_file())
    if not names:
        raise MissingInputError(f"no file matches {name!r}; {_EXPECTED}")
    return [match for match in names if is_input(match, False)]


def _matches(pattern: str) -> Iterator[str]:
    return glob.iglob(pattern, recursive=True)  # noqa: PTH207 (a Path has no absolute globs)


def _refuse_unreadable(pattern: str) -> None:
    """Raise if a folder of a glob cannot be read. The glob would skip it without an error."""
    while glob.has_magic(pattern):
        pattern, last = os.path.split(pattern)
        if not glob.has_magic(last):
            continue
        # With a slash at the end, a glob matches only folders.
        is_glob = glob.has_magic(pattern)
        for folder in _matches(f"{pattern}{os.sep}") if is_glob else [pattern or os.curdir]:
            try:
                os.scandir(folder).close()
            except (FileNotFoundError, NotADirectoryError):
                continue  # `find` reports a glob without matches
            except OSError as error:
                raise _unreadable(error, folder) from None


def _unreadable(error: OSError, folder: str) -> Exception:
    """The error for a folder that cannot be read."""
    raise_system_error(error)
    name = error.filename or folder
    return InputError(
        f"{str(name)!r} cannot be read ({error.strerror}), and its files would be missing; "
        "change its mode, or name the inputs one by one"
    )


def _walk(folder: str, is_input: Callable[[str, bool], bool]) -> list[str]:
    """The inputs of a folder, at any depth, without those in hidden folders.

    Links to folders are followed last. So a folder that also has a path without links is found by
    that path, and each folder is visited once, also if links form a circle.
    """
    found: list[tuple[tuple[str, ...], str]] = []  # the parts and the name of a path
    seen: set[str] = set()
    starts = [folder]

    def fail(error: OSError) -> None:
        raise _unreadable(error, folder)

    for start in starts:
        for place, folders, files in os.walk(start, onerror=fail):
            real = os.path.realpath(place)
            folders[:] = sorted(name for name in folders if not _LEFT_OUT.fullmatch(f"/{name}/"))
            if real in seen or set(files) >= _SHARDS:
                folders.clear()
                continue
            seen.add(real)
            path = Path(place)
            starts += [str(path / name) for name in folders if (path / name).is_symlink()]
            prefix = os.path.join("" if path == Path() else path, "")  # noqa: PTH118 (to end in /)
            found += [((*path.parts, name), prefix + name) for name in files]
    return [name for _, name in sorted(found) if is_input(name, True)]


def _refuse_duplicates(sources: list[Source]) -> None:
    seen: dict[str, str] = {}
    real_name = name_resolver()
    for source in sources:
        if source.given is not None:
            continue
        is_local = source.name != STDIN and not object_store.is_address(source.name)
        path = real_name(source.name) if is_local else source.name
        if path in seen:
            names = (source.name, seen[path])
            links = [name for name in names if is_local and Path(name).is_symlink()]
            if links and names[0] != names[1]:
                target = names[links[0] == names[0]]
                raise InputError(
                    f"{links[0]!r} is a link to {target!r}, which is an input too, and its "
                    "documents would be read twice; remove one of them"
                )
            raise InputError(
                f"{source.name!r} is given twice, and its documents would be read twice; remove it "
                f"once (for training, weights can count it twice: --weight {source.name}=2)"
            )
        seen[path] = source.name


def is_weight(value: object) -> bool:
    """Whether a value is a number above 0."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return math.isfinite(value) and value > 0


def _weigh(found: list[tuple[str, Source]], weights: Mapping[Any, float]) -> list[Source]:
    """Each source with the weight of its own name, or of the glob or folder that it is in."""
    named = {os.fspath(key): weight for key, weight in weights.items()}
    for key, weight in named.items():
        if not is_weight(weight):
            raise OptionError(f"the weight of {key!r} must be a number above 0, got {weight!r}")
    used: set[str] = set()
    weighed = []
    for given, source in found:
        keys = [key for key in named if key in (source.name, given)]
        keys = keys or [key for key in named if fnmatchcase(source.name, key)]
        if len({named[key] for key in keys}) > 1:
            raise OptionError(f"{source.name!r} has two weights, of {keys[0]!r} and {keys[1]!r}")
        used.update(keys)
        weighed.append(replace(source, weight=named[keys[0]]) if keys else source)
    for key in named:
        if key not in used:
            names = ", ".join(repr(source.name) for _, source in found[:_NAMES_SHOWN])
            raise OptionError(f"the weight of {key!r} matches no input; the inputs are {names}")
    return weighed


def cuts(source: Source, options: DocumentOptions, unit_bytes: int) -> list[Segment]:
    """The segments of a source, of about `unit_bytes` each; one if it cannot be cut."""
    places: list[int] = []
    end: int | None = None
    if source.compression is None and not source.is_stdin:
        try:
            split = READERS[source.kind].split
            if split == "table":
                places, end = tables.cuts(source, unit_bytes)
            elif split == "text" and source.size is not None:
                separator = options.separator if source.kind == "text" else b"\n"
                if separator:
                    places = _text_cuts(source, separator, unit_bytes)
                end = source.size if places else None
        except OSError as error:
            raise_system_error(error)
            places = []  # reading the file reports the error
    if not places:
        return [Segment(source)]
    edges = [0, *places]
    return [Segment(source, start, stop) for start, stop in zip(edges, [*places, end], strict=True)]


def _text_cuts(source: Source, separator: bytes, unit_bytes: int) -> list[int]:
    size = source.size or 0
    if size <= unit_bytes:
        return []
    places = []
    with open_file(source) as file:
        start = file.read(_LOOK_BYTES)
        if compression_of(start) is not None:
            return []  # the name has no suffix for the compression
        first = len(codecs.BOM_UTF8) if start.startswith(codecs.BOM_UTF8) else 0
        # All segments have about the same size, also the last one.
        step = -(-size // -(-size // unit_bytes))
        target = step
        while target < size:
            place = _cut_from(file, max(target, first), size, separator, first)
            if place is None:
                break
            places.append(place)
            target = (place // step + 1) * step
    return places


def _cut_from(file: Any, target: int, size: int, separator: bytes, first: int) -> int | None:
    """The first cut after `target` and before the end, or None."""
    width = len(separator)
    # A separator that starts here may overlap one that ends after the target.
    place = max(first, target - 2 * width + 2)
    last = place - width
    while True:
        file.seek(place)
        window: bytes = file.read(_LOOK_BYTES + width)
        found = window.find(separator)
        while found >= 0:
            start = place + found
            end = start + width
            if start >= last + width and target < end < size:
                return end
            last = start
            found = window.find(separator, found + 1)
        if len(window) < width or place + len(window) >= size:
            return None
        place += len(window) - width + 1
