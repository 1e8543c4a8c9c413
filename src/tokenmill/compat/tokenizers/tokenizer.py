"""`Tokenizer` with the interface of Hugging Face's library, on tokenmill's core.

It has the components of a tokenizer.json as objects. The pipeline that encodes is built at the
first use, and again after a component changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
import functools
import operator
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from tokenmill.compat.tokenizers import (
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from tokenmill.compat.tokenizers.components import (
    AddedToken,
    AddedTokens,
    Component,
    Kind,
    check,
    check_id,
    check_ids,
    check_items,
    check_sequence,
    dump,
    json_of,
    maybe,
    once,
    os_errors,
    tokens_of,
)
from tokenmill.compat.tokenizers.encoding import Encoding, Padding, Truncation
from tokenmill.compat.tokenizers.pipeline import Pipeline
from tokenmill.decoding import Decoder, is_byte_level
from tokenmill.errors import VocabularyError
from tokenmill.formats import detect, tokenizer_json
from tokenmill.formats.build import build
from tokenmill.formats.checks import Place
from tokenmill.formats.spec import Added, TokenizerSpec
from tokenmill.native import _native

P = ParamSpec("P")
T = TypeVar("T")
_FAMILIES: dict[str, type[Component]] = {
    "normalizer": normalizers.Normalizer,
    "pre_tokenizer": pre_tokenizers.PreTokenizer,
    "post_processor": processors.PostProcessor,
    "decoder": decoders.Decoder,
}


def _setting(name: str, kind: Kind[Any], doc: str) -> Any:
    """Return a property whose change discards the pipeline."""

    def put(tokenizer: Tokenizer, value: object) -> None:
        setattr(tokenizer, f"_{name}", check(value, kind))
        tokenizer._changes = -1

    return property(operator.attrgetter(f"_{name}"), put, doc=doc)


def _component(name: str, doc: str) -> Any:
    return _setting(name, maybe(_FAMILIES[name]), doc)


def _in_thread(method: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return a coroutine function that runs a method in another thread."""

    @functools.wraps(method)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(method, *args, **kwargs)

    return call


class Tokenizer:
    """A model and the components around it, all of which can be replaced."""

    def __init__(self, model: models.Model) -> None:
        self._model: models.Model = check(model, models.Model)
        self._normalizer: normalizers.Normalizer | None = None
        self._pre_tokenizer: pre_tokenizers.PreTokenizer | None = None
        self._post_processor: processors.PostProcessor | None = None
        self._decoder: decoders.Decoder | None = None
        self._truncation: Truncation | None = None
        self._padding: Padding | None = None
        self._added = AddedTokens()
        self._encode_special_tokens = False
        self._changes = -1  # Component.changes when the cached properties were built
        # The specification with the key of its inputs, and the core with its added tokens: they are
        # used again while their inputs stay the same.
        self._read: tuple[object, TokenizerSpec] | None = None
        self._made: tuple[tuple[Added, ...], _native.Core] | None = None

    # Reading and writing

    @staticmethod
    def from_str(json: str) -> Tokenizer:
        """Return the tokenizer of the text of a tokenizer.json.

        VocabularyError if tokenmill cannot encode exactly as the real library.
        """
        return _read(check(json, str).encode("utf-8", "surrogatepass"), "the text")

    @staticmethod
    def from_buffer(buffer: bytes) -> Tokenizer:
        """Return the tokenizer of the bytes of a tokenizer.json, as `from_str` does."""
        return _read(check(buffer, bytes), "the buffer")

    @staticmethod
    def from_file(path: str) -> Tokenizer:
        """Return the tokenizer of a file; TokenizersError if the file cannot be read."""
        with os_errors():
            data = Path(check(path, str)).read_bytes()
        return _read(data, path)

    @staticmethod
    def from_pretrained(
        identifier: str, revision: str = "main", token: str | None = None
    ) -> Tokenizer:
        """Return the tokenizer of a name in the local Hugging Face cache, without a download."""
        name = check(identifier, str)
        if not detect.is_hub_name(name if "/" in name else f"models/{name}"):
            raise VocabularyError(f"{name!r} is not a valid model name; write org/name")
        folder = detect.find_in_hub(name, check(revision, str))
        return Tokenizer.from_file(str(folder / "tokenizer.json"))

    def to_str(self, pretty: bool = False) -> str:
        """Return the text of its tokenizer.json."""
        return dump(self._document(), check(pretty, bool))

    def save(self, path: str, pretty: bool = True) -> None:
        """Write tokenizer.json to `path`; TokenizersError for an OS error."""
        text = self.to_str(pretty)
        with os_errors():
            Path(check(path, str)).write_bytes(text.encode("utf-8", "surrogatepass"))

    def _document(self) -> dict[str, Any]:
        return {
            "version": "1.0",
            "truncation": json_of(self._truncation),
            "padding": json_of(self._padding),
            "added_tokens": self._added.to_json(),
            **self._json_parts(),
            "model": self._model.to_json(),
        }

    def _json_parts(self) -> dict[str, Any]:
        return {name: json_of(getattr(self, name)) for name in _FAMILIES}

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={getattr(self, name)!r}" for name in ("model", *_FAMILIES))
        return f"Tokenizer({parts})"

    def __getstate__(self) -> bytes:
        return self.to_str().encode("utf-8", "surrogatepass")

    def __setstate__(self, state: bytes) -> None:
        vars(self).update(vars(_read(state, "the pickle")))

    def __getnewargs__(self) -> tuple[models.Model]:
        return (models.BPE(),)

    # Components

    model = _setting("model", models.Model, "The BPE model: tokens and merges.")
    normalizer = _component("normalizer", "The normalizer, or None.")
    pre_tokenizer = _component("pre_tokenizer", "The pre-tokenizer, or None.")
    post_processor = _component("post_processor", "The post-processor, or None.")
    decoder = _component("decoder", "The decoder, or None.")
    encode_special_tokens = _setting(
        "encode_special_tokens", bool, "Whether special tokens are encoded as ordinary text."
    )

    # Truncation and padding

    def enable_truncation(self, max_length: int, **kwargs: Any) -> None:
        """Truncate encodings to `max_length`, with `stride`, `strategy` and `direction`."""
        truncation = Truncation(max_length=max_length, **kwargs)
        truncation.check_stride(self.num_special_tokens_to_add(False))
        self._truncation = truncation
        self._changes = -1

    def no_truncation(self) -> None:
        """Disable truncation."""
        self._truncation = None
        self._changes = -1

    @property
    def truncation(self) -> dict[str, Any] | None:
        """The options of `enable_truncation`, or None."""
        return None if self._truncation is None else self._truncation.values()

    def enable_padding(self, **kwargs: Any) -> None:
        """Pad encodings, with `direction`, `pad_id`, `pad_token`, `length` and so on."""
        if "max_length" in kwargs:  # the old name
            kwargs["length"] = kwargs.pop("max_length")
        self._padding = Padding(**kwargs)
        self._changes = -1

    def no_padding(self) -> None:
        """Disable padding."""
        self._padding = None
        self._changes = -1

    @property
    def padding(self) -> dict[str, Any] | None:
        """The options of `enable_padding`, or None."""
        return None if self._padding is None else self._padding.values()

    # The vocabulary

    def get_vocab(self, with_added_tokens: bool = True) -> dict[str, int]:
        """Return the ids of all tokens."""
        found = dict(self._bpe()._vocab)
        return {**found, **self._added.ids} if check(with_added_tokens, bool) else found

    def get_vocab_size(self, with_added_tokens: bool = True) -> int:
        """Return the number of tokens."""
        vocabulary = self._bpe()._vocab
        if not check(with_added_tokens, bool):
            return len(vocabulary)
        return len(vocabulary) + sum(name not in vocabulary for name in self._added.ids)

    def get_added_tokens_decoder(self) -> dict[int, AddedToken]:
        """Return the added tokens by id."""
        return dict(sorted(self._added.by_id.items()))

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a token, or None."""
        found = self._added.ids.get(check(token, str))
        return self._bpe()._vocab.get(token) if found is None else found

    def id_to_token(self, id: int) -> str | None:
        """Return the token of an id, or None."""
        return self._token(check_id(id))

    def _token(self, id_: int) -> str | None:
        found = self._added.by_id.get(id_)
        if found is None:
            return self._bpe()._token_of(id_)
        if self._normalizer is None or not found.normalized:
            return found.content
        # A decoder reverts the normalizer, so its input is the normalized text.
        return self._current()._normalize(found.content)

    def _bpe(self) -> models.BPE:
        return check(self._model, models.BPE)

    def add_tokens(self, tokens: Sequence[str | AddedToken]) -> int:
        """Add tokens that are found in any text, and return the number of new ones."""
        return self._add(tokens_of(tokens, False))

    def add_special_tokens(self, tokens: Sequence[str | AddedToken]) -> int:
        """Add special tokens, which `decode` can skip, and return the number of new ones."""
        return self._add(tokens_of(tokens, True))

    def _add(self, tokens: Iterable[AddedToken]) -> int:
        vocabulary = self._bpe()._vocab
        self._changes = -1
        return self._added.add(tokens, vocabulary, len(vocabulary))

    # Encoding

    def encode(
        self,
        sequence: str | Sequence[str],
        pair: str | Sequence[str] | None = None,
        is_pretokenized: bool = False,
        add_special_tokens: bool = True,
    ) -> Encoding:
        """Return the encoding of a text or a pair, or of words if `is_pretokenized`."""
        return self._ready().encode(sequence, pair, is_pretokenized, add_special_tokens)

    def encode_batch(
        self, input: Sequence[Any], is_pretokenized: bool = False, add_special_tokens: bool = True
    ) -> list[Encoding]:
        """Return the encodings of texts and pairs."""
        return self._ready().encode_batch(input, is_pretokenized, add_special_tokens)

    def encode_batch_fast(
        self, input: Sequence[Any], is_pretokenized: bool = False, add_special_tokens: bool = True
    ) -> list[Encoding]:
        """Return encodings without tokens, offsets and words."""
        return self._ready().encode_batch(input, is_pretokenized, add_special_tokens, bare=True)

    def post_process(
        self, encoding: Encoding, pair: Encoding | None = None, add_special_tokens: bool = True
    ) -> Encoding:
        """Truncate, add special tokens and pad, as `encode` does."""
        encodings = processors.copies_of(encoding, pair)
        return self._ready().post_process(encodings, check(add_special_tokens, bool))

    def num_special_tokens_to_add(self, is_pair: bool) -> int:
        """Return the number of tokens that the post-processor adds to a text, or to a pair."""
        pair, processor = check(is_pair, bool), self._post_processor
        return 0 if processor is None else processor._added(pair)

    async_encode = _in_thread(encode)
    async_encode_batch = _in_thread(encode_batch)
    async_encode_batch_fast = _in_thread(encode_batch_fast)

    # Decoding

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of ids, by default without special tokens."""
        return self._current()._decodes(check_ids(ids), check(skip_special_tokens, bool))

    def decode_batch(
        self, sequences: Sequence[Sequence[int]], skip_special_tokens: bool = True
    ) -> list[str]:
        """Return the texts of many sequences of ids."""
        checked, skip = check_items(sequences, check_ids), check(skip_special_tokens, bool)
        return [self._current()._decodes(ids, skip) for ids in checked]

    def _decoder_now(self) -> Decoder:
        return self._current()._chain

    async_decode_batch = _in_thread(decode_batch)

    # Training

    def train(self, files: Sequence[str], trainer: trainers.Trainer | None = None) -> None:
        """Learn tokens and merges from the lines of files."""
        self._train(trainers.lines_of(check_sequence(files)), trainer)

    def train_from_iterator(
        self,
        iterator: Iterable[Any],
        trainer: trainers.Trainer | None = None,
        length: int | None = None,
    ) -> None:
        """Learn tokens and merges from texts, or from lists of them."""
        self._train(trainers.texts_of(iterator), trainer)

    def _train(self, texts: Iterable[str], trainer: trainers.Trainer | None) -> None:
        chosen = self._bpe().get_trainer() if trainer is None else trainer
        options = check(chosen, trainers.BpeTrainer)
        found = trainers.train(texts, options, self._json_parts(), list(self._added.ids))
        self._bpe()._replace(*found, options)
        self._add(options.special_tokens)

    # The pipeline and the decoder

    def _current(self) -> Tokenizer:
        """Drop everything that was built before the last change."""
        if self._changes != Component.changes:
            for name in ("_pipeline", "_decodes", "_chain", "_normalize"):
                vars(self).pop(name, None)
            self._changes = Component.changes
        return self

    def _ready(self) -> Pipeline:
        return self._current()._pipeline

    @once
    def _normalize(self) -> Callable[[str], str]:
        assert self._normalizer is not None
        return functools.cache(self._normalizer.normalize_str)

    @once
    def _chain(self) -> Decoder:
        special_tokens = {
            id_ for id_ in self._added.by_id if self._token(id_) in self._added.special_tokens
        }
        return Decoder(json_of(self._decoder), self._token, special_tokens)

    @once
    def _decodes(self) -> Callable[[list[int], bool], str]:
        chain, core = self._chain, self._joining_core()
        special_tokens = chain.special_tokens

        def decode(ids: list[int], skip_special_tokens: bool) -> str:
            if core is not None:
                kept = ids
                if skip_special_tokens and not special_tokens.isdisjoint(ids):
                    kept = [id_ for id_ in ids if id_ not in special_tokens]
                with contextlib.suppress(KeyError):  # an unknown id, which the chain skips
                    return core.decode(kept).decode("utf-8", "replace")
            return chain.decode(check_ids(ids), skip_special_tokens)

        return decode

    def _joining_core(self) -> _native.Core | None:
        """Return the core if it decodes like the decoder, or None."""
        if not isinstance(self._decoder, decoders.ByteLevel):
            return None
        try:
            core, added = self._pipeline.core, self._added.spec()
        except Exception:  # whatever encoding lacks, the decoder does not need it
            return None
        assert self._read is not None
        spec = dataclasses.replace(self._read[1], added=added, decoder=json_of(self._decoder))
        return core if is_byte_level(spec) else None

    @once
    def _pipeline(self) -> Pipeline:
        added = self._added.spec()
        names = sorted(added, key=lambda token: token.content.encode())
        drop, normalizer = self._encode_special_tokens, self._normalizer
        return Pipeline(
            core=self._core_with(added),
            allowed=bytes(2 if drop and token.special else 1 for token in names),
            processor=processors.PostProcessor.read(json_of(self._post_processor)),
            truncation=self._truncation,
            padding=self._padding,
            name_of=functools.cache(lambda id_: self._token(id_) or ""),
            cuts={token.id: token.content for token in added if not token.normalized},
            taken={
                token.id: (token.normalized, token.content)
                for token in added
                if token.lstrip or token.rstrip or (token.normalized and normalizer is not None)
            },
            normalizer=copy.copy(normalizer),
            is_random=bool(self._bpe().dropout),
        )

    def _core_with(self, added: tuple[Added, ...]) -> _native.Core:
        """Return the core, built from the last specification if that is still valid."""
        key = self._key()
        pre_tokenizer = json_of(self._pre_tokenizer)
        if self._read is None or self._read[0] != key:
            # Only these are read: encoding works with an unsupported post-processor or decoder.
            document = {
                "version": "1.0",
                "normalizer": json_of(self._normalizer),
                "pre_tokenizer": pre_tokenizer,
                "model": self._model.to_json(),
            }
            spec = tokenizer_json.read(dump(document).encode(), "this tokenizer")
            self._read, self._made = (key, spec), None
        if self._made is None or self._made[0] != added:
            spec, place = self._read[1], Place("this tokenizer")
            tokenizer_json.check_normalized(added, spec.blank, spec.steps, pre_tokenizer, place)
            self._made = added, build(dataclasses.replace(spec, added=added))
        return self._made[1]

    def _key(self) -> tuple[object, ...]:
        """Return the inputs of the specification."""
        model, parts = self._bpe(), self._json_parts()
        split = dump([parts["normalizer"], parts["pre_tokenizer"]])
        return id(model), model._version, dump(model._options()), split


def _read(data: bytes, source: str) -> Tokenizer:
    """Return the tokenizer of a file; VocabularyError if it cannot be exact."""
    spec = tokenizer_json.read(data, source)
    sections = {**spec.extra, "decoder": spec.decoder}
    made = Tokenizer(models.BPE._of_file(sections["model"], spec))
    for name, family in _FAMILIES.items():
        setattr(made, name, family.read(sections.get(name)))
    made._truncation = maybe(Truncation.from_data)(sections.get("truncation"))
    made._padding = maybe(Padding.from_data)(sections.get("padding"))
    made._added = AddedTokens({token.id: token for token in spec.added})
    made._read = (made._key(), spec)
    return made
