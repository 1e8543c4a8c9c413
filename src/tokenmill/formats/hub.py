"""Name of a model → its folder in the local cache of the Hugging Face hub. Nothing is downloaded.

The cache is where `huggingface_hub` has it: $HF_HUB_CACHE, else $HF_HOME/hub, else
$XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from tokenmill.errors import VocabularyError

_NAME = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")
_REVISION = re.compile(r"[0-9a-zA-Z]{1,64}")


def is_name(name: str) -> bool:
    """Whether it looks like "org/name"."""
    return _NAME.fullmatch(name) is not None and ".." not in name


def cache_folder() -> Path:
    """Where downloads lie."""
    if found := os.environ.get("HF_HUB_CACHE"):
        return Path(found).expanduser()
    if found := os.environ.get("HF_HOME"):
        return Path(found).expanduser() / "hub"
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "huggingface" / "hub"


def find(name: str, revision: str = "main") -> Path:
    """The folder of the files of a model, as they were downloaded last."""
    cache = cache_folder()
    repository = cache / f"models--{name.replace('/', '--')}"
    advice = f"get it with `hf download {name} tokenizer.json`, or give a path to its files"
    if not repository.is_dir():
        raise VocabularyError(
            f"{name!r} is neither a file nor an embedded vocabulary, and the cache of the hub "
            f"({cache}) has no such model; {advice}"
        )
    if not _NAME.fullmatch(f"revision/{revision}") or ".." in revision:
        raise VocabularyError(f"{revision!r} is no name of a revision; {advice}")
    try:
        revision = (repository / "refs" / revision).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        revision = "" if revision == "main" else revision  # which may be a commit
    folder = repository / "snapshots" / revision
    if not _REVISION.fullmatch(revision) or not folder.is_dir():
        raise VocabularyError(f"{repository} has no whole download of {name!r}; {advice}")
    return folder
