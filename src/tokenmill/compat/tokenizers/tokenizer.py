"""`Tokenizer` with the interface of Hugging Face's library, on tokenmill's core.

It has the components of a tokenizer.json as objects. The pipeline that encodes is built at the
first use, and again after a component changed.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.compat.tokenizers import (
    cutting,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
    training,
)
from tokenmill.compat.tokenizers.components import (
    AddedToken,
    AddedTokens,
    Component,
    check_flag,
    check_ids,
    check_instance,
    check_sequence,
    check_text,
    check_unsigned,
    dump,
    json_of,
    tokens_of,
)
from tokenmill.compat.tokenizers.encoding import Encoding, Padding, Truncation
from tokenmill.compat.tokenizers.pipeline import Input, Names, Pair, Pipeline
from tokenmill.decoding import Decoder
from tokenmill.errors import TokenizersError, VocabularyError
from tokenmill.formats import detect, tokenizer_json
from tokenmill.formats.build import build
from tokenmill.formats.checks import Place
from tokenmill.formats.names import names_of
from tokenmill.formats.spec import Added, TokenizerSpec
from tokenmill.native import _native

_FAMILIES: dict[str, type[Component]] = {
    "normalizer": normalizers.Normalizer,
    "pre_tokenizer": pre_tokenizers.PreTokenizer,
    "post_processor": processors.PostProcessor,
    "decoder": decoders.Decoder,
}

# Programs match these texts of the real library.
_TEXT = "TextInputSequence must be str"
_WORDS = "PreTokenizedInputSequence must be Union[List[str], Tuple[str]]"


def _component(name: str, doc: str) -> property:
    def put(tokenizer: Tokenizer, part: object) -> None:
        tokenizer._parts[name] = None if part is None else check_instance(part, _FAMILIES[name])
        tokenizer._changes = -1

    return property(lambda tokenizer: tokenizer._parts[name], put, doc=doc)


class Tokenizer:
    """A model and the components around it, all of which can be replaced."""

    def __init__(self, model: models.Model) -> None:
        self._model: models.Model = check_instance(model, models.Model)
        self._parts: dict[str, Component | None] = dict.fromkeys(_FAMILIES)
        self._truncation: Truncation | None = None
        self._padding: Padding | None = None
        self._added = AddedTokens()
        self._encode_special_tokens = False
        # Built at the first use, and dropped after a change.
        self._pipeline: Pipeline | None = None
        self._decoder: Decoder | None = None
        self._normal: dict[int, str] = {}  # id → normalized text of an added token
        self._changes = -1  # Component.changes when they were built
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
        return _read(check_text(json).encode("utf-8", "surrogatepass"), "the text")

    @staticmethod
    def from_buffer(buffer: bytes) -> Tokenizer:
        """Return the tokenizer of the bytes of a tokenizer.json; ValueError as in `from_str`."""
        data = check_instance(buffer, bytes)
        try:
            return _read(data, "the buffer")
        except VocabularyError as error:
            raise ValueError(f"cannot read the tokenizer: {error}") from None

    @staticmethod
    def from_file(path: str) -> Tokenizer:
        """Return the tokenizer of a file; TokenizersError if the file cannot be read."""
        try:
            data = Path(check_text(path)).read_bytes()
        except OSError as error:
            raise TokenizersError(models.os_error_text(error)) from None
        return _read(data, path)

    @staticmethod
    def from_pretrained(
        identifier: str, revision: str = "main", token: str | None = None
    ) -> Tokenizer:
        """Return the tokenizer of a name in the local Hugging Face cache, without a download."""
        path = _find_pretrained(check_text(identifier), check_text(revision))
        return Tokenizer.from_file(path)

    def to_str(self, pretty: bool = False) -> str:
        """Return the text of its tokenizer.json."""
        return dump(self._document(), check_flag(pretty))

    def save(self, path: str, pretty: bool = True) -> None:
        """Write tokenizer.json to `path`; TokenizersError for an OS error."""
        text = self.to_str(pretty)
        try:
            Path(check_text(path)).write_bytes(text.encode("utf-8", "surrogatepass"))
        except OSError as error:
            raise TokenizersError(models.os_error_text(error)) from None

    def _document(self) -> dict[str, Any]:
        truncation, padding = self._truncation, self._padding
        return {
            "version": "1.0",
            "truncation": None if truncation is None else truncation.to_json(),
            "padding": None if padding is None else padding.to_json(),
            "added_tokens": self._added.to_json(),
            **self._json_parts(),
            "model": self._model.to_json(),
        }

    def _json_parts(self) -> dict[str, Any]:
        return {name: json_of(part) for name, part in self._parts.items()}

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={part!r}" for name, part in self._parts.items())
        return f"Tokenizer(model={self._model!r}, {parts})"

    def __getstate__(self) -> bytes:
        return self.to_str().encode("utf-8", "surrogatepass")

    def __setstate__(self, state: bytes) -> None:
        vars(self).update(vars(_read(state, "the pickle")))

    def __getnewargs__(self) -> tuple[models.Model]:
        return (models.BPE(),)

    # Components

    normalizer = _component("normalizer", "The normalizer, or None.")
    pre_tokenizer = _component("pre_tokenizer", "The pre-tokenizer, or None.")
    post_processor = _component("post_processor", "The post-processor, or None.")
    decoder = _component("decoder", "The decoder, or None.")

    @property
    def model(self) -> Any:
        """The BPE model: tokens and merges."""
        return self._model

    @model.setter
    def model(self, model: models.Model) -> None:
        self._model = check_instance(model, models.Model)
        self._changes = -1

    @property
    def encode_special_tokens(self) -> bool:
        """Whether special tokens in a text are encoded as ordinary text."""
        return self._encode_special_tokens

    @encode_special_tokens.setter
    def encode_special_tokens(self, value: bool) -> None:
        self._encode_special_tokens = check_flag(value)
        self._changes = -1

    # Truncation and padding

    def enable_truncation(self, max_length: int, **kwargs: Any) -> None:
        """Truncate encodings to `max_length`, with `stride`, `strategy` and `direction`."""
        truncation = Truncation.of(max_length, kwargs)
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
        return None if self._truncation is None else dataclasses.asdict(self._truncation)

    def enable_padding(self, **kwargs: Any) -> None:
        """Pad encodings, with `direction`, `pad_id`, `pad_token`, `length` and so on."""
        self._padding = Padding.of(kwargs)
        self._changes = -1

    def no_padding(self) -> None:
        """Disable padding."""
        self._padding = None
        self._changes = -1

    @property
    def padding(self) -> dict[str, Any] | None:
        """The options of `enable_padding`, or None."""
        return None if self._padding is None else dataclasses.asdict(self._padding)

    # The vocabulary

    def get_vocab(self, with_added_tokens: bool = True) -> dict[str, int]:
        """Return the ids of all tokens."""
        found = dict(self._bpe()._vocab)
        return {**found, **self._added.ids} if check_flag(with_added_tokens) else found

    def get_vocab_size(self, with_added_tokens: bool = True) -> int:
        """Return the number of tokens."""
        vocabulary = self._bpe()._vocab
        if not check_flag(with_added_tokens):
            return len(vocabulary)
        return len(vocabulary) + sum(name not in vocabulary for name in self._added.ids)

    def get_added_tokens_decoder(self) -> dict[int, AddedToken]:
        """Return the added tokens by id."""
        return dict(sorted(self._added.by_id.items()))

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a token, or None."""
        found = self._added.ids.get(check_text(token))
        return self._bpe()._vocab.get(token) if found is None else found

    def id_to_token(self, id: int) -> str | None:
        """Return the token of an id, or None."""
        return self._token(check_unsigned(id, 32))

    def _token(self, id_: int) -> str | None:
        found = self._added.by_id.get(id_)
        if found is None:
            return self._bpe()._token_map().get(id_)
        normalizer = self._parts["normalizer"]
        if normalizer is None or not found.normalized:
            return found.content
        # A decoder reverts the normalizer, so its input is the normalized text.
        self._drop_old()
        if id_ not in self._normal:
            self._normal[id_] = cutting.normalize(normalizer.to_json(), found.content)
        return self._normal[id_]

    def _bpe(self) -> models.BPE:
        return check_instance(self._model, models.BPE)

    def add_tokens(self, tokens: Sequence[str | AddedToken]) -> int:
        """Add tokens that are found in any text, and return the number of new ones."""
        return self._add(tokens_of(tokens, False))

    def add_special_tokens(self, tokens: Sequence[str | AddedToken]) -> int:
        """Add special tokens, which `decode` can skip, and return the number of new ones."""
        return self._add(tokens_of(tokens, True))

    def _add(self, tokens: Iterable[AddedToken]) -> int:
        model = self._bpe()
        self._changes = -1
        return self._added.add(
            tokens, lambda name: model._vocab.get(name), lambda: len(model._vocab)
        )

    # Encoding

    def encode(
        self,
        sequence: str | Sequence[str],
        pair: str | Sequence[str] | None = None,
        is_pretokenized: bool = False,
        add_special_tokens: bool = True,
    ) -> Encoding:
        """Return the encoding of a text or a pair, or of words if `is_pretokenized`."""
        return encode(self._ready(), sequence, pair, is_pretokenized, add_special_tokens)

    def encode_batch(
        self, input: Sequence[Any], is_pretokenized: bool = False, add_special_tokens: bool = True
    ) -> list[Encoding]:
        """Return the encodings of texts and pairs."""
        return encode_batch(self._ready(), input, is_pretokenized, add_special_tokens)

    def encode_batch_fast(
        self, input: Sequence[Any], is_pretokenized: bool = False, add_special_tokens: bool = True
    ) -> list[Encoding]:
        """Return encodings without tokens, offsets and words."""
        return encode_batch(self._ready(), input, is_pretokenized, add_special_tokens, bare=True)

    def post_process(
        self, encoding: Encoding, pair: Encoding | None = None, add_special_tokens: bool = True
    ) -> Encoding:
        """Truncate, add special tokens and pad, as `encode` does."""
        first = check_instance(encoding, Encoding)._copy()
        second = None if pair is None else check_instance(pair, Encoding)._copy()
        return self._ready().post_process(first, second, check_flag(add_special_tokens))

    def num_special_tokens_to_add(self, is_pair: bool) -> int:
        """Return the number of tokens that the post-processor adds to a text, or to a pair."""
        processor = self._parts["post_processor"]
        pair = check_flag(is_pair)
        return processor._added(pair) if isinstance(processor, processors.PostProcessor) else 0

    async def async_encode(self, *args: Any, **kwargs: Any) -> Encoding:
        """Run `encode` in another thread."""
        return await asyncio.to_thread(self.encode, *args, **kwargs)

    async def async_encode_batch(self, *args: Any, **kwargs: Any) -> list[Encoding]:
        """Run `encode_batch` in another thread."""
        return await asyncio.to_thread(self.encode_batch, *args, **kwargs)

    async def async_encode_batch_fast(self, *args: Any, **kwargs: Any) -> list[Encoding]:
        """Run `encode_batch_fast` in another thread."""
        return await asyncio.to_thread(self.encode_batch_fast, *args, **kwargs)

    # Decoding

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of ids, by default without special tokens."""
        return self._decodes().decode(check_ids(ids), check_flag(skip_special_tokens))

    def decode_batch(
        self, sequences: Sequence[Sequence[int]], skip_special_tokens: bool = True
    ) -> list[str]:
        """Return the texts of many sequences of ids."""
        checked = [check_ids(ids) for ids in check_sequence(sequences)]
        return [self._decodes().decode(ids, check_flag(skip_special_tokens)) for ids in checked]

    async def async_decode_batch(self, *args: Any, **kwargs: Any) -> list[str]:
        """Run `decode_batch` in another thread."""
        return await asyncio.to_thread(self.decode_batch, *args, **kwargs)

    # Training

    def train(self, files: Sequence[str], trainer: trainers.Trainer | None = None) -> None:
        """Learn tokens and merges from the lines of files."""
        self._train(training.lines_of(check_sequence(files)), trainer)

    def train_from_iterator(
        self,
        iterator: Iterable[Any],
        trainer: trainers.Trainer | None = None,
        length: int | None = None,
    ) -> None:
        """Learn tokens and merges from texts, or from lists of them."""
        self._train(training.texts_of(iterator), trainer)

    def _train(self, texts: Iterable[str], trainer: trainers.Trainer | None) -> None:
        chosen = self._bpe().get_trainer() if trainer is None else trainer
        options = check_instance(chosen, trainers.BpeTrainer)
        found = training.train(texts, options, self._json_parts(), list(self._added.ids))
        self._bpe()._replace(*found, options)
        self._add(options.special_tokens)

    # The pipeline and the decoder

    def _drop_old(self) -> None:
        """Drop everything that was built before the last change."""
        if self._changes != Component.changes:
            self._pipeline, self._decoder, self._normal = None, None, {}
            self._changes = Component.changes

    def _decodes(self) -> Decoder:
        self._drop_old()
        if self._decoder is None:
            special_tokens = {
                id_ for id_ in self._added.by_id if self._token(id_) in self._added.special_tokens
            }
            self._decoder = Decoder(json_of(self._parts["decoder"]), self._token, special_tokens)
        return self._decoder

    def _ready(self) -> Pipeline:
        self._drop_old()
        if self._pipeline is None:
            self._pipeline = self._make()
        return self._pipeline

    def _make(self) -> Pipeline:
        added = self._added.spec()
        names = sorted(added, key=lambda token: token.content.encode())
        drop = self._encode_special_tokens
        processor, normalizer = self._parts["post_processor"], self._parts["normalizer"]
        return Pipeline(
            core=self._core_with(added),
            allowed=bytes(2 if drop and token.special else 1 for token in names),
            processor=processors.PostProcessor.read(json_of(processor)),
            truncation=self._truncation,
            padding=self._padding,
            names=Names(self._token),
            cuts={token.id: token.content for token in added if not token.normalized},
            taken={
                token.id: (token.normalized, token.content)
                for token in added
                if token.lstrip or token.rstrip or (token.normalized and normalizer is not None)
            },
            normalizer=json_of(normalizer),
            is_random=bool(self._bpe().dropout),
        )

    def _core_with(self, added: tuple[Added, ...]) -> _native.Core:
        """Return the core, built from the last specification if that is still valid."""
        key = self._key()
        if self._read is None or self._read[0] != key:
            # Only these are read: encoding works with an unsupported post-processor or decoder.
            names = ("normalizer", "pre_tokenizer", "model")
            document = {name: value for name, value in self._document().items() if name in names}
            data = dump({"version": "1.0", "added_tokens": [], **document}).encode()
            self._read, self._made = (key, tokenizer_json.read(data, "this tokenizer")), None
        if self._made is None or self._made[0] != added:
            spec, place = self._read[1], Place("this tokenizer")
            pre_tokenizer = json_of(self._parts["pre_tokenizer"])
            tokenizer_json.check_normalized(added, spec.blank, spec.steps, pre_tokenizer, place)
            core = build(dataclasses.replace(spec, added=added))
            self._made = (added, core)
        return self._made[1]

    def _key(self) -> tuple[object, ...]:
        """Return the inputs of the specification."""
        model, parts = self._bpe(), self._json_parts()
        split = dump([parts["normalizer"], parts["pre_tokenizer"]])
        return id(model), model._version, dump(model._options()), split


def _read(data: bytes, source: str) -> Tokenizer:
    """Return the tokenizer of a file; VocabularyError if it cannot be exact."""
    spec = tokenizer_json.read(data, source)
    rest = {**spec.extra, "decoder": spec.decoder}
    model = models.BPE._of_file(
        rest["model"],
        lambda: dict(zip(names_of(spec.model), spec.model.ids.tolist(), strict=True)),
        lambda: tokenizer_json.write_merges(spec, names_of(spec.model)),
    )
    made = Tokenizer(model)
    made._parts = {name: family.read(rest.get(name)) for name, family in _FAMILIES.items()}
    made._truncation = Truncation.from_json(rest.get("truncation"))
    made._padding = Padding.from_json(rest.get("padding"))
    made._added.read(spec.added)
    made._read = (made._key(), spec)
    return made


def _find_pretrained(name: str, revision: str) -> str:
    """Return the path of the tokenizer.json of a name in the local cache."""
    if not detect.is_hub_name(name if "/" in name else f"models/{name}"):
        raise VocabularyError(f"{name!r} is not a valid model name; write org/name")
    return str(detect.find_in_hub(name, revision) / "tokenizer.json")


# Calls with the arguments of the real library, which the transformers patch uses as well


def encode(
    pipeline: Pipeline,
    sequence: object,
    pair: object = None,
    is_pretokenized: object = False,
    add_special_tokens: object = True,
) -> Encoding:
    """Encode one text or one pair."""
    words = check_flag(is_pretokenized)
    first = _check_input(sequence, words)
    second = None if pair is None else _check_input(pair, words)
    return pipeline.encode((first, second), check_flag(add_special_tokens))


def encode_batch(
    pipeline: Pipeline,
    input: object,
    is_pretokenized: object = False,
    add_special_tokens: object = True,
    bare: bool = False,
) -> list[Encoding]:
    """Encode texts and pairs; `bare` encodings have no tokens, offsets and words."""
    words = check_flag(is_pretokenized)
    pairs = [_check_pair(each, words) for each in check_sequence(input)]
    return pipeline.encode_batch(pairs, check_flag(add_special_tokens), bare=bare)


def _check_input(value: object, words: bool) -> Input:
    found = _words(value) if words else _text(value)
    if found is None:
        raise TypeError(_WORDS if words else _TEXT)
    return found


def _check_pair(value: Any, words: bool) -> Pair:
    single = _words(value) if words else _text(value)
    if single is None and isinstance(value, tuple | list) and len(value) == 2:
        return _check_input(value[0], words), _check_input(value[1], words)
    return _check_input(value, words), None


def _text(value: object) -> str | None:
    """Return a str that can be encoded as UTF-8, or None."""
    if not isinstance(value, str):
        return None
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return None
    return value


def _words(value: object) -> list[str] | None:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        return None
    found = [_text(word) for word in value]
    return None if None in found else [word for word in found if word is not None]
