"""A `tokenizers.Tokenizer` of the real library → a pipeline of ours that encodes as it does.

The real object stays what it is, and stays the one that is changed. A mirror looks at it before
each use: at its parts, which anyone may change in place, and at counts of the changes that cannot
be seen, which `transformers` (the module beside this one) keeps. What tokenmill refuses, and what
does not pass a comparison of some 250 texts, is left to the real library.

**Invariant**: a mirror holds no reference to its tokenizer, which keeps it in its `__dict__`: that
one is not seen by the collector of cycles.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tokenmill.compat import mirror_texts
from tokenmill.compat.tokenizers import Encoding, Tokenizer, processors, values
from tokenmill.compat.tokenizers.added import AddedToken, AddedTokens
from tokenmill.compat.tokenizers.inputs import batch_inputs, single_input
from tokenmill.compat.tokenizers.padding import Padding
from tokenmill.compat.tokenizers.pipeline import Pipeline
from tokenmill.compat.tokenizers.truncation import Truncation

_OPTIONS = (
    *("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"),
    *("fuse_unk", "byte_fallback", "ignore_merges"),
)
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")

_lock = threading.Lock()


def _renew() -> None:
    """In a forked process whoever held the lock does not exist."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


class _Core(NamedTuple):
    """What ids depend on, beside the added tokens."""

    changes: int
    options: tuple[object, ...]
    size: int
    normalizer: bytes
    pre_tokenizer: bytes


class _Rest(NamedTuple):
    """What is done with ids; it changes from call to call."""

    processor: bytes
    truncation: dict[str, Any] | None
    padding: dict[str, Any] | None
    encode_special_tokens: bool


class _Known(NamedTuple):
    """A tokenizer as it was seen last, and what came of it; None is left to the real one."""

    core: _Core
    added: int
    rest: _Rest
    mine: Tokenizer | None
    pipeline: Pipeline | None


class Mirror:
    """What tokenmill has made of one real tokenizer."""

    def __init__(self) -> None:
        # Counted by whoever puts another model there or trains it, and by whoever adds tokens.
        self.model_changes = 0
        self.added_changes = 0
        self._known: _Known | None = None

    def pipeline(self, real: Any, encode: Callable[..., Any]) -> Pipeline | None:
        """What encodes as `real` does now, or None. `encode` is the real library's own."""
        with _lock:
            added = self.added_changes
            try:
                core, rest = _look(real, self.model_changes)
            except Exception:  # a part that is written in Python has no state
                return None
            known = self._known
            if known is None or known.core != core:
                known = _made(real, encode, core, added, rest)
            elif (known.added, known.rest) != (added, rest):
                known = _changed(real, encode, known, added, rest)
            self._known = known
            return known.pipeline


def _look(real: Any, changes: int) -> tuple[_Core, _Rest]:
    model = real.model
    core = _Core(
        changes,
        (type(model).__name__, *(getattr(model, name, None) for name in _OPTIONS)),
        real.get_vocab_size(False),
        _state(real.normalizer),
        _state(real.pre_tokenizer),
    )
    processor = _state(real.post_processor)
    return core, _Rest(processor, real.truncation, real.padding, real.encode_special_tokens)


def _state(part: Any) -> bytes:
    found: bytes = b"null" if part is None else part.__getstate__()
    return found


def _made(real: Any, encode: Callable[..., Any], core: _Core, added: int, rest: _Rest) -> _Known:
    """All of it anew."""
    kind, dropout, *_ = core.options
    refused = _Known(core, added, rest, None, None)
    if kind != "BPE" or dropout:  # what is random cannot be compared
        return refused
    try:
        mine = Tokenizer.from_str(real.to_str())
        pipeline = _pipeline(mine, rest)
        tokens = [token.content for token in mine._added.by_id.values()]
        texts = [*mirror_texts.general(), *mirror_texts.around(tokens)]
        agrees = _agrees(real, encode, pipeline, texts)
    except Exception:  # TokenmillError for what is refused; no other may reach the user either
        return refused
    return _Known(core, added, rest, mine, pipeline) if agrees else refused


def _changed(
    real: Any, encode: Callable[..., Any], known: _Known, added: int, rest: _Rest
) -> _Known:
    """With other added tokens, templates, truncation or padding; the model stays."""
    mine = known.mine
    if mine is None:
        return known._replace(added=added, rest=rest)
    refused = _Known(known.core, added, rest, None, None)
    texts: list[str] = []
    try:
        if added != known.added:
            before = set(mine._added.by_id.values())
            _copy_added(real, mine)
            new = [each for each in mine._added.by_id.values() if each not in before]
            texts += mirror_texts.around([token.content for token in new])
        if rest.processor != known.rest.processor:
            texts += mirror_texts.general()[:8]
        last = None if added != known.added else known.pipeline
        pipeline = _pipeline(mine, rest, last)
        agrees = _agrees(real, encode, pipeline, texts)
    except Exception:  # as above
        return refused
    return _Known(known.core, added, rest, mine, pipeline) if agrees else refused


def _copy_added(real: Any, mine: Tokenizer) -> None:
    found = real.get_added_tokens_decoder()
    ids = {token.content: id_ for id_, token in found.items()}
    tokens = [
        AddedToken(token.content, **{name: getattr(token, name) for name in _FLAGS})
        for _, token in sorted(found.items())
    ]
    mine._added = AddedTokens()
    mine._added.add(tokens, ids.get, lambda: 0)
    mine._changes = -1


def _pipeline(mine: Tokenizer, rest: _Rest, last: Pipeline | None = None) -> Pipeline:
    """The pipeline of `mine` with `rest`; of `last`, if only `rest` has changed since."""
    if last is None or mine.encode_special_tokens != rest.encode_special_tokens:
        mine.encode_special_tokens = rest.encode_special_tokens
        last = mine._ready()
    return dataclasses.replace(
        last,
        processor=processors.FAMILY.read(json.loads(rest.processor)),
        truncation=None if rest.truncation is None else Truncation(**rest.truncation),
        padding=None if rest.padding is None else Padding(**rest.padding),
    )


# The comparison


def _agrees(
    real: Any, encode: Callable[..., Any], pipeline: Pipeline, texts: Sequence[str]
) -> bool:
    """Whether both give the same for `texts`: alone, as pairs, as words, with and without specials.

    What is padded is compared without the padding: with a length of thousands it would take long.
    """
    if not texts:
        return True
    # The real model remembers ids of words, and goes on doing so when it is trained anew or changed
    # in place: what is asked here must leave no trace, and not meet one.
    real.model._clear_cache()
    try:
        return _compare(real, encode, dataclasses.replace(pipeline, padding=None), texts)
    finally:
        real.model._clear_cache()


def _compare(
    real: Any, encode: Callable[..., Any], pipeline: Pipeline, texts: Sequence[str]
) -> bool:
    compared = 0
    for index, text in enumerate(texts):
        calls: list[tuple[Any, Any, bool]] = [(text, None, False)]
        if index % 8 == 0:
            # A short one: all that overflows of one meets all that overflows of the other.
            calls += [(text, texts[index - 1][:12], False), (text.split(" "), None, True)]
        for call in calls:
            ours = _answer(_encode, pipeline, *call, index % 2 == 0)
            if ours is None:
                continue  # it cannot be truncated, and the real library would print its panic
            if ours != _answer(encode, real, *call, index % 2 == 0):
                return False
            compared += 1
    return compared * 2 >= len(texts)


def _answer(call: Callable[..., Any], *given: object) -> object:
    """What can be seen of an encoding; None if there is none."""
    try:
        return _summary(call(*given))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a panic is no Exception
        return None


def _summary(encoding: Any) -> list[object]:
    mask = encoding.attention_mask
    columns = (encoding.ids, encoding.type_ids, encoding.offsets, encoding.word_ids)
    rows: list[object] = [
        row for row, kept in zip(zip(*columns, strict=True), mask, strict=True) if kept
    ]
    return [rows, *(_summary(each) for each in encoding.overflowing)]


# The methods that encode, with the arguments of the real ones


def _encode(
    pipeline: Pipeline,
    sequence: object,
    pair: object = None,
    is_pretokenized: object = False,
    add_special_tokens: object = True,
) -> Encoding:
    first = single_input(sequence, is_pretokenized)
    second = None if pair is None else single_input(pair, is_pretokenized)
    return pipeline.encode((first, second), values.flag(add_special_tokens))


def _encode_batch(
    pipeline: Pipeline,
    input: object,
    is_pretokenized: object = False,
    add_special_tokens: object = True,
    bare: bool = False,
) -> list[Encoding]:
    pairs = batch_inputs(input, is_pretokenized)
    return pipeline.encode_batch(pairs, values.flag(add_special_tokens), bare=bare)


CALLS: dict[str, Callable[..., Any]] = {
    "encode": _encode,
    "encode_batch": _encode_batch,
    "encode_batch_fast": functools.partial(_encode_batch, bare=True),
}


def real_encoding(kind: type[Any], encoding: Any) -> Any:
    """An encoding as the real library has them, of one of ours."""
    if not isinstance(encoding, Encoding):
        return encoding
    made = kind()
    made.__setstate__(encoding.__getstate__())
    return made
