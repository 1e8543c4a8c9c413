"""transformers' fast tokenizers → the same objects, with tokenmill encoding where it is exact.

A fast tokenizer has a `tokenizers.Tokenizer` in `_tokenizer`. That object stays. It has a delegate,
the tokenmill tokenizer that encodes for it, which is made when the tokenizer is loaded. The patch
replaces methods at two levels: those of fast tokenizers for the calls that most programs make, and
those of `tokenizers.Tokenizer` below for all others.

Components of a tokenizer may change in place. The patch also replaces everything that changes one,
and each change makes a new `Patch.version`. A delegate that has seen another version compares the
components with those it was made from. The real library encodes if tokenmill does not support the
tokenizer, or if any of about 250 test texts differs.

**Invariant**: a delegate has no reference to its real tokenizer, which refers to it in `__dict__`:
the garbage collector cannot collect such a cycle.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tokenmill.compat.tokenizers import Encoding, Tokenizer, decoders, models, processors
from tokenmill.compat.tokenizers.components import AddedTokens, check
from tokenmill.compat.tokenizers.encoding import Padding, Truncation, lazy_encoding
from tokenmill.compat.tokenizers.pipeline import Pipeline
from tokenmill.errors import import_package

_ATTRIBUTE = "_tokenizer"
_KEY = "_tokenmill"
_CALLS: dict[str, Callable[..., Any]] = {
    "encode": Pipeline.encode,
    "encode_batch": Pipeline.encode_batch,
    "encode_batch_fast": functools.partial(Pipeline.encode_batch, bare=True),
}
# Methods that change a tokenizer.
_CHANGES = (
    *("train", "train_from_iterator", "__setstate__", "add_tokens", "add_special_tokens"),
    *("enable_truncation", "no_truncation", "enable_padding", "no_padding"),
)
# Method or attribute → the part that it changes, for parts that cannot be compared.
_PARTS = {
    "model": "model",
    "train": "model",
    "train_from_iterator": "model",
    "__setstate__": "model",
    "add_tokens": "added tokens",
    "add_special_tokens": "added tokens",
}
# The modules of components and their base classes.
_FAMILIES = {
    "models": "Model",
    "normalizers": "Normalizer",
    "pre_tokenizers": "PreTokenizer",
    "processors": "PostProcessor",
    "decoders": "Decoder",
}
_MISSING = object()

_lock = threading.Lock()
_patch: Patch | None = None


def patch() -> contextlib.ExitStack:
    """Let tokenmill encode and decode for transformers' fast tokenizers, also for existing ones.

    A tokenizer that tokenmill cannot encode exactly stays as it is; see `is_patched`. The
    comparison with it is made while it is loaded, or at the first use of an existing one. `unpatch`
    reverts the patch, and `with patch():` reverts it at the end of the block. A second call has no
    effect. MissingExtraError, an ImportError, if transformers is not installed.
    """
    global _patch
    undo = contextlib.ExitStack()
    with _lock:
        if _patch is None:
            _patch = Patch()
            undo.callback(unpatch)
    return undo


def unpatch() -> None:
    """Revert `patch`, if it was called."""
    global _patch
    with _lock:
        if _patch is not None:
            _patch.close()
            _patch = None


def is_patched(tokenizer: object) -> bool:
    """Return whether tokenmill encodes for a transformers tokenizer."""
    active, real = _patch, getattr(tokenizer, _ATTRIBUTE, None)
    return active is not None and active.pipeline(real) is not None


class Patch(contextlib.ExitStack):
    """The replaced attributes of both libraries. Closing it restores the originals."""

    def __init__(self) -> None:
        super().__init__()
        user = "tokenmill.compat.transformers"
        tokenizers = import_package("tokenizers", user)
        transformers = import_package("transformers", user)
        self.version = object()  # a new one after each change of a tokenizer or component
        self._kind: type[Any] = tokenizers.Tokenizer
        self._encoding: type[Any] = tokenizers.Encoding
        self.encode: Callable[..., Any] = self._kind.encode
        self.decode: Callable[..., Any] = self._kind.decode
        for name, call in _CALLS.items():
            self._wrap(self._kind, name, functools.partial(self._encodes, call))
        self._wrap(self._kind, "decode", self._decodes)
        self._wrap(self._kind, "post_process", self._post_processes)
        self._wrap(self._kind, "__setattr__", self._sets)
        for name in _CHANGES:
            self._wrap(self._kind, name, functools.partial(self._changes, _PARTS.get(name)))
        for module, family in _FAMILIES.items():
            components = vars(getattr(tokenizers, module))
            items = components.get("Sequence", object)
            for owner, names in (
                (components[family], ("__setattr__", "__setstate__")),
                (items, {"__setitem__", "__delitem__"} & vars(items).keys()),
            ):
                for name in names:
                    self._wrap(owner, name, functools.partial(self._changes, None))
        self._patch_fast(transformers)

    def _patch_fast(self, transformers: Any) -> None:
        """Replace methods of fast tokenizers."""
        fast = self._fast = transformers.PreTrainedTokenizerFast
        attribute = _Watched(self, vars(fast).get(_ATTRIBUTE, _MISSING))
        self._replace(fast, _ATTRIBUTE, attribute)
        load = fast.from_pretrained.__func__

        @functools.wraps(load)
        def from_pretrained(owner: Any, *args: Any, **kwargs: Any) -> Any:
            made = load(owner, *args, **kwargs)
            self.delegate(getattr(made, _ATTRIBUTE, None))
            return made

        self._replace(fast, "from_pretrained", classmethod(from_pretrained))
        calls = FastCalls(self, transformers)
        for name, call in calls.replaced():
            self._wrap(fast, name, call)

    def _replace(self, owner: type[Any], name: str, value: object) -> None:
        if name in vars(owner):
            self.callback(setattr, owner, name, vars(owner)[name])
        else:
            self.callback(delattr, owner, name)
        setattr(owner, name, value)

    def _wrap(self, owner: type[Any], name: str, call: Callable[..., Any]) -> None:
        """Replace a method by `call`, which also gets the original method."""
        original = getattr(owner, name)

        @functools.wraps(original)
        def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            return call(original, self, *args, **kwargs)

        self._replace(owner, name, method)

    def watch(self, real: object) -> None:
        """Create the delegate of `real`, if it is a tokenizer without one."""
        if type(real) is self._kind:
            delegate = vars(real).get(_KEY)
            # The delegate of an earlier patch has missed the changes since.
            if delegate is None or delegate.patch is not self:
                vars(real)[_KEY] = Delegate(self)

    def delegate(self, real: object) -> Delegate | None:
        """Return the delegate of a real tokenizer, for its state now; None if it has none."""
        found = vars(real).get(_KEY) if type(real) is self._kind else None
        return None if found is None or found.patch is not self else found.refresh(real)

    def pipeline(self, real: object) -> Pipeline | None:
        found = self.delegate(real)
        return None if found is None else found.pipeline

    # Replacements of methods

    def _encodes(
        self, call: Callable[..., Any], original: Any, real: Any, /, *args: Any, **kwargs: Any
    ) -> Any:
        pipeline = self.pipeline(real)
        if pipeline is not None:
            try:
                return call(pipeline, *args, **kwargs)
            except Exception:  # noqa: S110, the real library raises its own error below
                pass
        return original(real, *args, **kwargs)

    def _decodes(self, original: Any, real: Any, ids: Any, skip_special_tokens: Any = True) -> Any:
        delegate = self.delegate(real)
        if delegate is not None and delegate.decode is not None and type(ids) is list:
            try:
                return delegate.decode(ids, skip_special_tokens)
            except Exception:  # noqa: S110, as above
                pass
        return original(real, ids, skip_special_tokens)

    def _sets(self, original: Any, real: Any, name: str, value: object) -> None:
        self._changes(_PARTS.get(name), original, real, name, value)

    def _changes(
        self, part: str | None, original: Any, changed: Any, /, *args: Any, **kwargs: Any
    ) -> Any:
        try:
            return original(changed, *args, **kwargs)
        finally:
            delegate = vars(changed).get(_KEY) if type(changed) is self._kind else None
            if delegate is not None and part is not None:
                delegate.changes[part] += 1
            self.version = object()

    def _post_processes(self, original: Any, real: Any, /, *args: Any, **kwargs: Any) -> Any:
        args = tuple(map(self._real_encoding, args))
        kwargs = {name: self._real_encoding(value) for name, value in kwargs.items()}
        return original(real, *args, **kwargs)

    def _real_encoding(self, value: Any) -> Any:
        """Return an encoding of ours as the real library's class; other values unchanged."""
        if not isinstance(value, Encoding):
            return value
        made = self._encoding()
        made.__setstate__(value.__getstate__())
        return made


class _Watched:
    """The attribute `_tokenizer` of fast tokenizers: reading it creates the delegate."""

    def __init__(self, patch: Patch, default: object) -> None:
        self._patch, self._default = patch, default

    def __get__(self, fast: object, owner: object = None) -> Any:
        attributes = {} if fast is None else vars(fast)
        found = attributes.get(_ATTRIBUTE, self._default)
        if found is _MISSING:
            raise AttributeError(f"{owner!r} has no attribute {_ATTRIBUTE!r}")
        self._patch.watch(found)
        return found

    def __set__(self, fast: object, value: object) -> None:
        vars(fast)[_ATTRIBUTE] = value

    def __delete__(self, fast: object) -> None:
        del vars(fast)[_ATTRIBUTE]


# Calls of fast tokenizers

# These are ours for a fast tokenizer whose class has them from transformers.
_INHERITED = (
    *("__call__", "encode", "decode", "_encode_plus", "_decode", "_convert_encoding"),
    *("set_truncation_and_padding", "_eventual_warn_about_too_long_sequence"),
)
_SETTINGS = (
    *("padding_strategy", "truncation_strategy", "max_length", "stride", "pad_to_multiple_of"),
    "padding_side",
)
# The arguments of `_encode_plus` that have an effect in `FastCalls`.
_HANDLED = {
    *("add_special_tokens", "return_tensors", "return_attention_mask", "return_offsets_mapping"),
    *("split_special_tokens", "verbose", *_SETTINGS),
}


class FastCalls:
    """The calls of fast tokenizers that most programs make, without words, types and pairs.

    They return None or call the original for everything else. The results are the same.
    """

    def __init__(self, patch: Patch, transformers: Any) -> None:
        self._patch = patch
        self._fast: type[Any] = transformers.PreTrainedTokenizerFast
        self._batch: type[Any] = transformers.BatchEncoding
        self._classes = dict[type[Any], bool]()  # those that inherit these calls

    def replaced(self) -> list[tuple[str, Callable[..., Any]]]:
        """Return the methods to replace: none in a version of transformers with other methods."""
        if not all(hasattr(self._fast, name) for name in _INHERITED):
            return []
        if hasattr(self._fast, "_batch_encode_plus"):  # before 5.0
            return []
        if vars(self._batch({})).keys() != {"data", "_encodings", "_n_sequences"}:
            return []
        return [
            ("__call__", self._call),
            ("encode", self._encode),
            ("_encode_plus", self._encode_plus),
            ("decode", self._decode),
        ]

    def _delegate(self, fast: Any) -> Delegate | None:
        """Return the delegate of a fast tokenizer that inherits these calls."""
        delegate = vars(vars(fast)[_ATTRIBUTE]).get(_KEY)
        if delegate is None or delegate.seen is not self._patch.version:
            delegate = self._patch.delegate(getattr(fast, _ATTRIBUTE))
        kind = type(fast)
        if kind not in self._classes:
            same = (getattr(kind, name) is getattr(self._fast, name) for name in _INHERITED)
            modes = hasattr(kind, "_switch_to_input_mode")
            self._classes[kind] = issubclass(kind, self._fast) and all(same) and not modes
        return delegate if self._classes[kind] else None

    def _plain(self, fast: Any, text: object, options: dict[str, Any]) -> Plain | None:
        """Return how one text is encoded if no option but `add_special_tokens` is given."""
        if type(text) is not str or options.keys() - {"add_special_tokens"}:
            return None
        delegate = self._delegate(fast)
        if delegate is None or fast.split_special_tokens:
            return None
        specials = options.get("add_special_tokens", True)
        return delegate.plain.get(specials) if type(specials) is bool else None

    def _call(self, original: Any, fast: Any, text: Any = None, *args: Any, **options: Any) -> Any:
        names = fast.model_input_names
        if args or "attention_mask" not in names or "token_type_ids" in names:
            return original(fast, text, *args, **options)
        plain = self._plain(fast, text, options)
        if plain is None or (ids := plain.ids(fast, text)) is None:
            return original(fast, text, **options)
        made = _new(self._batch)
        made.__dict__ = {
            "data": {"input_ids": ids, "attention_mask": [1] * len(ids)},
            "_encodings": [plain.encoding(text)],
            "_n_sequences": 1,
        }
        return made

    def _encode(self, original: Any, fast: Any, text: Any, *args: Any, **options: Any) -> Any:
        plain = None if args else self._plain(fast, text, options)
        ids = None if plain is None else plain.ids(fast, text)
        return original(fast, text, *args, **options) if ids is None else ids

    def _encode_plus(self, original: Any, fast: Any, *args: Any, **options: Any) -> Any:
        if not args and self._delegate(fast) is not None:
            try:
                found = self._columns(fast, **options)
            except Exception:
                found = None  # the real library raises its own error
            if found is not None:
                return found
        return original(fast, *args, **options)

    def _columns(self, fast: Any, text: Any, **options: Any) -> Any:
        """Return the result of `_encode_plus` for one text or a batch; None for other inputs."""
        names, texts = fast.model_input_names, text if isinstance(text, list | tuple) else [text]
        given = {name for name, value in options.items() if value not in (None, False)}
        if given - _HANDLED or "token_type_ids" in names or not texts:
            return None
        if any(type(each) is not str for each in texts):
            return None
        fast.set_truncation_and_padding(**{name: options.get(name) for name in _SETTINGS})
        split, real = options.get("split_special_tokens"), getattr(fast, _ATTRIBUTE)
        if split is None:
            split = fast.split_special_tokens
        if real.encode_special_tokens != split:
            real.encode_special_tokens = split
        pipeline = self._patch.pipeline(real)
        if pipeline is None or pipeline.is_random:
            return None
        specials = check(options.get("add_special_tokens", True), bool)
        rows, masks, encodings = pipeline.columns(list(texts), specials)
        if options.get("max_length") is None and max(map(len, rows)) > fast.model_max_length:
            for ids in rows:
                warned = options.get("verbose", True)
                fast._eventual_warn_about_too_long_sequence(ids, None, warned)
        columns: dict[str, list[Any]] = {"input_ids": rows}
        masked = options.get("return_attention_mask")
        if "attention_mask" in names if masked is None else masked:
            columns["attention_mask"] = masks
        if options.get("return_offsets_mapping"):
            columns["offset_mapping"] = [each.offsets for each in encodings]
        tensors = options.get("return_tensors")
        if texts is not text and tensors is None:
            columns = {name: column[0] for name, column in columns.items()}
        return self._batch(columns, encodings, tensor_type=tensors, n_sequences=1)

    def _decode(
        self, original: Any, fast: Any, token_ids: Any, skip_special_tokens: Any = False,
        **options: Any,
    ) -> Any:  # fmt: skip
        """Decode a list of ids, or several of them."""
        cleans = options.keys() <= {"clean_up_tokenization_spaces"} and not any(options.values())
        if type(token_ids) is list and token_ids and cleans and type(skip_special_tokens) is bool:
            delegate = None if fast.clean_up_tokenization_spaces else self._delegate(fast)
            decode = None if delegate is None else delegate.decode
            try:
                if decode is not None and type(token_ids[0]) is list:
                    return [decode(ids, skip_special_tokens) for ids in token_ids]
                if decode is not None:
                    return decode(token_ids, skip_special_tokens)
            except Exception:  # noqa: S110, the real library raises its own error below
                pass
        return original(fast, token_ids, skip_special_tokens, **options)


class Plain(NamedTuple):
    """How one text becomes ids, without truncation and padding."""

    pipeline: Pipeline
    specials: bool
    before: list[int]
    after: list[int]

    def ids(self, fast: Any, text: str) -> list[int] | None:
        """Return the ids; None if the real library raises an error."""
        try:
            ids = self.pipeline.core.encode(text, self.pipeline.allowed)
        except Exception:
            return None
        if self.before or self.after:
            ids = [*self.before, *ids, *self.after]
        if len(ids) > fast.model_max_length:
            fast._eventual_warn_about_too_long_sequence(ids, None, True)
        return ids

    def encoding(self, text: str) -> Encoding:
        return lazy_encoding(functools.partial(self.pipeline.complete, [text], self.specials))


# Delegates

_new = object.__new__
_delegate_lock = threading.Lock()


def _renew_lock() -> None:
    """Replace the lock in a forked process, where its owner may not exist."""
    global _delegate_lock
    _delegate_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class _State(NamedTuple):
    """The state of a real tokenizer that encodings depend on."""

    # The model with its changes, the normalizer and the pre-tokenizer. After a change of these the
    # tokenizer is read again.
    core: tuple[object, ...]
    added_changes: int
    # The others often change between calls.
    processor: bytes
    decoder: bytes | None  # None: one written in Python
    truncation: dict[str, Any] | None
    padding: dict[str, Any] | None
    encode_special_tokens: bool


class Delegate:
    """The tokenmill tokenizer that encodes for a real tokenizer."""

    def __init__(self, patch: Patch) -> None:
        self.patch = patch
        self.changes = Counter[str]()  # of the parts in _PARTS, which the patch counts
        self.seen: object = None  # the version of the patch for which all of this is valid
        # The last state of the real tokenizer, and the tokenizer and its pipeline for that state.
        # None if the real library encodes.
        self._state: _State | None = None
        self._mine: Tokenizer | None = None
        self.pipeline: Pipeline | None = None
        # Without and with the tokens of the template, if a text is neither truncated nor padded.
        self.plain: dict[bool, Plain] = {}
        # Ids and whether special tokens are skipped → text. None if the real library decodes.
        self.decode: Callable[[list[int], bool], str] | None = None

    def refresh(self, real: Any) -> Delegate:
        """Return this delegate for the state that `real` has now."""
        if self.seen is not self.patch.version:
            with _delegate_lock:
                version = self.patch.version
                self._update(real)
                self.seen = version
        return self

    def _update(self, real: Any) -> None:
        last = self._state
        try:
            state = self._read_state(real)
        except Exception:  # a component written in Python has no state
            self.pipeline, self.plain, self.decode = None, {}, None
            self._state = self._mine = None
            return
        if state == last:
            return
        try:
            self.pipeline = self._make_pipeline(real, state)
        except Exception:  # unsupported, and no other error may reach the user either
            self.pipeline = None
        if self.pipeline is None:
            self._mine = None
        self.plain = {} if self.pipeline is None else _plain_of(self.pipeline, state)
        if last is None or self._mine is None or last[:4] != state[:4]:
            self.decode = self._make_decode(real, state)
        self._state = state

    def _read_state(self, real: Any) -> _State:
        model = real.model
        options = (getattr(model, option.name, None) for option in models.BPE.options)
        parts = (real.normalizer, real.pre_tokenizer, real.post_processor)
        *split, processor = (b"null" if part is None else part.__getstate__() for part in parts)
        decoder = None
        with contextlib.suppress(Exception):
            decoder = b"null" if real.decoder is None else real.decoder.__getstate__()
        size = real.get_vocab_size(False)
        core = (self.changes["model"], type(model).__name__, *options, size, *split)
        rest = (real.truncation, real.padding, real.encode_special_tokens)
        return _State(core, self.changes["added tokens"], processor, decoder, *rest)

    def _make_pipeline(self, real: Any, state: _State) -> Pipeline | None:
        """Return the pipeline for a new state; None if it encodes in another way than `real`."""
        last, base, texts = self._state, self.pipeline, []
        if last is None or last.core != state.core:
            if type(real.model).__name__ != "BPE" or real.model.dropout:  # random ids
                return None
            self._mine, base = Tokenizer.from_str(real.to_str()), None
            texts = [*_general_texts(), *_texts_around([*self._mine._added.ids])]
        elif self._mine is None:
            return None
        else:
            if last.added_changes != state.added_changes:
                before, base = set(self._mine._added.by_id.values()), None
                added = self._mine._added = AddedTokens(real.get_added_tokens_decoder())
                self._mine._changes = -1
                new = [each.content for each in added.by_id.values() if each not in before]
                texts += _texts_around(new)
            if last.processor != state.processor:
                texts += _general_texts()[:8]
        if base is None or self._mine.encode_special_tokens != state.encode_special_tokens:
            self._mine.encode_special_tokens = state.encode_special_tokens
            base = self._mine._ready()
        pipeline = dataclasses.replace(
            base,
            processor=processors.PostProcessor.read(json.loads(state.processor)),
            truncation=None if state.truncation is None else Truncation(**state.truncation),
            padding=None if state.padding is None else Padding(**state.padding),
        )
        return pipeline if _agrees(real, self.patch.encode, pipeline, texts) else None

    def _make_decode(self, real: Any, state: _State) -> Callable[[list[int], bool], str] | None:
        """Return the method that decodes like the decoder of `real`, or None."""
        if self._mine is None or self.pipeline is None or state.decoder is None:
            return None
        try:
            self._mine.decoder = decoders.Decoder.read(json.loads(state.decoder))
            decode = self._mine._current()._decodes
        except Exception:  # unsupported
            return None
        ids = [self.pipeline.encode(text).ids for text in _general_texts()[::8]]
        choose = random.Random(20)  # noqa: S311, no secret
        ids += [[choose.randrange(real.get_vocab_size()) for _ in range(9)] for _ in range(20)]
        ids += [[id_] for id_ in list(self._mine._added.by_id)[:_ADDED_MAX]]
        for skip in (False, True):
            if any(decode(each, skip) != self.patch.decode(real, each, skip) for each in ids):
                return None
        return decode


def _plain_of(pipeline: Pipeline, state: _State) -> dict[bool, Plain]:
    """Return both plain ways to encode; none if a text is changed before or after."""
    if pipeline.is_random or state.encode_special_tokens:
        return {}
    if pipeline.truncation is not None or pipeline.padding is not None:
        return {}
    try:
        return {each: Plain(pipeline, each, *pipeline.around(each)) for each in (False, True)}
    except Exception:  # a template that repeats the text
        return {}


# The comparison


def _agrees(
    real: Any, encode: Callable[..., Any], pipeline: Pipeline, texts: Sequence[str]
) -> bool:
    """Return whether both encode `texts` alike, as single texts, pairs and words.

    Padding is not compared: padding to thousands of tokens would take long.
    """
    if not texts:
        return True
    ours, compared = dataclasses.replace(pipeline, padding=None), 0
    # The real model caches the ids of words, even after it is trained or changed in place. The
    # comparison must neither read nor leave such entries.
    real.model._clear_cache()
    try:
        for index, text in enumerate(texts):
            calls: list[tuple[Any, Any, bool]] = [(text, None, False)]
            if index % 8 == 0:
                # A short pair, because each overflow is combined with each of the other sequence.
                calls += [(text, texts[index - 1][:12], False), (text.split(" "), None, True)]
            for call in calls:
                found = _summary_of(ours.encode, *call, index % 2 == 0)
                if found is None:
                    continue  # truncation is impossible, and the real library would print a panic
                if found != _summary_of(encode, real, *call, index % 2 == 0):
                    return False
                compared += 1
    finally:
        real.model._clear_cache()
    return compared * 2 >= len(texts)


def _summary_of(call: Callable[..., Any], *args: object) -> object:
    """Return the visible parts of the encoding that a call returns; None if it raises."""
    try:
        return _summary(call(*args))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a Rust panic is not an Exception
        return None


def _summary(encoding: Any) -> list[object]:
    mask = encoding.attention_mask
    columns = (encoding.ids, encoding.type_ids, encoding.offsets, encoding.word_ids)
    rows: list[object] = [
        row for row, is_text in zip(zip(*columns, strict=True), mask, strict=True) if is_text
    ]
    return [rows, *(_summary(each) for each in encoding.overflowing)]


# The texts of the comparison

_COUNT = 160
_ADDED_MAX = 40
_FRAGMENTS = (  # noqa: SIM905, a list has one string per line
    "the¦ quick¦ Brown¦ FOX¦jumps¦'s¦'LL¦’re¦ don't¦naïve¦cafe\u0301¦ ¦  ¦   ¦\t¦\n¦\n\n¦"
    "\r\n¦ \n ¦\xa0¦\u3000¦\u2028¦\u200b¦0¦7¦42¦123¦1234¦3.14¦1,000,000¦٣٤¦½¦²¦Ⅷ¦.¦,¦!¦?!¦"
    "...¦…¦-¦--¦—¦_¦(¦)¦[x]¦{}¦<¦>¦<s>¦/¦\\¦#¦@¦&¦*¦+¦=¦==¦|¦~¦`¦^¦$¦%¦\"¦'¦:¦;¦"
    "def f(x):\n    return x¦https://example.org/a?b=c¦a_b-c¦camelCase¦HTTPServer2¦中文¦日本語¦"
    "カタカナ¦한국어¦ไทย¦हिन्दी¦العربية¦עברית¦Ελληνικά¦Русский¦🙂¦👩\u200d👩\u200d👧¦🇩🇪¦❤️¦👍🏽¦\u0301¦"
    "\x00¦\x7f¦\ufeff¦�¦𝒳¦ﬁ¦Å¦▁¦▁▁¦Ġ¦Ċ¦ß¦İ¦ı¦ſ¦Σς¦aaaaaaaa¦abababab¦zzz¦qx¦\U0010ffff"
).split("¦")


@functools.cache
def _general_texts() -> tuple[str, ...]:
    """Return texts of many scripts, signs and spaces, the same ones each time."""
    choose = random.Random(20)  # noqa: S311, no secret
    made = ["", " ", *_FRAGMENTS[:40:3]]
    while len(made) < _COUNT:
        made.append("".join(choose.choices(_FRAGMENTS, k=choose.randint(1, 9))))
    return tuple(made)


def _texts_around(tokens: Sequence[str]) -> list[str]:
    """Return texts with added tokens; of very many tokens, those at both ends."""
    half = _ADDED_MAX // 2
    some = tokens if len(tokens) <= _ADDED_MAX else [*tokens[:half], *tokens[-half:]]
    forms = ("{0}", "a {0} b", "x{0}{0}y  {0}\n {0}z")
    return [form.format(token) for token in some for form in forms]
