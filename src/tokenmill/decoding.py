"""ids → text: the decoders of tokenizer.json, which work on token texts.

A decoder is a chain of steps. Each step maps a list of strings to another list, and the last list
is joined. If all steps before the join treat each token alone, `Decoder` caches the bytes of each
id, and decoding is one join.

**Invariant**: the cached bytes give the text of `run_chain`; a test compares them.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from tokenmill.errors import VocabularyError
from tokenmill.formats.names import bytes_of, normal_name
from tokenmill.formats.spec import TokenizerSpec
from tokenmill.native import _native
from tokenmill.patterns import compile_pattern

# A step of a chain: its input tokens → its output tokens.
Step = Callable[[list[str]], list[str]]
# "<0xE4>"; a number of Rust may have a sign.
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2}|\+[0-9A-Fa-f])>")
# These treat each token alone.
_SINGLE = ("Replace", "Strip")
# A stream reads this many ids of a prompt, of which only the last characters have an effect.
_PROMPT_MAX = 64
_UNSUPPORTED = {
    "WordPiece": "it joins the tokens of WordPiece models",
    "CTC": "it joins the tokens of speech models",
}


class Decoder:
    """Decode ids by the decoder of a tokenizer.json; None joins the tokens with spaces.

    `tokens` returns the token text of an id, or None for an unknown id, which is skipped.
    `special_tokens` are skipped if the caller asks for it.
    """

    def __init__(
        self, decoder: Mapping[str, Any] | None, tokens: Callable[[int], str | None],
        special_tokens: set[int],
    ) -> None:  # fmt: skip
        steps = [] if decoder is None else flatten(decoder)
        self._chain = [step_of(step) for step in steps]
        self._separator = " " if decoder is None else ""
        self._tokens = tokens
        self.special_tokens = special_tokens
        # How a token becomes bytes: by these steps, or as the bytes of its characters. Neither if
        # it depends on other tokens.
        self._before: list[Step] | None = None
        self._is_byte_level = False
        self._has_byte_tokens = False
        self._byte_ids = set[int]()  # those among the cached ids
        self._plan([step["type"] for step in steps])
        self._strips = _strips_of(steps[len(steps) - len(self._rest) :])
        self._cached = {skip: _Cache(partial(self._bytes_of, skip)) for skip in (False, True)}

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of `ids`."""
        if self._before is None and not self._is_byte_level:
            return self.decode_slowly(ids, skip_special_tokens)
        cached = self._cached[skip_special_tokens]
        try:
            # A token that is text has whole characters. So the result is valid UTF-8 if and only if
            # each run of byte tokens is. Then the chain gives the same text.
            text = b"".join(map(cached.__getitem__, ids)).decode("utf-8", self._errors)
        except (UnicodeError, _EmptyTokenError):
            return self.decode_slowly(ids, skip_special_tokens)
        return "".join(run_chain(self._rest, [text]))

    def decode_slowly(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of `ids` by running the chain: the reference implementation."""
        skipped = self.special_tokens if skip_special_tokens else ()
        found = (self._tokens(id_) for id_ in ids if id_ not in skipped)
        tokens = [token for token in found if token is not None]
        return self._separator.join(run_chain(self._chain, tokens))

    def stream(self, skip_special_tokens: bool) -> TextStream | None:
        """Return a stream of this decoder; None if a token can change the text before it."""
        if self._strips is None or (self._before is None and not self._is_byte_level):
            return None
        byte_ids = None if self._is_byte_level else self._byte_ids
        return TextStream(self._cached[skip_special_tokens], byte_ids, self._strips)

    def drops(self, id_: int, skip_special_tokens: bool) -> bool:
        """Return whether an id is skipped or unknown, so that it changes no text."""
        is_skipped = skip_special_tokens and id_ in self.special_tokens
        return is_skipped or self._tokens(id_) is None

    def _plan(self, kinds: list[str]) -> None:
        """Set how a token becomes bytes, and the steps after the join, if the chain allows it."""
        self._rest, self._errors = [], "replace"
        if kinds == ["ByteLevel"]:
            self._is_byte_level = True
            return
        single = next((i for i, kind in enumerate(kinds) if kind not in _SINGLE), len(kinds))
        before, after = self._chain[:single], kinds[single:]
        fallback = after[:1] == ["ByteFallback"]
        after = after[fallback:]
        if not kinds or (after and after[0] != "Fuse"):
            return
        self._before, self._errors, self._has_byte_tokens = before, "strict", fallback
        self._rest = self._chain[len(kinds) - len(after) :]

    def _bytes_of(self, skip: bool, id_: int) -> bytes:
        token = None if skip and id_ in self.special_tokens else self._tokens(id_)
        if token is None:
            return b""
        if self._before is None:
            return byte_level(token)
        text = run_chain(self._before, [token])[0]
        if not text:
            raise _EmptyTokenError
        value = byte_value(text) if self._has_byte_tokens else None
        if value is None:
            return text.encode()
        self._byte_ids.add(id_)
        return bytes([value])


class TextStream:
    """Ids one by one → the characters that they complete, in constant time for each id.

    All characters are those of `Decoder.decode`, except before a byte that makes a run of byte
    tokens invalid: `decode` replaces the whole run, and a stream the rest of it.
    """

    def __init__(
        self, tokens: Mapping[int, bytes], byte_ids: set[int] | None,
        strips: Sequence[tuple[str, int]],
    ) -> None:  # fmt: skip
        self._tokens = tokens
        self._byte_ids = byte_ids  # None if every token is bytes
        self._strips = list(strips)
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = b""  # the incomplete character at the end of a run of byte tokens
        self._is_broken = False  # that run is not UTF-8
        self.size = 0  # in bytes
        self.is_open = False  # the text of all ids ends with U+FFFD, for now

    def start(self, ids: Sequence[int]) -> None:
        """Continue after ids, of which only the last ones are read."""
        start = max(0, len(ids) - _PROMPT_MAX)
        # A run of byte tokens is read whole.
        while start and self._byte_ids is not None and self._is_byte(ids[start]):
            start -= 1
        if start:
            self._strips.clear()
        for id_ in ids[start:]:
            self.push(id_)

    def _is_byte(self, id_: int) -> bool:
        """Return whether an id is a byte token or is skipped, so it does not end a run."""
        try:
            data = self._tokens[id_]
        except _EmptyTokenError:
            return False
        return not data or (self._byte_ids is not None and id_ in self._byte_ids)

    def push(self, id_: int) -> str:
        """Return the characters that an id completes."""
        try:
            data = self._tokens[id_]
        except _EmptyTokenError:
            return self._strip(self._end_run())
        if not data:  # a skipped token
            return ""
        self.size += len(data)
        if self._byte_ids is None:
            text = self._utf8.decode(data)
            is_whole = not self._utf8.getstate()[0]
        elif id_ in self._byte_ids:
            text = self._of_byte(data)
            is_whole = not self._pending and not self._is_broken
        else:
            text, is_whole = self._end_run() + data.decode(), True
        self.is_open = not is_whole or text.endswith("\ufffd")
        return self._strip(text)

    def finish(self) -> str:
        """Return the replacement of an incomplete character at the end."""
        return self._strip(self._utf8.decode(b"", final=True) + self._end_run())

    def _of_byte(self, data: bytes) -> str:
        if self._is_broken:
            return "\ufffd"
        self._pending += data
        try:
            text, self._pending = self._pending.decode(), b""
        except UnicodeDecodeError as error:
            if error.reason == "unexpected end of data":
                return ""
            text = self._end_run()
            self._is_broken = True
        return text

    def _end_run(self) -> str:
        """End a run of byte tokens, and return one U+FFFD for each byte that is left."""
        count, self._pending, self._is_broken = len(self._pending), b"", False
        return "\ufffd" * count

    def _strip(self, text: str) -> str:
        """Remove the characters that the decoder removes at the start of the whole text."""
        while text and self._strips:
            content, left = self._strips[0]
            kept = text.lstrip(content)
            removed = min(left, len(text) - len(kept))
            text = text[removed:]
            self._strips[0] = content, left - removed
            if text or left == removed:
                del self._strips[0]
        return text


def _strips_of(steps: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]] | None:
    """Return what the steps after the join strip at the start; None if they do more."""
    strips = [step for step in steps if step["type"] != "Fuse"]
    if any(step["type"] != "Strip" or step["stop"] for step in strips):
        return None
    return [(step["content"], step["start"]) for step in strips]


class _Cache(dict[int, bytes]):
    """The bytes of each id, computed at the first use."""

    def __init__(self, compute: Callable[[int], bytes]) -> None:
        self._compute = compute

    def __missing__(self, id_: int) -> bytes:
        found = self[id_] = self._compute(id_)
        return found


class _EmptyTokenError(Exception):
    """An empty token, which separates the byte tokens around it. Only the chain treats that."""


def is_byte_level(spec: TokenizerSpec) -> bool:
    """Return whether decoding is joining the bytes of the tokens.

    A decoder maps an added token to bytes if all of its characters represent bytes.
    """
    if spec.ranks is not None:
        return True
    if spec.decoder is None or spec.model.base != "bytes":
        return False
    kinds = [step["type"] for step in flatten(spec.decoder)]
    return kinds == ["ByteLevel"] and all(
        bytes_of(token.content) in (None, token.content.encode())
        and normal_name(spec, token) == token.content
        for token in spec.added
    )


def run_chain(chain: Sequence[Step], tokens: list[str]) -> list[str]:
    for step in chain:
        tokens = step(tokens)
    return tokens


def flatten(decoder: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the steps of a decoder in order; VocabularyError for an unsupported step."""
    kind = decoder.get("type")
    if kind == "Sequence":
        return [step for part in decoder["decoders"] for step in flatten(part)]
    if kind in _UNSUPPORTED:
        raise VocabularyError(f"decoder {kind} is not supported: {_UNSUPPORTED[kind]}")
    if kind not in _STEPS:
        raise VocabularyError(f"decoder {kind!r} is unknown; use one of {', '.join(_STEPS)}")
    return [decoder]


def step_of(step: Mapping[str, Any]) -> Step:
    """Return the function of one step of `flatten`."""
    return _STEPS[step["type"]](step)


def _each(convert: Callable[[str], str]) -> Step:
    return lambda tokens: [convert(token) for token in tokens]


def byte_level(token: str) -> bytes:
    """Return the bytes that the characters of a token represent, or else its UTF-8."""
    found = bytes_of(token)
    return token.encode() if found is None else found


def byte_value(token: str) -> int | None:
    match = _BYTE_TOKEN.fullmatch(token)
    return None if match is None else int(match[1], 16)


def _join_byte_level(tokens: list[str]) -> list[str]:
    return [b"".join(map(byte_level, tokens)).decode("utf-8", "replace")]


def _join_byte_tokens(tokens: list[str]) -> list[str]:
    found: list[str] = []
    for is_text, group in groupby(tokens, lambda token: byte_value(token) is None):
        run = list(group)
        if is_text:
            found += run
            continue
        try:
            found.append(bytes(byte_value(token) or 0 for token in run).decode())
        except UnicodeError:
            found += ["\ufffd"] * len(run)  # one for each byte, valid or not
    return found


def _replace(step: Mapping[str, Any]) -> Step:
    pattern, content = step["pattern"], step["content"]
    if "String" in pattern:
        text = pattern["String"]
        if not text:
            raise VocabularyError("decoder Replace has an empty pattern; use at least 1 character")
        return _each(lambda token: token.replace(text, content))
    program, new = compile_pattern(pattern["Regex"], "oniguruma"), content.encode()

    def replace(token: str) -> str:
        data, end = token.encode(), 0
        found = []
        for start, stop in _native.split(program, data):
            found += [data[end:start], new]
            end = stop
        return b"".join([*found, data[end:]]).decode()

    return _each(replace)


def _strip(step: Mapping[str, Any]) -> Step:
    content, start, stop = step["content"], step["start"], step["stop"]

    def strip(token: str) -> str:
        left = min(len(token) - len(token.lstrip(content)), start)
        # If both ends take the same character, the real library fails. Here the token is empty.
        token = token[left:]
        right = min(len(token) - len(token.rstrip(content)), stop)
        return token[: len(token) - right]

    return _each(strip)


def _metaspace(step: Mapping[str, Any]) -> Step:
    replacement = step["replacement"]
    scheme = step.get("prepend_scheme", "always" if step.get("add_prefix_space", True) else "never")
    first = " " if scheme == "never" else ""

    def run(tokens: list[str]) -> list[str]:
        # The first token loses every replacement character, not only the one that encoding added.
        head = [token.replace(replacement, first) for token in tokens[:1]]
        return head + [token.replace(replacement, " ") for token in tokens[1:]]

    return run


def _bpe(step: Mapping[str, Any]) -> Step:
    suffix = step["suffix"]

    def run(tokens: list[str]) -> list[str]:
        spaced = [token.replace(suffix, " ") for token in tokens[:-1]]
        return spaced + [token.replace(suffix, "") for token in tokens[-1:]]

    return run


_STEPS: dict[str, Callable[[Mapping[str, Any]], Step]] = {
    "ByteLevel": lambda _: _join_byte_level,
    "ByteFallback": lambda _: _join_byte_tokens,
    "Replace": _replace,
    "Fuse": lambda _: lambda tokens: ["".join(tokens)],
    "Strip": _strip,
    "Metaspace": _metaspace,
    "BPEDecoder": _bpe,
}
