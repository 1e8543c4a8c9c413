"""TokenizerSpec as they come from SentencePiece's models, run as slowly and plainly as can be."""

from __future__ import annotations

import struct
from functools import cache

from tokenmill.formats.spec import BYTE, TOKEN, Charsmap, Squeeze, TokenizerSpec

SPACE = "▁"


class ReferenceEncoder:
    """An encoder; all the text is one segment, and control pieces are not looked for."""

    def __init__(self, parts: TokenizerSpec) -> None:
        model = parts.model
        assert model.base == "characters"
        assert model.merges is None
        assert not parts.stages
        self.parts = parts
        self.ids: dict[str, int] = {}
        self.order: dict[str, int] = {}
        self.bytes: dict[bytes, int] = {}
        at = 0
        for place, length in enumerate(model.lengths.tolist()):
            data, id_ = model.data[at : at + length], int(model.ids[place])
            at += length
            if model.kinds[place] == TOKEN:
                self.ids[data.decode()] = id_
                self.order[data.decode()] = int(model.order[place])
            elif model.kinds[place] == BYTE:
                self.bytes[data] = id_
        assert at == len(model.data)
        self.symbols: dict[str, int] = {}
        for one in parts.added:
            if not one.special:
                assert one.normalized
                assert one.literal
                self.symbols[one.content] = one.id

    def normalise(self, text: str) -> str:
        was_empty = not text
        for step in self.parts.steps:
            if isinstance(step, Charsmap):
                text = apply(step.data, text)
            else:
                assert isinstance(step, Squeeze)
                text = squeeze(text, SPACE if self.parts.blank else " ")
                was_empty = not text
        if self.parts.prefix == "always" and not was_empty:
            text = " " + text
        return text.replace(" ", SPACE) if self.parts.blank else text

    def encode(self, text: str) -> list[int]:
        found: list[int] = []
        start = at = 0
        text = self.normalise(text)
        by_length = sorted(self.symbols, key=len, reverse=True)
        while at < len(text):
            if symbol := next((s for s in by_length if text.startswith(s, at)), None):
                found += [*self.merge(text[start:at]), self.symbols[symbol]]
                at += len(symbol)
                start = at
            else:
                at += 1
        return found + self.merge(text[start:])

    def merge(self, text: str) -> list[int]:
        parts = list(text)
        while True:
            pairs = [parts[i] + parts[i + 1] for i in range(len(parts) - 1)]
            known = [(self.order[pair], i) for i, pair in enumerate(pairs) if pair in self.ids]
            if not known:
                break
            _, at = min(known)
            parts[at : at + 2] = [pairs[at]]
        found: list[int] = []
        was_unknown = False
        for part in parts:
            if part in self.ids:
                found.append(self.ids[part])
            elif self.parts.model.missing == "bytes":
                found += [self.bytes[bytes([byte])] for byte in part.encode()]
            elif not was_unknown:
                found.append(self.parts.model.unk)
            was_unknown = part not in self.ids
        return found


def squeeze(text: str, blank: str) -> str:
    """One space for each run, without spaces at the ends and without `blank` at the end."""
    text = " ".join(word for word in text.split(" ") if word)
    while text.endswith((" ", blank)):
        text = text[:-1]
    return text


def apply(rules: bytes, text: str) -> str:
    """The longest rule at each place, or the character itself."""
    units, texts = split(rules)
    data, found, at = text.encode(), bytearray(), 0
    while at < len(data):
        place, best = distance(units[0]), None
        for end in range(at, len(data)):
            place ^= data[end]
            if units[place] & 0x800000FF != data[end]:
                break
            unit = units[place]
            place ^= distance(unit)
            if unit >> 8 & 1:
                best = (end + 1, units[place] & 0x7FFFFFFF)
        if best:
            at, start = best
            found += texts[start : texts.index(b"\0", start)]
        else:
            found.append(data[at])
            at += 1
            while at < len(data) and data[at] & 0xC0 == 0x80:
                found.append(data[at])
                at += 1
    return found.decode()


@cache
def split(rules: bytes) -> tuple[tuple[int, ...], bytes]:
    size = struct.unpack_from("<I", rules)[0]
    return struct.unpack_from(f"<{size // 4}I", rules, 4), rules[4 + size :]


def distance(unit: int) -> int:
    return unit >> 10 << ((unit & 512) >> 6)
