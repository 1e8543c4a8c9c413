"""A compiled core → others that lie: fields, arrays, and whole vocabularies of a careful liar.

`Form` takes the bytes apart, as core/vocabulary/compiled.zig lays them out. `damage` changes some
of them without care; `invent` changes what they say and puts right all that a reader can check, so
that what is left are lies about what merging does.
"""

from __future__ import annotations

import itertools
import random
import struct

_HEADER = struct.Struct("<4s10I4B")
_WORDS = (
    *("ids_end", "bytes_len", "merge_count", "token_count", "token_len_max", "empty_id"),
    *("prefixes_start", "prefixes_end", "unk", "ranks_len"),
)
_BYTES = ("leftover", "missing", "flags", "padding")
NONE = 0xFFFFFFFF
CLOSED, FUSE, CHARACTERS, TIES, TELLS = 1, 2, 4, 8, 16
FAIL, DROP, UNK, BYTES = range(4)
REFUSE, EXPAND, SETTLE = range(3)


class Form:
    """What lies in a compiled core."""

    def __init__(self, data: bytes) -> None:
        magic, *fields = _HEADER.unpack_from(data)
        self.header: dict[str, int] = dict(zip((*_WORDS, *_BYTES), fields, strict=True))
        self.magic: bytes = magic
        rest = memoryview(data)[_HEADER.size :]

        def words(count: int) -> list[int]:
            nonlocal rest
            taken, rest = rest[: 4 * count], rest[4 * count :]
            return list(struct.unpack(f"<{count}I", taken))

        count = self.header["ids_end"]
        self.offsets = words(count + 1)
        flat = words(3 * self.header["merge_count"])
        self.merges = [flat[at : at + 3] for at in range(0, len(flat), 3)]
        self.public = words(count) if self.header["ranks_len"] != NONE else None
        self.classes = words(count) if self.header["flags"] & TIES else None
        self.hidden = list(rest[:count])
        body = bytes(rest[count:])
        self.tokens = [body[start:end] for start, end in itertools.pairwise(self.offsets)]

    def sections(self) -> list[bytes]:
        """As they lie one after the other."""

        def pack(words: list[int] | None) -> bytes:
            return struct.pack(f"<{len(words)}I", *(n & NONE for n in words)) if words else b""

        fields = [self.header[name] & NONE for name in _WORDS]
        small = [self.header[name] & 255 for name in _BYTES]
        return [
            _HEADER.pack(self.magic, *fields, *small),
            pack(self.offsets),
            pack(list(itertools.chain.from_iterable(self.merges))),
            pack(self.public),
            pack(self.classes),
            bytes(byte & 255 for byte in self.hidden),
            b"".join(self.tokens),
        ]

    def data(self) -> bytes:
        """All of it, whether it fits together or not."""
        return b"".join(self.sections())

    def fitting(self) -> bytes:
        """All of it, with the sizes that it has."""
        self.offsets = [0, *itertools.accumulate(map(len, self.tokens))]
        sizes = {"bytes_len": self.offsets[-1], "merge_count": len(self.merges)}
        self.header |= {**sizes, "ids_end": len(self.tokens)}
        return self.data()

    def is_prefix(self, rank: int) -> bool:
        """Whether it is a part of a character."""
        return self.header["prefixes_start"] <= rank < self.header["prefixes_end"]

    def spelled(self, rank: int) -> bytes:
        """The bytes of a rank or of the stand-in of a byte."""
        count = len(self.tokens)
        return self.tokens[rank] if rank < count else bytes([rank - count])

    def permute(self, rng: random.Random, swaps: int) -> None:
        """Ranks change places; parts of characters stay where they are."""
        ranks = [rank for rank in range(len(self.tokens)) if not self.is_prefix(rank)]
        to = list(range(len(self.tokens) + 256))
        for _ in range(swaps):
            a, b = rng.choice(ranks), rng.choice(ranks)
            to[a], to[b] = to[b], to[a]
        for name in ("tokens", "hidden", "public"):
            values = getattr(self, name)
            if values is not None:
                moved = sorted(zip(to, values, strict=False), key=lambda pair: pair[0])
                setattr(self, name, [value for _, value in moved])
        self.merges = [[to[rank] for rank in merge] for merge in self.merges]
        for name in ("unk", "empty_id"):
            if self.header[name] != NONE:
                self.header[name] = to[self.header[name]]


def damage(data: bytes, rng: random.Random) -> bytes:
    """With other bytes here and there, or other numbers, or something missing."""
    form = Form(data)
    count = len(form.tokens)

    def other(number: int) -> int:
        edges = (0, 1, 255, count - 1, count, count + 255, count + 256, NONE - 1, NONE, 1 << 31)
        near = (number - 1, number + 1, rng.randrange(count), rng.getrandbits(32))
        return rng.choice((*edges, (1 << 21) - 1, 1 << 21, *near))

    for _ in range(rng.choice((1, 1, 2, 4))):
        numbers = [form.offsets, rng.choice(form.merges), form.hidden]
        numbers += [array for array in (form.public, form.classes) if array is not None]
        match rng.randrange(4):
            case 0:
                name = rng.choice((*_WORDS, *_BYTES))
                form.header[name] = other(form.header[name])
            case 1 | 2:
                array = rng.choice(numbers)
                at = rng.randrange(len(array))
                array[at] = other(array[at])
            case 3:
                at = rng.randrange(count)
                form.tokens[at] = rng.randbytes(len(form.tokens[at]))
    match rng.randrange(12):
        case 0:
            parts = form.sections()
            first, second = rng.sample(range(1, len(parts)), 2)
            parts[first], parts[second] = parts[second], parts[first]
            return b"".join(parts)
        case 1:
            return form.data()[: rng.randrange(len(data))]
        case 2:
            return form.data() + rng.randbytes(rng.randrange(1, 9))
    return form.data()


def invent(data: bytes, rng: random.Random) -> bytes:
    """Another vocabulary, which no file gives, and nothing in it that can be seen to be wrong."""
    form = Form(data)
    count = len(form.tokens)
    for _ in range(rng.choice((1, 2, 3))):
        some = range(rng.choice((1, 5, 50, 500)))
        match rng.randrange(7):
            case 0:
                form.permute(rng, len(some))
            case 1:
                for _ in some:
                    form.merges.pop(rng.randrange(len(form.merges)))
                    if len(form.merges) < 2:
                        break
            case 2:
                for _ in some:
                    _add_merge(form, rng)
            case 3:
                for _ in some:
                    form.hidden[rng.randrange(count)] ^= 1
            case 4:
                for _ in some:
                    _change_token(form, rng)
            case 5:
                form.header["flags"] ^= rng.choice((CLOSED, FUSE, CHARACTERS, TELLS))
                form.header["missing"] = rng.randrange(4)
            case 6:
                step = rng.choice((2, 3, 100))
                form.header["flags"] |= TIES
                form.classes = [rank - rank % step for rank in range(count)]
    return _put_right(form, rng)


def _add_merge(form: Form, rng: random.Random) -> None:
    whole = rng.randrange(len(form.tokens))
    token = form.tokens[whole]
    if len(token) < 2:
        return
    cut = rng.randrange(1, len(token))
    parts = []
    for part in (token[:cut], token[cut:]):
        found = [rank for rank, other in enumerate(form.tokens) if other == part]
        found += [len(form.tokens) + part[0]] if len(part) == 1 else []
        if not found:
            return
        parts.append(rng.choice(found))
    form.merges.append([*parts, whole])


def _change_token(form: Form, rng: random.Random) -> None:
    rank = rng.randrange(len(form.tokens))
    token = form.tokens[rank]
    long = token * rng.choice((2, 30, 300))
    parts = (b"", token[:1], token[1:], token + token[:1], long[:5000], "中".encode())
    form.tokens[rank] = rng.choice((*parts, rng.randbytes(1), rng.randbytes(2), b"\xc3"))


def _put_right(form: Form, rng: random.Random) -> bytes:
    header, count = form.header, len(form.tokens)
    prefixes = [form.tokens[r] for r in range(header["prefixes_start"], header["prefixes_end"])]
    is_kept = header["flags"] & CHARACTERS and all(2 <= len(token) <= 4 for token in prefixes)
    if not is_kept:
        header |= {"prefixes_start": 0, "prefixes_end": 0}
    seen: dict[bytes, int] = {}
    for rank, token in enumerate(form.tokens):
        is_hidden = form.is_prefix(rank) or form.hidden[rank] or token in seen
        form.hidden[rank] = int(bool(is_hidden))
        if not is_hidden and token:
            seen[token] = rank
    bytes_of = [seen.get(bytes([byte]), count + byte) for byte in range(256)]

    def is_met(rank: int) -> bool:
        if rank >= count:
            return bytes_of[rank - count] == rank
        return form.is_prefix(rank) or (not form.hidden[rank] and form.tokens[rank] != b"")

    form.merges = [
        [left, right, whole]
        for left, right, whole in form.merges
        if all(map(is_met, (left, right, whole)))
        and form.spelled(left) + form.spelled(right) == form.spelled(whole)
    ]
    has_all = max(bytes_of) < count
    if header["missing"] == BYTES and not has_all:
        header["missing"] = rng.choice((FAIL, DROP, UNK))
    if header["missing"] != UNK:
        header["unk"] = NONE
    elif header["unk"] == NONE or form.is_prefix(header["unk"]):
        header["unk"] = count - 1
    is_refused = header["missing"] == FAIL or has_all
    header["leftover"] = SETTLE if header["flags"] & CHARACTERS or not is_refused else REFUSE
    if header["missing"] == BYTES:
        header["leftover"] = EXPAND
    made = {whole for _, _, whole in form.merges}
    if any(len(token) > 1 and rank not in made for token, rank in seen.items()):
        header["flags"] &= ~CLOSED
    header["flags"] |= TELLS if header["flags"] & CLOSED else 0
    least = 4 if header["flags"] & CHARACTERS else 1
    header["token_len_max"] = max(map(len, seen), default=1)
    header["token_len_max"] = max(header["token_len_max"], least)
    if header["empty_id"] != NONE and form.tokens[header["empty_id"]]:
        header["empty_id"] = NONE
    if form.public is not None:
        unused = iter(set(range(2 * count)) - set(form.public))
        for rank, id_ in enumerate(form.public):
            is_prefix = form.is_prefix(rank)
            if is_prefix or id_ == NONE:
                form.public[rank] = NONE if is_prefix else next(unused)
        header["ranks_len"] = max((id_ for id_ in form.public if id_ != NONE), default=-1) + 1
    return form.fitting()
