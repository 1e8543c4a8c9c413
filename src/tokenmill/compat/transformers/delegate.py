"""A real tokenizer → its delegate: the tokenmill tokenizer that encodes and decodes like it.

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
from typing import TYPE_CHECKING, Any, NamedTuple

from tokenmill.compat.tokenizers import Encoding, Tokenizer, decoders, models, processors
from tokenmill.compat.tokenizers.components import AddedTokens
from tokenmill.compat.tokenizers.encoding import Padding, Truncation, lazy_encoding
from tokenmill.compat.tokenizers.pipeline import Pipeline
from tokenmill.compat.transformers.stored_core import StoredCore

if TYPE_CHECKING:
    from tokenmill.compat.transformers import Patch
    from tokenmill.decoding import Decoder

ATTRIBUTE = "_tokenizer"  # of a fast tokenizer: the real tokenizer
KEY = "_tokenmill"  # of a real tokenizer: its delegate

# A thread holds this while it changes the settings of a tokenizer and reads the pipeline for them.
_lock = threading.RLock()


def settings_lock() -> threading.RLock:
    return _lock


def _renew_lock() -> None:
    """Replace the lock in a forked process, where its owner may not exist."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


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
        self.decoder: Decoder | None = None  # that of `decode`

    def refresh(self, real: Any) -> Delegate:
        """Return this delegate for the state that `real` has now."""
        if self.seen is not self.patch.version:
            with _lock:
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
            if self.patch.store_memory:
                memory = self.patch.store_memory
                core: Any = StoredCore.shared(base.core, real.to_str(), memory)
                base = dataclasses.replace(base, core=core)
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
            self.decoder = self._mine._decoder_now()
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
