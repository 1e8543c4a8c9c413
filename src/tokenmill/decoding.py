"""ids → text: the decoders of tokenizer.json, which work on tokens as they are written.

A decoder is a chain of steps, each of which turns a list of strings into another; what is left is
joined. `Decoder` knows which strings an id stands for. Where the steps up to the joining look at
one token at a time it keeps what they make of each id, so that decoding is one join.

**Invariant**: the quick ways give what `run_chain` gives; a test compares them.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tokenmill.errors import VocabularyError
from tokenmill.formats.names import bytes_of, normal_name
from tokenmill.formats.spec import TokenizerSpec
from tokenmill.native import _native
from tokenmill.patterns import compile_pattern

# A step of a chain: the tokens before it → those behind it.
Step = Callable[[list[str]], list[str]]
# "<0xE4>"; Rust's numbers may have a sign.
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2}|\+[0-9A-Fa-f])>")
# These look at each token by itself.
_SINGLY = ("Replace", "Strip")
_REFUSED = {
    "WordPiece": "it joins the tokens of WordPiece models",
    "CTC": "it joins the tokens of speech models",
}


class Decoder:
    """Decodes ids by a tokenizer.json's decoder; None joins the tokens with blanks.

    `tokens` gives the token of an id as the file writes it, None if there is none: such ids are
    passed over. `special_tokens` are passed over where the caller asks for it.
    """

    def __init__(
        self,
        decoder: Mapping[str, Any] | None,
        tokens: Callable[[int], str | None],
        special_tokens: set[int],
    ) -> None:
        self._steps = [] if decoder is None else flatten(decoder)
        self._chain = [step_of(step) for step in self._steps]
        self._separator = " " if decoder is None else ""
        self._tokens = tokens
        self._specials = special_tokens
        self._quick = {skip: self._pieces(skip) for skip in (False, True)}

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of `ids`."""
        quick = self._quick[skip_special_tokens]
        if quick is not None:
            found = quick.join(ids)
            if found is not None:
                return found
        return self.decode_slowly(ids, skip_special_tokens)

    def decode_slowly(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The same by running the chain over all tokens: the twin of the quick ways."""
        skipped = self._specials if skip_special_tokens else ()
        found = (self._tokens(id_) for id_ in ids if id_ not in skipped)
        tokens = [token for token in found if token is not None]
        return self._separator.join(run_chain(self._chain, tokens))

    def _pieces(self, skip: bool) -> _Pieces | None:
        """What each id becomes by itself, if the chain is such that this can be said."""
        kinds = [step["type"] for step in self._steps]
        skipped = self._specials if skip else set()
        if kinds == ["ByteLevel"]:
            return _Pieces(self._tokens, skipped, byte_level, [], "replace")
        singly = next((i for i, kind in enumerate(kinds) if kind not in _SINGLY), len(kinds))
        before, after = self._chain[:singly], kinds[singly:]
        fallback = after[:1] == ["ByteFallback"]
        after = after[fallback:]
        if not kinds or (after and after[0] != "Fuse"):
            return None

        def piece(token: str) -> bytes | None:
            text = run_chain(before, [token])[0]
            value = byte_value(text) if fallback else None
            # Nothing between two runs of byte tokens still keeps them apart: left to the chain.
            return (text.encode() or None) if value is None else bytes([value])

        behind = self._chain[len(kinds) - len(after) :]
        return _Pieces(self._tokens, skipped, piece, behind, "strict")


class _Pieces(dict[int, bytes]):
    """id → the bytes that it stands for, found out when it first comes."""

    def __init__(
        self,
        tokens: Callable[[int], str | None],
        skipped: set[int],
        piece: Callable[[str], bytes | None],
        behind: list[Step],
        errors: str,
    ) -> None:
        self._tokens, self._skipped, self._piece = tokens, skipped, piece
        self._behind, self._errors = behind, errors

    def __missing__(self, id_: int) -> bytes:
        token = None if id_ in self._skipped else self._tokens(id_)
        found = b"" if token is None else self._piece(token)
        if found is None:
            raise _ApartError
        self[id_] = found
        return found

    def join(self, ids: Sequence[int]) -> str | None:
        """The text; None if it takes the whole chain to know it.

        Tokens that are text hold whole characters. So all of it is UTF-8 just if each run of byte
        tokens is, and then runs are read as the chain reads them.
        """
        try:
            text = b"".join([self[id_] for id_ in ids]).decode("utf-8", self._errors)
        except (UnicodeError, _ApartError):
            return None
        return "".join(run_chain(self._behind, [text])) if self._behind else text


class _ApartError(Exception):
    """A token that is nothing, and yet keeps its neighbours apart."""


def is_byte_level(spec: TokenizerSpec) -> bool:
    """Whether decoding is joining the bytes of the tokens.

    An added token all of whose characters stand for bytes is decoded as those bytes.
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
    """The steps of a decoder in order; raises VocabularyError for those that cannot be run."""
    kind = decoder.get("type")
    if kind == "Sequence":
        return [step for part in decoder["decoders"] for step in flatten(part)]
    if kind in _REFUSED:
        raise VocabularyError(f"decoder {kind}: {_REFUSED[kind]}; tokenmill decodes BPE")
    if kind not in _STEPS:
        raise VocabularyError(f"decoder {kind!r} is not known; use one of {', '.join(_STEPS)}")
    return [decoder]


def step_of(step: Mapping[str, Any]) -> Step:
    """One step of `flatten`, ready to run."""
    return _STEPS[step["type"]](step)


def byte_level(token: str) -> bytes:
    """The bytes that a token stands for: those of its characters, or else its own."""
    found = bytes_of(token)
    return token.encode() if found is None else found


def byte_value(token: str) -> int | None:
    match = _BYTE_TOKEN.fullmatch(token)
    return None if match is None else int(match[1], 16)


def _byte_level(_: Mapping[str, Any]) -> Step:
    return lambda tokens: [b"".join(map(byte_level, tokens)).decode("utf-8", "replace")]


def _byte_fallback(_: Mapping[str, Any]) -> Step:
    def run(tokens: list[str]) -> list[str]:
        found: list[str] = []
        waiting = bytearray()

        def flush() -> None:
            try:
                text = [waiting.decode()] if waiting else []
            except UnicodeError:
                text = ["\ufffd"] * len(waiting)  # for each byte, however they belong together
            found.extend(text)
            waiting.clear()

        for token in tokens:
            value = byte_value(token)
            if value is None:
                flush()
                found.append(token)
            else:
                waiting.append(value)
        flush()
        return found

    return run


def _fuse(_: Mapping[str, Any]) -> Step:
    return lambda tokens: ["".join(tokens)]


def _replace(step: Mapping[str, Any]) -> Step:
    pattern, content = step["pattern"], step["content"]
    if "String" in pattern:
        text = pattern["String"]
        if not text:
            raise VocabularyError("decoder Replace: '' is between all characters; give a text")
        return lambda tokens: [token.replace(text, content) for token in tokens]
    program, put = compile_pattern(pattern["Regex"], "oniguruma"), content.encode()

    def replaced(token: str) -> str:
        data, end = token.encode(), 0
        found = []
        for start, stop in _native.split(program, data):
            found += [data[end:start], put]
            end = stop
        return b"".join([*found, data[end:]]).decode()

    return lambda tokens: [replaced(token) for token in tokens]


def _strip(step: Mapping[str, Any]) -> Step:
    content, start, stop = step["content"], step["start"], step["stop"]

    def strip(token: str) -> str:
        left = min(len(token) - len(token.lstrip(content)), start)
        # A token of which both ends would take the same character is a mistake there; here it is
        # empty.
        token = token[left:]
        right = min(len(token) - len(token.rstrip(content)), stop)
        return token[: len(token) - right]

    return lambda tokens: [strip(token) for token in tokens]


def _metaspace(step: Mapping[str, Any]) -> Step:
    replacement = step["replacement"]
    scheme = step.get("prepend_scheme", "always" if step.get("add_prefix_space", True) else "never")
    first = " " if scheme == "never" else ""

    def run(tokens: list[str]) -> list[str]:
        # All of them vanish from the first token, not only the one that encoding put there.
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
    "ByteLevel": _byte_level,
    "ByteFallback": _byte_fallback,
    "Replace": _replace,
    "Fuse": _fuse,
    "Strip": _strip,
    "Metaspace": _metaspace,
    "BPEDecoder": _bpe,
}


class _Tokenizer(Protocol):
    """The part of a Tokenizer that streams use."""

    @property
    def _decodes_bytes(self) -> bool: ...
    def decode(self, ids: list[int]) -> str: ...
    def decode_bytes(self, ids: list[int]) -> bytes: ...


class StreamDecoder:
    """Decodes ids one by one and returns whole characters only.

    `Tokenizer.stream_decoder` makes one. Bytes of an incomplete character are kept until it is
    complete. A decoder chain works on several tokens at once. The text that an id adds is then the
    difference between the texts with and without it.

    Examples:
        >>> from tokenmill import Tokenizer
        >>> tokenizer = Tokenizer.load("cl100k_base")
        >>> decoder = tokenizer.stream_decoder()
        >>> [decoder.push(id) for id in tokenizer.encode("a 🌾")]
        ['a', ' ', '', '🌾']
        >>> decoder.finish()
        ''
    """

    __slots__ = ("_bytes", "_given", "_ids", "_tokenizer")

    def __init__(self, tokenizer: _Tokenizer, errors: str) -> None:
        self._tokenizer = tokenizer
        self._bytes: codecs.IncrementalDecoder | None = None
        if tokenizer._decodes_bytes:
            self._bytes = codecs.getincrementaldecoder("utf-8")(errors)
        # For a decoder chain: the last ids, which the next text depends on, and their text.
        self._ids: list[int] = []
        self._given = ""

    def push(self, id: int) -> str:
        """Return the characters that this id completes; "" while one is incomplete.

        An id that the vocabulary lacks is an UnknownTokenError.
        """
        if self._bytes is not None:
            return self._bytes.decode(self._tokenizer.decode_bytes([id]))
        text = self._tokenizer.decode([*self._ids, id])
        self._ids.append(id)
        if text.endswith("\ufffd"):
            return ""
        added = text[len(self._given) :]
        self._given = text
        self._forget()
        return added

    def _forget(self) -> None:
        """Drop ids before the last one that shows more than white space.

        Decoders treat white space at the start of a text and the bytes of one character in their
        own way, and depend on no earlier id.
        """
        for index in reversed(range(1, len(self._ids))):
            alone = self._tokenizer.decode(self._ids[index : index + 1])
            if alone.strip() and not alone.endswith("\ufffd"):
                self._ids = self._ids[index:]
                self._given = self._tokenizer.decode(self._ids)
                return

    def finish(self) -> str:
        """Return the text of an incomplete character at the end. The decoder can be used again."""
        if self._bytes is not None:
            text = self._bytes.decode(b"", final=True)
            self._bytes.reset()
            return text
        text = self._tokenizer.decode(self._ids)[len(self._given) :] if self._ids else ""
        self._ids, self._given = [], ""
        return text
