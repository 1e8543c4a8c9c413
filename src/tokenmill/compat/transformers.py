"""Fast tokenizers of `transformers` → the same ones, with tokenmill encoding where it is exact.

A fast tokenizer keeps a `tokenizers.Tokenizer` in `_tokenizer`. That object stays, since users and
the real library's own classes take it as what it is; only its methods that encode are led to a
mirror, and only for the objects that a fast tokenizer holds. Everything else is the real library's.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tokenmill.errors import MissingExtraError

if TYPE_CHECKING:
    from tokenmill.compat.mirror import Mirror
    from tokenmill.compat.tokenizers.pipeline import Pipeline

_HELD = "_tokenizer"
_KEY = "_tokenmill"
# Method → what a mirror counts it as.
_CHANGES = {
    "train": "model_changes",
    "train_from_iterator": "model_changes",
    "__setstate__": "model_changes",
    "add_tokens": "added_changes",
    "add_special_tokens": "added_changes",
}

_MISSING = object()

_lock = threading.Lock()
_patch: Patch | None = None


def patch_transformers() -> None:
    """From now on fast tokenizers of transformers, also those that exist, encode with tokenmill.

    Those that tokenmill cannot do exactly stay as they are; `is_patched` tells. Only encoding
    changes. Calling it again does nothing; `unpatch_transformers` takes it back. Without
    transformers installed it is a MissingExtraError, which is an ImportError.
    """
    global _patch
    with _lock:
        if _patch is None:
            _patch = Patch()


def unpatch_transformers() -> None:
    """Fast tokenizers of transformers encode by themselves again, if they were patched."""
    global _patch
    with _lock:
        if _patch is not None:
            _patch.undo()
            _patch = None


def is_patched(tokenizer: object) -> bool:
    """Whether tokenmill encodes for a tokenizer of transformers."""
    patch, real = _patch, getattr(tokenizer, _HELD, None)
    return patch is not None and patch.pipeline(real) is not None


class Patch:
    """What was changed in both libraries, and how it was."""

    def __init__(self) -> None:
        tokenizers, transformers = _import("tokenizers"), _import("transformers")
        # Nothing of it is needed without a patch.
        self._mirrors: Any = importlib.import_module("tokenmill.compat.mirror")
        self._kind: type[Any] = tokenizers.Tokenizer
        self._encoding: type[Any] = tokenizers.Encoding
        self._fast: type[Any] = transformers.PreTrainedTokenizerFast
        names = (*self._mirrors.CALLS, *_CHANGES, "post_process", "model")
        self._before = {name: vars(self._kind)[name] for name in names}
        for name, wrapper in self._wrappers().items():
            setattr(self._kind, name, wrapper)
        self._held = vars(self._fast).get(_HELD, _MISSING)
        setattr(self._fast, _HELD, _Watched(self, self._held))

    def undo(self) -> None:
        for name, value in self._before.items():
            setattr(self._kind, name, value)
        if self._held is _MISSING:
            delattr(self._fast, _HELD)
        else:
            setattr(self._fast, _HELD, self._held)

    def watch(self, real: object) -> None:
        """From now on tokenmill encodes for `real`, if it is a tokenizer."""
        if type(real) is self._kind and self._mirror_of(real) is None:
            vars(real)[_KEY] = (self, self._mirrors.Mirror())

    def pipeline(self, real: object) -> Pipeline | None:
        mirror = self._mirror_of(real) if type(real) is self._kind else None
        return None if mirror is None else mirror.pipeline(real, self._before["encode"])

    def _mirror_of(self, real: object) -> Mirror | None:
        # One of an earlier patch has not seen what was changed since.
        patch, mirror = vars(real).get(_KEY, (None, None))
        return mirror if patch is self else None

    # What the methods of the real class become

    def _wrappers(self) -> dict[str, Any]:
        made: dict[str, Any] = {
            name: self._encodes(name, call) for name, call in self._mirrors.CALLS.items()
        }
        made |= {name: self._changes(name, counter) for name, counter in _CHANGES.items()}
        return {**made, "post_process": self._post_process(), "model": self._model()}

    def _encodes(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        before = self._before[name]

        @functools.wraps(before)
        def encodes(real: Any, /, *args: Any, **kwargs: Any) -> Any:
            pipeline = self.pipeline(real)
            if pipeline is not None:
                try:
                    return call(pipeline, *args, **kwargs)
                except Exception:  # noqa: S110, the real one answers, with its own error
                    pass
            return before(real, *args, **kwargs)

        return encodes

    def _changes(self, name: str, counter: str) -> Callable[..., Any]:
        before = self._before[name]

        @functools.wraps(before)
        def changes(real: Any, /, *args: Any, **kwargs: Any) -> Any:
            try:
                return before(real, *args, **kwargs)
            finally:
                self._count(real, counter)

        return changes

    def _count(self, real: object, counter: str) -> None:
        mirror = self._mirror_of(real)
        if mirror is not None:
            setattr(mirror, counter, getattr(mirror, counter) + 1)

    def _model(self) -> property:
        before = self._before["model"]

        def put(real: Any, model: Any) -> None:
            before.__set__(real, model)
            self._count(real, "model_changes")

        return property(lambda real: before.__get__(real), put, doc=before.__doc__)

    def _post_process(self) -> Callable[..., Any]:
        before = self._before["post_process"]
        convert = self._mirrors.real_encoding

        @functools.wraps(before)
        def post_process(real: Any, /, *args: Any, **kwargs: Any) -> Any:
            given = [convert(self._encoding, each) for each in args]
            named = {name: convert(self._encoding, each) for name, each in kwargs.items()}
            return before(real, *given, **named)

        return post_process


class _Watched:
    """The attribute in which a fast tokenizer keeps the real one, however it got there."""

    def __init__(self, patch: Patch, default: object) -> None:
        self._patch, self._default = patch, default

    def __get__(self, fast: object, owner: object = None) -> Any:
        held = {} if fast is None else vars(fast)
        found = held.get(_HELD, self._default)
        if found is _MISSING:
            raise AttributeError(f"{owner!r} has no attribute {_HELD!r}")
        self._patch.watch(found)
        return found

    def __set__(self, fast: object, value: object) -> None:
        vars(fast)[_HELD] = value

    def __delete__(self, fast: object) -> None:
        del vars(fast)[_HELD]


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f'patch_transformers needs the package {name}: pip install "tokenmill[transformers]"'
        ) from error
