"""A JSON line longer than a block → the text in its field, piece by piece.

The same as the core's json_lines, for a line that need not fit into memory. The line is passed from
left to right; the text is given while it is passed, and taken back if the line turns out bad, or if
the field comes again, since the last one counts. Strings go by in long runs: a regular expression
finds their ends, and the core reads their escapes.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

from tokenmill.corpus import utf8
from tokenmill.corpus.blocks import Blocks
from tokenmill.corpus.pieces import Pieces
from tokenmill.corpus.reasons import (
    KEYS_SHOWN,
    NO_FIELD,
    NOT_JSON,
    NOT_OBJECT,
    NOT_TEXT,
    NULL_FIELD,
    TOO_DEEP,
    reason_in,
    reason_of,
)
from tokenmill.corpus.spans import DocumentOptions, Documents
from tokenmill.native import _native

_DEPTH_MAX = 1000
_RUN_BYTES = 1 << 20
_CHECK_BYTES = 1 << 16
_ESCAPE_BYTES = 6
# A key is compared and shown; one that is longer is neither.
_KEY_BYTES_MIN = 256
_ID_BYTES_MAX = 1 << 20
_RUN = re.compile(rb'[^"\\\x00-\x1f]*+(?:\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt])[^"\\\x00-\x1f]*+)*+')
_HIGH = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}")
_SPACE = re.compile(rb"[ \t\r]*+")
_PLAIN = re.compile(rb"[-+.0-9A-Za-z]*+")
_DIGITS = re.compile(rb"([0-9]{2})[0-9]+")
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_NAMES = (b"null", b"true", b"false", b"NaN", b"Infinity", b"-Infinity")
_PLAIN_BYTES_MAX = 64
_KINDS = {
    b"{": "object",
    b"[": "array",
    b'"': "string",
    b"t": "boolean",
    b"f": "boolean",
    b"n": "null",
}
_NEWLINE = re.compile(rb"\n")
_BLANK = re.compile(rb"\s*+")
_QUOTE = ord('"')
_BACKSLASH = ord("\\")


class _BadError(Exception):
    """The line gives no document: a number of the core, and what its reason names."""


@dataclass(slots=True)
class _Wanted:
    """A field that is looked for: its name, and what was found as a key of its own or by dots."""

    name: bytes
    own: str | None = None
    led: str | None = None
    text: bytearray = field(default_factory=bytearray)

    def value(self) -> str | None:
        return self.own if self.own is not None else self.led


# Of both fields, the part of the name that a key of this object has to be, with those behind it.
_Parts = tuple[bytes | None, bytes | None]
_NOTHING: _Parts = (None, None)


class LongLine:
    """The line at the beginning of the view. `used` is then where the next one begins."""

    def __init__(self, blocks: Blocks, options: DocumentOptions) -> None:
        self.used = 0
        self._blocks = blocks
        self._field = options.field
        self._pieces = Pieces(blocks, options)
        self._text = _Wanted(options.field.encode())
        self._id = None if options.id_field is None else _Wanted(options.id_field.encode())
        names = (self._text, self._id)
        self._key_max = max(_KEY_BYTES_MIN, 6 * max(len(one.name) for one in names if one))
        self._keys: list[str] = []
        decoder = codecs.getincrementaldecoder("utf-8")()
        self._decoder = decoder if options.utf8 == "strict" else None
        # The view of the line: where it is read, where it ends, and whether nothing comes behind.
        self._at = 0
        self._view = memoryview(b"")
        self._end = 0
        self._is_ended = False
        self._is_blank = True
        # What an id that is no string is written like is copied from here on, up to its end,
        # which is so deep.
        self._copy_at = 0
        self._copy_depth = -1
        self._show(0)

    def read(self) -> Iterator[Documents]:
        """The documents of the line: one in pieces, or a problem."""
        bad: _BadError | None = None
        try:
            yield from self._line()
        except _BadError as error:
            bad = error
        while not self._is_ended:
            self._at = self._end
            self._more()
        self.used = min(self._end + 1, len(self._blocks.view))
        if self._blocks.failure is not None and self._end == len(self._view):
            yield from self._pieces.withdraw()
        elif not self._is_blank:
            if bad is not None:
                self._pieces.fail(self._reason(*bad.args))
            yield from self._pieces.close(b"", self._name())

    def _line(self) -> Iterator[Documents]:
        first = self._peek()
        parts: _Parts = (self._text.name, self._id.name if self._id else None)
        yield from self._value(parts)
        if self._peek():
            raise _BadError(NOT_JSON)
        value = self._text.value()
        if first != b"{":
            raise _BadError(NOT_OBJECT, _KINDS.get(first, "number"))
        if value is None:
            raise _BadError(NO_FIELD, self._keys)
        if value == "null":
            raise _BadError(NULL_FIELD)
        if value != "string":
            raise _BadError(NOT_TEXT, value)

    def _reason(self, code: int, detail: object = None) -> str:
        line = self._pieces.record
        if len(line) < self._pieces.bytes:
            return reason_of(code, self._field, detail)
        return reason_in(line, code, self._field)

    def _name(self) -> str | None:
        if self._id is None:
            return None
        is_there = self._id.value() not in (None, "null")
        return self._id.text.decode("utf-8", "replace") if is_there else ""

    # ── values ───────────────────────────────────────────────────────────────────────────────

    def _value(self, parts: _Parts) -> Iterator[Documents]:
        """Passes the value that the line is. `parts` are those of its keys."""
        inside: list[tuple[bytes, _Parts]] = []
        takers: list[tuple[_Wanted, bool]] = []
        while True:
            first = self._peek()
            yield from self._begin(first, takers, len(inside))
            if first in (b"{", b"["):
                if len(inside) == _DEPTH_MAX:
                    raise _BadError(TOO_DEEP)
                self._at += 1
                inside.append((b"}", parts) if first == b"{" else (b"]", _NOTHING))
                if self._peek() != inside[-1][0]:
                    parts, takers = yield from self._before_value(inside)
                    continue
            elif first == b'"':
                self._at += 1
                yield from self._string(takers)
            else:
                self._plain()
            self._end_copy(len(inside))
            # Behind a value, or at the end of an empty one.
            while inside and self._peek() == inside[-1][0]:
                self._at += 1
                inside.pop()
                self._end_copy(len(inside))
            if not inside:
                return
            self._expect(b",")
            parts, takers = yield from self._before_value(inside)

    def _before_value(
        self, inside: list[tuple[bytes, _Parts]]
    ) -> Generator[Documents, None, tuple[_Parts, list[tuple[_Wanted, bool]]]]:
        """Passes the key of a value in an object; the parts of its own keys, and who takes it."""
        close, parts = inside[-1]
        takers: list[tuple[_Wanted, bool]] = []
        if close == b"]":
            return _NOTHING, takers
        key = self._key()
        self._expect(b":")
        is_top = len(inside) == 1
        if is_top and len(self._keys) <= KEYS_SHOWN:
            name = key.decode("utf-8", "replace")
            self._keys += [name] * (name not in self._keys)
        deeper: list[bytes | None] = [None, None]
        for index, one in enumerate((self._text, self._id)):
            part = parts[index]
            if one is None or part is None:
                continue
            is_own = is_top and key == one.name
            if not is_own:
                head, dot, rest = part.partition(b".")
                if key != head:
                    continue
                one.led = None
                if one is self._text and one.own is None:
                    yield from self._pieces.withdraw()
                if dot:
                    deeper[index] = rest
                    continue
                if one.own is not None:
                    continue
            takers.append((one, is_own))
        return (deeper[0], deeper[1]), takers

    def _begin(
        self, first: bytes, takers: list[tuple[_Wanted, bool]], depth: int
    ) -> Iterator[Documents]:
        """Takes note of the kind of a value that is wanted; the one before does not count."""
        kind = _KINDS.get(first, "number")
        for one, is_own in takers:
            if is_own:
                one.own = kind
            else:
                one.led = kind
            if one is self._text:
                yield from self._pieces.withdraw()
            else:
                one.text.clear()
                if kind != "string":
                    self._copy_at, self._copy_depth = self._at, depth

    def _end_copy(self, depth: int) -> None:
        if self._copy_depth == depth and self._id is not None:
            self._copy()
            self._copy_depth = -1

    def _copy(self) -> None:
        """Keeps what an id that is no string is written like."""
        if self._copy_depth >= 0 and self._id is not None:
            room = _ID_BYTES_MAX - len(self._id.text)
            self._id.text += self._view[self._copy_at : self._at][:room]

    def _string(self, takers: list[tuple[_Wanted, bool]]) -> Iterator[Documents]:
        """Passes a string from behind its first quotation mark on, and gives its text."""
        for run in self._runs():
            if not takers:
                continue
            # The core knows escapes. A run is none of its own line, so it has no newline.
            found = _native.json_lines(b"".join((b'{"t":"', run, b'"}')), True, b"t", None)
            text = memoryview(found[0])
            for one, _ in takers:
                if one is self._text:
                    yield from self._pieces.give(text)
                else:
                    one.text += text[: _ID_BYTES_MAX - len(one.text)]

    def _runs(self) -> Iterator[memoryview]:
        """The runs of a string, none of which ends in a character or an escape."""
        while True:
            view, at = self._view, self._at
            stop = min(self._end, at + _RUN_BYTES)
            match = _RUN.match(view, at, stop)
            assert match is not None
            end = match.end()
            if end < self._end and view[end] == _QUOTE:
                self._at = end + 1
                yield view[at:end]
                return
            if end == stop:
                end = utf8.whole_end(view[at:], stop - at) + at
            elif view[end] != _BACKSLASH or stop - end >= _ESCAPE_BYTES:
                raise _BadError(NOT_JSON)
            if _ends_with_half(view, at, end):
                end -= _ESCAPE_BYTES
            self._at = end
            yield view[at:end]
            if stop == self._end and not self._more():
                raise _BadError(NOT_JSON)

    def _key(self) -> bytes:
        """Passes a key; of a long one less than all comes back."""
        self._expect(b'"')
        raw = bytearray()
        for run in self._runs():
            raw += run[: self._key_max + 1 - len(raw)]
        if len(raw) > self._key_max or b"\\" not in raw:
            return bytes(raw)
        text = json.loads(f'"{raw.decode("utf-8", "surrogateescape")}"')
        return bytes(text.encode("utf-8", "surrogatepass"))

    def _plain(self) -> None:
        """Passes a number or a name. Of many digits two say as much."""
        token = b""
        while True:
            match = _PLAIN.match(self._view, self._at, self._end)
            assert match is not None
            token = _DIGITS.sub(rb"\1", token + match.group())
            self._at = match.end()
            if len(token) > _PLAIN_BYTES_MAX or self._at < self._end or not self._more():
                break
        if token not in _NAMES and _NUMBER.fullmatch(token) is None:
            raise _BadError(NOT_JSON)

    # ── bytes ────────────────────────────────────────────────────────────────────────────────

    def _expect(self, byte: bytes) -> None:
        if self._peek() != byte:
            raise _BadError(NOT_JSON)
        self._at += 1

    def _peek(self) -> bytes:
        """The next byte that is not white; nothing at the end of the line."""
        while True:
            match = _SPACE.match(self._view, self._at, self._end)
            assert match is not None
            self._at = match.end()
            if self._at < self._end:
                return bytes(self._view[self._at : self._at + 1])
            if not self._more():
                return b""

    def _more(self) -> bool:
        """Brings more of the line into view; False if there is no more."""
        if self._is_ended:
            return False
        self._copy()
        kept = self._end - self._at
        self._blocks.next(self._at)
        self._at = self._copy_at = 0
        self._show(kept)
        return self._end > kept

    def _show(self, seen: int) -> None:
        """Takes the view of the blocks, of which the first bytes were seen before."""
        view = self._view = self._blocks.view
        newline = _NEWLINE.search(view, seen)
        self._end = newline.start() if newline else len(view)
        self._is_ended = newline is not None or self._blocks.is_over
        new = view[seen : self._end]
        if self._is_blank:
            self._is_blank = _BLANK.fullmatch(new) is not None
        self._check(new)
        self._pieces.saw(new)

    def _check(self, new: memoryview) -> None:
        """Looks whether the next bytes of the line are UTF-8."""
        offset = self._pieces.end
        for start in range(0, len(new) + self._is_ended, _CHECK_BYTES):
            if self._decoder is None:
                return
            piece = bytes(new[start : start + _CHECK_BYTES])
            is_last = self._is_ended and start + _CHECK_BYTES >= len(new)
            pending = len(self._decoder.getstate()[0])
            try:
                self._decoder.decode(piece, is_last)
            except UnicodeDecodeError as error:
                bad = error.object[error.start]
                # This is said first of a line, whatever else is wrong with it.
                self._pieces.reason = utf8.said(offset + start - pending + error.start, bad)
                self._decoder = None


def _ends_with_half(view: memoryview, start: int, end: int) -> bool:
    """Whether an escape ends here that the next one may go with, as half of a surrogate pair."""
    at = end - _ESCAPE_BYTES
    if at < start or _HIGH.fullmatch(view, at, end) is None:
        return False
    first = at
    while first > start and view[first - 1] == _BACKSLASH:
        first -= 1
    return (at - first) % 2 == 0
