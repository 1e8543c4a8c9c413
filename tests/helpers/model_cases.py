"""Models of any kind → our core and Hugging Face's, and random models to compare them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import tokenizers
from tokenizers import models, pre_tokenizers

from tokenmill.formats.build import added_of, pack_added
from tokenmill.formats.spec import BYTE, DECODED, TOKEN
from tokenmill.native import _native
from tokenmill.patterns.schemes import scheme_of

# The whole text is one pretoken.
WHOLE = "(?s:.+)"

# Schemes without an equivalent pattern.
SCANNERS = ("safe", "metaspace")

BYTE_NAMES = [f"<0x{byte:02X}>" for byte in range(256)]


def bytes_of_names() -> dict[str, int]:
    """GPT-2's: a character for each byte."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in shown]
    names = {chr(byte): byte for byte in shown}
    return names | {chr(256 + index): byte for index, byte in enumerate(others)}


BYTES = bytes_of_names()
NAMES = {byte: name for name, byte in BYTES.items()}


@dataclass
class Case:
    """A model in Hugging Face's terms."""

    vocab: dict[str, int]
    merges: list[tuple[str, str]]
    characters: bool = True
    blank: bool = False
    whole: bool = False
    unk: str | None = None
    fuse_unk: bool = False
    byte_fallback: bool = False
    special_tokens: dict[str, int] = field(default_factory=dict)

    def core(self, scheme: str = WHOLE) -> _native.Core:
        return core_of(
            self.vocab,
            self.merges,
            characters=self.characters,
            blank=self.blank,
            whole=self.whole,
            missing=self.missing(),
            unk=-1 if self.unk is None else self.vocab[self.unk],
            fuse_unk=self.fuse_unk,
            scheme=scheme,
            special_tokens=self.special_tokens,
        )

    def missing(self) -> str:
        if self.byte_fallback and all(name in self.vocab for name in BYTE_NAMES):
            return "bytes"
        return "drop" if self.unk is None else "unk"

    def peer(self) -> tokenizers.Tokenizer:
        model = models.BPE(
            vocab=self.vocab,
            merges=self.merges,
            unk_token=self.unk,
            fuse_unk=self.fuse_unk,
            byte_fallback=self.byte_fallback,
            ignore_merges=self.whole,
        )
        peer = tokenizers.Tokenizer(model)
        if not self.characters:
            peer.pre_tokenizer = pre_tokenizers.ByteLevel(False, use_regex=False)
        return peer


def core_of(
    vocab: Mapping[str, int],
    merges: Sequence[tuple[str, str]] | None,
    *,
    order: Sequence[int] | None = None,
    decoded: Sequence[str] = (),
    characters: bool = True,
    blank: bool = False,
    whole: bool = False,
    missing: str = "drop",
    unk: int = -1,
    fuse_unk: bool = False,
    dropout: float = 0.0,
    scheme: str = WHOLE,
    special_tokens: Mapping[str, int] | None = None,
) -> _native.Core:
    """Build a core like a reader of tokenizer.json does."""
    places = {name: place for place, name in enumerate(vocab)}
    tokens = [
        bytes([BYTE_NAMES.index(name)])
        if missing == "bytes" and name in BYTE_NAMES
        else name.encode()
        if characters or unk == vocab[name]
        else bytes(BYTES[char] for char in name)
        for name in vocab
    ]
    kinds = [
        DECODED
        if name in decoded or unk == vocab[name]
        else BYTE
        if missing == "bytes" and name in BYTE_NAMES
        else TOKEN
        for name in vocab
    ]
    pairs = None if merges is None else np.array([places[x] for p in merges for x in p], np.uint32)
    bundle = _native.pack_bundle(
        "model",
        b"".join(tokens),
        scheme if scheme in SCANNERS else scheme_of(scheme),
        lengths=np.array([len(token) for token in tokens], np.uint32),
        ids=np.array(list(vocab.values()), np.uint32),
        kinds=np.array(kinds, np.uint8),
        merges=pairs,
        order=None if order is None else np.array(order, np.uint32),
        characters=characters,
        whole=whole,
        space_marker=blank,
        missing=missing,
        unk=unk if unk >= 0 else None,
        fuse_unk=fuse_unk,
        dropout=dropout,
        **pack_added(added_of(special_tokens or {})),
    )
    return _native.load(bundle, random.getrandbits(64))


# Of one to four bytes, some of which begin alike.
LETTERS = "abcab éèア漢漣字🦀🦁ñ"


def random_case(source: random.Random) -> Case:
    """A vocabulary of a few letters, its merges in the order of training or in any other."""
    characters = source.random() < 0.7
    letters = sorted({source.choice(LETTERS) for _ in range(source.randrange(1, 9))})
    if not characters:
        letters = sorted({NAMES[byte] for char in letters for byte in char.encode()})
    names = list(letters)
    merges: list[tuple[str, str]] = []
    for _ in range(source.randrange(30)):
        merges.append((source.choice(names), source.choice(names)))
        names.append("".join(merges[-1]))
        if len(names[-1]) > 12:
            names.pop(), merges.pop()
    # Tokens that no merge makes, and more pairs for those that some makes.
    names.extend(
        "".join(source.choice(letters) for _ in range(source.randrange(2, 5)))
        for _ in range(source.randrange(4))
    )
    for name in source.sample(names, source.randrange(len(names))):
        cut = source.randrange(len(name))
        if name[:cut] in names and name[cut:] in names:
            merges.append((name[:cut], name[cut:]))
    how = source.randrange(4)
    if how == 1:
        source.shuffle(merges)
    if how == 2 and merges:
        merges += source.choices(merges, k=3)
    if how == 3:
        merges.sort(key=lambda pair: len(pair[0] + pair[1]))
    vocab_names = list(dict.fromkeys(names))
    bytes_too = characters and source.random() < 0.4
    if bytes_too:
        vocab_names[0:0] = BYTE_NAMES
    unk = source.random() < 0.5
    if unk:
        vocab_names.insert(0, "<unk>")
    ids = list(range(len(vocab_names)))
    if source.random() < 0.6:
        ids = source.sample(range(2 * len(ids)), len(ids))
    if source.random() < 0.3:
        order = list(zip(vocab_names, ids, strict=True))
        source.shuffle(order)
        vocab_names, ids = [name for name, _ in order], [id_ for _, id_ in order]
    return Case(
        dict(zip(vocab_names, ids, strict=True)),
        merges,
        characters=characters,
        whole=source.random() < 0.4 and not bytes_too,
        unk="<unk>" if unk else None,
        fuse_unk=source.random() < 0.5,
        byte_fallback=bytes_too,
    )


def random_text(source: random.Random, letters: str = LETTERS) -> str:
    length = source.choice([3, 8, 20, 70, 150])
    fresh = "".join(source.choice(letters) for _ in range(source.randrange(length)))
    if source.random() < 0.2:
        return fresh[:3] * source.randrange(40)
    return fresh
