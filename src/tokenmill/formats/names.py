"""Tokens ↔ the names that Hugging Face's files give them, with GPT-2's characters for bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import VocabularyError
from tokenmill.formats.build import pack_steps
from tokenmill.formats.spec import BYTE, DECODED, Added, Model, TokenizerSpec
from tokenmill.native import _native


@cache
def byte_characters() -> tuple[str, ...]:
    """Return GPT-2's character of each byte: itself if it is visible, else one from U+0100 on."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = iter(range(0x100, 0x200))
    return tuple(chr(byte if byte in visible else next(hidden)) for byte in range(256))


def spell(token: bytes) -> str:
    """Return a token in GPT-2's characters."""
    characters = byte_characters()
    return "".join([characters[byte] for byte in token])


def bytes_of(text: str) -> bytes | None:
    """Return the bytes of a token in GPT-2's characters, or None if it has other characters."""
    bytes_of_characters = _bytes_of_characters()
    try:
        return bytes([bytes_of_characters[character] for character in text])
    except KeyError:
        return None


@cache
def _bytes_of_characters() -> dict[str, int]:
    return {character: byte for byte, character in enumerate(byte_characters())}


# The names of tokens for single bytes in SentencePiece's models.
BYTE_NAMES = {f"<0x{byte:02X}>": byte for byte in range(256)}


def byte_level(adds_space: bool, uses_regex: bool = True) -> dict[str, Any]:
    """Return Hugging Face's component ByteLevel."""
    part = {"type": "ByteLevel", "add_prefix_space": adds_space, "trim_offsets": True}
    return {**part, "use_regex": uses_regex}


class Names:
    """The names of tokens, concatenated, with their lengths and ids in the order of the file."""

    def __init__(self, data: bytes, lengths: Any, ids: Any) -> None:
        self.data = data
        self.lengths: NDArray[np.uint32] = np.asarray(lengths)
        self.ids: NDArray[np.uint32] = np.asarray(ids)

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        return np.cumsum(self.lengths, dtype=np.int64)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        return self.ends - self.lengths

    def name(self, index: int) -> str:
        return self.data[self.starts[index] : self.ends[index]].decode()

    def find(self, names: Collection[str]) -> dict[str, int]:
        """Return the indexes of those names that exist."""
        wanted = {name.encode(errors="surrogatepass"): name for name in names if name}
        if not wanted or not self.data:
            return {}
        # Only tokens with the first byte and the length of a wanted name are compared.
        begins = np.zeros(256, bool)
        begins[[name[0] for name in wanted]] = True
        lengths = np.zeros(int(self.lengths.max()) + 1, bool)
        lengths[[len(name) for name in wanted if len(name) < len(lengths)]] = True
        first = np.frombuffer(self.data, np.uint8)[np.minimum(self.starts, len(self.data) - 1)]
        found = {}
        for place in np.flatnonzero(begins[first] & lengths[self.lengths]).tolist():
            name = wanted.get(self.data[self.starts[place] : self.ends[place]])
            if name is not None:
                found[name] = place
        return found

    def byte_tokens(self) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Return the indexes of tokens such as "<0xE4>", and their bytes."""
        found = self.find(BYTE_NAMES)
        values = [BYTE_NAMES[name] for name in found]
        return np.array([*found.values()], np.int64), np.array(values, np.uint8)


def names_of(model: Model) -> list[str]:
    """Return the name of every token, in the order of the arrays."""
    ends = np.cumsum(model.lengths, dtype=np.int64).tolist()
    starts, kinds, data = [0, *ends][:-1], model.kinds.tolist(), model.data
    is_shown = model.base == "bytes"
    # One character per byte, so offsets stay the same.
    characters = np.array([ord(character) for character in byte_characters()], "<u2")
    shown = characters[np.frombuffer(data, np.uint8)].tobytes().decode("utf-16-le")
    if is_shown and not model.kinds.any():  # all are TOKEN, as in most files
        return [shown[start:end] for start, end in zip(starts, ends, strict=True)]
    names = []
    for start, end, kind in zip(starts, ends, kinds, strict=True):
        is_text = kind in (BYTE, DECODED) or not is_shown
        names.append(_name_of(data[start:end], kind) if is_text else shown[start:end])
    return names


class NamesById(dict[int, str]):
    """Id → the name of its token, or None. A name is made when it is first read.

    The names of all tokens take a tenth of a second and tens of megabytes.
    """

    def __init__(self, model: Model) -> None:
        super().__init__()
        self._model, self._is_shown = model, model.base == "bytes"
        self._ends = np.cumsum(model.lengths, dtype=np.int64)
        # Of tokens with the same id the last one counts.
        self._order = np.argsort(model.ids, kind="stable")
        self._sorted = model.ids[self._order].astype(np.int64)

    def __missing__(self, id_: int) -> str | None:
        place = int(self._sorted.searchsorted(id_, "right")) - 1
        if place < 0 or self._sorted[place] != id_:
            return None
        index, model = int(self._order[place]), self._model
        end, kind = int(self._ends[index]), int(model.kinds[index])
        token = model.data[end - int(model.lengths[index]) : end]
        is_text = kind in (BYTE, DECODED) or not self._is_shown
        self[id_] = name = _name_of(token, kind) if is_text else spell(token)
        return name


def _name_of(token: bytes, kind: int) -> str:
    """Return the name of a token whose bytes are not shown as characters."""
    return f"<0x{token[0]:02X}>" if kind == BYTE else _decode(token)


def _decode(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise VocabularyError(
            f"token {token!r} is not UTF-8, and Hugging Face's files contain only text; save to "
            ".tokenmill"
        ) from None


def entries_of(spec: TokenizerSpec, names: list[str], *, has_added: bool) -> dict[str, int]:
    """Return vocab. Added tokens are left out if Hugging Face assigns the same ids to them."""
    found = dict(zip(names, spec.model.ids.tolist(), strict=True))
    if len(found) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise VocabularyError(
            f"two tokens are written {twice!r} in Hugging Face's files; save to .tokenmill"
        )
    largest = -1
    is_counted = not has_added
    name_of: dict[int, str] = {}
    for token in sorted(spec.added, key=lambda token: token.id):
        if found.get(token.content, token.id) != token.id:
            raise VocabularyError(
                f"special token {token.content!r} has id {token.id} and is written like token "
                f"{found[token.content]}; Hugging Face's files cannot contain both; rename the "
                "special token, or save to .tokenmill"
            )
        if name_of.setdefault(token.id, token.content) != token.content:
            raise VocabularyError(
                f"special tokens {name_of[token.id]!r} and {token.content!r} have the same id "
                f"{token.id}, and an id has one name in Hugging Face's files; save to .tokenmill"
            )
        # Hugging Face assigns the next id after the number of tokens and all added ids.
        if token.content not in found:
            is_counted = is_counted and token.id == max(len(found), largest + 1)
        largest = max(largest, token.id)
    if not is_counted:
        found |= {token.content: token.id for token in spec.added}
    return dict(sorted(found.items(), key=lambda entry: entry[1]))


def spellings_of(spec: TokenizerSpec) -> dict[int, str]:
    """Return the name of each token by id."""
    model = spec.model
    found = dict(zip(model.ids.tolist(), names_of(model), strict=True))
    return found | {token.id: normal_name(spec, token) for token in spec.added}


def normal_name(spec: TokenizerSpec, token: Added) -> str:
    """Return the text that an added token matches and decodes to. It may be normalized."""
    if not token.normalized or token.literal:
        return token.content
    name, _ = _native.normalize(pack_steps(spec.steps), token.content)
    if spec.prefix == "always" and name:
        name = " " + name
    return name.replace(" ", "▁") if spec.blank and spec.prefix in ("always", "never") else name
