"""`Tokenizer`, as Hugging Face's library has it, on this engine.

It holds the parts of a tokenizer.json as objects. What encodes with them is made when it is first
needed, and again when something has changed that it depends on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tokenmill.compat.tokenizers import (
    cutting,
    decoders,
    engine,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
    training,
    values,
)
from tokenmill.compat.tokenizers.added import AddedToken, AddedTokens, tokens_of
from tokenmill.compat.tokenizers.components import (
    STR_MAX,
    Changes,
    Component,
    Struct,
    dump,
    json_of,
    shown,
)
from tokenmill.compat.tokenizers.encoding import Encoding
from tokenmill.compat.tokenizers.inputs import batch_inputs, single_input
from tokenmill.compat.tokenizers.padding import Padding
from tokenmill.compat.tokenizers.pipeline import Names, Pipeline
from tokenmill.compat.tokenizers.truncation import Truncation
from tokenmill.decoding import Decoder
from tokenmill.errors import TokenizersError, VocabularyError
from tokenmill.formats.parts import Added, Parts

_SLOTS = {
    "normalizer": normalizers.Normalizer,
    "pre_tokenizer": pre_tokenizers.PreTokenizer,
    "post_processor": processors.PostProcessor,
    "decoder": decoders.Decoder,
}
_FAMILIES = {
    "normalizer": normalizers.FAMILY,
    "pre_tokenizer": pre_tokenizers.FAMILY,
    "post_processor": processors.FAMILY,
    "decoder": decoders.FAMILY,
}
# The parts that decide about ids.
_CUTS = ("normalizer", "pre_tokenizer")
_ADD = "Input must be a List[Union[str, AddedToken]]"


class Tokenizer:
    """A tokenizer that can be put together and changed: a model and the parts around it."""

    def __init__(self, model: models.Model) -> None:
        self._model: models.Model = values.instance(model, models.Model)
        self._parts: dict[str, Component | None] = dict.fromkeys(_SLOTS)
        self._truncation: Truncation | None = None
        self._padding: Padding | None = None
        self._added = AddedTokens()
        self._encode_special_tokens = False
        # Made when they are needed, and forgotten when something changes.
        self._pipeline: Pipeline | None = None
        self._decoder: Decoder | None = None
        self._normal: dict[int, str] = {}  # added tokens as the normalizer makes them, by id
        self._changes = -1
        # The parts of the engine with what they were read from, and the engine with its added
        # tokens: they are used again as far as they stay.
        self._read: tuple[object, Parts] | None = None
        self._made: tuple[tuple[Added, ...], engine.Engine] | None = None

    # Reading and writing

    @staticmethod
    def from_str(json: str) -> Tokenizer:
        """A tokenizer of the text of a tokenizer.json; a VocabularyError if it cannot be exact."""
        return _read(values.text(json).encode("utf-8", "surrogatepass"), "the given text")

    @staticmethod
    def from_buffer(buffer: bytes) -> Tokenizer:
        """A tokenizer of the bytes of a tokenizer.json; ValueError if it cannot be exact."""
        data = values.instance(buffer, bytes)
        try:
            return _read(data, "the given bytes")
        except VocabularyError as error:
            said = f"Cannot instantiate Tokenizer from buffer: {error}"
            raise ValueError(said) from None

    @staticmethod
    def from_file(path: str) -> Tokenizer:
        """A tokenizer of a file tokenizer.json; a TokenizersError if it cannot be read."""
        try:
            data = Path(values.text(path)).read_bytes()
        except OSError as error:
            raise TokenizersError(models.system_text(error)) from None
        return _read(data, path)

    @staticmethod
    def from_pretrained(
        identifier: str, revision: str = "main", token: str | None = None
    ) -> Tokenizer:
        """The tokenizer.json of a name, as far as it was downloaded before: nothing is fetched."""
        path = engine.find_pretrained(values.text(identifier), values.text(revision))
        return Tokenizer.from_file(path)

    def to_str(self, pretty: bool = False) -> str:
        """The text of its tokenizer.json."""
        return dump(self._document(), values.flag(pretty))

    def save(self, path: str, pretty: bool = True) -> None:
        """Writes tokenizer.json to `path`; a TokenizersError if the system refuses."""
        text = self.to_str(pretty)
        try:
            Path(values.text(path)).write_bytes(text.encode("utf-8", "surrogatepass"))
        except OSError as error:
            raise TokenizersError(models.system_text(error)) from None

    def _document(self) -> dict[str, Any]:
        truncation, padding = self._truncation, self._padding
        parts = {name: json_of(part) for name, part in self._parts.items()}
        return {
            "version": "1.0",
            "truncation": None if truncation is None else truncation.to_json(),
            "padding": None if padding is None else padding.to_json(),
            "added_tokens": self._added.to_json(),
            **parts,
            "model": self._model.to_json(),
        }

    def __repr__(self) -> str:
        return shown(self._shown())

    def __str__(self) -> str:
        return shown(self._shown(), STR_MAX)

    def _shown(self) -> Struct:
        document: dict[str, Any] = {**self._document(), **self._parts, "model": self._model}
        if self._truncation is not None:
            document["truncation"] = self._truncation.shown()
        if self._padding is not None:
            document["padding"] = self._padding.shown()
        return Struct("Tokenizer", document)

    def __getstate__(self) -> bytes:
        return self.to_str().encode("utf-8", "surrogatepass")

    def __setstate__(self, state: bytes) -> None:
        vars(self).update(vars(_read(state, "a pickle")))

    def __getnewargs__(self) -> tuple[models.Model]:
        return (models.BPE(),)

    # Parts

    def _get(self, name: str) -> Any:
        return self._parts[name]

    def _put(self, name: str, part: object) -> None:
        self._parts[name] = None if part is None else values.instance(part, _SLOTS[name])
        self._changes = -1

    normalizer = property(
        lambda self: self._get("normalizer"),
        lambda self, part: self._put("normalizer", part),
        doc="What changes a text before it is cut, or None.",
    )
    pre_tokenizer = property(
        lambda self: self._get("pre_tokenizer"),
        lambda self, part: self._put("pre_tokenizer", part),
        doc="What cuts a text into words, or None.",
    )
    post_processor = property(
        lambda self: self._get("post_processor"),
        lambda self, part: self._put("post_processor", part),
        doc="What puts special tokens around, or None.",
    )
    decoder = property(
        lambda self: self._get("decoder"),
        lambda self, part: self._put("decoder", part),
        doc="What makes text of tokens, or None.",
    )

    @property
    def model(self) -> Any:
        """The BPE model: tokens and merges."""
        return self._model

    @model.setter
    def model(self, model: models.Model) -> None:
        self._model = values.instance(model, models.Model)
        self._changes = -1

    @property
    def encode_special_tokens(self) -> bool:
        """Whether special tokens in a text are text."""
        return self._encode_special_tokens

    @encode_special_tokens.setter
    def encode_special_tokens(self, value: bool) -> None:
        self._encode_special_tokens = values.flag(value)
        self._changes = -1

    # Truncation and padding

    def enable_truncation(self, max_length: int, **kwargs: Any) -> None:
        """Cuts encodings to `max_length`, with `stride`, `strategy` and `direction`."""
        truncation = Truncation.of(max_length, kwargs)
        truncation.check_stride(self.num_special_tokens_to_add(False))
        self._truncation = truncation
        self._changes = -1

    def no_truncation(self) -> None:
        """Encodings are as long as they are."""
        self._truncation = None
        self._changes = -1

    @property
    def truncation(self) -> dict[str, Any] | None:
        """The options of `enable_truncation`, or None."""
        return None if self._truncation is None else self._truncation.to_dict()

    def enable_padding(self, **kwargs: Any) -> None:
        """Fills encodings up, with `direction`, `pad_id`, `pad_token`, `length` and so on."""
        self._padding = Padding.of(kwargs)
        self._changes = -1

    def no_padding(self) -> None:
        """Encodings are not filled up."""
        self._padding = None
        self._changes = -1

    @property
    def padding(self) -> dict[str, Any] | None:
        """The options of `enable_padding`, or None."""
        return None if self._padding is None else self._padding.to_dict()

    # The vocabulary

    def get_vocab(self, with_added_tokens: bool = True) -> dict[str, int]:
        """Token → id."""
        found = dict(self._bpe()._vocab)
        return {**found, **self._added.ids} if values.flag(with_added_tokens) else found

    def get_vocab_size(self, with_added_tokens: bool = True) -> int:
        """How many tokens there are."""
        model = self._bpe()
        if not values.flag(with_added_tokens):
            return len(model._vocab)
        return len(model._vocab) + sum(name not in model._vocab for name in self._added.ids)

    def get_added_tokens_decoder(self) -> dict[int, AddedToken]:
        """Id → added token."""
        return dict(sorted(self._added.by_id.items()))

    def token_to_id(self, token: str) -> int | None:
        """The id of a token, or None."""
        found = self._added.ids.get(values.text(token))
        return self._bpe()._vocab.get(token) if found is None else found

    def id_to_token(self, id: int) -> str | None:
        """The token of an id, or None."""
        return self._token(values.unsigned(id, 32))

    def _token(self, id_: int) -> str | None:
        found = self._added.by_id.get(id_)
        if found is None:
            return self._bpe()._token_map().get(id_)
        normalizer = self._parts["normalizer"]
        if normalizer is None or not found.normalized:
            return found.content
        # A decoder is to undo the normalizer, so it is given what is looked for in texts.
        self._look()
        if id_ not in self._normal:
            self._normal[id_] = cutting.normalize(normalizer.to_json(), found.content)
        return self._normal[id_]

    def _bpe(self) -> models.BPE:
        return values.instance(self._model, models.BPE)

    def add_tokens(self, tokens: Sequence[str | AddedToken]) -> int:
        """Adds tokens that are found in any text; returns how many were new."""
        return self._add(tokens_of(tokens, None, _ADD))

    def add_special_tokens(self, tokens: Sequence[str | AddedToken]) -> int:
        """Adds special tokens, which `decode` can leave out; returns how many were new."""
        return self._add(tokens_of(tokens, True, _ADD))

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
        """The encoding of a text or of a pair, or of words if `is_pretokenized`."""
        first = single_input(sequence, is_pretokenized)
        second = None if pair is None else single_input(pair, is_pretokenized)
        return self._ready().encode((first, second), values.flag(add_special_tokens))

    def encode_batch(
        self, input: Sequence[Any], is_pretokenized: bool = False, add_special_tokens: bool = True
    ) -> list[Encoding]:
        """The encodings of many texts or pairs."""
        pairs = batch_inputs(input, is_pretokenized)
        return self._ready().encode_batch(pairs, values.flag(add_special_tokens))

    def encode_batch_fast(
        self, input: Sequence[Any], is_pretokenized: bool = False, add_special_tokens: bool = True
    ) -> list[Encoding]:
        """Encodings without tokens, places and words."""
        pairs = batch_inputs(input, is_pretokenized)
        return self._ready().encode_batch(pairs, values.flag(add_special_tokens), bare=True)

    def post_process(
        self, encoding: Encoding, pair: Encoding | None = None, add_special_tokens: bool = True
    ) -> Encoding:
        """Truncates, puts special tokens around, and pads, as `encode` does at its end."""
        first = values.instance(encoding, Encoding)._copy()
        second = None if pair is None else values.instance(pair, Encoding)._copy()
        return self._ready().post_process(first, second, values.flag(add_special_tokens))

    def num_special_tokens_to_add(self, is_pair: bool) -> int:
        """How many tokens the post-processor adds to a text, or to a pair."""
        processor = self._parts["post_processor"]
        pair = values.flag(is_pair)
        return processor._added(pair) if isinstance(processor, processors.PostProcessor) else 0

    async def async_encode(self, *args: Any, **kwargs: Any) -> Encoding:
        """`encode` in another thread."""
        return await asyncio.to_thread(self.encode, *args, **kwargs)

    async def async_encode_batch(self, *args: Any, **kwargs: Any) -> list[Encoding]:
        """`encode_batch` in another thread."""
        return await asyncio.to_thread(self.encode_batch, *args, **kwargs)

    async def async_encode_batch_fast(self, *args: Any, **kwargs: Any) -> list[Encoding]:
        """`encode_batch_fast` in another thread."""
        return await asyncio.to_thread(self.encode_batch_fast, *args, **kwargs)

    # Decoding

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of ids, without special tokens unless they are asked for."""
        return self._decodes().decode(values.ids(ids), values.flag(skip_special_tokens))

    def decode_batch(
        self, sequences: Sequence[Sequence[int]], skip_special_tokens: bool = True
    ) -> list[str]:
        """The texts of many sequences of ids."""
        given = [values.ids(ids) for ids in values.sequence(sequences)]
        return [self._decodes().decode(ids, values.flag(skip_special_tokens)) for ids in given]

    async def async_decode_batch(self, *args: Any, **kwargs: Any) -> list[str]:
        """`decode_batch` in another thread."""
        return await asyncio.to_thread(self.decode_batch, *args, **kwargs)

    # Training

    def train(self, files: Sequence[str], trainer: trainers.Trainer | None = None) -> None:
        """Learns tokens and merges from the lines of files."""
        self._train(training.lines_of(values.sequence(files)), trainer)

    def train_from_iterator(
        self,
        iterator: Iterable[Any],
        trainer: trainers.Trainer | None = None,
        length: int | None = None,
    ) -> None:
        """Learns tokens and merges from texts, or from lists of them."""
        self._train(training.texts_of(iterator), trainer)

    def _train(self, texts: Iterable[str], trainer: trainers.Trainer | None) -> None:
        chosen = self._bpe().get_trainer() if trainer is None else trainer
        given = values.instance(chosen, trainers.Trainer)
        parts = {name: json_of(part) for name, part in self._parts.items()}
        options = values.instance(given, trainers.BpeTrainer)
        found = training.train(texts, options, parts, list(self._added.ids))
        self._bpe()._learn(*found, options)
        self._add(options.special_tokens)

    # What encodes and decodes

    def _look(self) -> None:
        """Forgets what was made before something changed."""
        if self._changes != Changes.count:
            self._pipeline, self._decoder, self._normal = None, None, {}
            self._changes = Changes.count

    def _decodes(self) -> Decoder:
        self._look()
        if self._decoder is None:
            decoder = self._parts["decoder"]
            specials = {
                id_ for id_ in self._added.by_id if self._token(id_) in self._added.specials
            }
            self._decoder = Decoder(json_of(decoder), self._token, specials)
        return self._decoder

    def _ready(self) -> Pipeline:
        self._look()
        if self._pipeline is None:
            self._pipeline = self._make()
        return self._pipeline

    def _make(self) -> Pipeline:
        added = self._added.parts()
        names = sorted(added, key=lambda token: token.content.encode())
        drop = self._encode_special_tokens
        processor, normalizer = self._parts["post_processor"], self._parts["normalizer"]
        return Pipeline(
            engine=self._engine_with(added),
            allowed=bytes(2 if drop and token.special else 1 for token in names),
            processor=processors.FAMILY.read(json_of(processor)),
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
            random=bool(self._bpe().dropout),
        )

    def _engine_with(self, added: tuple[Added, ...]) -> engine.Engine:
        """The engine, as far as possible of what the last one was made of."""
        key = self._key()
        if self._read is None or self._read[0] != key:
            # Nothing else is needed to encode, and so nothing else is refused.
            names = ("normalizer", "pre_tokenizer", "model")
            document = {name: value for name, value in self._document().items() if name in names}
            data = dump({"version": "1.0", "added_tokens": [], **document}).encode()
            self._read, self._made = (key, engine.read_parts(data, "this tokenizer")), None
        if self._made is None or self._made[0] != added:
            cut = json_of(self._parts["pre_tokenizer"])
            parts = engine.with_added(self._read[1], added, cut)
            self._made = (added, engine.make_engine(parts))
        return self._made[1]

    def _key(self) -> tuple[object, ...]:
        """What the parts of an engine are read from."""
        model = self._bpe()
        cut = [json_of(part) for name, part in self._parts.items() if name in _CUTS]
        return id(model), model._serial, dump(model._options()), dump(cut)


def _read(data: bytes, source: str) -> Tokenizer:
    """A tokenizer of a file; what cannot be done exactly is refused now."""
    parts = engine.read_parts(data, source)
    rest = {**parts.extra, "decoder": parts.decoder}
    loads = (lambda: engine.vocabulary_of(parts), lambda: engine.merges_of(parts))
    made = Tokenizer(models.BPE._later(rest["model"], *loads))
    made._parts = {name: family.read(rest.get(name)) for name, family in _FAMILIES.items()}
    if rest.get("truncation") is not None:
        made._truncation = Truncation.from_json(rest["truncation"])
    if rest.get("padding") is not None:
        made._padding = Padding.from_json(rest["padding"])
    ids = {added.content: added.id for added in parts.added}
    made._added.add(map(AddedToken._of, parts.added), ids.get, lambda: 0)
    made._read = (made._key(), parts)
    return made
