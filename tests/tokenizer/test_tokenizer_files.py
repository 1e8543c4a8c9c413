"""Files → ids: each document once, in order, for blocks of any size."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import random

import numpy as np
import pytest
from conftest import FIXTURES, SEED, examples

from tokenmill import Ragged, Tokenizer
from tokenmill.errors import InputError, OptionError


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load("o200k_base")


def expected(tokenizer: Tokenizer, documents: list[bytes]) -> list[list[int]]:
    return [tokenizer.encode(document) for document in documents]


def write(path, data: bytes):
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("separator", ["\n", b"\n\n", "<|endoftext|>", "中"])
@pytest.mark.parametrize("memory", [60_000, 1_000_000, 512_000_000])
def test_documents_are_those_between_separators(tokenizer, tmp_path, separator, memory):
    rng = random.Random(SEED)
    raw = separator.encode() if isinstance(separator, str) else separator
    source = b" ".join(path.read_bytes() for path in FIXTURES[:4])
    files, documents = [], []
    for number in range(4):
        count = max(15, examples(60))
        cuts = sorted(rng.randrange(len(source)) for _ in range(count))
        pieces = [source[a : min(b, a + 3000)] for a, b in itertools.pairwise(cuts)]
        data = raw.join(pieces) + raw * rng.randrange(2)
        files.append(write(tmp_path / f"{number}", data))
        split = data.split(raw)
        documents += split if split[-1] else split[:-1]
    ragged = tokenizer.encode_files(files, separator=separator, memory=memory)
    assert ragged.tolist() == expected(tokenizer, documents)
    blocks: list[Ragged] = []
    count = tokenizer.encode_files(
        files, separator=separator, memory=memory, callback=blocks.append, threads=2
    )
    assert count == len(documents)
    assert [ids for block in blocks for ids in block.tolist()] == ragged.tolist()


def test_without_a_separator_a_file_is_a_document(tokenizer, tmp_path):
    empty = write(tmp_path / "empty", b"")
    files = [*FIXTURES[:3], empty, FIXTURES[3]]
    documents = [path.read_bytes() for path in files if path != empty]
    ragged = tokenizer.encode_files(files, separator=None)
    assert ragged.tolist() == expected(tokenizer, documents)


def test_one_path_no_paths_and_empty_documents(tokenizer, tmp_path):
    path = write(tmp_path / "lines", b"\n\na\n\n")
    assert tokenizer.encode_files(path).tolist() == [[], [], tokenizer.encode("a"), []]
    assert tokenizer.encode_files(str(path)).tolist() == tokenizer.encode_files([path]).tolist()
    assert len(tokenizer.encode_files([])) == 0
    assert tokenizer.encode_files([], callback=print) == 0


def test_specials_are_text_unless_asked_for(tokenizer, tmp_path):
    path = write(tmp_path / "text", b"a<|endoftext|>b\nc")
    for special_tokens in (False, True):
        ids = [
            tokenizer.encode(text, allowed_special=special_tokens)
            for text in ("a<|endoftext|>b", "c")
        ]
        assert tokenizer.encode_files(path, allowed_special=special_tokens).tolist() == ids


def test_any_bytes_are_text(tokenizer, tmp_path):
    data = np.random.default_rng(SEED).bytes(50_000)
    path = write(tmp_path / "noise", data)
    documents = data.split(b"\n")
    documents = documents if documents[-1] else documents[:-1]
    ragged = tokenizer.encode_files(path, memory=100_000)
    assert ragged.tolist() == expected(tokenizer, documents)


def test_a_document_that_does_not_fit_names_itself_and_the_way_out(tokenizer, tmp_path):
    path = write(tmp_path / "long", b"short\n" + b"x" * 200_000 + b"\n")
    with pytest.raises(ValueError, match=r"long' has a document of [\d,]+ bytes or more; raise"):
        tokenizer.encode_files(path, memory=100_000)
    with pytest.raises(ValueError, match=r"long' has a document of [\d,]+ bytes or more"):
        tokenizer.encode_files(path, separator=None, memory=100_000)
    assert len(tokenizer.encode_files(path, separator=None, memory=2_000_070)) == 1


def test_a_callback_that_fails_ends_the_work(tokenizer, tmp_path):
    path = write(tmp_path / "lines", b"word\n" * 10_000)
    seen = []

    def stop(block: Ragged) -> None:
        seen.append(len(block))
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        tokenizer.encode_files(path, callback=stop, memory=100_000)
    assert len(seen) == 1


def test_bad_arguments_are_named(tokenizer, tmp_path):
    path = write(tmp_path / "x", b"x")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        tokenizer.encode_files([path, tmp_path / "nowhere"])
    with pytest.raises(FileNotFoundError, match=r"folder .* contains no files with a suffix"):
        tokenizer.encode_files(tmp_path)
    with pytest.raises(TypeError, match="b'x'"):
        tokenizer.encode_files(b"x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="3"):
        tokenizer.encode_files([3])  # type: ignore[list-item]
    with pytest.raises(OptionError, match="must not be empty"):
        tokenizer.encode_files(path, separator="")
    with pytest.raises(TypeError, match="5"):
        tokenizer.encode_files(path, separator=5)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="memory must be 40960 or more"):
        tokenizer.encode_files(path, memory=1)
    if os.geteuid() != 0:
        path.chmod(0)
        with pytest.raises(ValueError, match="Permission denied"):
            tokenizer.encode_files(path)


def test_every_input_format_is_read_as_tokenize_reads_it(tokenizer, tmp_path):
    texts = ["one", "two words", ""]
    lines = "".join(json.dumps({"body": text}) + "\n" for text in texts)
    write(tmp_path / "a.jsonl", lines.encode())
    write(tmp_path / "b.csv.gz", gzip.compress(b'body\none\ntwo words\n""\n'))
    ragged = tokenizer.encode_files(tmp_path, field="body")
    assert ragged.tolist() == expected(tokenizer, [text.encode() for text in 2 * texts])
    lines_of = tokenizer.encode_files(tmp_path / "a.jsonl", input_format="text")
    assert lines_of.tolist() == expected(tokenizer, lines.encode().splitlines())


def test_rejected_records_are_errors_unless_skipped(tokenizer, tmp_path):
    path = write(tmp_path / "a.jsonl", b'{"text": "x"}\nnot JSON\n{"text": "y"}\n')
    with pytest.raises(InputError, match=r"a.jsonl, line 2 is not JSON"):
        tokenizer.encode_files(path)
    ragged = tokenizer.encode_files(path, on_error="skip")
    assert ragged.tolist() == expected(tokenizer, [b"x", b"y"])
    with pytest.raises(InputError, match="more than 0 records"):
        tokenizer.encode_files(path, on_error="skip", max_errors=0)
