"""Names of encodings and models → encodings, with the interface of tiktoken.registry and .model."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tokenmill.compat.tiktoken.core import Encoding
from tokenmill.vocabularies import EMBEDDED, MODEL_PREFIXES, MODELS

ENCODINGS: dict[str, Encoding] = {}
ENCODING_CONSTRUCTORS: dict[str, Callable[[], dict[str, Any]]] | None = None
MODEL_TO_ENCODING: dict[str, str] = dict(MODELS)
MODEL_PREFIX_TO_ENCODING: dict[str, str] = dict(MODEL_PREFIXES)

_OWN = "tiktoken_ext.openai_public"  # its encodings are embedded
_lock = threading.RLock()


@functools.lru_cache
def _available_plugin_modules() -> Sequence[str]:
    try:
        plugins = importlib.import_module("tiktoken_ext")
    except ImportError:
        return [_OWN]
    found = pkgutil.iter_modules(plugins.__path__, "tiktoken_ext.")
    return [_OWN, *(module.name for module in found if module.name != _OWN)]


def _constructors() -> dict[str, Callable[[], dict[str, Any]]]:
    """Return the constructors of all encodings; ValueError for an invalid plugin."""
    global ENCODING_CONSTRUCTORS
    with _lock:
        if ENCODING_CONSTRUCTORS is not None:
            return ENCODING_CONSTRUCTORS
        found: dict[str, Callable[[], dict[str, Any]]] = {
            name: lambda name=name: Encoding._embedded(name)._arguments()  # type: ignore[misc]
            for name in EMBEDDED
        }
        for module_name in _available_plugin_modules()[1:]:
            module = importlib.import_module(module_name)
            if not hasattr(module, "ENCODING_CONSTRUCTORS"):
                raise ValueError(
                    f"tiktoken plugin {module_name} does not define ENCODING_CONSTRUCTORS"
                )
            for name, constructor in module.ENCODING_CONSTRUCTORS.items():
                if name in found:
                    raise ValueError(
                        f"Duplicate encoding name {name} in tiktoken plugin {module_name}"
                    )
                found[name] = constructor
        ENCODING_CONSTRUCTORS = found
        return found


def get_encoding(encoding_name: str) -> Encoding:
    """Return the encoding of a name, created once; ValueError for an unknown name."""
    if not isinstance(encoding_name, str):
        raise ValueError(f"Expected a string in get_encoding, got {type(encoding_name)}")
    with _lock:
        if encoding_name in ENCODINGS:
            return ENCODINGS[encoding_name]
        if encoding_name in EMBEDDED:
            encoding = Encoding._embedded(encoding_name)
        elif encoding_name in _constructors():
            encoding = Encoding(**_constructors()[encoding_name]())
        else:
            raise ValueError(
                f"Unknown encoding {encoding_name}.\n"
                f"Plugins found: {_available_plugin_modules()}\n"
                "tiktoken version: 0.14.0 (are you on latest?)"
            )
        ENCODINGS[encoding_name] = encoding
        return encoding


def list_encoding_names() -> list[str]:
    """Return the names that `get_encoding` accepts."""
    return list(_constructors())


def encoding_name_for_model(model_name: str) -> str:
    """Return the name of a model's encoding; KeyError for an unknown model."""
    if model_name in MODEL_TO_ENCODING:
        return MODEL_TO_ENCODING[model_name]
    for prefix, name in MODEL_PREFIX_TO_ENCODING.items():
        if model_name.startswith(prefix):
            return name
    raise KeyError(
        f"Could not automatically map {model_name} to a tokeniser. "
        "Please use `tiktoken.get_encoding` to explicitly get the tokeniser you expect."
    )


def encoding_for_model(model_name: str) -> Encoding:
    """Return the encoding of a model; KeyError for an unknown model."""
    return get_encoding(encoding_name_for_model(model_name))
