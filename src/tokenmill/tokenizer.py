"""Text ↔ ids: each method checks its arguments, calls the core once and wraps the result."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, TypeVar, Unpack, overload
from weakref import WeakValueDictionary

import numpy as np

from tokenmill import arguments
from tokenmill.errors import OptionError, UnknownTokenError
from tokenmill.native import _native
from tokenmill.session import Session, StreamDecoder, StreamEncoder
from tokenmill.vocabularies import EMBEDDED

# Loading an embedded vocabulary and encoding need no module of `formats` and `patterns`. Their
# import takes as long as loading o200k_base, so methods import them when they use them.
if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from tokenmill.corpus.options import RecordOptions
    from tokenmill.decoding import Decoder
    from tokenmill.formats.ranks import Merge
    from tokenmill.formats.spec import TokenizerSpec
    from tokenmill.segments import Drift, Segment

Text: TypeAlias = str | bytes | bytearray | memoryview
Path_: TypeAlias = "str | os.PathLike[str]"
AnyText = TypeVar("AnyText", str, bytes)
Result = TypeVar("Result")
SpecialsChoice: TypeAlias = bool | Literal["none"] | Collection[str]

# Embedded vocabularies in use, by name and special tokens. A second tokenizer shares the native
# tokenizer of the first, which takes megabytes (11 MB for o200k_base).
_embedded: WeakValueDictionary[tuple[Any, ...], _Shared] = WeakValueDictionary()
# Ids take up to four bytes per byte of text, and twice that while they are joined.
_MEMORY_PER_BYTE = 10
_BLOCK_BYTES_MIN = 4096


class _Shared:
    """Values that are computed at the first use. Tokenizers of one vocabulary share them.

    An embedded vocabulary loads without its specification, and a trained one is saved without its
    native tokenizer.
    """

    def __init__(
        self, name: str, spec: TokenizerSpec | None = None, core: _native.Core | None = None,
        *, is_embedded: bool = False,
    ) -> None:  # fmt: skip
        self.name, self.is_embedded = name, is_embedded
        self.special_tokens = EMBEDDED[name].special_tokens if spec is None else {}
        self.always: frozenset[str] = frozenset()  # other added tokens, which are always found
        if core is not None:
            self.core = core
        if spec is not None:
            self.spec = spec
            self.special_tokens = {token.content: token.id for token in spec.added if token.special}
            self.always = frozenset(token.content for token in spec.added if not token.special)

    @cached_property
    def core(self) -> _native.Core:
        from tokenmill.formats.build import build

        return build(self.spec)

    @cached_property
    def spec(self) -> TokenizerSpec:
        from tokenmill.formats import ranks

        return ranks.of_embedded(self.name, {}, self.core)[0]

    @cached_property
    def vocab_size(self) -> int:
        special_ids = self.special_tokens.values()
        if self.is_embedded:
            return max(self.core.ids_end(), 1 + max(special_ids))
        return max(self.spec.model.ids_end, *(1 + token.id for token in self.spec.added), 0)

    @cached_property
    def decodes_bytes(self) -> bool:
        if self.is_embedded:
            return True
        from tokenmill.decoding import is_byte_level

        return is_byte_level(self.spec)

    @cached_property
    def decoder(self) -> Decoder:
        from tokenmill.decoding import Decoder
        from tokenmill.formats.names import spellings_of

        tokens, special_tokens = spellings_of(self.spec), set(self.special_tokens.values())
        return Decoder(self.spec.decoder, tokens.get, special_tokens)

    @cached_property
    def fingerprint(self) -> str:
        import hashlib
        from dataclasses import replace

        from tokenmill.formats import ranks, tokenmill_file

        tokens, ends = self.core.tokens()
        if self.spec.ranks is None:
            rest = tokenmill_file.write(replace(self.spec, extra={}))
        else:
            more = sorted(self.special_tokens.items()), self.core.empty_id()
            rest = repr((ranks.pattern_text(self.spec), *more)).encode()
        return hashlib.sha256(tokens + bytes(ends) + rest).hexdigest()


class Tokenizer:
    """A BPE tokenizer. It is immutable, so threads and forked processes can share it.

    A text is a str or a bytes-like object, which may contain invalid UTF-8. `allowed_special` is
    the special tokens that are found in a text: False for none, True for all, or a set of their
    texts. The others are encoded as ordinary text. An unknown one is an UnknownTokenError. Added
    tokens that are not special are found, as in the original library, except with "none": then no
    added token is found, as in `encode_ordinary`.
    `threads` is the number of threads. None uses all CPUs for long texts and large batches. A
    wrong type is a TypeError and a wrong value an OptionError, which is a ValueError.

    Examples:
        >>> tokenizer = Tokenizer.load("o200k_base")
        >>> tokenizer.encode("hello world")
        [24912, 2375]
        >>> tokenizer.decode([24912, 2375])
        'hello world'
        >>> tokenizer
        <Tokenizer 'o200k_base': vocab_size 200,019, 2 special tokens>
    """

    __slots__ = ("_core", "_shared")

    _core: _native.Core
    _shared: _Shared

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError('use Tokenizer.load("o200k_base") or Tokenizer.load(path, pattern=…)')

    @classmethod
    def load(
        cls, source: str | os.PathLike[str], *, pattern: str | None = None,
        special_tokens: Mapping[str, int] | None = None,
    ) -> Tokenizer:  # fmt: skip
        """Load a tokenizer by name or from a file.

        `source` is the name of an embedded vocabulary or of an OpenAI model; a file
        (tokenizer.json, SentencePiece .model, tekken.json, GGUF, vocab.json with merges.txt, a
        tiktoken rank file, .tokenmill); a folder as transformers saves it; or "org/name" for one in
        the local cache of the Hugging Face hub. A file that cannot be reproduced exactly is a
        VocabularyError with the reason. Tokenizers of one embedded name share its vocabulary.

        Rank files and vocab.json do not contain a pre-tokenizer. `pattern` is a regular expression
        or the name of a pre-tokenizer such as "cl100k"; one that cannot be run exactly is a
        PatternError. `special_tokens` maps texts to ids and adds to those of the source.
        """
        more = arguments.special_token_ids(special_tokens)
        embedded = arguments.embedded_name(source, pattern)
        if embedded is not None:
            return cls._load_embedded(embedded, more)
        from pathlib import Path

        from tokenmill.formats import detect

        path = Path(source)
        with detect.naming(source):
            spec = detect.load_spec(source, pattern, more)
            return cls._from_spec(spec, path.stem if path.is_file() else path.name)

    @classmethod
    def from_object(cls, tokenizer: Any) -> Tokenizer:
        """Convert a tokenizer of tiktoken, tokenizers or transformers.

        For a tokenizer of tokenmill the result shares its vocabulary. A tokenizer that cannot be
        reproduced exactly is a VocabularyError, and any other object a TypeError.
        """
        if isinstance(tokenizer, Tokenizer):
            return cls._of(tokenizer._shared)
        from tokenmill.formats import detect

        return cls._from_spec(*detect.read_object(tokenizer))

    @classmethod
    def _from_spec(cls, spec: TokenizerSpec, name: str) -> Tokenizer:
        """Raise VocabularyError or PatternError for a specification that cannot be built."""
        from tokenmill.formats import ranks
        from tokenmill.formats.build import build

        core = build(spec)
        if spec.ranks is not None:
            ranks.check_special_ids(spec)
        return cls._of(_Shared(name, spec, core))

    @staticmethod
    def _of_trained(spec: TokenizerSpec, name: str = "trained") -> Tokenizer:
        """The first use builds the native tokenizer, which saving does without."""
        self = object.__new__(_Trained)
        object.__setattr__(self, "_shared", _Shared(name, spec))
        return self

    @classmethod
    def _load_embedded(cls, name: str, special_tokens: Mapping[str, int]) -> Tokenizer:
        own = EMBEDDED[name].special_tokens
        more = {text: id_ for text, id_ in special_tokens.items() if own.get(text) != id_}
        key = (name, *sorted(more.items()))
        shared = _embedded.get(key)
        if shared is None and more:
            from tokenmill.formats import ranks

            spec, core = ranks.of_embedded(name, more)
            shared = _embedded[key] = _Shared(name, spec, core, is_embedded=True)
        elif shared is None:
            core = EMBEDDED[name].build_core()
            shared = _embedded[key] = _Shared(name, core=core, is_embedded=True)
        return cls._of(shared)

    @classmethod
    def _of(cls, shared: _Shared) -> Tokenizer:
        self = object.__new__(cls)
        object.__setattr__(self, "_core", shared.core)
        object.__setattr__(self, "_shared", shared)
        return self

    @property
    def _spec(self) -> TokenizerSpec:
        return self._shared.spec

    def __setattr__(self, name: str, value: object = None) -> NoReturn:
        raise AttributeError(f"cannot change {name!r}: a Tokenizer is immutable")

    __delattr__ = __setattr__

    # Encoding

    def encode(self, text: Text, *, allowed_special: SpecialsChoice = False) -> list[int]:
        """Return the ids of a text; VocabularyError if the vocabulary lacks one of its bytes.

        Examples:
            >>> tokenizer = Tokenizer.load("gpt2")
            >>> tokenizer.encode("hi<|endoftext|>")
            [5303, 27, 91, 437, 1659, 5239, 91, 29]
            >>> tokenizer.encode("hi<|endoftext|>", allowed_special=True)
            [5303, 50256]
        """
        # Short texts are encoded with this method, so the default case has no checks.
        allowed = None if allowed_special is False else self._allowed(allowed_special)
        try:
            return self._core.encode(text, allowed)
        except (ValueError, TypeError, BufferError) as error:
            return self._core.encode(arguments.repair(text, error), allowed)

    def encode_ordinary(self, text: Text) -> list[int]:
        """Return the ids of a text in which no added token is found, special or not.

        It is for text from users, tools and documents. `allowed_special="none"` gives the same ids
        in every method. An id of an added token appears only if merges of the vocabulary produce
        the same id.

        Examples:
            >>> Tokenizer.load("gpt2").encode_ordinary("hi<|endoftext|>")
            [5303, 27, 91, 437, 1659, 5239, 91, 29]
        """
        return self.encode(text, allowed_special="none")

    @overload
    def encode_array(
        self, text: Text, *, allowed_special: SpecialsChoice = ..., dtype: DTypeLike = ...,
        threads: int | None = ..., offsets: Literal[False] = ...,
    ) -> NDArray[Any]: ...  # fmt: skip
    @overload
    def encode_array(
        self, text: Text, *, allowed_special: SpecialsChoice = ..., dtype: DTypeLike = ...,
        threads: int | None = ..., offsets: Literal[True],
    ) -> tuple[NDArray[Any], NDArray[np.uint32]]: ...  # fmt: skip
    def encode_array(
        self, text: Text, *, allowed_special: SpecialsChoice = False, dtype: DTypeLike = np.uint32,
        threads: int | None = None, offsets: bool = False,
    ) -> NDArray[Any] | tuple[NDArray[Any], NDArray[np.uint32]]:  # fmt: skip
        """Return the ids of a text as a numpy array of uint32, or of uint16 if all ids fit.

        With `offsets` the result is the ids and an array with the start and end of each, as in
        `encode_with_offsets`. A text of a megabyte or more uses all CPUs unless `threads` is set. A
        `dtype` that is too small for an id of the vocabulary is an OptionError.
        """
        narrow = dtype is not np.uint32 and self._is_narrow(dtype)
        allowed = None if allowed_special is False else self._allowed(allowed_special)
        count = arguments.threads_for(text, threads)
        if offsets:
            ids, spans = self._encode_offsets(text, allowed, count)
            return ids.astype(np.uint16) if narrow else ids, spans
        try:  # inline for short texts, as in `encode`
            found = self._core.encode_buffer(text, allowed, narrow, count)
        except (ValueError, TypeError, BufferError) as error:
            found = self._core.encode_buffer(arguments.repair(text, error), allowed, narrow, count)
        return np.asarray(found)

    def _encode_offsets(
        self, text: Text, allowed: bytes | None, threads: int
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        try:
            found = self._core.encode_spans(text, allowed, threads)
        except (ValueError, TypeError, BufferError) as error:
            found = self._core.encode_spans(arguments.repair(text, error), allowed, threads)
            starts = np.array(arguments.repaired_starts(text), np.uint32)
            return np.asarray(found[0]), starts[np.asarray(found[1]).reshape(-1, 2)]
        return np.asarray(found[0]), np.asarray(found[1]).reshape(-1, 2)

    def _allowed(self, allowed_special: SpecialsChoice) -> bytes | None:
        shared = self._shared
        return arguments.allowed_specials(allowed_special, shared.special_tokens, shared.always)

    def _is_narrow(self, dtype: DTypeLike) -> bool:
        wanted = np.dtype(dtype)
        if wanted not in (np.uint32, np.uint16):
            raise OptionError(f"dtype must be numpy.uint32 or numpy.uint16, not {wanted}")
        narrow = wanted == np.uint16
        if narrow and self.vocab_size > 1 << 16:
            raise OptionError(
                f"{self.name} has ids up to {self.vocab_size - 1:,}, so uint16 is too small; "
                "use dtype=numpy.uint32"
            )
        return narrow

    def encode_batch(
        self, texts: Iterable[Text], *, allowed_special: SpecialsChoice = False,
        threads: int | None = None,
    ) -> list[list[int]]:  # fmt: skip
        """Return the ids of each of many texts."""
        return self._batch(self._core.encode_batch, texts, allowed_special, threads)

    def encode_ragged(
        self, texts: Iterable[Text], *, allowed_special: SpecialsChoice = False,
        threads: int | None = None,
    ) -> Ragged:  # fmt: skip
        """Return the ids of many texts in one numpy array, with the offsets of each text.

        Examples:
            >>> ragged = Tokenizer.load("gpt2").encode_ragged(["hello world", "hi"])
            >>> ragged.offsets.tolist(), ragged[1].tolist()
            ([0, 2, 3], [5303])
        """
        return Ragged(*self._batch(self._core.encode_ragged, texts, allowed_special, threads))

    @overload
    def encode_files(
        self, inputs: Path_ | Iterable[Path_], *, separator: str | bytes | None = ...,
        allowed_special: SpecialsChoice = ..., threads: int | None = ..., memory: int = ...,
        callback: None = ..., **options: Unpack[RecordOptions],
    ) -> Ragged: ...  # fmt: skip
    @overload
    def encode_files(
        self, inputs: Path_ | Iterable[Path_], *, separator: str | bytes | None = ...,
        allowed_special: SpecialsChoice = ..., threads: int | None = ..., memory: int = ...,
        callback: Callable[[Ragged], object], **options: Unpack[RecordOptions],
    ) -> int: ...  # fmt: skip
    def encode_files(
        self, inputs: Path_ | Iterable[Path_], *, separator: str | bytes | None = "\n",
        allowed_special: SpecialsChoice = False, threads: int | None = None, memory: int =
        512_000_000, callback: Callable[[Ragged], object] | None = None,
        **options: Unpack[RecordOptions],
    ) -> Ragged | int:  # fmt: skip
        """Return the ids of the documents in files, without Python objects for their texts.

        Inputs and `options` are those of `tokenize`: files, folders, globs and URLs of any input
        format, here with the defaults `utf8="bytes"` and `on_error="fail"`. In a text file a
        document ends before `separator` and at the end of the file. With None each file is one
        document. A `callback` gets the ids block by block, in order, within about `memory` bytes.
        Then the result is the number of documents.
        """
        from tokenmill import corpus  # imported when it is used

        least = _BLOCK_BYTES_MIN * _MEMORY_PER_BYTE
        size = arguments.whole_number(memory, "memory", least, " (bytes)") // _MEMORY_PER_BYTE
        cut = arguments.separator(separator) or None
        allowed, count = self._allowed(allowed_special), arguments.thread_count(threads)
        documents = 0
        ids: list[_native.Buffer] = []
        offsets: list[_native.Buffer] = []
        for block in corpus.read_files(inputs, cut, size, options):
            spans = np.ascontiguousarray(block.spans)
            pair = self._core.encode_block(block.data, spans, allowed, count)
            if callback is None:
                ids.append(pair[0])
                offsets.append(pair[1])
            else:
                documents += len(spans)
                callback(Ragged(*pair))
        return Ragged(*_native.join(ids, offsets)) if callback is None else documents

    def encode_with_offsets(
        self, text: Text, *, allowed_special: SpecialsChoice = False
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the ids of a text and the span (start, end) of each.

        Spans count the characters of a str, or the bytes of a bytes-like object. A token that is a
        part of a character covers the whole character.

        Examples:
            >>> Tokenizer.load("gpt2").encode_with_offsets("naïve mill")
            ([2616, 38776, 3939], [(0, 2), (2, 5), (5, 10)])
        """
        allowed = self._allowed(allowed_special)
        try:
            return self._core.encode_with_offsets(text, allowed)
        except (ValueError, TypeError, BufferError):
            ids, spans = self._encode_offsets(text, allowed, 1)
            return ids.tolist(), [(start, end) for start, end in spans.tolist()]

    def encode_segments(
        self, segments: Iterable[Segment], *, join: bool = True
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Return the ids of a conversation, and the index of the segment that each came from.

        A segment is `(text, trusted)` or a list of ids. Added tokens, special or not, are found in
        trusted texts and never in others. Given ids stay as they are. No text is merged with them.

        With `join`, a boundary between two texts changes no id. Pretokens and merges cross it, and
        added tokens cross it between trusted texts. The ids are those of the whole text with
        `allowed_special=True` if that finds added tokens in trusted texts only. A token belongs to
        the segment of its first character. Without `join`, each text is encoded alone.

        Examples:
            >>> tokenizer = Tokenizer.load("o200k_base")
            >>> parts = [("<|endoftext|>Hi ", True), ("<|endoftext|>", False), [199999]]
            >>> ids, segments = tokenizer.encode_segments(parts)
            >>> ids.tolist()
            [199999, 12194, 464, 91, 419, 1440, 919, 91, 29, 199999]
            >>> segments.tolist()
            [0, 0, 0, 1, 1, 1, 1, 1, 1, 2]
        """
        from tokenmill import segments as segments_

        return segments_.encode_segments(self, segments, join)

    def drift(self, ids: Iterable[int], *, allowed_special: SpecialsChoice = True) -> list[Drift]:
        """Return the ranges of ids that change if their text is decoded and encoded again.

        Each item has `start` and `end` of a range, and the `ids` that replace it. An empty list
        means that encoding returns the same ids.

        Examples:
            >>> tokenizer = Tokenizer.load("o200k_base")
            >>> tokenizer.drift([71, 6053, 2375])
            [Drift(start=0, end=2, ids=[24912])]
        """
        from tokenmill import segments

        return segments.drift(self, ids, allowed_special)

    def count(
        self, text: Text, *, allowed_special: SpecialsChoice = False, threads: int | None = None
    ) -> int:
        """Return the number of ids that `encode` returns. A long text uses all CPUs."""
        allowed = None if allowed_special is False else self._allowed(allowed_special)
        count = arguments.threads_for(text, threads)
        return arguments.read(self._core.count, text, allowed, count)

    def count_batch(
        self, texts: Iterable[Text], *, allowed_special: SpecialsChoice = False,
        threads: int | None = None,
    ) -> list[int]:  # fmt: skip
        """Return the number of ids of each of many texts."""
        return self._batch(self._core.count_batch, texts, allowed_special, threads)

    def truncate(
        self, text: AnyText, max_tokens: int, side: Literal["left", "right"] = "right"
    ) -> AnyText:
        """Return the longest part of a text, str or bytes, with at most `max_tokens` tokens.

        `side` is the side that is removed: "right" returns the longest prefix, "left" the longest
        suffix, on a character boundary. The removed text is not encoded.

        Examples:
            >>> Tokenizer.load("gpt2").truncate("a very long text", 3, side="left")
            ' very long text'
        """
        if side not in ("left", "right"):
            raise OptionError(f'side must be "left" or "right", not {side!r}')
        limit = min(arguments.whole_number(max_tokens, "max_tokens", 0), 1 << 62)
        part: AnyText = arguments.read(self._core.truncate, text, limit, side == "left")
        return part

    @overload
    def session(
        self, text: str = "", *, allowed_special: SpecialsChoice = False
    ) -> Session[str]: ...
    @overload
    def session(
        self, text: bytes | bytearray | memoryview, *, allowed_special: SpecialsChoice = False
    ) -> Session[bytes]: ...
    def session(self, text: Text = "", *, allowed_special: SpecialsChoice = False) -> Session[Any]:
        """Return a session: a text that changes at its end, such as a chat, and its ids.

        Unchanged text is not encoded again. All texts of a session are str, or all are bytes.
        """
        return Session(self, text, allowed_special)

    def stream_encoder(self, *, allowed_special: SpecialsChoice = False) -> StreamEncoder:
        """Return an encoder for a text that comes in pieces. It returns ids that stay the same.

        Its methods `push(text)` and `finish()` return lists of ids.
        """
        return StreamEncoder(self, allowed_special)

    # Decoding

    def decode(
        self, ids: Iterable[int], errors: str = "replace", skip_special_tokens: bool = False
    ) -> str:
        """Return the text of ids: a list, an array or any iterable of int.

        Bytes that are not UTF-8 are handled as `bytes.decode` does with `errors`. A tokenizer with
        a decoder of its own (tokenizer.json, .model) uses that, which may drop a space at the
        start. An id that the vocabulary lacks is an UnknownTokenError, which is a KeyError.

        Examples:
            >>> tokenizer = Tokenizer.load("gpt2")
            >>> tokenizer.decode([5303, 50256], skip_special_tokens=True)
            'hi'
        """
        self._check_error_handler(errors)
        if self._decodes_bytes and not skip_special_tokens:
            return self.decode_bytes(ids).decode("utf-8", errors)
        listed = arguments.list_ids(ids)
        numbers = listed if isinstance(listed, list) else listed.tolist()
        if not self._decodes_bytes:
            arguments.decode(self._core, numbers)  # raises the error for an unknown id
            return self._shared.decoder.decode(numbers, skip_special_tokens)
        skipped = set(self.special_tokens.values())
        kept = [id_ for id_ in numbers if id_ not in skipped]
        return self.decode_bytes(kept).decode("utf-8", errors)

    def _check_error_handler(self, errors: str) -> None:
        arguments.check_error_handler(errors)
        if errors != "replace" and not self._decodes_bytes:
            raise OptionError(
                f'errors must be "replace", not {errors!r}: {self.name} has a decoder that '
                "replaces bytes that are not UTF-8; for the bytes use decode_bytes"
            )

    @property
    def _decodes_bytes(self) -> bool:
        """Whether a text is the joined bytes of its ids."""
        return self._shared.decodes_bytes

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Return the joined bytes of ids; UnknownTokenError for an unknown id."""
        return arguments.decode(self._core, ids)

    def decode_batch(
        self, batch: Iterable[Iterable[int]], errors: str = "replace",
        skip_special_tokens: bool = False,
    ) -> list[str]:  # fmt: skip
        """Return the text of each of many sequences of ids, as `decode` does."""
        return [self.decode(ids, errors, skip_special_tokens) for ids in batch]

    def stream_decoder(self, errors: str = "replace", *, ids: Iterable[int] = ()) -> StreamDecoder:
        """Return a decoder for ids that come one by one. It returns whole characters only.

        `errors` is as in `decode`. `ids` come before, such as those of a prompt. If they end inside
        a character, the next ids complete it. Its methods `push(id)` and `finish()` return text.

        Examples:
            >>> tokenizer = Tokenizer.load("cl100k_base")
            >>> *prompt, last = tokenizer.encode("a 🌾")
            >>> tokenizer.stream_decoder(ids=prompt).push(last)
            '🌾'
        """
        self._check_error_handler(errors)
        return StreamDecoder(self, errors, ids)

    # The vocabulary

    @property
    def name(self) -> str:
        """The name of the embedded vocabulary, or of the file without its suffix."""
        return self._shared.name

    @property
    def pattern(self) -> str | None:
        """The pattern that splits text into pretokens; None if it is not a single pattern."""
        from tokenmill.patterns.schemes import Pattern

        stages = self._spec.stages
        if len(stages) == 1 and isinstance(stages[0].match, Pattern):
            return stages[0].match.text
        return None

    @property
    def special_tokens(self) -> Mapping[str, int]:
        """The special tokens: text → id, in a read-only mapping."""
        return MappingProxyType(self._shared.special_tokens)

    @property
    def vocab_size(self) -> int:
        """One more than the largest id, the number of rows of an embedding matrix."""
        return self._shared.vocab_size

    def id_to_token(self, id: int) -> bytes:
        """Return the bytes of one id; UnknownTokenError for an unknown id."""
        return self.decode_bytes([id])

    def token_to_id(self, token: Text) -> int:
        """Return the id of a token or special token; UnknownTokenError for an unknown one."""
        if not isinstance(token, str | bytes | bytearray | memoryview):
            raise TypeError(f"token must be bytes or a str, not {token!r}")
        raw = token.encode("utf-8", "surrogatepass") if isinstance(token, str) else bytes(token)
        found = self._core.find(raw)
        if found >= 0:
            return found
        special = self.special_tokens.get(raw.decode("utf-8", "surrogateescape"))
        if special is None:
            raise UnknownTokenError(
                f"{raw[:80]!r} is not a token of {self.name}; to split it into tokens use encode()"
            )
        return special

    def is_special(self, id: int) -> bool:
        """Return whether an id is that of a special token."""
        return id in self.special_tokens.values()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tokenizer in the format that the name of the file selects.

        `.tokenmill` contains the whole tokenizer. `tokenizer.json` (or another `.json`), or
        `vocab.json` with `merges.txt`, are for Hugging Face. `.model` is for SentencePiece.
        `.tiktoken` is a rank file, without pattern and special tokens; that of an embedded
        vocabulary equals the original.
        A folder (an existing one, or a name that ends in "/") gets `tokenizer.json` and
        `tokenizer_config.json`, for `AutoTokenizer.from_pretrained`.

        An unknown suffix, or a format that cannot represent the tokenizer, is a VocabularyError.
        Then no file is written. A file appears complete or not at all.
        """
        from tokenmill.formats.save import save

        save(path, self._spec)

    # For other packages of tokenmill

    def _tokens(self) -> dict[int, bytes]:
        """Return all tokens by id."""
        from tokenmill.formats.build import model_of

        return model_of(self._core).by_id()

    def _merges(self) -> list[Merge]:
        """Return the merges of a rank vocabulary: as learned, or else derived from the ranks."""
        from tokenmill.formats import ranks

        return ranks.merges_of(self._spec)

    @property
    def _fingerprint(self) -> str:
        """The digest of tokens, pattern and special tokens; equal tokenizers have equal digests."""
        return self._shared.fingerprint

    def _encode_spans(
        self, data: Any, spans: NDArray[np.int64], allowed_special: SpecialsChoice = False, *,
        before: bytes = b"", after: bytes = b"", narrow: bool = False, threads: int = 1,
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:  # fmt: skip
        """Return the ids of the documents at `spans` of `data`, and the end of each in the ids.

        `before` and `after` are bytes of uint32 ids that each document begins and ends with.
        """
        rows, allowed = np.ascontiguousarray(spans), self._allowed(allowed_special)
        ids, ends = self._core.encode_documents(data, rows, allowed, before, after, narrow, threads)
        return np.asarray(ids), np.asarray(ends)

    def _cut_names(self, allowed_special: bool) -> tuple[bytes, ...] | None:
        """Return the texts that a split must not cut; None if a document cannot be split."""
        from tokenmill.formats.spec import Form
        from tokenmill.patterns.schemes import scheme_of_stages

        spec = self._spec
        if spec.prefix != "never" or spec.blank or not spec.stages or spec.model.dropout:
            return None
        # After a safe split point no character is composed with one before it.
        if not all(isinstance(step, Form) for step in spec.steps):
            return None
        if not isinstance(scheme_of_stages(spec.stages, blank=spec.blank), str):
            return None
        added = [token for token in spec.added if allowed_special or not token.special]
        if any(t.lstrip or t.rstrip or t.single_word or t.normalized for t in added):
            return None
        return tuple(token.content.encode() for token in added)

    def __len__(self) -> int:
        return self.vocab_size

    def __repr__(self) -> str:
        count = len(self.special_tokens)
        tokens = f"{count} special token{'s'[: count != 1]}"
        return f"<Tokenizer {self.name!r}: vocab_size {self.vocab_size:,}, {tokens}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tokenizer):
            return NotImplemented
        return self._shared is other._shared or self._fingerprint == other._fingerprint

    def __hash__(self) -> int:
        return hash(self._fingerprint)

    def __copy__(self) -> Tokenizer:
        return self

    def __deepcopy__(self, memo: object) -> Tokenizer:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self._shared.is_embedded:
            return _rebuild, (type(self), "_load_embedded", self.name, dict(self.special_tokens))
        return _rebuild, (type(self), "_from_spec", self._spec, self.name)

    def _batch(
        self, call: Callable[..., Result], texts: Iterable[Text], allowed_special: SpecialsChoice,
        threads: int | None,
    ) -> Result:  # fmt: skip
        listed, allowed = arguments.list_texts(texts), self._allowed(allowed_special)
        count = arguments.threads_for_batch(listed, threads)
        return arguments.read_all(call, listed, allowed, count)


class _Trained(Tokenizer):
    """A trained tokenizer before its first use, which makes it a `Tokenizer`.

    With `__getattr__`, a class has slower attributes, and short calls took 18 % more instructions.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # other attributes stay errors

        def __getattr__(self, name: str) -> Any:
            """Called for `_core`, which is not set."""
            if name != "_core":
                raise AttributeError(f"'Tokenizer' object has no attribute {name!r}")
            core = self._shared.core
            object.__setattr__(self, "_core", core)
            object.__setattr__(self, "__class__", Tokenizer)
            return core

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (Tokenizer, "_of_trained", self._spec, self.name)


def _rebuild(cls: type[Tokenizer], constructor: str, *arguments: Any) -> Any:
    """Unpickle a tokenizer. cloudpickle saves a function by its name, a class method by value."""
    return getattr(cls, constructor)(*arguments)


class Ragged:
    """Ids of a batch: `ragged[i]` is `ids[offsets[i]:offsets[i + 1]]`, the ids of text i.

    `ids` is an array of uint32. `offsets` is an array of int64, with one item more than there are
    texts. Both are views of the core's memory. `pyarrow.array(ragged)` and other users of the Arrow
    PyCapsule interface get a large_list<uint32> without a copy.

    Examples:
        >>> from tokenmill import Tokenizer
        >>> ragged = Tokenizer.load("gpt2").encode_ragged(["hello world", "hi"])
        >>> len(ragged), ragged.tolist()
        (2, [[31373, 995], [5303]])
    """

    __slots__ = ("_ids_buffer", "_offsets_buffer", "ids", "offsets")

    ids: NDArray[np.uint32]
    offsets: NDArray[np.int64]

    def __init__(self, ids: _native.Buffer, offsets: _native.Buffer) -> None:
        self._ids_buffer = ids
        self._offsets_buffer = offsets
        self.ids = np.asarray(ids)
        self.offsets = np.asarray(offsets)
        # Arrow does not check the offsets, so they are read-only.
        self.offsets.flags.writeable = False

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> NDArray[np.uint32]:
        count = len(self)
        if not hasattr(index, "__index__"):
            raise TypeError(f"index must be an int, got {index!r}")
        if not -count <= index < count:
            raise IndexError(f"index {index} is out of range; there are {count} texts")
        index %= count
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def __iter__(self) -> Iterator[NDArray[np.uint32]]:
        return (self[index] for index in range(len(self)))

    def tolist(self) -> list[list[int]]:
        """Return the ids of each text as a list of int."""
        return [ids.tolist() for ids in self]

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[object, object]:
        return _native.arrow_capsules(self._ids_buffer, self._offsets_buffer)

    def __repr__(self) -> str:
        return f"<Ragged: {len(self.ids):,} ids of {len(self):,} texts>"
