"""A folder as transformers saves it → TokenizerSpec.

One file has the tokenizer: tokenizer.json, else tekken.json, else a .model, else vocab.json with
merges.txt. The others are about it: tokenizer_config.json, special_tokens_map.json and
added_tokens.json. Only these names in that folder are read, and no code that a file names is run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from tokenmill.errors import VocabularyError
from tokenmill.formats import tokenizer_json, vocab_merges
from tokenmill.formats.checks import Place, is_file, parse, read_bytes
from tokenmill.formats.names import names_of
from tokenmill.formats.spec import FLAGS, Added, Item, TokenizerSpec, surround, surround_roberta
from tokenmill.formats.tokenizer_json import BYTE_LEVEL

ReadFile: TypeAlias = Callable[[Path, "str | None"], TokenizerSpec]

CONFIG = "tokenizer_config.json"
SPECIALS = "special_tokens_map.json"
ADDED = "added_tokens.json"
_NAMES = (
    *("tokenizer.json", "tekken.json", vocab_merges.VOCABULARY, vocab_merges.MERGES),
    *(CONFIG, SPECIALS, ADDED),
)

# Classes whose files are GPT-2's two.
_GPT2 = ("GPT2", "Roberta", "Longformer", "Bart", "LED", "Blenderbot")
_ROBERTA = _GPT2[1:]
# The default special tokens of these classes, if the vocabulary contains them.
_SPECIALS: dict[str, tuple[str, ...]] = {
    "GPT2": ("<|endoftext|>",),
    **dict.fromkeys(_ROBERTA, ("<s>", "</s>", "<unk>", "<pad>", "<mask>")),
}


def files_of(folder: Path) -> list[Path]:
    """Return all files of a folder that are read, or would be if others were missing."""
    models = (path for path in folder.iterdir() if ".model" in path.suffixes)
    return [
        path for path in sorted({*models, *(folder / name for name in _NAMES)}) if is_file(path)
    ]


def read(folder: Path, read_file: ReadFile, pattern: str | None = None) -> TokenizerSpec:
    """Return the specification of a folder, whose tokenizer `read_file` reads.

    `pattern` is for vocab.json and merges.txt, which lack it.
    """
    source = _find(folder, [path.name for path in files_of(folder)])
    config = _read_json(folder / CONFIG)
    name = config.get("tokenizer_class")
    kind = name.removesuffix("Fast").removesuffix("Tokenizer") if isinstance(name, str) else ""
    if source == vocab_merges.VOCABULARY:
        spec = vocab_merges.read(folder, pattern, is_gpt2=kind in _GPT2)
    else:
        spec = read_file(folder / source, pattern)
    spec = _add(spec, folder, config, kind if source == vocab_merges.VOCABULARY else None)
    spec = _set_prefix(spec, config, kind)
    if source != "tokenizer.json":  # which has its own template
        spec = _put_around(spec, config, kind)
    if config:
        spec = replace(spec, extra={**spec.extra, "tokenizer_config": config})
    return spec


def _find(folder: Path, names: list[str]) -> str:
    """Return the file with the tokenizer."""
    for name in ("tokenizer.json", "tekken.json", "tokenizer.model"):
        if name in names:
            return name
    models = [name for name in names if name not in _NAMES]
    if len(models) > 1:
        raise VocabularyError(
            f"{folder} has {len(models)} models, {', '.join(models[:4])}; pass the path of one"
        )
    for name in (*models, vocab_merges.VOCABULARY):
        if name in names:
            return name
    raise VocabularyError(
        f"{folder} has no tokenizer; expected tokenizer.json, tekken.json, .model, or vocab.json "
        "with merges.txt"
    )


def _read_json(path: Path) -> dict[str, Any]:
    if not is_file(path):
        return {}
    place = Place(str(path))
    return place.check(parse(read_bytes(path), place), dict)


# ── Added tokens ─────────────────────────────────────────────────────────────────────────────


def _add(
    spec: TokenizerSpec, folder: Path, config: Mapping[str, Any], kind: str | None
) -> TokenizerSpec:
    """Add the tokens of the other files, and change flags.

    `kind` is the class of a vocab.json, which has no added tokens. None: another file.
    """
    known = _Known(spec)
    for token, place in _decoder_tokens(config, Place(str(folder / CONFIG))):
        known.add(token, place, overrides=True)
    files = {SPECIALS: _read_json(folder / SPECIALS), CONFIG: config}
    special_tokens = {
        content: place
        for name, file in files.items()
        for content, place in _special_names(file, Place(str(folder / name)))
    }
    place = Place(str(folder / ADDED))
    for content, id_ in _read_json(folder / ADDED).items():
        is_special = content in special_tokens
        flags = {"special": is_special, "normalized": not is_special}
        known.add(Added(content, place.check(id_, int), **flags), place)
    for content, at in special_tokens.items():
        known.need(content, at, adds=kind is not None)
    for content in _SPECIALS.get(kind or "", ()):
        id_ = known.names.get(content)
        if id_ is not None and content not in known.added:
            known.added[content] = Added(content, id_, lstrip=content == "<mask>")
    return replace(spec, added=tuple(sorted(known.added.values(), key=lambda token: token.id)))


def _decoder_tokens(config: Mapping[str, Any], place: Place) -> Iterator[tuple[Added, Place]]:
    place = place.inside("added_tokens_decoder")
    tokens = place.check(config.get("added_tokens_decoder") or {}, dict)
    for key, value in sorted(tokens.items(), key=lambda item: (len(item[0]), item[0])):
        at = place.inside(key)
        if not (key.isascii() and key.isdigit() and len(key) < 10):
            at.refuse("is not an id; write a whole number")
        token = at.check(value, dict)
        content = at.get(token, "content", str)
        if not content or len(content.encode()) > tokenizer_json.CONTENT_BYTES_MAX:
            at.refuse(f"has a content of {len(content.encode())} bytes; it must have 1 to 4096")
        flags = {flag: bool(at.maybe(token, flag, bool)) for flag in FLAGS}
        if token.get("normalized") is None:
            flags["normalized"] = not flags["special"]
        yield Added(content, int(key), **flags), at


def _special_names(config: Mapping[str, Any], place: Place) -> Iterator[tuple[str, Place]]:
    """Yield the texts of bos_token, eos_token and other special tokens."""
    for key, value in config.items():
        if not key.endswith("_token") and key != "additional_special_tokens":
            continue
        for one in value if isinstance(value, list) else [value]:
            if content := _content(one):
                yield content, place.inside(key)


def _content(token: Any) -> str | None:
    """Return the text of a token, which may be an object with flags."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None


class _Known:
    """The added tokens of a tokenizer, and the tokens of its vocabulary by name when needed."""

    def __init__(self, spec: TokenizerSpec) -> None:
        self.model = spec.model
        self.added = {token.content: token for token in spec.added}

    @cached_property
    def names(self) -> dict[str, int]:
        return dict(zip(names_of(self.model), self.model.ids.tolist(), strict=True))

    def add(self, token: Added, place: Place, *, overrides: bool = False) -> None:
        known = self.added.get(token.content)
        id_ = known.id if known else self.names.get(token.content)
        if id_ is not None and id_ != token.id:
            place.refuse(
                f"gives {token.content!r} id {token.id}, and the tokenizer has it with id {id_}; "
                "remove one of them"
            )
        if id_ is None:
            largest = max((one.id for one in self.added.values()), default=-1)
            next_id = max(len(self.names), largest + 1)
            if token.id != next_id:
                place.refuse(
                    f"adds {token.content!r} with id {token.id}, and the next one that is free is "
                    f"{next_id}; write tokenizer.json with the token in it"
                )
        if known is None or overrides:
            self.added[token.content] = token

    def need(self, content: str, place: Place, *, adds: bool) -> None:
        """Raise VocabularyError if a special token is unknown. `adds` makes it an added token."""
        if content in self.added:
            return
        id_ = self.names.get(content)
        if id_ is None:
            place.refuse(
                f"names {content!r}, which the tokenizer does not have; add it to added_tokens of "
                "tokenizer.json, or remove the name"
            )
        if adds:
            self.added[content] = Added(content, id_)


# ── Settings ─────────────────────────────────────────────────────────────────────────────────


def _set_prefix(spec: TokenizerSpec, config: Mapping[str, Any], kind: str) -> TokenizerSpec:
    adds = config.get("add_prefix_space")
    if kind not in _GPT2 or not isinstance(adds, bool) or spec.stages != (BYTE_LEVEL,):
        return spec
    return replace(spec, prefix="missing" if adds else "never")


def _put_around(spec: TokenizerSpec, config: Mapping[str, Any], kind: str) -> TokenizerSpec:
    """Set the template that transformers makes if the file has none."""
    ids = {token.content: token.id for token in spec.added}
    if kind in _ROBERTA:
        start, end = (_special(config.get(key), ids) for key in ("cls_token", "sep_token"))
        if start is None or end is None:
            return spec
        template = surround_roberta(start, end)
        return replace(
            spec, template=replace(template, trims=True, trim_prefix=spec.prefix == "missing")
        )
    first = _special(config.get("bos_token"), ids) if config.get("add_bos_token") else None
    last = _special(config.get("eos_token"), ids) if config.get("add_eos_token") else None
    if first is None and last is None:
        return spec
    around = surround(first, last)
    return replace(spec, template=replace(spec.template, single=around.single, pair=around.pair))


def _special(token: Any, ids: Mapping[str, int]) -> Item | None:
    name = _content(token)
    return Item(name, 0, (ids[name],), (name,)) if name is not None and name in ids else None
