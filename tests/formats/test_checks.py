"""Damaged and forged files → an error within a time and memory limit, or a complete tokenizer."""

from __future__ import annotations

import base64
import json
import random
import resource
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import families
import gguf
import pytest
import test_gguf
import test_sentencepiece
import test_tekken
from conftest import SEED, examples

from tokenmill import Tokenizer
from tokenmill.errors import VocabularyError
from tokenmill.formats import gguf as gguf_reader
from tokenmill.formats import sentencepiece, tekken
from tokenmill.formats.sentencepiece import write_bytes, write_number
from tokenmill.formats.spec import TokenizerSpec

SECONDS_MAX = 2
BYTES_MAX = 1 << 30

document = test_tekken.document  # a fixture


@pytest.fixture(autouse=True)
def bounded_memory() -> Iterator[None]:
    """Limit the process to `BYTES_MAX` more memory than it has now."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + BYTES_MAX, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


def survive(read: Callable[[bytes], TokenizerSpec], data: bytes) -> None:
    """Read a file that may be damaged. The result must be complete, or a VocabularyError."""
    start = time.process_time()
    try:
        parts = read(data)
    except VocabularyError as error:
        assert str(error).startswith("x.")
        assert ";" in str(error) or "too large" in str(error), error
    else:
        found = parts.model
        assert len(found.lengths) == len(found.ids) == len(found.kinds)
        assert int(found.lengths.sum()) == len(found.data)
        assert found.merges is None or int(found.merges.max(initial=0)) < len(found.ids)
        assert found.order is None or len(found.order) == len(found.ids)
        assert all(isinstance(one.content, str) for one in parts.added)
    assert time.process_time() - start < SECONDS_MAX


def damaged(data: bytes, count: int) -> Iterator[bytes]:
    """The file cut off, with flipped bits, with other bytes, and with parts of it twice."""
    rng = random.Random(SEED)
    for _ in range(examples(count)):
        yield data[: rng.randrange(len(data))]
        at, bit = rng.randrange(len(data)), 1 << rng.randrange(8)
        yield data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]
        # The heads of all formats are near the start, and lengths are numbers of few bytes.
        at, size = rng.randrange(min(len(data), 400)), rng.choice([1, 2, 4, 8])
        value = rng.choice([b"\xff", b"\0", b"\x80", bytes([rng.randrange(256)])]) * size
        yield data[:at] + value + data[at + size :]
        first, last = sorted(rng.choices(range(len(data)), k=2))
        yield data[:last] + data[first:last] + data[last:]


# ── .model ───────────────────────────────────────────────────────────────────────────────────


def read_model(data: bytes) -> TokenizerSpec:
    parts = sentencepiece.read(data, "x.model")
    try:
        sentencepiece.read(sentencepiece.write(parts), "x.model")
    except VocabularyError as error:  # a map that is damaged otherwise is the core's affair
        assert "cannot save as SentencePiece .model" in str(error), error
    return parts


@pytest.mark.parametrize("name", ["Gemma's", "symbols that are parts of rules"])
def test_damaged_models(name):
    data = test_sentencepiece.trained(**test_sentencepiece.OPTIONS[name])
    for one in damaged(data, 80):
        survive(read_model, one)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 1000,
        b"\x0a" + b"\xff" * 9 + b"\x7f",
        b"\x0a\xff\xff\xff\xff\x0f",
        b"\x0a\x80" * 1000,
        b"\x0b" * 1000,
        b"\x0a\x02\x0a\x00" * 1_000_000,
        b"\x0a\x00" * 2_000_000,
        b"\x12\x03" * 1_000_000,
        b"\x0a\x08\x0a\x01a\x15\0\0\0\0" * 1_100_000,
        write_bytes(1, write_bytes(1, b"a" * 70_000)) + write_bytes(2, write_number(3, 2)),
        write_bytes(3, write_bytes(2, struct.pack("<I", 2**32 - 1) + b"x" * 2000)),
    ],
    ids=range(11),
)
def test_forged_models(data):
    survive(read_model, data)


def test_forged_maps():
    """A double array whose units lead out of it, with symbols that are written into it."""
    rng = random.Random(SEED)
    pieces = [*test_sentencepiece.META, *test_sentencepiece.LETTERS, ("ab", 0, 4), ("\u0301", 0, 4)]
    for _ in range(examples(60)):
        count = 256 * rng.randrange(1, 4)
        units = struct.pack(f"<{count}I", *(rng.randrange(2**32) for _ in range(count)))
        if rng.random() < 0.5:  # labels that match, with values anywhere
            units = b"".join(struct.pack("<I", i & 0xFF | 256 | i << 10) for i in range(count))
        rules = struct.pack("<I", len(units)) + units + b"a\0b\0"
        data = test_sentencepiece.message(pieces, normalizer=write_bytes(2, rules))
        survive(read_model, data)


# ── tekken.json ──────────────────────────────────────────────────────────────────────────────


def read_tekken(data: bytes) -> TokenizerSpec:
    return tekken.read(data, "x.json")


def test_damaged_tekken(document):
    small = test_tekken.changed(document, "vocab", document["vocab"][:400])
    small = test_tekken.changed(small, "config.default_vocab_size", 430)
    data = json.dumps(small).encode()
    read_tekken(data)
    for one in damaged(data, 300):
        survive(read_tekken, one)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 1_000_000,
        b'{"config":' * 100_000,
        b'{"a": ' + b"9" * 10_000 + b"}",
        b'{"config": NaN}',
        b'{"config": {"pattern": "", "default_vocab_size": 1e9, "default_num_special_tokens": 1}}',
        b'{"config": {"pattern": "", "default_vocab_size": 9, "default_num_special_tokens": %d}}'
        % 10**18,
        b'{"config": {"pattern": "", "default_vocab_size": 99, "version": "v3", '
        b'"default_num_special_tokens": 99}, "vocab": [{"rank": 0}]}',
        b"\xff\xfe{\0}\0",
        b"\0" * 100,
    ],
    ids=range(9),
)
def test_forged_tekken(data):
    survive(read_tekken, data)


# ── GGUF ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def read_gguf(tmp_path) -> Callable[[bytes], TokenizerSpec]:
    path = tmp_path / "x.gguf"

    def read(data: bytes) -> TokenizerSpec:
        path.write_bytes(data)
        return gguf_reader.read(path, "x.gguf")

    return read


def test_damaged_ggufs(tmp_path, read_gguf):
    values = {**test_gguf.ALPHABET, "add_token_types": [1] * 257, "add_bos_token_id": 3}
    files = [
        test_gguf.write(tmp_path / "a.gguf", "llama", **test_gguf.SMALL),
        test_gguf.write(tmp_path / "b.gguf", **values),
    ]
    for file in files:
        data = file.read_bytes()
        read_gguf(data)
        for one in damaged(data, 150):
            survive(read_gguf, one)


def pairs(*values: bytes, count: int | None = None) -> bytes:
    head = struct.pack("<4sIQQ", b"GGUF", 3, 0, len(values) if count is None else count)
    return head + b"".join(values)


def pair(key: str, type_: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", type_) + value


def array(type_: int, count: int, data: bytes = b"") -> bytes:
    return struct.pack("<IQ", type_, count) + data


TOKENS = "tokenizer.ggml.tokens"
STRING, ARRAY = gguf.GGUFValueType.STRING, gguf.GGUFValueType.ARRAY


@pytest.mark.parametrize(
    "data",
    [
        pairs(count=2**64 - 1),
        pairs(count=2**40),
        pairs(pair(TOKENS, ARRAY, array(STRING, 2**63))),
        pairs(pair(TOKENS, ARRAY, array(STRING, 2**20, b"\0" * 8 * 2**20))),
        pairs(pair(TOKENS, ARRAY, array(STRING, 10**6, b"\0" * 8 * 10**6))),
        pairs(*[pair("x", ARRAY, array(STRING, 2**20, b"\0" * 2**23))] * 9),
        pairs(pair(TOKENS, ARRAY, array(STRING, 2, struct.pack("<Q", 2**64 - 9) + b"x" * 99))),
        pairs(pair(TOKENS, ARRAY, array(STRING, 1, struct.pack("<Q", 2**40)))),
        pairs(pair(TOKENS, ARRAY, array(ARRAY, 1, array(ARRAY, 1, array(STRING, 0))))),
        pairs(pair("x", ARRAY, array(ARRAY, 2**60))),
        pairs(pair("x", ARRAY, array(6, 2**62))),
        pairs(pair("x", ARRAY, array(12, 2**61))),
        pairs(pair("x", 99, b"")),
        pairs(pair("x", ARRAY, array(99, 1))),
        pairs(pair("x" * 70_000, 4, b"\0" * 4)),
        pairs(*[pair("x", 0, b"\0")] * 200_000),
        pairs(pair("tokenizer.ggml.model", 4, b"\0" * 4)),
        pairs(pair("tokenizer.ggml.model", ARRAY, array(STRING, 0))),
    ],
    ids=range(18),
)
def test_forged_ggufs(read_gguf, data):
    survive(read_gguf, data)


def test_gguf_of_many_empty_tokens_is_read_in_time(tmp_path, read_gguf):
    count = 300_000
    kind = struct.pack("<Q", 4) + b"gpt2"
    pre = struct.pack("<Q", 5) + b"gpt-2"
    data = pairs(
        pair("tokenizer.ggml.model", STRING, kind),
        pair("tokenizer.ggml.pre", STRING, pre),
        pair(TOKENS, ARRAY, array(STRING, count, b"\0" * 8 * count)),
        pair("tokenizer.ggml.merges", ARRAY, array(STRING, 0)),
    )
    survive(read_gguf, data)
    assert len(read_gguf(data).model.ids) == count


def test_choice_with_a_wrong_number_of_names_is_rejected(tokenizers):
    core = tokenizers["r50k_base"]._core
    with pytest.raises(ValueError, match="got a choice of 3 added tokens, expected 1"):
        core.encode("text", b"\x01\x01\x01")


def test_tokenmill_files_with_wrong_fields_are_rejected(tmp_path):
    source, path = tmp_path / "tokenizer.json", tmp_path / "a.tokenmill"
    source.write_text(families.pieces("llama2"), encoding="utf-8")
    Tokenizer.load(source).save(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    added, model = document["added"], document["model"]
    odd = base64.b64encode(base64.b64decode(model["merges"])[:-4]).decode()
    twice = "added token '<unk>' is there twice; remove one"
    for lie, message in (
        ({"added": [*added, {**added[0], "id": 7}]}, twice),
        ({"model": {**model, "merges": odd}}, "half a merge at its end; save the tokenizer again"),
        ({"added": [added[0], "<s>"]}, r"added\[1\] must be an object, got '<s>'"),
        ({"added": [{**added[0], "special": 1}]}, r"added\[0\].special must be true or false"),
        ({"added": [{**added[0], "id": True}]}, r"added\[0\].id must be a whole number, got True"),
        ({"added": [{**added[0], "id": -1}]}, r"added\[0\] has content '<unk>' and id -1"),
        ({"added": [{**added[0], "content": ""}]}, r"added\[0\] has content '' and id"),
        ({"added": [{"content": "a", "id": 1}]}, r"added\[0\] has no field 'special'"),
    ):
        path.write_text(json.dumps({**document, **lie}, ensure_ascii=False), encoding="utf-8")
        with pytest.raises(VocabularyError, match=message):
            Tokenizer.load(path)
