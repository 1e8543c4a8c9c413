"""Text ↔ ids: the public face of a tokenizer. Each method checks, makes one native call, wraps."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tokenmill import arguments, decoding, file_blocks, loading
from tokenmill.decoding import Decoder
from tokenmill.errors import UnknownIdError, VocabularyError
from tokenmill.formats import Merge, find_merges, own, save_parts
from tokenmill.formats.parts import Parts
from tokenmill.formats.spelling import spellings_of
from tokenmill.loading import Loaded
from tokenmill.native import _native
from tokenmill.ragged import Ragged
from tokenmill.session import Session
from tokenmill.stream_decoder import ChainStreamDecoder, StreamDecoder

Text: TypeAlias = str | bytes | bytearray | memoryview
Path_: TypeAlias = "str | os.PathLike[str]"
AnyText = TypeVar("AnyText", str, bytes)
SpecialsChoice: TypeAlias = bool | Collection[str]


class Tokenizer:
    """A BPE tokenizer: immutable, so threads and forked processes share it freely.

    A text is a str or anything with a buffer of bytes, which need not be UTF-8. `specials` says
    which specials are found in it: False for none, True for all, a set of names for those; a name
    that is none is an UnknownSpecialError. `threads` is how many to use; None is all processors,
    where there is enough to do. What is no text, or no number, is a TypeError or ValueError.

    Examples:
        >>> tokenizer = Tokenizer.load("o200k_base")
        >>> tokenizer.encode("hello world")
        [24912, 2375]
        >>> tokenizer.decode([24912, 2375])
        'hello world'
        >>> tokenizer
        <Tokenizer 'o200k_base': vocab_size 200,019, 2 specials>
    """

    __slots__ = ("_always", "_core", "_later", "_loaded", "_specials")

    _core: _native.Core
    _specials: Mapping[str, int]
    _always: frozenset[str]
    _loaded: Loaded
    _later: dict[str, Any]  # what is made when it is first asked for

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError('use Tokenizer.load("o200k_base") or Tokenizer.load(path, pattern=…)')

    @classmethod
    def load(
        cls, source: str | os.PathLike[str] | Any, *, pattern: str | None = None,
        specials: Mapping[str, int] | None = None,
    ) -> Tokenizer:  # fmt: skip
        """Loads a tokenizer, whatever it comes in.

        `source` is the name of an embedded vocabulary or of an OpenAI model; a file
        (tokenizer.json, .model of SentencePiece, tekken.json, GGUF, vocab.json with merges.txt, a
        rank file of tiktoken, .tokenmill); a folder as transformers saves it; "org/name" for one
        in the local cache of the Hugging Face hub; or a tokenizer of tiktoken, tokenizers,
        transformers or of ours, whose vocabulary the new one shares, as all that are loaded under
        one embedded name do. What cannot be done exactly is a VocabularyError that names it.

        Rank files and vocab.json do not say how text is cut: `pattern` is a regular expression or
        the name of a scheme such as "cl100k"; one that cannot be run exactly is a PatternError.
        `specials` maps names to ids and adds to those that are there.
        """
        return cls._wrap(loading.load(source, pattern, specials))

    @classmethod
    def _from_parts(cls, parts: Parts, name: str) -> Tokenizer:
        return cls._wrap(loading.from_parts(parts, name))

    @classmethod
    def _from_arrays(cls, *arguments_: Any) -> Tokenizer:
        return cls._wrap(loading.from_arrays(*arguments_))

    @classmethod
    def _load_embedded(cls, name: str, specials: Mapping[str, int]) -> Tokenizer:
        return cls._wrap(loading.load_embedded(name, specials))

    @classmethod
    def _wrap(cls, loaded: Loaded) -> Tokenizer:
        self = object.__new__(cls)
        put = object.__setattr__
        put(self, "_core", loaded.core)
        put(self, "_specials", loaded.specials)
        put(self, "_always", loaded.always)
        put(self, "_loaded", loaded)
        put(self, "_later", {})
        return self

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Tokenizer cannot be changed: {name!r} stays as it is")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Tokenizer cannot be changed: {name!r} stays as it is")

    # Encoding

    def encode(self, text: Text, *, specials: SpecialsChoice = False) -> list[int]:
        """The ids of a text. A vocabulary that lacks one of its bytes is a MissingByteError.

        Examples:
            >>> tokenizer = Tokenizer.load("gpt2")
            >>> tokenizer.encode("hi<|endoftext|>")
            [5303, 27, 91, 437, 1659, 5239, 91, 29]
            >>> tokenizer.encode("hi<|endoftext|>", specials=True)
            [5303, 50256]
        """
        # Nothing is checked where nothing is asked for: this is what short messages call.
        allowed = None if specials is False else self._allowed(specials)
        try:
            return self._core.encode(text, allowed)
        except (ValueError, TypeError, BufferError) as error:
            return self._core.encode(arguments.repair(text, error), allowed)

    def encode_array(
        self, text: Text, *, specials: SpecialsChoice = False, dtype: DTypeLike = np.uint32,
        threads: int | None = None,
    ) -> NDArray[Any]:  # fmt: skip
        """The ids of a text as a numpy array of uint32, or of uint16 where all ids fit.

        A text of a megabyte or more uses all processors unless `threads` says how many. A `dtype`
        that cannot hold every id is a ValueError.
        """
        narrow = dtype is not np.uint32 and self._is_narrow(dtype)
        allowed = None if specials is False else self._allowed(specials)
        count = arguments.threads_for(text, threads)
        try:  # spelled out for short messages, as in `encode`
            ids = self._core.encode_buffer(text, allowed, narrow, count)
        except (ValueError, TypeError, BufferError) as error:
            ids = self._core.encode_buffer(arguments.repair(text, error), allowed, narrow, count)
        return np.asarray(ids)

    def _allowed(self, specials: SpecialsChoice) -> bytes | None:
        return arguments.allowed_specials(specials, self._specials, self._always)

    def _is_narrow(self, dtype: DTypeLike) -> bool:
        wanted = np.dtype(dtype)
        if wanted not in (np.dtype(np.uint32), np.dtype(np.uint16)):
            raise ValueError(f"dtype must be numpy.uint32 or numpy.uint16, not {wanted}")
        narrow = wanted == np.dtype(np.uint16)
        if narrow and self.vocab_size > 1 << 16:
            raise ValueError(
                f"the ids of {self.name} go up to {self.vocab_size - 1:,} and do not fit uint16; "
                "use dtype=numpy.uint32"
            )
        return narrow

    def encode_batch(
        self, texts: Iterable[Text], *, specials: SpecialsChoice = False,
        threads: int | None = None,
    ) -> list[list[int]]:  # fmt: skip
        """The ids of many texts, a list for each."""
        return arguments.read_all(self._core.encode_batch, *self._batch(texts, specials, threads))

    def encode_ragged(
        self, texts: Iterable[Text], *, specials: SpecialsChoice = False,
        threads: int | None = None,
    ) -> Ragged:  # fmt: skip
        """The ids of many texts in one numpy array, with the offsets that cut it.

        Examples:
            >>> ragged = Tokenizer.load("gpt2").encode_ragged(["hello world", "hi"])
            >>> ragged.offsets.tolist(), ragged[1].tolist()
            ([0, 2, 3], [5303])
        """
        batch = self._batch(texts, specials, threads)
        return Ragged(*arguments.read_all(self._core.encode_ragged, *batch))

    @overload
    def encode_files(
        self, paths: Path_ | Iterable[Path_], *, separator: str | bytes | None = ...,
        specials: SpecialsChoice = ..., threads: int | None = ..., memory: int = ...,
        callback: None = ...,
    ) -> Ragged: ...  # fmt: skip
    @overload
    def encode_files(
        self, paths: Path_ | Iterable[Path_], *, separator: str | bytes | None = ...,
        specials: SpecialsChoice = ..., threads: int | None = ..., memory: int = ...,
        callback: Callable[[Ragged], object],
    ) -> int: ...  # fmt: skip
    def encode_files(
        self, paths: Path_ | Iterable[Path_], *, separator: str | bytes | None = "\n",
        specials: SpecialsChoice = False, threads: int | None = None, memory: int = 512_000_000,
        callback: Callable[[Ragged], object] | None = None,
    ) -> Ragged | int:  # fmt: skip
        """The ids of the documents in files, which never become Python objects.

        A document ends at `separator`, which is not a part of it, and at the end of its file; with
        None each file is one. The bytes are taken as they are. Returns the ids of all documents;
        or hands them to `callback` block by block, in order, within about `memory` bytes, and
        returns how many documents there were. A file that cannot be read is an OSError.
        """
        cut = arguments.separator(separator)
        block_bytes = file_blocks.block_bytes(memory)
        allowed = self._allowed(specials)
        count = arguments.thread_count(threads)
        documents = 0
        gathered: list[tuple[_native.Buffer, _native.Buffer]] = []
        for blocks in file_blocks.open_all(paths, block_bytes, whole=not cut):
            for block, is_last in blocks:
                pair, used = self._core.encode_split(block, cut, is_last, allowed, count)
                blocks.use(used)
                if callback is None:
                    gathered.append(pair)
                    continue
                ragged = Ragged(*pair)
                documents += len(ragged)
                callback(ragged)
        if callback is not None:
            return documents
        return Ragged(*_native.join([ids for ids, _ in gathered], [at for _, at in gathered]))

    def encode_with_offsets(
        self, text: Text, *, specials: SpecialsChoice = False
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """The ids of a text and the span (start, end) that each one covers.

        Spans count characters of a str, where a token that holds a part of a character covers
        that whole character, and bytes of anything else.

        Examples:
            >>> Tokenizer.load("gpt2").encode_with_offsets("naïve mill")
            ([2616, 38776, 3939], [(0, 2), (2, 5), (5, 10)])
        """
        allowed = self._allowed(specials)
        try:
            return self._core.encode_with_offsets(text, allowed)
        except (ValueError, TypeError, BufferError) as error:
            ids, spans = self._core.encode_with_offsets(arguments.repair(text, error), allowed)
            starts = arguments.repaired_starts(text)
            return ids, [(starts[start], starts[end]) for start, end in spans]

    def encode_array_with_offsets(
        self, text: Text, *, specials: SpecialsChoice = False, threads: int | None = None
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """`encode_with_offsets` as arrays: ids, and a row with start and end for each of them."""
        allowed, count = self._allowed(specials), arguments.threads_for(text, threads)
        try:
            found = self._core.encode_spans(text, allowed, count)
        except (ValueError, TypeError, BufferError) as error:
            found = self._core.encode_spans(arguments.repair(text, error), allowed, count)
            starts = np.array(arguments.repaired_starts(text), np.uint32)
            return np.asarray(found[0]), starts[np.asarray(found[1]).reshape(-1, 2)]
        return np.asarray(found[0]), np.asarray(found[1]).reshape(-1, 2)

    def count(
        self, text: Text, *, specials: SpecialsChoice = False, threads: int | None = None
    ) -> int:
        """How many ids `encode` would give; a long text is counted as `encode_array` encodes it."""
        allowed = None if specials is False else self._allowed(specials)
        count = arguments.threads_for(text, threads)
        return arguments.read(self._core.count, text, allowed, count)

    def count_batch(
        self, texts: Iterable[Text], *, specials: SpecialsChoice = False,
        threads: int | None = None,
    ) -> list[int]:  # fmt: skip
        """How many ids each of many texts has."""
        return arguments.read_all(self._core.count_batch, *self._batch(texts, specials, threads))

    def truncate(
        self, text: AnyText, max_tokens: int, side: Literal["left", "right"] = "right"
    ) -> AnyText:
        """The longest part of a text, str or bytes, that takes at most `max_tokens` tokens.

        `side` is where the text is cut: "right" keeps the longest prefix, "left" the longest
        suffix, on a character boundary. What is cut off is not encoded.

        Examples:
            >>> Tokenizer.load("gpt2").truncate("a very long text", 3, side="left")
            ' very long text'
        """
        if side not in ("left", "right"):
            raise ValueError(f'side is where to cut, "left" or "right", not {side!r}')
        limit = min(arguments.whole_number(max_tokens, "max_tokens", 0), 1 << 62)
        kept: AnyText = arguments.read(self._core.truncate, text, limit, side == "left")
        return kept

    @overload
    def session(self, text: str = "", *, specials: SpecialsChoice = False) -> Session[str]: ...
    @overload
    def session(
        self, text: bytes | bytearray | memoryview, *, specials: SpecialsChoice = False
    ) -> Session[bytes]: ...
    def session(self, text: Text = "", *, specials: SpecialsChoice = False) -> Session[Any]:
        """A text that grows or changes at its end, such as a chat, with its ids at any time.

        What did not change is not encoded again. The session is one of str or one of bytes, as
        its first text is.
        """
        return Session(self, text, specials)

    # Decoding

    def decode(self, ids: Iterable[int], errors: str = "replace") -> str:
        """The text of ids: a list, an array or any iterable of int.

        Bytes that are not UTF-8 are handled as `bytes.decode` does with `errors`. A tokenizer with
        a decoder of its own (tokenizer.json, .model) decodes as it says, which may drop a blank at
        the start. An id that the vocabulary lacks is an UnknownIdError, which is a KeyError.
        """
        handler = arguments.error_handler(errors)
        if self._decodes_bytes:
            return self.decode_bytes(ids).decode("utf-8", handler)
        arguments.refuse_errors(errors, self.name)
        listed = arguments.list_ids(ids)
        numbers = listed if isinstance(listed, list) else listed.tolist()
        arguments.decode(self._core, numbers)  # which names one that is none
        return self._decoder.decode(numbers, skip_special_tokens=False)

    @property
    def _decodes_bytes(self) -> bool:
        """Whether text is the bytes of the ids, end to end."""
        head = self._loaded.head
        if head is None:
            return True
        if "bytes" not in self._later:
            self._later["bytes"] = decoding.is_byte_level(head)
        return bool(self._later["bytes"])

    @property
    def _decoder(self) -> Decoder:
        parts = self.parts
        assert parts is not None
        if "decoder" not in self._later:
            self._later["decoder"] = Decoder(parts.decoder, spellings_of(parts).get, set())
        found: Decoder = self._later["decoder"]
        return found

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes of ids, end to end. An id that there is not is an UnknownIdError."""
        return arguments.decode(self._core, ids)

    def decode_batch(self, batch: Iterable[Iterable[int]], errors: str = "replace") -> list[str]:
        """The texts of many sequences of ids, each as `decode` gives it."""
        return [self.decode(ids, errors) for ids in batch]

    def stream_decoder(self, errors: str = "replace") -> StreamDecoder | ChainStreamDecoder:
        """A decoder for ids that come one by one, which never gives half a character.

        `errors` is as in `decode`. It has `push(id)` and `finish()`, both of which return text.
        """
        handler = arguments.error_handler(errors)
        if self._decodes_bytes:
            return StreamDecoder(self._core, handler)
        arguments.refuse_errors(errors, self.name)
        return ChainStreamDecoder(self)

    # The vocabulary

    @property
    def name(self) -> str:
        """The name of the embedded vocabulary, or that of the file without its suffix."""
        return self._loaded.name

    @property
    def pattern(self) -> str | None:
        """The regular expression that cuts text into pretokens; None if it is not one alone."""
        return self._loaded.pattern

    @property
    def specials(self) -> Mapping[str, int]:
        """The specials: name → id. The mapping cannot be changed."""
        return self._specials

    @property
    def parts(self) -> Parts | None:
        """All that its file says, for a tokenizer whose ids are not simply ranks; else None."""
        if self._loaded.parts is not None and "parts" not in self._later:
            self._later["parts"] = self._loaded.parts()
        return self._later.get("parts")

    @property
    def vocab_size(self) -> int:
        """One more than the largest id: the rows that an embedding matrix needs."""
        return max(self._core.ids_end(), max(self._specials.values(), default=-1) + 1)

    def id_to_bytes(self, id: int) -> bytes:
        """The bytes of one id; a special's are its name's. An UnknownIdError if there is none."""
        return self.decode_bytes([id])

    def bytes_to_id(self, token: Text) -> int:
        """The id of a token, or of a special by its name. An UnknownIdError if there is none."""
        if not isinstance(token, str | bytes | bytearray | memoryview):
            raise TypeError(f"a token is bytes or a str, not {token!r}")
        raw = token.encode("utf-8", "surrogatepass") if isinstance(token, str) else bytes(token)
        found = self._core.find(raw)
        if found >= 0:
            return found
        special = self._specials.get(raw.decode("utf-8", "surrogateescape"))
        if special is None:
            raise UnknownIdError(
                f"{raw[:80]!r} is not a token of {self._loaded.name}; encode() splits it"
            )
        return special

    def is_special(self, id: int) -> bool:
        """Whether an id is a special's."""
        return id in self._specials.values()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the tokenizer in the format that the name of the file says.

        `.tokenmill` holds all of it; `tokenizer.json` (or another `.json`) is for Hugging Face, and
        so are `vocab.json` and `merges.txt`, which are written together; `.model` is for
        SentencePiece; any other name is a tiktoken rank file, without pattern and specials, and of
        an embedded vocabulary exactly the original. A format that would lose something is a
        VocabularyError, and nothing is written. A file appears whole or not at all.
        """
        parts = loading.ranked_parts(self._loaded) if self.parts is None else self.parts
        save_parts(Path(path), parts)

    def _tokens(self) -> dict[int, bytes]:
        """The tokens by id, of a vocabulary whose ids are ranks."""
        if self._loaded.pattern is None or self._loaded.head is not None:
            raise VocabularyError(
                f"{self.name} is not made of ranks and one pattern alone, as a vocabulary has to "
                "be that is learned further"
            )
        return arguments.tokens_of(self._core)

    def _merges(self) -> list[Merge]:
        """The merges that make them: as they were learned, or else found."""
        learned = self._loaded.learned
        return find_merges(self._tokens()) if learned is None else list(learned)

    def __len__(self) -> int:
        return self.vocab_size

    def __repr__(self) -> str:
        specials = f"{len(self._specials)} special{'s'[: len(self._specials) != 1]}"
        return f"<Tokenizer {self._loaded.name!r}: vocab_size {self.vocab_size:,}, {specials}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tokenizer):
            return NotImplemented
        return self._loaded is other._loaded or self._digest() == other._digest()

    def __hash__(self) -> int:
        return hash(self._digest())

    def _digest(self) -> bytes:
        """What makes two tokenizers equal: tokens, pattern and specials, not the name."""
        if "digest" not in self._later:
            tokens, ends = self._core.tokens()
            more = (self._loaded.pattern, sorted(self._specials.items()), self._core.empty_id())
            rest = repr(more).encode()
            if self.parts is not None:
                rest = own.write_bare(replace(self.parts, extra={}))
            self._later["digest"] = hashlib.sha256(tokens + bytes(ends) + rest).digest()
        found: bytes = self._later["digest"]
        return found

    def __copy__(self) -> Tokenizer:
        return self

    def __deepcopy__(self, memo: object) -> Tokenizer:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        specials = dict(self._specials)
        if self.parts is not None:
            return type(self)._from_parts, (self.parts, self._loaded.name)
        if self._loaded.is_embedded:
            return type(self)._load_embedded, (self._loaded.name, specials)
        tokens = {token: id_ for id_, token in arguments.tokens_of(self._core).items()}
        arrays = arguments.token_arrays(tokens, self._loaded.name)
        more = (self._loaded.learned, self._loaded.provenance)
        given = (arrays, self._loaded.pattern, specials, self._loaded.name, *more)
        return type(self)._from_arrays, given

    def _batch(
        self, texts: Iterable[Text], specials: SpecialsChoice, threads: int | None
    ) -> tuple[list[Any], bytes | None, int]:
        listed = arguments.list_texts(texts)
        return listed, self._allowed(specials), arguments.thread_count(threads)
