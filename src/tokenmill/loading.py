"""A name or a file → a core, with all that a tokenizer says about itself."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tokenmill import arguments
from tokenmill.errors import VocabularyError
from tokenmill.formats import Merge, own, ranks
from tokenmill.native import _native
from tokenmill.schemes import PATTERNS, pattern_of, scheme_of
from tokenmill.vocabularies import EMBEDDED, find_embedded


@dataclass(frozen=True, slots=True)
class Loaded:
    """A core and where it comes from. `learned` and `provenance` are of a trained vocabulary."""

    core: _native.Core
    name: str
    pattern: str
    specials: Mapping[str, int]
    is_embedded: bool = False
    learned: list[Merge] | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)


def load(name_or_path: Any, pattern: Any, specials: Any) -> Loaded:
    """What `Tokenizer.load` does, with its arguments as they came."""
    if not isinstance(name_or_path, str | os.PathLike):
        raise TypeError(f"name_or_path must be a str or a path, not {name_or_path!r}")
    name = os.fspath(name_or_path)
    if pattern is not None and not isinstance(pattern, str):
        raise TypeError(f"pattern must be a str, a regular expression or a name: {pattern!r}")
    if specials is not None and not isinstance(specials, Mapping):
        raise TypeError(f"specials must map names to ids, not {specials!r}")
    embedded = find_embedded(name) if isinstance(name_or_path, str) else None
    if embedded is not None and Path(name).is_file():
        raise VocabularyError(
            f"{name!r} is a file and also stands for {embedded}; for the file write "
            f"pathlib.Path({name!r}), for the vocabulary {embedded!r} in another folder"
        )
    if embedded is None:
        return _load_file(name, pattern, specials or {})
    if pattern is not None:
        raise VocabularyError(
            f"{embedded} has its own pattern; to split text in another way, save its ranks "
            f'with Tokenizer.load("{embedded}").save(path) and load that file with pattern=…'
        )
    return load_embedded(embedded, specials or {})


def load_embedded(name: str, specials: Mapping[str, int]) -> Loaded:
    """A vocabulary of the package, with more specials."""
    entry = EMBEDDED[name]
    for special, id_ in specials.items():
        if entry.specials.get(special, id_) != id_:
            raise VocabularyError(
                f"special {special!r} of {name} has id {entry.specials[special]}, not {id_}"
            )
    names = {**entry.specials, **specials}
    arguments.refuse_shared_ids(
        names, {k: v for k, v in specials.items() if k not in entry.specials}
    )
    packed = arguments.pack_specials(names)
    seed = secrets.randbits(64)
    core = _native.from_image(entry.read_image(), seed, entry.scheme, packed)
    return _checked(Loaded(core, name, pattern_of(entry.scheme), names, True))


def _load_file(name: str, pattern: str | None, specials: Mapping[str, int]) -> Loaded:
    path = arguments.vocabulary_file(name)
    if own.is_own(path):
        return _load_own(path, pattern, specials)
    tokens = ranks.read(path)
    if pattern is None:
        raise VocabularyError(
            f"a rank file does not say how text is split before merging: load {path} with "
            f'pattern="…", a regular expression or one of {", ".join(PATTERNS)}'
        )
    arrays = arguments.token_arrays(tokens, path)
    return from_arrays(arrays, pattern, dict(specials), path.stem)


def _load_own(path: Path, pattern: str | None, specials: Mapping[str, int]) -> Loaded:
    if pattern is not None:
        raise VocabularyError(f"{path} has its own pattern; leave out pattern=")
    read = own.read(path)
    arrays = arguments.token_arrays({token: id_ for id_, token in read.tokens.items()}, path)
    more = (path.stem, read.learned, read.provenance)
    return from_arrays(arrays, read.pattern, {**read.specials, **specials}, *more)


def from_arrays(
    arrays: tuple[bytes, bytes, bytes],
    pattern: str,
    specials: dict[str, int],
    name: str,
    learned: list[Merge] | None = None,
    provenance: Mapping[str, Any] = MappingProxyType({}),
) -> Loaded:
    """Tokens whose ids are their ranks, as `arguments.token_arrays` packs them."""
    pattern = pattern_of(pattern)
    arguments.refuse_shared_ids(specials, specials)
    packed = arguments.pack_specials(specials)
    seed = secrets.randbits(64)
    core = _native.from_tokens(*arrays, seed, scheme_of(pattern), packed)
    return _checked(Loaded(core, name, pattern, specials, False, learned, dict(provenance)))


def core_of_ranks(
    ranks_: Mapping[bytes, int], pattern: str, specials: Mapping[str, int], source: str
) -> _native.Core:
    """A core of ranks and specials as they are: a special may share the id of a token."""
    packed = arguments.pack_specials(specials)
    arrays = arguments.token_arrays(ranks_, source)
    return _native.from_tokens(*arrays, secrets.randbits(64), scheme_of(pattern), packed)


def _checked(loaded: Loaded) -> Loaded:
    arguments.refuse_taken_ids(loaded.core, loaded.specials)
    return loaded
