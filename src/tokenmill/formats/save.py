"""TokenizerSpec → a file of any format, selected by the name of the file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from tokenmill.errors import VocabularyError
from tokenmill.files import write_together, write_whole
from tokenmill.formats import (
    hf_folder,
    ranks,
    sentencepiece,
    tokenizer_json,
    tokenmill_file,
    vocab_merges,
)
from tokenmill.formats.spec import TokenizerSpec

_CONFIG = "a file of transformers next to a tokenizer"
# Names and suffixes of formats that are not written here.
_NOT_WRITTEN = {
    **dict.fromkeys((hf_folder.CONFIG, hf_folder.SPECIALS, hf_folder.ADDED), _CONFIG),
    "config.json": "a file of transformers about a model",
    "tekken.json": "Mistral's format",
    ".gguf": "llama.cpp's format",
    ".safetensors": "a format of weights",
    ".tmc": "a file of counts",
    ".tmv": "a vocabulary of the package",
}
WRITTEN = (
    "tokenizer.json (or another .json), vocab.json (with merges.txt), x.model (pieces of "
    "SentencePiece), x.tokenmill, x.tiktoken for ranks, or a folder/"
)
# The writer of each suffix.
WRITERS: dict[str, Callable[[TokenizerSpec], bytes]] = {
    ".json": lambda spec: tokenizer_json.write(sentencepiece.hugging_face(spec)),
    ".model": sentencepiece.write,
    ".vocab": sentencepiece.write_vocab,
    tokenmill_file.SUFFIX: tokenmill_file.write,
    ranks.SUFFIX: ranks.write,
}
_OF_PIECES = (".model", ".vocab")  # tokens of characters
_OF_BYTES = (ranks.SUFFIX, vocab_merges.VOCABULARY, vocab_merges.MERGES)
_PAIR = (vocab_merges.MERGES, vocab_merges.VOCABULARY)
_END_TOKENS = ("<|endoftext|>", "</s>")


def check_name(
    path: str | os.PathLike[str], base: Literal["bytes", "characters"] | None = None
) -> None:
    """Raise VocabularyError unless the name is that of a folder or of a format that is written.

    With `base`, the symbols before the first merge, the format must be one for such tokens.
    """
    if is_folder(path):
        return
    name, suffix = Path(path).name, Path(path).suffix
    what = _NOT_WRITTEN.get(name) or _NOT_WRITTEN.get(suffix.lower())
    if what is not None:
        raise VocabularyError(
            f"cannot save to {name!r}: it is the name of {what}, which is not written here; use "
            f"{WRITTEN}"
        )
    if _suffix_of(path) not in WRITERS and name not in _PAIR:
        raise VocabularyError(f"cannot save to {name!r}: unknown suffix {suffix!r}; use {WRITTEN}")
    if base == "bytes" and _suffix_of(path) in _OF_PIECES:
        raise VocabularyError(
            f"{name!r} is a name for SentencePiece pieces, and these tokens are bytes; "
            "use a name that ends in .json, .tokenmill or .tiktoken"
        )
    if base == "characters" and (name in _OF_BYTES or suffix in _OF_BYTES):
        raise VocabularyError(
            f"cannot save a SentencePiece vocabulary to {name!r}; use .model, .vocab, "
            "tokenizer.json, .tokenmill or a folder/"
        )


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is an existing folder, or its name ends in a slash."""
    name = os.fspath(path)
    return name.endswith(("/", os.sep)) or Path(name).is_dir()


def _suffix_of(path: str | os.PathLike[str]) -> str:
    """Return the suffix that selects the writer. Mistral's models end in .model.v3."""
    path = Path(path)
    return path.suffix if path.suffix in WRITERS or ".model" not in path.suffixes else ".model"


def _save_folder(folder: Path, spec: TokenizerSpec) -> None:
    """Write tokenizer.json and tokenizer_config.json, which transformers loads."""
    config = {
        **{k: v for k, v in spec.extra.get("tokenizer_config", {}).items() if k != "auto_map"},
        # Other classes change the tokenizer.json that they load.
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    config.setdefault("clean_up_tokenization_spaces", False)
    names = {token.content for token in spec.added if token.special}
    if end := next((name for name in _END_TOKENS if name in names), None):
        config.setdefault("eos_token", end)
    data = (json.dumps(config, ensure_ascii=False, indent=2) + "\n").encode()
    written = {"tokenizer.json": WRITERS[".json"](spec), hf_folder.CONFIG: data}
    folder.mkdir(parents=True, exist_ok=True)
    write_together({folder / name: content for name, content in written.items()})


def save(path: str | os.PathLike[str], spec: TokenizerSpec) -> None:
    """Write a tokenizer of any kind in the format that the name of the file selects."""
    if is_folder(path):
        _save_folder(Path(path), spec)
        return
    path = Path(path)
    check_name(path, "bytes" if spec.model.base == "bytes" else None)
    if path.name in _PAIR:
        # merges.txt contains the digest of vocab.json, so it is written first.
        vocabulary, merges = vocab_merges.write(spec)
        paths = (path.with_name(name) for name in _PAIR)
        write_together(dict(zip(paths, (merges, vocabulary), strict=True)))
    else:
        write_whole(path, WRITERS[_suffix_of(path)](spec))
