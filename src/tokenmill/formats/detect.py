"""A path, a name or an object → TokenizerSpec. This is the only place that recognizes formats."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tokenmill.errors import PatternError, VocabularyError
from tokenmill.formats import (
    gguf,
    hf_folder,
    ranks,
    sentencepiece,
    tekken,
    tokenizer_json,
    tokenmill_file,
    vocab_merges,
)
from tokenmill.formats.checks import read_bytes, refuse_broken_link
from tokenmill.formats.ranks import of_ranks
from tokenmill.formats.spec import TokenizerSpec
from tokenmill.patterns.schemes import pattern_of
from tokenmill.vocabularies import EMBEDDED, MODELS

_NAME = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")
_REVISION = re.compile(r"[0-9a-zA-Z]{1,64}")


def is_hub_name(name: str) -> bool:
    """Return whether a name has the form "org/name"."""
    return _NAME.fullmatch(name) is not None and ".." not in name


def cache_folder() -> Path:
    """Return the folder of downloads."""
    if found := os.environ.get("HF_HUB_CACHE"):
        return Path(found).expanduser()
    if found := os.environ.get("HF_HOME"):
        return Path(found).expanduser() / "hub"
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "huggingface" / "hub"


def find_in_hub(name: str, revision: str = "main") -> Path:
    """Return the folder of a downloaded model."""
    cache = cache_folder()
    repository = cache / f"models--{name.replace('/', '--')}"
    advice = f"run `hf download {name} tokenizer.json`, or pass a path to its files"
    if not repository.is_dir():
        raise VocabularyError(
            f"{name!r} is neither a file nor an embedded vocabulary, and the cache of the hub "
            f"({cache}) has no such model; {advice}"
        )
    if not _NAME.fullmatch(f"revision/{revision}") or ".." in revision:
        raise VocabularyError(f"{revision!r} is not the name of a revision; {advice}")
    try:
        revision = (repository / "refs" / revision).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        revision = "" if revision == "main" else revision  # which may be a commit
    folder = repository / "snapshots" / revision
    if not _REVISION.fullmatch(revision) or not folder.is_dir():
        raise VocabularyError(f"{repository} has no complete download of {name!r}; {advice}")
    return folder


def read_object(tokenizer: Any) -> tuple[TokenizerSpec, str]:
    """Return the specification and the name of a tokenizer of another library.

    Supported are tiktoken.Encoding, tokenizers.Tokenizer and the fast tokenizers of transformers.
    They are detected by their attributes, so that no library is imported.
    """
    kind = type(tokenizer)
    source = f"{kind.__module__}.{kind.__qualname__}"
    if all(hasattr(tokenizer, name) for name in ("_mergeable_ranks", "_pat_str")):
        special_tokens = getattr(tokenizer, "_special_tokens", {})
        pattern = pattern_of(tokenizer._pat_str)
        spec = of_ranks(tokenizer._mergeable_ranks, pattern, special_tokens, source)
        return spec, getattr(tokenizer, "name", kind.__name__)
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    for one in (tokenizer, backend):
        if callable(getattr(one, "to_str", None)) and hasattr(one, "get_vocab_size"):
            try:
                data = str(one.to_str()).encode()
            except Exception as error:  # the library raises no narrower one for parts in Python
                raise VocabularyError(f"{source} cannot be written as JSON ({error})") from None
            return tokenizer_json.read(data, source), kind.__name__
    if any(base.__module__.split(".")[0] == "transformers" for base in kind.__mro__):
        raise VocabularyError(f"{source} is not a fast tokenizer; load its folder")
    raise TypeError(
        f"expected a tokenizer of tiktoken, tokenizers or transformers, got {kind.__name__}; for "
        "a name or a path use Tokenizer.load"
    )


_JSON = re.compile(rb"[ \t\r\n]*\{")


def _has(key: bytes) -> Callable[[Path, bytes], bool]:
    """Return a check for JSON that contains a key, of which `key` is a pattern."""
    pattern = re.compile(key)
    return lambda _, data: _JSON.match(data) is not None and pattern.search(data) is not None


def _starts(start: bytes) -> Callable[[Path, bytes], bool]:
    return lambda _, data: data.startswith(start)


def _read_pair(data: bytes, source: str, pattern: str | None) -> TokenizerSpec:
    path = Path(source)
    return vocab_merges.read(path.parent, pattern, known={path.name: data})


# A file has the first format whose check of its path and bytes is true. The reader takes the bytes,
# and the name for errors.
FORMATS: tuple[tuple[Callable[[Path, bytes], bool], Callable[..., TokenizerSpec]], ...] = (
    (_starts(tokenmill_file.START), tokenmill_file.read),
    (ranks.is_ranks, ranks.read),
    (_starts(gguf.MAGIC), lambda _, source: gguf.read(Path(source), source)),
    (_has(rb'"model"\s*:\s*\{'), tokenizer_json.read),
    (_has(rb'"token_bytes"\s*:\s*"'), tekken.read),
    (vocab_merges.is_one, _read_pair),
    (_has(b""), tokenizer_json.read),  # which names the missing section
    (_starts(b"\n"), sentencepiece.read),  # field 1 of a message, with its length
)
# These readers also take `pattern`, because their files have none.
_WITHOUT_PATTERN = (ranks.read, _read_pair)


def load_spec(
    source: str | os.PathLike[str],
    pattern: str | None = None,
    special_tokens: Mapping[str, int] = MappingProxyType({}),
) -> TokenizerSpec:
    """Return the specification of a file, of a folder, or of a model in the hub's cache.

    `pattern` is for formats that lack it. `special_tokens` are added to ranks.
    """
    pattern = None if pattern is None else pattern_of(pattern)
    path = find_path(os.fspath(source))
    spec = hf_folder.read(path, read_file, pattern) if path.is_dir() else read_file(path, pattern)
    return ranks.add_special_tokens(spec, special_tokens, path.name)


def read_file(path: Path, pattern: str | None = None) -> TokenizerSpec:
    """Return the specification of a file of any format, which is read once."""
    if not path.is_file():
        raise VocabularyError(f"{path} is not a regular file")
    source = str(path)
    with path.open("rb") as file:
        data = file.read(len(gguf.MAGIC))
    if data != gguf.MAGIC:  # such a file has the weights, too, and its reader opens it
        data = read_bytes(path)
    read = next((read for is_one, read in FORMATS if is_one(path, data)), None)
    if read is None:
        raise VocabularyError(
            f"{path} is not a tokenizer file; expected tokenizer.json, tekken.json, .model, GGUF, "
            "vocab.json with merges.txt, a rank file, or .tokenmill"
        )
    if read in _WITHOUT_PATTERN:
        return read(data, source, pattern)
    if pattern is not None:
        raise VocabularyError(f"{path} has its own pattern; leave out pattern=")
    return read(data, source)


def find_path(name: str) -> Path:
    """Return the file or folder of a name, which may be "org/name" in the hub's cache."""
    path = Path(name)
    try:
        if name and (path.is_file() or path.is_dir()):
            return path
        refuse_broken_link(path)
        exists = bool(name) and path.exists()
    except OSError as error:  # such as a name that is too long
        raise VocabularyError(f"{name[:80]!r} cannot be a file: {error.strerror}") from None
    if exists:
        raise VocabularyError(f"{name!r} is not a regular file; pass a file or a folder")
    if is_hub_name(name):
        return find_in_hub(name)
    near = difflib.get_close_matches(name.strip().lower(), [*EMBEDDED, *MODELS], 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise VocabularyError(
        f"{name!r} is neither a file, a folder, an embedded vocabulary, an OpenAI model, nor a "
        f"name of the hub (org/name); {hint}embedded are {', '.join(EMBEDDED)}"
    )


@contextmanager
def naming(source: str | os.PathLike[str]) -> Iterator[None]:
    """Add the source to the errors raised inside, unless they contain it."""
    try:
        yield
    except (VocabularyError, PatternError) as error:
        if os.fspath(source) in str(error):
            raise
        raise type(error)(f"{os.fspath(source)}: {error}") from None
