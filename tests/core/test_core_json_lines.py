"""JSON lines → documents, in the core: as Python's json.loads reads them, line by line."""

from __future__ import annotations

import json
import random
from typing import Any

import hard_inputs
import pytest
from buffers import numbers, pieces
from conftest import FIXTURES, SEED, examples, sample
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenmill import _native

# The numbers of the reasons are part of the binding.
NOT_JSON, TOO_DEEP, NOT_OBJECT, NO_FIELD, NULL_FIELD, NOT_TEXT = range(1, 7)
MISSING = object()


def read(data: bytes, is_last: bool = True, field: str = "text", id_field: str | None = None):
    """Return the result of `json_lines` in Python's own types."""
    name = None if id_field is None else id_field.encode()
    text, spans, lines, problems, used, ids, line_count = _native.json_lines(
        data, is_last, field.encode(), name
    )
    places = numbers(lines)
    documents = pieces(text, spans)
    assert b"".join(documents) == bytes(text)
    names = None if ids is None else pieces(*ids)
    where = list(zip(places[::2], places[1::2], strict=True))
    return documents, where, problems, used, names, line_count


def twin(data: bytes, is_last: bool = True, field: str = "text", id_field: str | None = None):
    """The same by json.loads, line by line."""
    used = len(data) if is_last else data.rfind(b"\n") + 1
    lines = data[:used].split(b"\n")
    if not lines[-1]:
        lines.pop()
    documents, where, problems, names = [], [], [], []
    start = 0
    for index, line in enumerate(lines):
        place = (start, start + len(line))
        start += len(line) + 1
        if not line.strip():
            continue
        reason, text, name = twin_line(line, field, id_field)
        if reason:
            problems.append((*place, index, reason))
        else:
            documents.append(text)
            where.append(place)
            names.append(name)
    return documents, where, problems, used, names if id_field is not None else None, len(lines)


def twin_line(line: bytes, field: str, id_field: str | None) -> tuple[int, bytes, bytes]:
    # Bytes that are not UTF-8 come through as they are, as surrogates that no escape here makes.
    try:
        record = json.loads(line.decode("utf-8", "surrogateescape"), parse_int=Written)
    except RecursionError:
        return TOO_DEEP, b"", b""
    except ValueError:
        return NOT_JSON, b"", b""
    if not isinstance(record, dict):
        return NOT_OBJECT, b"", b""
    value = get(record, field)
    if value is MISSING:
        return NO_FIELD, b"", b""
    if value is None:
        return NULL_FIELD, b"", b""
    if not isinstance(value, str) or isinstance(value, Written):
        return NOT_TEXT, b"", b""
    name = MISSING if id_field is None else get(record, id_field)
    has_name = isinstance(name, str)
    return 0, as_bytes(value), as_bytes(name) if has_name else b""


class Written(str):
    """A number as it is written, which has any number of digits."""


def get(record: dict[str, Any], field: str) -> Any:
    if field in record:
        return record[field]
    value: Any = record
    for part in field.split("."):
        if not isinstance(value, dict) or part not in value:
            return MISSING
        value = value[part]
    return value


def as_bytes(text: str) -> bytes:
    halves = {code: "\ufffd" for code in range(0xD800, 0xE000) if not 0xDC80 <= code <= 0xDCFF}
    return text.translate(halves).encode("utf-8", "surrogateescape")


def check(data: bytes, *options: Any) -> None:
    for is_last in (True, False):
        assert read(data, is_last, *options) == twin(data, is_last, *options), (data, options)


VALUES = [
    '""', '"a"', '"text"', "null", "true", "false", "0", "-0", "1", "-12.5e-3", "1E+9", "NaN",
    "Infinity", "-Infinity", "[]", "{}", "[1, 2]", '{"text": "inner"}', '{"b": {"c": "deep"}}',
    "01", "1.", ".5", "-", "1e", "1e+", "+1", "-NaN", "nul", "nulll", "True", "tru", "0x1", "1_0",
    "--1", "-01", "00", "0.0", "0e0", "1.5.5", "[1,]", "[,1]", "[", "]", "{", "}", '{"a"}', "'a'",
    '{"a":}', '{"a":1,}', '{,}', "[1 2]", '{"a" 1}', '{1: 2}', '["a", {"b": [null, {}]}]',
    '"\\u00e9"', '"\\u4e2d\\u6587"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\udc00"', '"\\ud800x"',
    '"\\ud800\\ud800"', '"\\ud800\\u0041"', '"\\udc00\\ud800"', '"\\ud83d\\ud83d\\ude00"',
    '"\\ud800\\n"', '"\\ud800\\\\u0041"', '"\\uD83D\\uDE00"', '"\\u00E9\\u00eF"', '"\\u0000"',
    '"\\u007f\\u0080\\u07ff\\u0800\\uffff"', '"\\udbff\\udfff\\ud800\\udc00"',
    '"\\n\\r\\t\\b\\f\\/\\\\\\""', '"\\x"', '"\\u12"', '"\\u12g4"', '"\\ud800\\u12"', '"\\', '"\\u',
    '"a', '"\\ud800\\u"', '"\\ud800\\', '"\x01"', '"\x1f"', '"\x7f"', '"\t"', '"tab\there"',
    '"' + "x" * 31 + '"', '"' + "x" * 32 + '"', '"' + "y" * 100 + '\\n"', '"' + "\\n" * 50 + '"',
    '"' + "中" * 40 + '"', '"é🌾"', '"' + "\\u4e2d" * 30 + '"', "1" * 5000, "[" * 50 + "]" * 50,
]  # fmt: skip
KEYS = ["text", "id", "a", "b", "a.b", "a.b.c", "t\\u0065xt", "\\u0061", "", "\\ud800", "other"]
SPACES = ["", "", "", " ", "  ", "\t", "\r", " \t\r ", "\x0b", "\x0c", "\u00a0"]
FIELDS = ["text", "a", "a.b", "a.b.c", "text.text", "", ".", "a.", "\ufffd", "other"]


def random_value(rng: random.Random, depth: int) -> str:
    if depth and rng.random() < 0.3:
        if rng.random() < 0.5:
            return (
                "[" + ",".join(random_value(rng, depth - 1) for _ in range(rng.randrange(4))) + "]"
            )
        return random_object(rng, depth - 1)
    # Only a few bytes that are not JSON, because most lines would contain one.
    return rng.choice(VALUES[:19] if rng.random() < 0.7 else VALUES)


def random_object(rng: random.Random, depth: int) -> str:
    def blank() -> str:
        return rng.choice(SPACES[:8] if rng.random() < 0.98 else SPACES)

    members = [
        f'{blank()}"{rng.choice(KEYS)}"{blank()}:{blank()}{random_value(rng, depth)}{blank()}'
        for _ in range(rng.randrange(6))
    ]
    return blank() + "{" + ",".join(members) + "}" + blank()


def mutated(line: bytes, rng: random.Random) -> bytes:
    data = bytearray(line)
    for _ in range(rng.randrange(1, 3)):
        place = rng.randrange(len(data) + 1)
        how = rng.randrange(4)
        if how == 0:
            data[place:place] = rng.choice(list(b'"\\{}[],:0.-eu\x00\x1f\x80\xff\n'[:])).to_bytes()
        elif how == 1:
            del data[place : place + rng.randrange(1, 4)]
        elif how == 2:
            del data[place:]
        elif data:
            data[place % len(data)] = rng.randrange(256)
    return bytes(data)


@pytest.mark.parametrize("round_", range(8))
def test_json_lines_are_those_that_python_reads(round_):
    rng = random.Random(f"{SEED} {round_}")
    for _ in range(examples(150)):
        lines = []
        for _ in range(25):
            line = random_object(rng, 3).encode()
            if rng.random() < 0.1:
                line = random_value(rng, 3).encode()
            if rng.random() < 0.35:
                line = mutated(line, rng)
            lines.append(line + rng.choice([b"\n", b"\n", b"\r\n", b"\n\n", b" \n\x0b\n"]))
        data = b"".join(lines)
        if rng.random() < 0.5:
            data = data[: rng.randrange(len(data))]
        # json.loads cannot distinguish escapes from the markers of bytes.
        if any(mark in data.lower() for mark in (b"\\udc8", b"\\udc9", b"\\udca", b"\\udcb")):
            continue
        id_field = rng.choice([None, None, "id", "text", "a", "a.b", rng.choice(FIELDS)])
        field = rng.choice(FIELDS[:4] if rng.random() < 0.8 else FIELDS)
        without_numbers = read(data, True, field)[:4]
        assert without_numbers == twin(data, True, field)[:4], (data, field)
        assert read(data, False, field)[:4] == twin(data, False, field)[:4], (data, field)
        if id_field is not None:
            check_names(data, field, id_field)


def check_names(data: bytes, field: str, id_field: str) -> None:
    """Names of strings and whole numbers; of other values it is how they are written."""
    got, expected = read(data, True, field, id_field), twin(data, True, field, id_field)
    assert got[:4] == expected[:4]
    assert len(got[4]) == len(expected[4])
    for name, other in zip(got[4], expected[4], strict=True):
        if name != other:
            assert not other, (data, id_field)
            assert json.loads(name.decode("utf-8", "surrogateescape"), parse_int=str) is not None


@pytest.mark.parametrize("value", VALUES)
def test_each_value_in_each_place(value):
    lines = [f'{{"text": {value}}}', f'{{"x": {value}, "text": "a"}}', value, f"[{value}]"]
    lines += [f'{{"text": "a", "x": {{"y": [{value}, {value}]}}}}', f' {{"text":{value}}}\r']
    lines += [f'{{"text": "a"}}{value}', f'{{"text": [{value}]}}', f'{{{value}: "text"}}']
    for line in lines:
        for padding in (b"", b"\n" + b" " * 64):  # with and without space for whole vectors
            check(line.encode() + padding)
            check(line.encode() + b'\n{"text": "next"}\n' + padding)


def test_strings_of_any_length_and_place():
    for length in [*range(70), 1000]:
        for text in (
            "x" * length,
            "x" * length + "\n",
            "\\" * length,
            "中" * length,
            "\x7f" * length,
        ):
            for ascii_only in (True, False):
                record = json.dumps({"n": 1, "text": text, "z": text}, ensure_ascii=ascii_only)
                for end in ("", "\n", "\n" + " " * 40):
                    check((record + end).encode())


def test_each_code_point_comes_back():
    others = [code for code in range(0x3000, 0x110000) if not 0xD800 <= code < 0xE000]
    texts = [chr(code) for code in (*range(0x3000), *sample(others))]
    rows = ["".join(texts[at : at + 512]) for at in range(0, len(texts), 512)]
    for ascii_only in (True, False):
        data = "\n".join(json.dumps({"text": row}, ensure_ascii=ascii_only) for row in rows)
        assert read(data.encode())[0] == [row.encode() for row in rows]


def test_the_fixtures_come_back():
    texts = [path.read_bytes().decode("utf-8", "replace") for path in FIXTURES]
    texts += [t.decode("utf-8", "replace") for t in map(bytes, hard_inputs.BYTES)]
    for ascii_only in (True, False):
        lines = [
            json.dumps({"id": i, "text": t}, ensure_ascii=ascii_only) for i, t in enumerate(texts)
        ]
        documents, _, problems, _, names, _ = read("\n".join(lines).encode(), True, "text", "id")
        assert documents == [text.encode() for text in texts]
        assert names == [b"%d" % i for i in range(len(texts))]
        assert problems == []


def test_the_last_of_equal_keys_counts():
    check(b'{"text": "a", "text": "b"}\n{"text": "a", "text": null}\n{"text": 1, "text": "c"}')
    check(
        b'{"a": {"b": "x"}, "a": {}}\n{"a": {"b": "x"}, "a": 1}\n{"a": {"b": "x", "b": 1}}', "a.b"
    )
    check(b'{"a.b": "own", "a": {"b": "x"}}\n{"a": {"b": "x"}, "a.b": "own"}', "a.b")
    check(b'{"a.b": null, "a": {"b": "x"}}\n{"a": {"b": "x"}, "a.b": 1}', "a.b")
    check(b'{"a": {"b": "long text", "c": "i"}}', "a.b", "a.c")
    check_names(b'{"a": {"b": "x"}, "c": "y"}', "c", "a")
    check_names(b'{"a": {"b": "x"}, "c": "y"}', "a.b", "a")


def test_document_ids_are_strings_or_raw_json():
    data = b'{"text": "", "id": %s}\n'
    values = [b'"a\\n"', b"17", b"-1.50", b"null", b"true", b'{"k": [1, 2]}', b'"\\ud800"']
    names = read(b"".join(data % value for value in values), True, "text", "id")[4]
    assert names == [b"a\n", b"17", b"-1.50", b"", b"true", b'{"k": [1, 2]}', "\ufffd".encode()]
    assert read(b'{"text": "x"}', True, "text", "id")[4] == [b""]


def test_depth_is_bounded():
    def nested(depth: int, key: bool) -> bytes:
        opening, closing = (b'{"a":', b"}") if key else (b"[", b"]")
        return b'{"text": "t", "x": ' + opening * depth + b"1" + closing * depth + b"}"

    for key in (True, False):
        assert read(nested(999, key))[0] == [b"t"]
        for depth in (1000, 1001, 5000, 1_000_000):
            data = nested(depth, key)
            assert read(data)[2] == [(0, len(data), 0, TOO_DEEP)]
    field = ".".join("a" * 1500)
    for depth, reason in ((1500, TOO_DEEP), (999, NO_FIELD)):
        data = b'{"a":' * depth + b'"x"' + b"}" * depth
        assert [problem[3] for problem in read(data, True, field)[2]] == [reason]
    field = ".".join("a" * 1000)
    assert read(b'{"a":' * 1000 + b'"x"' + b"}" * 1000, True, field)[0] == [b"x"]


@settings(max_examples=max(20, examples(100)))
@given(st.lists(st.text(), max_size=5), st.integers(0, 200))
def test_blocks_have_the_lines_of_the_whole_text(texts, cut):
    data = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    first = read(data[:cut], False)
    rest = read(data[first[3] :], True)
    assert first[0] + rest[0] == read(data)[0]
    assert first[5] + rest[5] == read(data)[5] == len(texts)


def test_json_lines_checks_its_arguments():
    assert read(b"") == ([], [], [], 0, None, 0)
    assert read(b"no newline", False) == ([], [], [], 0, None, 0)
    for data in (bytearray(b'{"text": "a"}'), memoryview(b'{"text": "a"}')):
        assert read(data)[0] == [b"a"]
    for wrong in ((1, True, b"a", None), (b"", True, None, None), (b"", True, b"a", 1), (b"",)):
        with pytest.raises(TypeError):
            _native.json_lines(*wrong)
