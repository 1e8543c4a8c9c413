"""A name, a file, a folder or an object → a core, with all that a tokenizer says about itself.

A vocabulary of tiktoken's kind, whose ids are its ranks, goes to the core as it is. Every other
tokenizer is read into `Parts` first.
"""

from __future__ import annotations

import os
import secrets
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from tokenmill import arguments
from tokenmill.errors import PatternError, VocabularyError
from tokenmill.formats import Merge, load_parts, own, rank_parts, ranks
from tokenmill.formats.packing import pack_steps
from tokenmill.formats.parts import DECODED, TOKEN, Model, Parts, Pattern, Ranks
from tokenmill.formats.reading import refuse_broken_link
from tokenmill.native import _native
from tokenmill.schemes import PATTERNS, name_of, pattern_of, scheme_of, scheme_of_stages
from tokenmill.vocabularies import EMBEDDED, find_embedded, find_known

if TYPE_CHECKING:
    from tokenmill.formats.compiled import Compiled

# Another one for every change to how files are read or vocabularies are built.
_CACHE_VERSION = "0.1.0-3"
# Sum of the squares of lengths; 32,000 real pieces have some ten millions.
_SPELT_BYTES_MAX = 1 << 30


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Loaded:
    """A core and where it comes from. `learned` and `provenance` are of a trained vocabulary.

    `pattern` is None where text is cut in several stages, or not at all. `head` are the parts, but
    perhaps without tokens, and `parts` gives all of them; they are None if ids are ranks, as
    tiktoken has them. `always` names added tokens that are found even where specials are not.

    Invariant: nothing of it changes, so any number of tokenizers share one.
    """

    core: _native.Core
    name: str
    pattern: str | None
    specials: Mapping[str, int]
    is_embedded: bool = False
    learned: Sequence[Merge] | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    head: Parts | None = None
    parts: Callable[[], Parts] | None = None
    always: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        added = () if self.head is None else self.head.added
        always = frozenset(token.content for token in added if not token.special)
        object.__setattr__(self, "always", always)
        object.__setattr__(self, "specials", MappingProxyType(dict(self.specials)))


# The embedded vocabularies that tokenizers use now, by name and specials. A second tokenizer of one
# costs an object in Python, where a core of its own takes megabytes (11 for o200k_base).
_in_use: WeakValueDictionary[tuple[Any, ...], Loaded] = WeakValueDictionary()


def load(source: Any, pattern: Any, specials: Any) -> Loaded:
    """What `Tokenizer.load` does, with its arguments as they came."""
    if pattern is not None and not isinstance(pattern, str):
        raise TypeError(f"pattern must be a str, a regular expression or a name: {pattern!r}")
    if specials is not None and not isinstance(specials, Mapping):
        raise TypeError(f"specials must map names to ids, not {specials!r}")
    if not isinstance(source, str | os.PathLike):
        return _load_object(source, pattern, specials or {})
    name = os.fspath(source)
    embedded = find_embedded(name) if isinstance(source, str) else None
    if embedded is not None and Path(name).is_file():
        raise VocabularyError(
            f"{name!r} is a file and also stands for {embedded}; for the file write "
            f"pathlib.Path({name!r}), for the vocabulary {embedded!r} in another folder"
        )
    if embedded is None:
        return _load_path(name, pattern, specials or {})
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
    key = (name, *names.items())
    found = _in_use.get(key)
    if found is None:
        core = _native.from_image(entry.read_image(), secrets.randbits(64), entry.scheme, packed)
        found = _checked(Loaded(core, name, pattern_of(entry.scheme), names, True))
        _in_use[key] = found
    return found


def _load_object(tokenizer: Any, pattern: str | None, specials: Mapping[str, int]) -> Loaded:
    """A tokenizer of another library, or of `tokenmill.compat`; one of ours shares its core."""
    ours = getattr(tokenizer, "_loaded", None)
    if isinstance(ours, Loaded):
        if pattern is not None or not specials.items() <= ours.specials.items():
            raise VocabularyError(
                f"a tokenizer made from another shares its pattern and specials; save {ours.name} "
                "and load the file to have others"
            )
        return ours
    if pattern is None and hasattr(tokenizer, "_mergeable_ranks"):
        arrays = arguments.token_arrays(tokenizer._mergeable_ranks, repr(tokenizer))
        names = {**tokenizer._special_tokens, **specials}
        return from_arrays(arrays, tokenizer._pat_str, names, tokenizer.name)
    return from_parts(load_parts(tokenizer, pattern), type(tokenizer).__name__, specials)


def _load_path(name: str, pattern: str | None, specials: Mapping[str, int]) -> Loaded:
    path = Path(name)
    pattern = None if pattern is None else pattern_of(pattern)
    try:
        is_file = path.is_file()
    except OSError as error:  # such as a name that is too long
        raise VocabularyError(f"{name[:80]!r} cannot be a file: {error.strerror}") from None
    if not is_file:
        refuse_broken_link(path)
        if not name or not path.is_dir():
            arguments.check_name(name)
        return _load_parts(name, path, pattern, specials)
    if own.is_own(path) and own.holds_ranks(path):
        return _load_own(path, pattern, specials)
    if not ranks.is_rank_file(path):
        return _load_parts(path, path, pattern, specials)
    tokens = ranks.read(path)
    known = find_known(path) if pattern is None else None
    if known is not None:
        pattern, specials = known.scheme, {**known.specials, **specials}
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
    parts = own.read(path)
    assert parts.ranks is not None
    tokens = {token: id_ for id_, token in rank_parts.tokens_of(parts.model).items()}
    arrays = arguments.token_arrays(tokens, path)
    names = {**{one.content: one.id for one in parts.added}, **specials}
    more = (path.stem, parts.ranks.learned, parts.ranks.provenance)
    return from_arrays(arrays, rank_parts.pattern_of(parts), names, *more)


def from_arrays(
    arrays: tuple[bytes, bytes, bytes],
    pattern: str,
    specials: dict[str, int],
    name: str,
    learned: Sequence[Merge] | None = None,
    provenance: Mapping[str, Any] = MappingProxyType({}),
) -> Loaded:
    """Tokens whose ids are their ranks, as `arguments.token_arrays` packs them."""
    pattern = pattern_of(pattern)
    arguments.refuse_shared_ids(specials, specials)
    packed = arguments.pack_specials(specials)
    seed = secrets.randbits(64)
    core = _native.from_tokens(*arrays, seed, scheme_of(pattern), packed)
    return _checked(Loaded(core, name, pattern, specials, False, learned, dict(provenance)))


def _load_parts(
    source: str | Path, path: Path, pattern: str | None, specials: Mapping[str, int]
) -> Loaded:
    """A file, a folder or a name of the hub; a large one through the cache."""
    from tokenmill.formats import compiled, hub

    name = path.stem if path.is_file() else path.name
    if not path.exists() and hub.is_name(str(source)):
        source = path = hub.find(str(source))
    files = compiled.sources_of(path)
    place = compiled.place_of(path, pattern, _CACHE_VERSION) if files else None
    if place is None:
        with _naming(source):
            return from_parts(load_parts(source, pattern), name, specials)
    kept = compiled.read(place)
    if kept is not None:
        # The sources are read while the core is built.
        with ThreadPoolExecutor(1) as pool:
            digest = pool.submit(compiled.digest_of, files)
            core = _core_of_compiled(kept)
            is_same = digest.result() == kept.digest
        if core is not None and is_same:
            whole = partial(_parts_of, kept, source, files, pattern)
            return _of_parts(core, kept.head, whole, name, specials)
    before = compiled.digest_of(files)
    with _naming(source):
        parts = load_parts(source, pattern)
        core = core_of_parts(parts)
    if not parts.model.dropout and compiled.digest_of(files) == before:
        compiled.write(place, parts, core.compiled(), before)
    return _of_parts(core, parts, lambda: parts, name, specials)


@contextmanager
def _naming(source: str | Path) -> Iterator[None]:
    """Errors inside name the source, whoever raised them."""
    try:
        yield
    except (VocabularyError, PatternError) as error:
        if str(source) in str(error):
            raise
        raise type(error)(f"{source}: {error}") from None


def _core_of_compiled(kept: Compiled) -> _native.Core | None:
    head = kept.head
    try:
        front = arguments.pack_front(head.added, pack_steps(head.steps), head.prefix)
        scheme = scheme_of_stages(head.stages, head.blank)
        return _native.from_compiled(kept.core, scheme, front, secrets.randbits(64), head.blank)
    except (VocabularyError, PatternError):
        return None


def _parts_of(kept: Compiled, source: str | Path, files: list[Path], pattern: str | None) -> Parts:
    """All parts of a tokenizer that came from the cache: from there, or else from its source."""
    from tokenmill.formats import compiled

    try:
        return kept.parts()
    except (OSError, VocabularyError, struct.error):
        if not all(file.is_file() for file in files) or compiled.digest_of(files) != kept.digest:
            raise VocabularyError(
                f"{source} has changed since it was loaded, and what was kept of it is gone; load "
                "it again"
            ) from None
        return load_parts(source, pattern)


def from_parts(parts: Parts, name: str, specials: Mapping[str, int] | None = None) -> Loaded:
    """A tokenizer of any kind; `specials` name tokens that it has."""
    return _of_parts(core_of_parts(parts), parts, lambda: parts, name, specials or {})


def _of_parts(
    core: _native.Core,
    head: Parts,
    parts: Callable[[], Parts],
    name: str,
    specials: Mapping[str, int],
) -> Loaded:
    added = {token.content: token.id for token in head.added if token.special}
    for special, id_ in specials.items():
        if added.get(special) != id_:
            raise VocabularyError(
                f"special {special!r} with id {id_} is not in {name}, whose file says which there "
                "are; add it to the file"
            )
    pattern = None
    if len(head.stages) == 1 and isinstance(head.stages[0].match, Pattern):
        pattern = head.stages[0].match.text
    return Loaded(core, name, pattern, added, head=head, parts=parts)


def core_of_parts(parts: Parts) -> _native.Core:
    """The core that runs parts."""
    model = parts.model
    _check_model(parts)
    known = np.isin([token.id for token in parts.added], model.ids)
    # Added tokens that are no tokens of the model are only found as a whole, and decoded.
    more = [t for t, is_there in zip(parts.added, known.tolist(), strict=True) if not is_there]
    names = [token.content.encode() for token in more]
    packed = (
        model.data + b"".join(names),
        np.concatenate([model.lengths, np.array([len(n) for n in names], np.uint32)]),
        np.concatenate([model.ids, np.array([token.id for token in more], np.uint32)]),
        np.concatenate([model.kinds, np.full(len(more), DECODED, np.uint8)]),
        model.merges,
        model.order if model.order is None else np.pad(model.order, (0, len(more))),
        model.base == "characters",
        model.whole,
        parts.blank,
        model.missing,
        -1 if model.unk is None else model.unk,
        model.fuse_unk,
        model.dropout or 0.0,
    )
    front = arguments.pack_front(parts.added, pack_steps(parts.steps), parts.prefix)
    scheme = scheme_of_stages(parts.stages, parts.blank)
    return _native.from_parts(packed, scheme, front, secrets.randbits(64))


def _check_model(parts: Parts) -> None:
    """Refuses what the core cannot run exactly, or not in time."""
    model = parts.model
    if model.merges is None and model.base == "characters":
        # Each token is merged alone from its characters, any two of which may spell a token.
        work = int((model.lengths.astype(np.uint64) ** 2).sum())
        if work > _SPELT_BYTES_MAX:
            raise VocabularyError(
                f"its tokens are too long: merging each of them takes {work:,} steps, and "
                f"{_SPELT_BYTES_MAX:,} are done at most"
            )
        if model.missing in ("unk", "drop"):
            _check_characters(model)
    if parts.blank and model.missing == "bytes":
        ends = np.cumsum(model.lengths, dtype=np.int64)[model.lengths == 3].tolist()
        if not any(model.data[end - 3 : end] == "▁".encode() for end in ends):
            raise VocabularyError(
                'it writes blanks as "▁", which is no token, so that each would become three '
                'bytes; that is not done here: add "▁" to the vocabulary'
            )


def _check_characters(model: Model) -> None:
    """Characters of tokens that are merged by what they spell must be tokens."""
    ends = np.cumsum(model.lengths, dtype=np.int64).tolist()
    wanted = zip(ends, model.lengths.tolist(), model.kinds.tolist(), strict=True)
    texts = [model.data[e - n : e].decode(errors="replace") for e, n, k in wanted if k == TOKEN]
    missing = set("".join(texts)) - {text for text in texts if len(text) == 1}
    if missing:
        raise VocabularyError(
            f"it has tokens with the character {min(missing)!r}, which is no token itself; add it"
        )


def ranked_parts(loaded: Loaded) -> Parts:
    """The parts of a vocabulary whose ids are its ranks."""
    assert loaded.pattern is not None
    learned = None if loaded.learned is None else tuple(loaded.learned)
    tokens = {token: id_ for id_, token in arguments.tokens_of(loaded.core).items()}
    parts = rank_parts.of_ranks(tokens, loaded.pattern, loaded.specials, loaded.name)
    return replace(parts, ranks=Ranks(learned, loaded.provenance, name_of(loaded.pattern)))


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
