"""`tokenmill encode` and `decode`, as programs in pipes."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import signal
import subprocess
import sys
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import hard_inputs
import numpy as np
import pytest
from conftest import FIXTURES, FUZZ, SEED, examples
from in_process import run_main
from terminal import COMMAND

from tokenmill import Tokenizer
from tokenmill.cli import encode as encode_command
from tokenmill.cli import main
from tokenmill.cli.encode import ids_of, text_of_ids
from tokenmill.corpus import Documents
from tokenmill.native import _native
from tokenmill.tokenizing import encoder

SHELL = " ".join(COMMAND)


def run(*arguments, given: bytes = b"", code: int = 0) -> bytes:
    """The output of a command that ends with `code`; its errors where that is not 0."""
    done = run_main(*arguments, given=given)
    assert done.returncode == code, done.stderr
    if code == 0:
        assert done.errors == b""
    return done.output if code == 0 else done.errors


def shell(line: str, **more: object) -> subprocess.CompletedProcess[bytes]:
    line = line.replace("tokenmill", SHELL)
    return subprocess.run(["bash", "-c", line], capture_output=True, timeout=120, **more)


@pytest.fixture
def text(tmp_path):
    """A file with many kinds of lines, empty lines, invalid UTF-8, and no newline at the end."""
    parts = [path.read_bytes()[: examples(1_200_000)] for path in FIXTURES[:6]]
    data = b"\n\n".join(parts) + b"\xff\xfe\r\n <|endoftext|>\n\n\nlast"
    path = tmp_path / "text.txt"
    path.write_bytes(data)
    return path


def test_ids_are_those_of_the_library(text):
    tokenizer = Tokenizer.load("o200k_base")
    want = tokenizer.encode(text.read_bytes())
    assert list(map(int, run("encode", text).split())) == want
    assert run("encode", text, "--count") == b"%d\n" % len(want)
    assert run("encode", "-", given=b"hello world") == b"24912 2375\n"
    assert run("encode", given=b"") == b"\n"
    assert run("encode", "--text", "hello world") == b"24912 2375\n"
    assert run("encode", "--text", "") == b"\n"
    several = ("--text", "hello world", "--text", "", "--text", "hello")
    assert run("encode", *several) == b"24912 2375\n\n24912\n"
    assert run("encode", *several, "--count") == b"2\n0\n1\n"
    assert run("encode", "--text", "<|endoftext|>", "--allow-special") == b"199999\n"
    assert len(run("encode", "--text", "<|endoftext|>").split()) > 1


@pytest.mark.parametrize(
    "form", [[], ["--lines"], ["--json"], ["--lines", "--json"], ["--binary", "u32"]], ids=" ".join
)
@pytest.mark.parametrize(
    "special_tokens", [[], ["--allow-special"]], ids=["text", "special_tokens"]
)
def test_decode_restores_the_input_of_encode(text, form, special_tokens):
    data = text.read_bytes()
    ids = run("encode", *form, *special_tokens, given=data)
    ends = b"\n" if "--lines" in form else b""
    assert run("decode", *form, given=ids) == data + ends
    if "--lines" in form:
        assert ids.count(b"\n") == data.count(b"\n") + 1


def test_pipe_of_both_is_the_text(text, tmp_path):
    done = shell(f"cat {text} | tokenmill encode - | tokenmill decode - > {tmp_path}/same")
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "same").read_bytes() == text.read_bytes()


def test_all_forms_have_the_same_ids(text):
    data = text.read_bytes()
    tokenizer = Tokenizer.load("gpt2")
    want = tokenizer.encode(data)
    gpt2 = ["--tokenizer", "gpt2"]
    assert json.loads(run("encode", text, "--json", *gpt2)) == {
        "path": str(text), "ids": want, "tokens": len(want), "bytes": len(data),
    }  # fmt: skip
    assert json.loads(run("encode", text, "--json", "--count", *gpt2)) == {
        "path": str(text), "tokens": len(want), "bytes": len(data),
    }  # fmt: skip
    for width, dtype in (("u16", "<u2"), ("u32", "<u4")):
        found = np.frombuffer(run("encode", text, "--binary", width, *gpt2), dtype)
        assert found.tolist() == want
    lines = [tokenizer.encode(line) for line in data.split(b"\n")]
    found = run("encode", text, "--lines", *gpt2).decode().splitlines()
    assert [list(map(int, line.split())) for line in found] == lines
    counts = run("encode", text, "--lines", "--count", *gpt2)
    assert list(map(int, counts.split())) == list(map(len, lines))
    rows = [json.loads(row) for row in run("encode", text, "--lines", "--json", *gpt2).splitlines()]
    assert [row["ids"] for row in rows] == lines
    assert [row["line"] for row in rows] == list(range(1, len(lines) + 1))


def test_several_files_are_a_line_each(tmp_path, capsysbinary):
    (tmp_path / "a.txt").write_text("hello world")
    (tmp_path / "b.txt").write_text("hello")
    names = [str(tmp_path / name) for name in ("a.txt", "b.txt")]
    assert main(["encode", *names]) == 0
    assert capsysbinary.readouterr().out == b"24912 2375\n24912\n"
    assert main(["encode", *names, "--count"]) == 0
    assert capsysbinary.readouterr().out.decode() == f"2 {names[0]}\n1 {names[1]}\n3 total\n"
    odd = tmp_path / "\x1b[31m\n.txt"
    odd.write_text("hello")
    assert main(["encode", str(odd), names[1], "--count"]) == 0
    assert rb"\x1b[31m\n.txt" in capsysbinary.readouterr().out
    assert main(["encode", *names, "--count", "--json"]) == 0
    rows = [json.loads(row) for row in capsysbinary.readouterr().out.splitlines()]
    assert [(row["path"], row["tokens"]) for row in rows] == [(names[0], 2), (names[1], 1)]


def test_a_file_that_is_not_utf8_is_named(tmp_path, capsys):
    (tmp_path / "good.txt").write_text("ok")
    (tmp_path / "bad.txt").write_bytes(b"ok \xff")
    names = [str(tmp_path / name) for name in ("good.txt", "bad.txt")]
    assert main(["encode", *names, "--utf8", "strict"]) == 2
    assert "bad.txt is not UTF-8: byte 3 is 0xFF" in capsys.readouterr().err
    assert main(["encode", *names, "--utf8", "strict", "--on-error", "skip"]) == 3
    shown = capsys.readouterr()
    assert shown.out == "525\n"
    assert "bad.txt, line 1 is not UTF-8" in shown.err


def test_ids_are_read_as_people_write_them():
    for given in (b"24912 2375", b"[24912, 2375]", b"\n24912\n2375\n", b"[[24912],[2375]]"):
        assert run("decode", given=given) == b"hello world"
    assert run("decode", "--ids", "24912", "2375") == b"hello world"
    assert run("decode", "--ids", "[24912, 2375]") == b"hello world"
    assert run("decode", "--json", given=b"[24912]\n\n[2375]\n") == b"hello world"
    assert run("decode", given=b"") == b""


@pytest.mark.parametrize(
    ("arguments", "given", "said"),
    [
        (["encode", "nowhere.txt"], b"", "file not found: 'nowhere.txt'"),
        (["decode", "."], b"", ".: Is a directory"),
        (["decode", "nowhere.ids"], b"", "file not found: 'nowhere.ids'; pass a file of ids"),
        (["encode", "--lines", "--separator", "x"], b"", "pass one of them"),
        (
            ["encode", "--input-format", "jsonl"],
            b"\n7\n",
            "standard input, line 2 is a JSON number",
        ),
        (["encode", "--input-format", "jsonl", "--binary", "u32"], b"", "the ids of one text"),
        (["encode", "-", "-"], b"", "'-' is given twice"),
        (["encode", "-", "--text", "x"], b"", "pass a file or --text, not both"),
        (["encode", "--tokenizer", "nobody"], b"", "nobody"),
        (["encode", "--binary", "u16"], b"", "go up to 200,018 and do not fit u16"),
        (["encode", "--binary", "u32", "--lines"], b"", "--binary writes the ids of one text"),
        (["encode", "--binary", "u32", "--text", "a", "--text", "b"], b"", "ids of one text"),
        (["encode", "--utf8", "strict"], b"ab\xff", "byte 2 is 0xFF"),
        (["encode", "--utf8", "strict"], b"abc\xf0\x9f", "byte 3 is 0xF0"),
        (["decode"], b"1 2 x3 4", "'x3' is not an id"),
        (["decode"], b"1 -2", "'-2' is not an id"),
        (["decode"], b"1_000", "'1_000' is not an id"),
        (["decode"], b"9" * 5000, "'" + "9" * 40 + "…' is not an id"),
        (["decode", "999999"], b"", "or the ids themselves with --ids"),
        (["decode"], b"300000", "id 300000 is not in this vocabulary"),
        (["decode"], b'{"ids": [1]}', "pass --json"),
        (["decode", "--lines"], b"1\n2\nx", "line 3: 'x' is not an id"),
        (["decode", "--json"], b"[1]\n{\n", "line 2: not valid JSON"),
        (["decode", "--json"], b'{"id": 1}', 'line 1: no ids found; expected {"ids": [1, 2]}'),
        (["decode", "--json"], b"[1, true]", "line 1: no ids found"),
        (["decode", "--json"], b"[" * 100_000, "line 1: not valid JSON"),
        (["decode", "--binary", "u32"], b"\0\0\0\0\0", "inside of an id of 4 bytes"),
        (["decode", "--binary", "u32", "--lines"], b"", "--binary has no lines"),
        (["decode", "--ids", "1", "--json"], b"", "omit --json and --binary"),
        (["decode", "-", "--ids", "1"], b"", "pass a file or --ids, not both"),
    ],
    ids=str,
)
def test_mistakes_are_named(arguments, given, said):
    error = run(*arguments, given=given, code=2).decode()
    assert error.startswith("tokenmill: ")
    assert said in error
    assert error.count("\n") == 1


def test_bytes_that_are_not_utf8_are_as_the_policy_says():
    given = b"caf\xe9 \xf0\x9f\x8c\xbe"
    same = run("decode", given=run("encode", given=given))
    assert same == given
    replaced = run("decode", given=run("encode", "--utf8", "replace", given=given))
    assert replaced == given.decode("utf-8", "replace").encode()


def test_closed_standard_input_is_an_error():
    done = shell("tokenmill encode - <&-")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"standard input is closed" in done.stderr


def test_reader_that_goes_ends_it_quietly(tmp_path):
    big = tmp_path / "big.txt"
    big.write_bytes(b"some words and more of them\n" * max(160_000, examples(400_000)))
    for line in (
        f"tokenmill encode {big} | head -c 10",
        f"tokenmill encode {big} --lines | head -1",
        f"tokenmill encode {big} --json | head -c 1",
        f"tokenmill encode {big} | tokenmill decode - | head -1",
    ):
        done = shell(f"{line}; echo ${{PIPESTATUS[0]}}")
        assert done.stderr == b"", line
        assert done.stdout.endswith(b"141\n"), line


def test_full_disk_is_an_error_of_the_system():
    done = shell("echo hello | tokenmill encode - > /dev/full")
    assert done.returncode == 1
    assert done.stderr == b"tokenmill: No space left on device\n"


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupt_ends_it_without_a_traceback(sent, code):
    with subprocess.Popen(
        [*COMMAND, "encode", "-"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as child:  # fmt: skip
        child.stdin.write(b"hello world " * 1000)
        child.stdin.flush()
        assert child.stdout.read(5) == b"24912"  # it has read some, and wants more
        child.send_signal(sent)
        assert child.wait(30) == code
        assert child.stderr.read() == b""


def test_ids_come_while_text_still_goes_in():
    """Both ways: a line through encode and decode is out before the input ends."""
    with subprocess.Popen(
        ["bash", "-c", f"{SHELL} encode - --lines | {SHELL} decode - --lines"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as child:  # fmt: skip
        for line in (b"one two\n", b"\n", "谷物\n".encode()):
            child.stdin.write(line)
            child.stdin.flush()
            assert child.stdout.readline() == line
        child.stdin.close()
        assert child.wait(30) == 0


def peaks_mb(arguments: list[str], block: bytes, megabytes: tuple[int, int]) -> list[float]:
    """The peak memory of a command after each number of megabytes of input."""
    peaks = []
    with subprocess.Popen(
        [*COMMAND, *arguments], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as child:
        data = block * (1_000_000 // len(block))
        for number in range(1, megabytes[1] + 1):
            child.stdin.write(data)
            child.stdin.flush()
            if number in megabytes:  # all but what fits into a pipe was read
                status = Path(f"/proc/{child.pid}/status").read_text()
                peaks.append(int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1000)
        child.stdin.close()
        assert child.wait(60) == 0
    return peaks


@pytest.mark.parametrize(
    ("arguments", "block"),
    [
        (["encode", "-"], b"some words and 1234 more of them, "),
        (["encode", "-", "--lines"], b"some words\nand 1234 more\n\n"),
        (["encode", "-", "--count"], b"some words and 1234 more of them, "),
        (["decode", "-"], b"24912 2375 198 "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_memory_does_not_grow_with_the_text(arguments, block):
    # All of it, as ids in lists, would be more than twice the bound.
    small, large, bound = (8, 24, 20) if FUZZ >= 100 else (2, 6, 12)
    first, last = peaks_mb(arguments, block, (small, large))
    assert last - first < bound


@pytest.mark.parametrize(("size", "most"), [(1, 1_500), (7, 6_000), (1000, 1_000_000)])
def test_parts_of_a_document_change_no_id(size, most):
    """The ids are those of the whole text, for any size of the parts that a pipe gives."""
    data = hard_text()[:most]
    for name in ("o200k_base", "gpt2", "cl100k_base"):
        tokenizer = Tokenizer.load(name)
        options = {"allow_special": True}
        encoder = encode_command._make_encoder(tokenizer, options, sys.maxsize, 4 << 20)
        found: list[int] = []
        for start in range(0, len(data), size):
            part = data[start : start + size]
            is_last = start + size >= len(data)
            block = Documents(part, np.array([[0, len(part)]]), goes_on=not is_last)
            found += chain.from_iterable(each.ids.tolist() for each in encoder.encode(block, 1))
        assert found == tokenizer.encode(data, allowed_special=True)


def hard_text() -> bytes:
    texts = [d if isinstance(d, bytes) else d.encode() for _, d in hard_inputs.files(3_000)]
    random.Random(SEED).shuffle(texts)
    return b" ".join(texts)


@pytest.mark.parametrize(("size", "most"), [(16, 1_500), (23, 6_000), (1000, 1_000_000)])
def test_blocks_of_any_size_change_no_id(size, most, monkeypatch, capsysbinary, tmp_path):
    """The ids are those of the whole text, for any size of blocks, also with hard inputs."""
    data = b"x" + hard_text()[:most]  # a byte-order mark at the start would be removed
    path = tmp_path / "hard.txt"
    path.write_bytes(data)
    monkeypatch.setattr(encode_command, "_BLOCK_BYTES", size)
    for name in ("o200k_base", "gpt2", "cl100k_base"):
        want = Tokenizer.load(name).encode(data, allowed_special=True)
        assert main(["encode", str(path), "--tokenizer", name, "--allow-special"]) == 0
        assert list(map(int, capsysbinary.readouterr().out.split())) == want
        (tmp_path / "ids").write_bytes(" ".join(map(str, want)).encode())
        assert main(["decode", str(tmp_path / "ids"), "--tokenizer", name]) == 0
        assert capsysbinary.readouterr().out == Tokenizer.load(name).decode_bytes(want)


def test_text_without_a_safe_cut_is_read_in_linear_time(monkeypatch, capsysbinary, tmp_path):
    looked = []
    monkeypatch.setattr(encode_command, "_BLOCK_BYTES", 1 << 12)

    def last_cut(text, names):
        looked.append(len(text))
        return _native.last_cut(text, names)

    monkeypatch.setattr(encoder, "_native", SimpleNamespace(last_cut=last_cut))
    path = tmp_path / "one.txt"
    size = max(300_000, examples(3_000_000))
    path.write_bytes(b" " * size)  # each space may be a cut, and none is
    assert main(["encode", str(path), "--count"]) == 0
    assert looked
    assert sum(looked) < 4 * size
    assert int(capsysbinary.readouterr().out) == Tokenizer.load("o200k_base").count(" " * size)


def test_tokenizer_with_a_pattern_of_its_own_reads_to_the_end(tmp_path, text):
    data = text.read_bytes()
    mine = Tokenizer.load("gpt2")
    mine.save(tmp_path / "ranks.tiktoken")
    mine = Tokenizer.load(tmp_path / "ranks.tiktoken", pattern=r"(?s:.){1,9}")
    mine.save(tmp_path / "mine.tokenmill")
    found = run("encode", text, "--tokenizer", tmp_path / "mine.tokenmill")
    assert list(map(int, found.split())) == mine.encode(data)
    assert run("decode", "--tokenizer", tmp_path / "mine.tokenmill", given=found) == data


def test_text_of_ids_is_that_of_python():
    rng = np.random.default_rng(SEED)
    for size in (1, 10, 300, 50_000, 1 << 32):
        for count in (0, 1, 40, 3_000):
            ids = rng.integers(0, size, count).astype(np.uint32)
            ends = np.sort(rng.integers(0, count + 1, 9)).astype(np.int64)
            lines = np.split(ids, ends)
            want = "\n".join(" ".join(map(str, line.tolist())) for line in lines)
            assert text_of_ids(ids, ends).removeprefix(b" ") == want.encode()
            assert ids_of(want.encode()) == ids.tolist()


def test_text_of_the_command_line_is_its_bytes():
    raw = b"caf\xe9"
    done = subprocess.run([*map(os.fsencode, COMMAND), b"encode", b"--text", raw], stdout=-1)
    assert run("decode", given=done.stdout) == raw


@pytest.fixture
def records(tmp_path, monkeypatch):
    """A folder with the same two documents in several formats, which is the current one."""
    monkeypatch.chdir(tmp_path)
    lines = b'{"text": "hello world", "n": 1}\n{"text": "hello", "n": 2}\n'
    Path("data").mkdir()
    Path("data/a.jsonl").write_bytes(lines)
    Path("data/b.json.gz").write_bytes(gzip.compress(lines))
    Path("data/c.csv").write_bytes(b"n,text\n1,hello world\n2,hello\n")
    Path("data/d.txt.gz").write_bytes(gzip.compress(b"hello world"))
    return tmp_path


def test_records_are_documents_with_a_line_each(records):
    two = b"24912 2375\n24912\n"
    for name in ("data/a.jsonl", "data/b.json.gz", "data/c.csv"):
        assert run("encode", name) == two
        assert run("encode", name, "--count") == b"2\n1\n"
    assert run("encode", "data/d.txt.gz") == b"24912 2375\n"
    assert run("encode", "data") == 3 * two + b"24912 2375\n"
    assert run("encode", "data/*.jsonl", "--field", "text") == two
    assert run("encode", "-", "--input-format", "jsonl", given=b'{"text": "hello"}\n') == b"24912\n"
    rows = [json.loads(row) for row in run("encode", "data/a.jsonl", "--json").splitlines()]
    assert rows[1] == {
        "path": "data/a.jsonl", "document": 2, "ids": [24912], "tokens": 1, "bytes": 5,
    }  # fmt: skip
    raw = Path("data/a.jsonl").read_bytes()
    as_text = run("encode", "data/a.jsonl", "--input-format", "text")
    assert list(map(int, as_text.split())) == Tokenizer.load("o200k_base").encode(raw)


def test_separators_end_documents(records):
    assert run("encode", "--separator", "\\n\\n", given=b"hello world\n\nhello") == (
        b"24912 2375\n24912\n"
    )
    assert run("encode", "--separator", "|", "--text", "hello||hello") == b"24912\n\n24912\n"
    rows = run("encode", "--separator", "|", "--json", "--count", given=b"hello|hello world|")
    assert [json.loads(row)["document"] for row in rows.splitlines()] == [1, 2]


def test_rejected_records_are_an_error_or_left_out(records):
    Path("bad.jsonl").write_text('{"text": "hello"}\n{"text": 1}\n{"text": "hello world"}\n')
    done = run_main("encode", "bad.jsonl")
    assert (done.returncode, done.output) == (2, b"24912\n24912 2375\n")
    assert "bad.jsonl, line 2" in done.stderr
    done = run_main("encode", "bad.jsonl", "--on-error", "skip")
    assert (done.returncode, done.output) == (3, b"24912\n24912 2375\n")
    assert "1 record rejected and not encoded; the first: bad.jsonl, line 2" in done.stderr
    assert (
        run_main("encode", "bad.jsonl", "--max-errors", "0", "--on-error", "skip").returncode == 2
    )
    done = run_main("encode", "bad.jsonl", "--on-error", "skip", "--field", "body")
    assert done.returncode == 2
    assert "the inputs contain no documents: bad.jsonl, line 1" in done.stderr


def test_text_that_turns_out_bad_late_is_an_error(records):
    data = b"hello world " * 900_000 + b"\xff"
    done = run_main("encode", "--utf8", "strict", "--on-error", "skip", "--count", given=data)
    assert done.returncode == 2
    assert f"byte {len(data) - 1:,} is 0xFF" in done.stderr


def test_byte_order_mark_is_removed(records):
    assert run("encode", given=b"\xef\xbb\xbfhello world") == b"24912 2375\n"


def test_named_pipes_are_read_once():
    done = shell("tokenmill encode <(printf 'hello world') <(printf hello) --count")
    assert (done.returncode, done.stderr) == (0, b"")
    assert [line.split()[0] for line in done.stdout.splitlines()] == [b"2", b"1", b"3"]
