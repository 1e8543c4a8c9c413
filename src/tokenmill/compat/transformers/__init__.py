"""transformers' fast tokenizers → the same objects, with tokenmill encoding where it is exact.

A fast tokenizer has a `tokenizers.Tokenizer` in `_tokenizer`. That object stays. It has a delegate,
the tokenmill tokenizer that encodes for it, which is made when the tokenizer is loaded. The patch
replaces methods at two levels: those of fast tokenizers for the calls that most programs make, and
those of `tokenizers.Tokenizer` below for all others.

Components of a tokenizer may change in place. The patch also replaces everything that changes one,
and each change makes a new `Patch.version`. A delegate that has seen another version compares the
components with those it was made from. The real library encodes if tokenmill does not support the
tokenizer, or if any of about 250 test texts differs.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tokenmill import arguments
from tokenmill.compat.tokenizers import Encoding, decoders
from tokenmill.compat.tokenizers.pipeline import Pipeline
from tokenmill.compat.transformers.delegate import ATTRIBUTE, KEY, Delegate
from tokenmill.compat.transformers.fast_calls import FastCalls
from tokenmill.compat.transformers.stored_core import default_memory
from tokenmill.decoding import Decoder
from tokenmill.errors import import_package

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


def patch(*, prefix_store: int | None = None) -> contextlib.ExitStack:
    """Let tokenmill encode and decode for transformers' fast tokenizers, also for existing ones.

    A tokenizer that tokenmill cannot encode exactly stays as it is; see `is_patched`. The
    comparison with it is made while it is loaded, or at the first use of an existing one. `unpatch`
    reverts the patch, and `with patch():` reverts it at the end of the block. A second call has no
    effect. MissingExtraError, an ImportError, if transformers is not installed.

    `prefix_store` is the memory in bytes for a PrefixStore of each tokenizer, in which texts of
    4,096 characters and more are encoded. 0 turns it off. The default is the environment variable
    TOKENMILL_PREFIX_STORE, such as 1GB, or no store.
    """
    global _patch
    if prefix_store is None:
        memory = default_memory()
    else:
        memory = arguments.whole_number(prefix_store, "prefix_store", 0, " (bytes)")
    undo = contextlib.ExitStack()
    with _lock:
        if _patch is None:
            _patch = Patch(memory)
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
    active, real = _patch, getattr(tokenizer, ATTRIBUTE, None)
    return active is not None and active.pipeline(real) is not None


class Patch(contextlib.ExitStack):
    """The replaced attributes of both libraries. Closing it restores the originals."""

    def __init__(self, store_memory: int = 0) -> None:
        super().__init__()
        self.store_memory = store_memory
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
        self._replace(tokenizers.decoders, "DecodeStream", DecodeStream)
        self._patch_fast(transformers)

    def _patch_fast(self, transformers: Any) -> None:
        """Replace methods of fast tokenizers."""
        fast = self._fast = transformers.PreTrainedTokenizerFast
        attribute = _Watched(self, vars(fast).get(ATTRIBUTE, _MISSING))
        self._replace(fast, ATTRIBUTE, attribute)
        load = fast.from_pretrained.__func__

        @functools.wraps(load)
        def from_pretrained(owner: Any, *args: Any, **kwargs: Any) -> Any:
            made = load(owner, *args, **kwargs)
            self.delegate(getattr(made, ATTRIBUTE, None))
            return made

        self._replace(fast, "from_pretrained", classmethod(from_pretrained))
        calls = FastCalls(self, transformers)
        for name, call in calls.replaced():
            self._wrap(fast, name, call)

    def _replace(self, owner: Any, name: str, value: object) -> None:
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
            delegate = vars(real).get(KEY)
            # The delegate of an earlier patch has missed the changes since.
            if delegate is None or delegate.patch is not self:
                vars(real)[KEY] = Delegate(self)

    def delegate(self, real: object) -> Delegate | None:
        """Return the delegate of a real tokenizer, for its state now; None if it has none."""
        found = vars(real).get(KEY) if type(real) is self._kind else None
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
            delegate = vars(changed).get(KEY) if type(changed) is self._kind else None
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


class DecodeStream(decoders.DecodeStream):
    """The stream of the real library, which never repeats a prompt that ends inside a character."""

    _is_new = True

    def step(self, tokenizer: Any, id: int | Sequence[int]) -> str | None:
        """Return the characters that an id completes, or None."""
        if self._is_new and self._ids:
            prompt = tokenizer.decode(self._ids, self._skip)
            if prompt.endswith("\ufffd"):
                self._prefix, self._prefix_length = prompt.rstrip("\ufffd"), len(self._ids)
        self._is_new = False
        return super().step(tokenizer, id)

    def _decoder_of(self, tokenizer: Any) -> Decoder | None:
        delegate = None if _patch is None else _patch.delegate(tokenizer)
        return None if delegate is None or delegate.decode is None else delegate.decoder


class _Watched:
    """The attribute `_tokenizer` of fast tokenizers: reading it creates the delegate."""

    def __init__(self, patch: Patch, default: object) -> None:
        self._patch, self._default = patch, default

    def __get__(self, fast: object, owner: object = None) -> Any:
        attributes = {} if fast is None else vars(fast)
        found = attributes.get(ATTRIBUTE, self._default)
        if found is _MISSING:
            raise AttributeError(f"{owner!r} has no attribute {ATTRIBUTE!r}")
        self._patch.watch(found)
        return found

    def __set__(self, fast: object, value: object) -> None:
        vars(fast)[ATTRIBUTE] = value

    def __delete__(self, fast: object) -> None:
        del vars(fast)[ATTRIBUTE]
