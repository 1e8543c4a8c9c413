"""Native functions and methods → exceptions, for arguments that the package never passes.

The calls run in processes of their own, which print each call before it is made, so that a crash is
a failure with a name. A wrong argument takes the place of a valid one; then there are too few
arguments, too many, and an unknown keyword. Other calls combine valid arguments, and load damaged
bytes.
"""

from __future__ import annotations

import contextlib
import copy
import faulthandler
import functools
import os
import struct
import subprocess
import sys
import tempfile
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tokenmill import Tokenizer
from tokenmill.errors import TokenmillError
from tokenmill.formats.build import pack_steps
from tokenmill.formats.spec import Form, Lower, Prepend, Replace, Squeeze, Strip
from tokenmill.native import _native
from tokenmill.patterns import compile_pattern
from tokenmill.patterns.schemes import STAGES, Literally, Pattern, Stage, scheme_of_stages
from tokenmill.vocabularies import EMBEDDED

EXPECTED = (TypeError, ValueError, OverflowError, BufferError, OSError, TokenmillError)
HUGE = (2**63, 2**64, 2**200)


class Evil:
    """Every conversion fails."""

    def __index__(self) -> int:
        raise ValueError("no index")

    def __float__(self) -> float:
        raise ValueError("no float")

    def __bool__(self) -> bool:
        raise ValueError("no bool")

    def __len__(self) -> int:
        raise ValueError("no length")


def u32(*numbers: int) -> Any:
    return np.array(numbers, np.uint32)


def i64(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def misaligned(numbers: Any) -> Any:
    """An equal array whose memory begins at an odd address."""
    memory = bytearray(b"x" + numbers.tobytes())
    return np.frombuffer(memory, numbers.dtype, offset=1)


ODD = (object(), Evil(), None, 1.5, (), {})
NO_BUFFERS = (*ODD, 1, -1, [], [b"a"], [1, 2])
NON_CONTIGUOUS = (np.zeros(8, np.uint8)[::2], memoryview(b"abcdef")[::-1])
# Kind of an argument → values that it must reject.
WRONG: dict[str, tuple[Any, ...]] = {
    "text": (*NO_BUFFERS, "\ud800", u32(1), array("q", [1]), *NON_CONTIGUOUS),
    "texts": (*ODD, 1, "a", b"a", [None], [1], [b"a", 1.5], [Evil()], ["\ud800"], [u32(1)]),
    "u32": (*NO_BUFFERS, "ab", b"abc", np.zeros(4), i64(1, 2), np.arange(8, dtype=np.uint32)[::2]),
    "u64": (*NO_BUFFERS, "ab", b"abc", np.zeros(4), u32(1, 2), np.arange(8, dtype=np.uint64)[::2]),
    "f64": (*NO_BUFFERS, "ab", b"abc", u32(1, 2), np.zeros(8)[::2]),
    "spans": (
        *NO_BUFFERS,
        *("ab", b"abc", np.zeros(2), u32(0, 1), i64(0), i64(0, 1, 2), np.zeros(8, np.int64)[::2]),
        *(i64(-1, 1), i64(1, 0), i64(0, 2**62), i64(2**63 - 1, 2**63 - 1), i64(-(2**63), 0)),
    ),
    "size": (*ODD, "1", b"1", [], -1, -(2**31), -(2**63), -(2**64), *HUGE),
    "seed": (*ODD, "1", b"1", [], -1, -(2**63), 2**64, 2**200),
    "u31": (*ODD, "1", [], -1, -(2**64), 2**32, *HUGE),
    "threads": (*ODD, "1", [], -1, 0, 2**16, 2**31, 2**32, *HUGE),
    "numbers": (object(), Evil(), 1.5, 1, [], "ab", b"abc", i64(1, 2)),
    "id": (*ODD, "1", [], -2, -(2**63), 2**32, *HUGE),
    "fraction": (object(), Evil(), None, "1", [], -0.1, 1.1, float("nan"), float("inf"), 2**2000),
    "flag": (object(), Evil(), None, 1.5, "", b"", [], -1, 2, 2**64),
    "name": (object(), Evil(), None, 1.5, 1, [], "", "unknown", "x" * 10_000, "\ud800", b"\xff\0"),
    "allowed": (object(), Evil(), 1.5, 1, [], b"\x01" * 99, "\ud800", u32(1)),
    "optional": (object(), Evil(), 1.5, 1, [], "\ud800", u32(1)),
    "object": (*ODD, 1, "a", b"a", [], int, _native.Checksum()),
    "any": (),
    "ranges": (*NO_BUFFERS, "ab", b"abc", i64(1, 2), u32(2, 1), u32(0, 99), u32(4, 5, 0, 1)),
    "ids": (
        object(),
        Evil(),
        None,
        1.5,
        1,
        "abc",
        b"abc",
        u32(1),
        [-1],
        [2**31],
        [2**63],
        [Evil()],
    ),
    "blocks": (
        *(object(), Evil(), None, 1.5, (), {}, 1, "a", b"a", [None], [()], [(b"a",)]),
        *([(b"a", i64(0, 2), True)], [(b"a", i64(0, 1), Evil())], [(1, i64(0, 1), True)]),
        [(b"a", i64(0, 1), True, 1)],
    ),
    "buffers": (object(), Evil(), None, 1.5, (), {}, 1, "a", b"a", [], [None], [b"a"], [u32(1)]),
}
for _kind in ("u32", "id"):
    WRONG[f"optional {_kind}"] = tuple(value for value in WRONG[_kind] if value is not None)
WRONG["optional id"] = (*WRONG["optional id"], -1)


class Call:
    """A callable, and for each argument its name, its kind and a valid value.

    `make` returns the callable anew, since some objects do their work only once. `required` is the
    number of arguments without a default.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        *arguments: tuple[str, str, Any],
        required: int | None = None,
    ) -> None:
        self.make = make
        self.arguments = arguments
        self.required = len(arguments) if required is None else required

    def valid(self) -> list[Any]:
        return [value for _, _, value in self.arguments]


@functools.cache
def core() -> _native.Core:
    return Tokenizer.load("gpt2")._core


def session() -> _native.Session:
    made = core().session(None, 64)
    made.append("some text, and more")
    return made


def counter() -> _native.Counter:
    return _native.Counter("r50k", [], 1, False)


def inventory() -> _native.Inventory:
    return _native.Inventory(b"abcab", u32(3, 2), np.array([4, 5], np.uint64))


def path() -> str:
    return str(Path(tempfile.mkdtemp()) / "counts")


def counted() -> str:
    name = path()
    inventory().write(name, b"{}")
    return name


def counts_file() -> _native.CountsFile:
    return _native.CountsFile(counted())


LEARNER: tuple[tuple[str, str, Any], ...] = (
    ("alphabet", "u32", np.arange(256, dtype=np.uint32)),
    ("tokens", "text", b"ab"),
    ("token_lengths", "u32", u32(2)),
    ("token_ids", "u32", u32(256)),
    ("ties", "name", "ids"),
    ("first_id", "u31", 257),
    ("made_from", "u31", 257),
    ("ids_end", "u31", 300),
    ("count_min", "seed", 1),
    ("len_end", "seed", 100),
    ("threads", "threads", 1),
    ("memory", "size", 0),
    ("revives", "flag", False),
    ("scripts", "u32", u32()),
)


@functools.cache
def file() -> int:
    """The number of a file that stays open."""
    return os.open(path(), os.O_RDWR | os.O_CREAT)


def learner() -> _native.Learner:
    return _native.Learner(**{name: value for name, _, value in LEARNER})


def run_learner() -> _native.Learner:
    made = learner()
    made.add(inventory())
    made.run(None)
    return made


ALLOWED = ("allowed", "allowed", None)
THREADS = ("threads", "threads", 1)
TEXT = ("text", "text", "some text")
DATA = ("data", "text", b"some text")
SPANS = ("spans", "spans", i64(0, 4, 5, 9))
SCHEME = ("scheme", "name", "r50k")
SEED = ("seed", "seed", 1)


def values(arguments: tuple[tuple[str, str, Any], ...]) -> tuple[Any, ...]:
    return tuple(value for _, _, value in arguments)


def bundle() -> bytes:
    """The model abab of three tokens, with an added token, steps and a scanner."""
    return _native.pack_bundle(
        "model",
        b"abab<a>",
        "metaspace",
        lengths=u32(1, 1, 2, 3),
        ids=u32(0, 1, 2, 4),
        kinds=b"\0\0\0\2",
        merges=u32(0, 1),
        order=u32(0, 1, 2, 3),
        characters=True,
        missing="drop",
        names=b"<a>",
        name_lengths=u32(3),
        name_ids=u32(4),
        name_flags=b"\x01",
        steps=pack_steps((Lower(), Form("NFC"))),
    )


CALLS: dict[str, Call] = {
    "Core.encode": Call(lambda: core().encode, TEXT, ALLOWED),
    "Core.encode_buffer": Call(
        lambda: core().encode_buffer, TEXT, ALLOWED, ("narrow", "flag", True), THREADS
    ),
    "Core.encode_with_offsets": Call(lambda: core().encode_with_offsets, TEXT, ALLOWED),
    "Core.encode_words": Call(lambda: core().encode_words, TEXT, ALLOWED),
    "Core.encode_spans": Call(lambda: core().encode_spans, TEXT, ALLOWED, THREADS),
    "Core.encode_batch": Call(
        lambda: core().encode_batch, ("texts", "texts", ["a", b"b"]), ALLOWED, THREADS
    ),
    "Core.encode_ragged": Call(
        lambda: core().encode_ragged, ("texts", "texts", ["a", b"b"]), ALLOWED, THREADS
    ),
    "Core.encode_block": Call(lambda: core().encode_block, DATA, SPANS, ALLOWED, THREADS),
    "Core.encode_documents": Call(
        lambda: core().encode_documents,
        *(DATA, SPANS, ALLOWED, ("before", "u32", u32(1)), ("after", "u32", u32())),
        *(("narrow", "flag", True), THREADS),
    ),
    "Core.count": Call(lambda: core().count, TEXT, ALLOWED, THREADS),
    "Core.count_batch": Call(
        lambda: core().count_batch, ("texts", "texts", ["a", b"b"]), ALLOWED, THREADS
    ),
    "Core.encode_stretch": Call(
        lambda: core().encode_stretch,
        *(TEXT, ALLOWED, ("within", "ranges", u32(0, 4)), ("offset", "u31", 5)),
    ),
    "Core.decode": Call(lambda: core().decode, ("ids", "ids", [1, 2])),
    "Core.truncate": Call(
        lambda: core().truncate, TEXT, ("tokens_max", "size", 1), ("left", "flag", False)
    ),
    "Core.session": Call(lambda: core().session, ALLOWED, ("spacing", "size", 64)),
    "Core.find": Call(lambda: core().find, ("token", "text", b"the")),
    "Session.append": Call(lambda: session().append, TEXT),
    "Session.replace_from": Call(lambda: session().replace_from, ("byte", "size", 3), TEXT),
    "Session.update": Call(lambda: session().update, TEXT),
    "Session.compare": Call(lambda: session().compare, TEXT, ("start", "size", 2)),
    "Session.text": Call(lambda: session().text, ("start", "size", 2)),
    "Session.start_of_last": Call(lambda: session().start_of_last, ("characters", "size", 2)),
    "Session.ids": Call(lambda: session().ids, ("start", "size", 0), ("end", "size", 1)),
    "Session.buffer": Call(lambda: session().buffer, ("start", "size", 0), ("end", "size", 1)),
    "Counter": Call(
        lambda: _native.Counter,
        *(SCHEME, ("special_tokens", "texts", ["<s>"]), ("seed", "seed", 1)),
        ("ordered", "flag", False),
    ),
    "Counter.add": Call(lambda: counter().add, ("texts", "texts", ["a", b"b"]), THREADS),
    "Counter.add_blocks": Call(
        lambda: counter().add_blocks,
        *(("blocks", "blocks", [(b"a b", i64(0, 3), False)]), THREADS),
    ),
    "Counter.spill": Call(lambda: counter().spill, ("path", "text", path())),
    "Inventory": Call(
        lambda: _native.Inventory,
        *(("bytes", "text", b"abcab"), ("lengths", "u32", u32(3, 2))),
        ("counts", "u64", np.array([4, 5], np.uint64)),
    ),
    "Inventory.write": Call(
        lambda: inventory().write, ("path", "text", path()), ("metadata", "text", b"{}")
    ),
    "CountsFile": Call(lambda: _native.CountsFile, ("path", "text", counted())),
    "CountsFile.read": Call(lambda: counts_file().read, ("entries_max", "size", 1)),
    "Learner": Call(lambda: _native.Learner, *LEARNER),
    "Learner.spill": Call(lambda: learner().spill, ("files", "u32", u32(file()))),
    "Learner.add": Call(lambda: learner().add, ("counts", "object", inventory())),
    "Learner.add_ids": Call(
        lambda: learner().add_ids,
        *(("ids", "u32", u32(97, 98)), ("lengths", "u32", u32(2))),
        ("counts", "u64", np.array([3], np.uint64)),
    ),
    "Learner.run": Call(lambda: learner().run, ("progress", "any", None)),
    "Learner.merges": Call(lambda: run_learner().merges, ("start", "size", 0)),
    "Checksum.update": Call(lambda: _native.Checksum().update, DATA),
    "split": Call(lambda: _native.split, SCHEME, TEXT),
    "normalize": Call(lambda: _native.normalize, ("steps", "text", b""), TEXT),
    "use_simd": Call(lambda: _native.use_simd, ("level", "name", "baseline")),
    "use_units_after": Call(lambda: _native.use_units_after, ("bytes", "size", 1 << 10)),
    "use_job_bytes": Call(lambda: _native.use_job_bytes, ("bytes", "size", 1 << 19)),
    "set_cache_limit": Call(lambda: _native.set_cache_limit, ("bytes", "size", 64 << 20)),
    "split_documents": Call(
        lambda: _native.split_documents,
        *(DATA, ("separator", "text", b" "), ("is_last", "flag", True)),
    ),
    "json_lines": Call(
        lambda: _native.json_lines,
        *(("data", "text", b'{"a": "b"}\n'), ("is_last", "flag", True)),
        *(("field", "text", b"a"), ("id_field", "optional", None)),
    ),
    "utf8_problems": Call(lambda: _native.utf8_problems, DATA, SPANS),
    "count_newlines": Call(lambda: _native.count_newlines, DATA),
    "last_cut": Call(lambda: _native.last_cut, DATA, ("names", "texts", [b"<s>"])),
    "merge_counts": Call(
        lambda: _native.merge_counts,
        *(("paths", "texts", []), ("weights", "f64", np.zeros(0)), ("output", "text", path())),
        ("metadata", "text", b"{}"),
    ),
    "read_model": Call(
        lambda: _native.read_model,
        *(("json", "text", b'{"model": {"vocab": {"a": 0}, "merges": []}}'), ("seed", "seed", 1)),
    ),
    "read_vocabulary": Call(
        lambda: _native.read_vocabulary,
        *(("vocab_json", "text", b'{"a": 0}'), ("merges_txt", "text", b""), ("seed", "seed", 1)),
    ),
    "read_spelling": Call(
        lambda: _native.read_spelling, ("names", "text", b"ab"), ("lengths", "u32", u32(1, 1))
    ),
    "load": Call(lambda: _native.load, ("bundle", "text", bundle()), SEED),
    "pack_bundle": Call(
        lambda: _native.pack_bundle,
        *(("kind", "name", "model"), ("tokens", "text", b"abab"), ("scheme", "text", "r50k")),
        *(("lengths", "u32", u32(1, 1, 2)), ("ids", "u32", u32(0, 1, 2))),
        *(("kinds", "any", b"\0\0\0"), ("merges", "optional u32", u32(0, 1))),
        *(("order", "optional u32", None), ("characters", "flag", False), ("whole", "flag", False)),
        *(("space_marker", "flag", False), ("missing", "name", "unk"), ("unk", "optional id", 0)),
        *(("fuse_unk", "flag", False), ("dropout", "fraction", 0.5), ("names", "optional", None)),
        *(("name_lengths", "u32", u32()), ("name_ids", "u32", u32())),
        *(
            ("name_flags", "optional", None),
            ("steps", "optional", None),
            ("prefix", "name", "never"),
        ),
        required=3,
    ),
    "join": Call(
        lambda: _native.join,
        ("ids", "buffers", [core().encode_ragged(["a"], None, 1)[0]]),
        ("offsets", "buffers", [core().encode_ragged(["a"], None, 1)[1]]),
    ),
    "arrow_capsules": Call(
        lambda: _native.arrow_capsules,
        *(("ids", "object", core().encode_buffer("a", None, False, 1)),),
        *(("offsets", "object", _native.split_documents(b"a", b" ", True)[0]),),
    ),
}

# Functions and methods without arguments.
CALLS |= {
    name: Call(make)
    for name, make in {
        "Core.tokens": lambda: core().tokens,
        "Core.empty_id": lambda: core().empty_id,
        "Core.ids_end": lambda: core().ids_end,
        "Session.settled": lambda: session().settled,
        "Session.text_str": lambda: session().text_str,
        "Session.copy": lambda: session().copy,
        "Session.count": lambda: session().count,
        "Session.bytes": lambda: session().bytes,
        "Session.characters": lambda: session().characters,
        "Session.bytes_encoded": lambda: session().bytes_encoded,
        "Session.memory": lambda: session().memory,
        "Counter.open_bytes": lambda: counter().open_bytes,
        "Counter.take": lambda: counter().take,
        "Counter.memory": lambda: counter().memory,
        "Counter.unique": lambda: counter().unique,
        "Counter.total": lambda: counter().total,
        "Inventory.arrays": lambda: inventory().arrays,
        "Inventory.total": lambda: inventory().total,
        "CountsFile.total": lambda: counts_file().total,
        "CountsFile.metadata": lambda: counts_file().metadata,
        "CountsFile.load": lambda: counts_file().load,
        "CountsFile.rewind": lambda: counts_file().rewind,
        "Learner.certificate": lambda: run_learner().certificate,
        "Checksum": lambda: _native.Checksum,
        "Checksum.value": lambda: _native.Checksum().value,
        "cache_limit": lambda: _native.cache_limit,
        "after_fork": lambda: _native.after_fork,
        "simd_levels": lambda: _native.simd_levels,
    }.items()
}


def attempt(label: str, function: Callable[..., Any], *arguments: Any, **named: Any) -> str | None:
    """Call a function that must raise; return the fault, if there is one."""
    print(label, file=sys.stderr, flush=True)
    try:
        found = function(*arguments, **named)
    except EXPECTED as error:
        return f"{label}: an empty message" if not str(error) else None
    except BaseException as error:
        return f"{label}: raises {error!r}"
    return f"{label}: returns {found!r:.80}"


def faults_of(name: str) -> Iterator[str | None]:
    call = CALLS[name]
    call.make()(*call.valid())  # it is valid
    for index, (argument, kind, _) in enumerate(call.arguments):
        for wrong in WRONG[kind]:
            arguments = call.valid()
            arguments[index] = wrong
            yield attempt(f"{name}: {argument}={wrong!r:.80}", call.make(), *arguments)
    valid = call.valid()
    for count in range(call.required):
        yield attempt(f"{name} with {count} arguments", call.make(), *valid[:count])
    for count in (1, 2, 100):
        yield attempt(f"{name} with {count} more", call.make(), *valid, *[None] * count)
    yield attempt(f"{name} with a keyword", call.make(), *valid, unknown=1)


def pokes() -> dict[str, Callable[[], Any]]:
    """Calls that may succeed or raise, and must not crash."""
    empty = _native.split_documents(b"", b" ", True)[0]
    ids = core().encode_buffer("a", None, False, 1)
    narrow = core().encode_buffer("a", None, True, 1)
    two, offsets = core().encode_ragged(["a", "b c"], None, 1)
    made = [session(), counter(), learner(), counts_file(), inventory(), core(), ids]

    def again() -> None:
        one = learner()
        one.add(inventory())
        one.run(lambda *_: one.run(None))

    def change_list() -> None:
        class Index:
            def __index__(self) -> int:
                listed.clear()
                return 1

        listed: list[Any] = [Index(), 1, 2]
        core().decode(listed)

    def changed_spill() -> None:
        one = learner()
        one.add(inventory())
        one.spill(u32(2**31, 3))

    def spill_twice() -> None:
        with tempfile.TemporaryFile() as file:
            learner().spill(u32(file.fileno(), file.fileno()))

    def interrupted() -> None:
        one = learner()
        one.add(inventory())
        one.run(lambda *_: 1 / 0)

    return {
        "decode None": lambda: core().decode(None),
        "decode str": lambda: core().decode("12345678"),
        "decode 3 bytes": lambda: core().decode(b"abc"),
        "decode misaligned": lambda: core().decode(misaligned(i64(1, 2))),
        "decode u32": lambda: core().decode(u32(1, 2, 3)),
        "decode strides": lambda: core().decode(np.zeros(8, np.int64)[::2]),
        "decode negative": lambda: core().decode([-1]),
        "decode huge": lambda: core().decode([2**63]),
        "decode 2**31": lambda: core().decode([2**31]),
        "decode 2**32": lambda: core().decode(i64(2**32, 2**63 - 1)),
        "decode evil": lambda: core().decode([Evil()]),
        "decode a list that changes": change_list,
        "join nothing": lambda: _native.join([], []),
        "join no list": lambda: _native.join(1, 2),
        "join None": lambda: _native.join([None], [None]),
        "join fewer": lambda: _native.join([ids, ids], [empty]),
        "join empty": lambda: _native.join([ids], [empty]),
        "join kinds": lambda: _native.join([narrow], [ids]),
        "join spans": lambda: _native.join([ids], [_native.split_documents(b"a b", b" ", True)[0]]),
        "capsules empty": lambda: _native.arrow_capsules(ids, empty),
        "capsules kinds": lambda: _native.arrow_capsules(empty, ids),
        "capsules other": lambda: _native.arrow_capsules(
            two, _native.split_documents(b"abcd", b"", True)[0]
        ),
        "capsules valid": lambda: _native.arrow_capsules(two, offsets),
        "new Core": lambda: object.__new__(_native.Core),
        "new Session": lambda: _native.Session(),
        "new Buffer": lambda: _native.Buffer(),
        "new Counter": lambda: object.__new__(_native.Counter),
        "method of another": lambda: _native.Core.encode(counter(), "a", None),
        "method of a type": lambda: _native.Session.count(_native.Session),
        "subclass": lambda: type("Sub", (_native.Counter,), {}),
        "subclass of Core": lambda: type("Sub", (_native.Core,), {}),
        "class": lambda: setattr(session(), "__class__", _native.Core),
        "attribute": lambda: setattr(_native.Core, "encode", None),
        "buffer of nothing": lambda: bytes(memoryview(empty)),
        "initialized again": lambda: _native.Counter.__init__(counter(), 1, 2),
        "run in progress": again,
        "error in progress": interrupted,
        "spill after words": changed_spill,
        "one file twice": spill_twice,
        "progress": lambda: learner().run(1),
        "run twice": lambda: run_learner().run(None),
        "add after run": lambda: run_learner().add(inventory()),
        "no words": lambda: learner().run(None),
        "alphabet too short": lambda: _native.Learner(u32(1), *values(LEARNER)[1:]),
        "ids not in range": lambda: learner().add_ids(u32(2**31, 5), u32(2), np.ones(1, np.uint64)),
        "counts too large": lambda: learner().add_ids(
            u32(97, 98), u32(2), np.full(1, 2**64 - 1, np.uint64)
        ),
        "lengths too large": lambda: _native.Inventory(
            b"a", u32(2**32 - 1, 2**32 - 1), np.ones(2, np.uint64)
        ),
        "huge counts": lambda: _native.Inventory(
            b"ab", u32(1, 1), np.full(2, 2**64 - 1, np.uint64)
        ).total(),
        "spelling too long": lambda: _native.read_spelling(b"ab", u32(2**32 - 1, 3)),
        "nothing to count": lambda: counter().take().arrays(),
        "copies": lambda: [copy.copy(one) for one in made],
        "empty documents": lambda: core().encode_documents(b"", i64(), None, u32(), u32(), True, 1),
        "empty spans": lambda: core().encode_block(b"", i64(), None, 1),
        "blocks": lambda: counter().add_blocks([], 1),
        "blocks of nothing": lambda: counter().add_blocks([None], 1),
        "blocks that are short": lambda: counter().add_blocks([(b"a",)], 1),
        "blocks with wrong spans": lambda: counter().add_blocks([(b"a", i64(0, 2), True)], 1),
        "blocks that continue": lambda: counter().add_blocks([(b"a", i64(), True)], 1),
        "blocks of evil": lambda: counter().add_blocks([(b"a", i64(0, 1), Evil())], 1),
        "stages": lambda: _native.split(STAGES, "a"),
        "stages of zeros": lambda: _native.split(STAGES + bytes(4096), "a"),
        "no program": lambda: _native.split(b"", "a"),
        "zero program": lambda: _native.split(bytes(4096), "a"),
        "steps": lambda: _native.normalize(bytes(range(256)), "a"),
        "zero steps": lambda: _native.normalize(bytes(4096), "a"),
    }


def damaged(data: bytes) -> Iterator[bytes]:
    """Data with bits flipped, bytes replaced, and its end cut off, in up to 300 places."""
    step = max(1, len(data) // 100)
    for at in range(0, len(data), step):
        yield data[:at]
        yield data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]
        yield data[:at] + b"\xff\xff\xff\xff" + data[at + 4 :]


def poke_bytes(name: str) -> None:
    """Load damaged bytes, and use what can be loaded."""
    for data in damaged(BYTES[name]()):
        with contextlib.suppress(*EXPECTED):
            USES[name](data)


BYTES: dict[str, Callable[[], bytes]] = {
    "program": lambda: compile_pattern(r"\p{L}+(?=a|[^b-d])|\s?\d{1,3}|(?i:x+)|."),
    "steps": lambda: pack_steps(
        (
            *(Lower(), Form("NFKC"), Strip(True, True), Squeeze()),
            *(Prepend("a"), Replace(Pattern("a+b"), "c"), Replace(Literally("x"), "y")),
        )
    ),
    "image": lambda: EMBEDDED["r50k_base"].read_image(),
    "stages": lambda: scheme_of_stages(
        (Stage("digits", "isolated"), Stage(Pattern("a+b"), "removed", invert=True)), blank=False
    ),
    "bundle": lambda: bundle(),
    "bundle with another checksum": lambda: bundle(),
    "counts": lambda: Path(counted()).read_bytes(),
    "json": lambda: b'{"model": {"vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}}',
}


def use_image(data: bytes) -> None:
    use_bundle(_native.pack_bundle("image", data, "r50k"))


def use_bundle(data: bytes) -> None:
    # Most bundles are rejected; the others are used.
    made = _native.load(data, 1)
    made.decode(made.encode("some text, and more", None))


def use_forged(data: bytes) -> None:
    checksum = _native.Checksum()
    checksum.update(data[16:])
    use_bundle(struct.pack("<4sIQ", data[:4], len(data), checksum.value()) + data[16:])


def use_counts(data: bytes) -> None:
    name = Path(path())
    name.write_bytes(data)
    _native.CountsFile(str(name)).load().arrays()


USES: dict[str, Callable[[bytes], Any]] = {
    "program": lambda data: _native.split(data, "Some text, and 1234 more; xX éa\u0301"),
    "steps": lambda data: _native.normalize(data, "Some  text, aab and x é"),
    "image": use_image,
    "stages": lambda data: _native.split(data, "Some text, and 1234 more; aab"),
    "bundle": use_bundle,
    "bundle with another checksum": use_forged,
    "counts": use_counts,
    "json": lambda data: _native.read_model(data, 1),
}


def run(group: str) -> list[str]:
    if group == "pokes":
        for label, poke in pokes().items():
            print(label, file=sys.stderr, flush=True)
            with contextlib.suppress(*EXPECTED, ZeroDivisionError, RuntimeError, IndexError):
                poke()
        return []
    if group.startswith("damaged "):
        poke_bytes(group.removeprefix("damaged "))
        return []
    return [
        fault for name in CALLS if group_of(name) == group for fault in faults_of(name) if fault
    ]


def group_of(name: str) -> str:
    return name.partition(".")[0] if name[0].isupper() else "functions"


GROUPS = (*dict.fromkeys(map(group_of, CALLS)), "pokes", *(f"damaged {name}" for name in BYTES))


@pytest.mark.parametrize("group", GROUPS)
def test_wrong_arguments_raise(group):
    done = subprocess.run(
        [sys.executable, __file__, group], capture_output=True, text=True, timeout=600
    )
    last = "\n".join(done.stderr.splitlines()[-30:])
    assert done.returncode == 0, f"{done.stdout}\nexit code {done.returncode}\n{last}"


def test_every_native_function_is_called():
    names = set()
    for name, value in vars(_native).items():
        if isinstance(value, type) and not issubclass(value, tuple):
            names |= {f"{name}.{key}" for key in vars(value) if not key.startswith("__")}
            names |= {name} if "__new__" in vars(value) else set()
        elif callable(value) and not isinstance(value, type):
            names.add(name)
    assert names == CALLS.keys()


def test_a_misaligned_array_is_read():
    lengths, ids = misaligned(u32(1, 1)), misaligned(u32(0, 1))
    data = _native.pack_bundle("ranks", b"ab", "r50k", lengths=lengths, ids=ids)
    made = _native.load(misaligned(np.frombuffer(data, np.uint8)), 1)
    assert made.encode("ab", None) == [0, 1]
    spans = misaligned(i64(0, 1, 1, 2))
    assert np.asarray(made.encode_block(b"ab", spans, None, 1)[0]).tolist() == [0, 1]
    assert made.decode(misaligned(i64(1, 0))) == b"ba"


@pytest.mark.parametrize("dropout", [-0.5, 1.5, float("nan"), float("inf")])
def test_a_dropout_that_is_no_share_is_named(dropout: float) -> None:
    with pytest.raises(ValueError, match=f"dropout must be from 0 to 1, got {dropout}"):
        _native.pack_bundle("model", b"a", "r50k", lengths=u32(1), ids=u32(0), dropout=dropout)


if __name__ == "__main__":
    faulthandler.enable()
    found = run(sys.argv[1])
    print("\n".join(found))
    sys.exit(1 if found else 0)
