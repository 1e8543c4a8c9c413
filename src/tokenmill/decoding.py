"""ids → text: the decoders of tokenizer.json, which work on token texts.

A decoder is a chain of steps. Each step maps a list of strings to another list, and the last list
is joined. If all steps before the join treat each token alone, `Decoder` caches the bytes of each
id, and decoding is one join.

**Invariant**: the cached bytes give the text of `run_chain`; a test compares them.
"""

from __future__ import annotations

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
        self._specials = special_tokens
        self._convert: Callable[[str], bytes] | None = None
        self._plan([step["type"] for step in steps])
        self._cached = {skip: _Cache(partial(self._bytes_of, skip)) for skip in (False, True)}

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of `ids`."""
        if self._convert is None:
            return self.decode_slowly(ids, skip_special_tokens)
        cached = self._cached[skip_special_tokens]
        try:
            # A token that is text has whole characters. So the result is valid UTF-8 if and only if
            # each run of byte tokens is. Then the chain gives the same text.
            text = b"".join([cached[id_] for id_ in ids]).decode("utf-8", self._errors)
        except (UnicodeError, _EmptyTokenError):
            return self.decode_slowly(ids, skip_special_tokens)
        return "".join(run_chain(self._rest, [text]))

    def decode_slowly(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of `ids` by running the chain: the reference implementation."""
        skipped = self._specials if skip_special_tokens else ()
        found = (self._tokens(id_) for id_ in ids if id_ not in skipped)
        tokens = [token for token in found if token is not None]
        return self._separator.join(run_chain(self._chain, tokens))

    def _plan(self, kinds: list[str]) -> None:
        """Set how a token becomes bytes, and the steps after the join, if the chain allows it."""
        self._rest, self._errors = [], "replace"
        if kinds == ["ByteLevel"]:
            self._convert = byte_level
            return
        single = next((i for i, kind in enumerate(kinds) if kind not in _SINGLE), len(kinds))
        before, after = self._chain[:single], kinds[single:]
        fallback = after[:1] == ["ByteFallback"]
        after = after[fallback:]
        if not kinds or (after and after[0] != "Fuse"):
            return

        def convert(token: str) -> bytes:
            text = run_chain(before, [token])[0]
            if not text:
                raise _EmptyTokenError
            value = byte_value(text) if fallback else None
            return text.encode() if value is None else bytes([value])

        self._convert, self._errors = convert, "strict"
        self._rest = self._chain[len(kinds) - len(after) :]

    def _bytes_of(self, skip: bool, id_: int) -> bytes:
        token = None if skip and id_ in self._specials else self._tokens(id_)
        assert self._convert is not None
        return b"" if token is None else self._convert(token)


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
