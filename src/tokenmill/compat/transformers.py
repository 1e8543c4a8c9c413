"""transformers' fast tokenizers → the same objects, with tokenmill encoding where it is exact.

A fast tokenizer has a `tokenizers.Tokenizer` in `_tokenizer`. That object stays. The patch
replaces only the encoding methods of its class, and only for objects of fast tokenizers. Each has a
delegate, the tokenmill tokenizer that encodes for it. Before each use the delegate compares the
components of the real tokenizer, which may change in place, and counts of the changes that cannot
be compared. The real library encodes if tokenmill does not support the tokenizer, or if any of
about 250 test texts differs.

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

from tokenmill.compat.tokenizers import Encoding, Tokenizer, models, processors
from tokenmill.compat.tokenizers.components import AddedTokens
from tokenmill.compat.tokenizers.encoding import Padding, Truncation
from tokenmill.compat.tokenizers.pipeline import Pipeline
from tokenmill.errors import import_package

_ATTRIBUTE = "_tokenizer"
_KEY = "_tokenmill"
_CALLS: dict[str, Callable[..., Any]] = {
    "encode": Pipeline.encode,
    "encode_batch": Pipeline.encode_batch,
    "encode_batch_fast": functools.partial(Pipeline.encode_batch, bare=True),
}
# Method → the part of a tokenizer that it changes.
_CHANGES = {
    "train": "model",
    "train_from_iterator": "model",
    "__setstate__": "model",
    "add_tokens": "added tokens",
    "add_special_tokens": "added tokens",
}
_MISSING = object()

_lock = threading.Lock()
_patch: Patch | None = None


def patch() -> contextlib.ExitStack:
    """Let tokenmill encode for all transformers fast tokenizers, also for existing ones.

    A tokenizer that tokenmill cannot encode exactly stays as it is; see `is_patched`. Only encoding
    changes. `unpatch` reverts the patch, and `with patch():` reverts it at the end of the block. A
    second call has no effect. MissingExtraError, an ImportError, if transformers is not installed.
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
        self._kind: type[Any] = tokenizers.Tokenizer
        self._encoding: type[Any] = tokenizers.Encoding
        self._encode: Callable[..., Any] = self._kind.encode
        for name, call in _CALLS.items():
            self._wrap(name, functools.partial(self._encodes, call))
        for name, counter in _CHANGES.items():
            self._wrap(name, functools.partial(self._changes, counter))
        self._wrap("post_process", self._post_processes)
        model = self._kind.model
        put = functools.partial(self._changes, "model", model.__set__)
        self._replace(self._kind, "model", property(model.__get__, put, doc=model.__doc__))
        fast = transformers.PreTrainedTokenizerFast
        self._replace(fast, _ATTRIBUTE, _Watched(self, vars(fast).get(_ATTRIBUTE, _MISSING)))

    def _replace(self, owner: type[Any], name: str, value: object) -> None:
        if name in vars(owner):
            self.callback(setattr, owner, name, vars(owner)[name])
        else:
            self.callback(delattr, owner, name)
        setattr(owner, name, value)

    def _wrap(self, name: str, call: Callable[..., Any]) -> None:
        """Replace a method of the real tokenizer by `call`, which also gets the original method."""
        original = vars(self._kind)[name]

        @functools.wraps(original)
        def method(real: Any, /, *args: Any, **kwargs: Any) -> Any:
            return call(original, real, *args, **kwargs)

        self._replace(self._kind, name, method)

    def watch(self, real: object) -> None:
        """Create the delegate of `real`, if it is a tokenizer without one."""
        if type(real) is self._kind and self._delegate_of(real) is None:
            vars(real)[_KEY] = (self, Delegate())

    def pipeline(self, real: object) -> Pipeline | None:
        delegate = self._delegate_of(real) if type(real) is self._kind else None
        return None if delegate is None else delegate.pipeline(real, self._encode)

    def _delegate_of(self, real: object) -> Delegate | None:
        # The delegate of an earlier patch has missed the changes since.
        owner, delegate = vars(real).get(_KEY, (None, None))
        return delegate if owner is self else None

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

    def _changes(self, counter: str, original: Any, real: Any, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(real, *args, **kwargs)
        finally:
            delegate = self._delegate_of(real)
            if delegate is not None:
                delegate.changes[counter] += 1

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


# Delegates

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
    truncation: dict[str, Any] | None
    padding: dict[str, Any] | None
    encode_special_tokens: bool


class Delegate:
    """The tokenmill tokenizer that encodes for a real tokenizer."""

    def __init__(self) -> None:
        self.changes = Counter[str]()  # of the parts in _CHANGES, which `Patch` counts
        # The last state of the real tokenizer, and the tokenizer and its pipeline for that state.
        # None if the real library encodes.
        self._state: _State | None = None
        self._mine: Tokenizer | None = None
        self._pipeline: Pipeline | None = None

    def pipeline(self, real: Any, encode: Callable[..., Any]) -> Pipeline | None:
        """Return the pipeline that encodes as `real` does now, or None.

        `encode` is the original method of the real library.
        """
        with _delegate_lock:
            try:
                state = self._read_state(real)
            except Exception:  # a component written in Python has no state
                return None
            if state != self._state:
                try:
                    self._pipeline = self._make_pipeline(real, encode, state)
                except Exception:  # unsupported, and no other error may reach the user either
                    self._pipeline = None
                if self._pipeline is None:
                    self._mine = None
                self._state = state
            return self._pipeline

    def _read_state(self, real: Any) -> _State:
        model = real.model
        options = (getattr(model, option.name, None) for option in models.BPE.options)
        parts = (real.normalizer, real.pre_tokenizer, real.post_processor)
        *split, processor = (b"null" if part is None else part.__getstate__() for part in parts)
        size = real.get_vocab_size(False)
        core = (self.changes["model"], type(model).__name__, *options, size, *split)
        rest = (processor, real.truncation, real.padding, real.encode_special_tokens)
        return _State(core, self.changes["added tokens"], *rest)

    def _make_pipeline(
        self, real: Any, encode: Callable[..., Any], state: _State
    ) -> Pipeline | None:
        """Return the pipeline for a new state; None if it encodes in another way than `real`."""
        last, base, texts = self._state, self._pipeline, []
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
        return pipeline if _agrees(real, encode, pipeline, texts) else None


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
