"""The outputs of tokenmill that must stay the same, by name.

    python tests/golden/outputs.py [GROUP…]      # writes expected.json again

`test_golden.py` makes the outputs again and compares them with expected.json. A file of bytes is
kept as its SHA-256. A report is kept as JSON, without figures of the machine. Parquet and Arrow
files are kept as the digest of their tables, because their bytes depend on the release of pyarrow.

The inputs are the texts of tests/data. They have fixed names and times, since manifests name both.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "helpers")]

import families  # noqa: E402
import pyarrow.feather as feather  # noqa: E402
import pyarrow.parquet as parquet  # noqa: E402
from in_process import threaded  # noqa: E402

import tokenmill  # noqa: E402
from tokenmill.cli import main  # noqa: E402

EXPECTED = Path(__file__).parent / "expected.json"
PARQUET = Path(__file__).parent / "in.parquet"
TIME_NS = 1_700_000_000 * 10**9
EMBEDDED = ("r50k_base", "p50k_base", "p50k_edit", "cl100k_base", "o200k_base", "o200k_harmony")
TRAINERS = ("tokenizers", "rustbpe", "minbpe", "cs336", "sentencepiece")
FORMATS = ("megatron", "datatrove", "olmo", "nanogpt", "llmc", "parquet", "arrow", "mds", "npy")
MODES: dict[str, dict[str, Any]] = {
    "plain": {},
    "packed": {"sequence_length": 128},
    "shuffled": {"shuffle": 7},
}
# Figures that differ from run to run.
OF_THE_MACHINE = {
    *("seconds", "peak_mb", "peak_memory", "bytes_written"),
    *("bytes_per_second", "input_bytes_per_second"),
}

Outputs = dict[str, Any]


def documents() -> list[str]:
    """Paragraphs in many languages, code, empty texts and texts with special tokens."""
    chance = random.Random(1)
    found = []
    for path in sorted((TESTS / "data" / "udhr").iterdir()):
        found += [line for line in path.read_text(encoding="utf-8").splitlines() if line][:6]
    for path in sorted((TESTS / "data" / "code").iterdir()):
        found.append(path.read_text(encoding="utf-8")[:2000])
    found += ["", "<|endoftext|>", "a<|endoftext|>b", " ", "é\u0301 🌾", "x" * 3000]
    chance.shuffle(found)
    return found


def warc(texts: list[str]) -> bytes:
    """A WET file with one record per text."""
    records = []
    for number, text in enumerate(texts):
        body = text.encode()
        head = (
            "WARC/1.0\r\nWARC-Type: conversion\r\n"
            f"WARC-Record-ID: <urn:uuid:{number:08d}>\r\nWARC-Target-URI: http://x/{number}\r\n"
            f"Content-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        records.append(head.encode() + body + b"\r\n\r\n")
    return b"".join(records)


def write_inputs() -> dict[str, str]:
    """Writes the same documents as five kinds of files into the current folder; kind → name."""
    texts = documents()
    rows = [{"id": f"doc-{number}", "text": text} for number, text in enumerate(texts)]
    bad = ['{"text": 5}', "{not json", '{"id": "no text"}', '{"text": null}']
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    lines[10:10] = bad
    Path("in.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    Path("in.txt").write_text("\n".join(text for text in texts if text), encoding="utf-8")
    # Manifests name the size of an input, and that of Parquet depends on the release of pyarrow.
    shutil.copyfile(PARQUET, "in.parquet")
    with Path("in.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["id", "text"])
        writer.writeheader()
        writer.writerows(rows)
    Path("in.wet").write_bytes(warc(texts))
    names = {"jsonl": "in.jsonl", "text": "in.txt", "parquet": "in.parquet"}
    names |= {"csv": "in.csv", "wet": "in.wet"}
    for name in names.values():
        os.utime(name, ns=(TIME_NS, TIME_NS))
    return names


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def digest_of_file(path: Path) -> str:
    """The digest of a file, or of the table in it."""
    if path.suffix == ".parquet":
        table = parquet.read_table(path)
    elif path.suffix == ".arrow":
        table = feather.read_table(path)
    else:
        return digest(path.read_bytes())
    return "table " + digest(repr((table.schema.names, table.to_pydict())).encode())


def without_machine(value: Any) -> Any:
    """A report without the figures that differ from run to run."""
    if isinstance(value, dict):
        kept = {key: one for key, one in value.items() if key not in OF_THE_MACHINE}
        return {key: without_machine(one) for key, one in kept.items()}
    if isinstance(value, list):
        return [without_machine(one) for one in value]
    return value


# Shards


def shards(names: dict[str, str]) -> Outputs:
    """Every shard format × mode × kind of input, with a small tokenizer of its own."""
    found: Outputs = {}
    for format in FORMATS:
        for mode, options in MODES.items():
            for kind, name in names.items():
                out = Path(f"{format}-{mode}-{kind}")
                found[str(out)] = one_run(name, out, format, options)
    return found


def one_run(name: str, out: Path, format: str, options: dict[str, Any]) -> Any:
    if name.endswith(".txt"):
        options = options | {"separator": "\n"}
    try:
        tokenmill.tokenize(
            name, out, "gpt2", format=format, task_bytes=30_000, shard_tokens=9_000, threads=1,
            **options,
        )  # fmt: skip
    except tokenmill.TokenmillError as error:
        return type(error).__name__
    kept = {"plan.json", "manifest.json", ".lock"}
    paths = [path for path in sorted(out.rglob("*")) if path.is_file() and path.name not in kept]
    return {str(path.relative_to(out)): digest_of_file(path) for path in paths}


def manifests(names: dict[str, str]) -> Outputs:
    """The manifest, the plan and the errors of one run per mode, over all inputs."""
    found: Outputs = {}
    for mode, options in MODES.items():
        out = Path(f"manifest-{mode}")
        separated = options | {"separator": "\n", "task_bytes": 60_000, "shard_tokens": 30_000}
        tokenmill.tokenize(list(names.values()), out, "gpt2", threads=1, **separated)
        for name in ("manifest.json", "plan.json"):
            found[f"{mode} {name}"] = json.loads((out / name).read_text())
        errors = (out / "errors.jsonl").read_text().splitlines()
        found[f"{mode} errors.jsonl"] = [json.loads(line) for line in errors]
    return found


def sets(names: dict[str, str]) -> Outputs:
    """The files and the manifests of train, validation and test sets, per mode."""
    found: Outputs = {}
    for mode, options in MODES.items():
        out = Path(f"sets-{mode}")
        tokenmill.tokenize(
            list(names.values()), out, "gpt2", separator="\n", split={"val": 0.2, "test": 0.1},
            task_bytes=60_000, shard_tokens=30_000, threads=1, **options,
        )  # fmt: skip
        found |= {str(path): digest_of_file(path) for path in out.rglob("*") if path.is_file()}
    return found


# Tokenizers and trainers


def saved_tokenizers(names: dict[str, str]) -> Outputs:
    """The files that tokenizers save: the embedded ones, two trained ones, byte-level families."""
    found: Outputs = {}
    made = {name: tokenmill.Tokenizer.load(name) for name in EMBEDDED}
    made["trained"] = tokenmill.train_from_iterator(
        documents(), vocab_size=700, special_tokens=["<|endoftext|>"], threads=1
    )
    options: Any = {"trainer": "sentencepiece", "threads": 1}
    tokenmill.train_from_iterator(documents(), 2_000, **options).save("sp.model")
    made["sentencepiece"] = tokenmill.Tokenizer.load("sp.model")
    # The vocabularies of the other families differ from run to run.
    for name in families.BYTE_LEVEL:
        Path(f"{name}.json").write_text(families.byte_level(name), encoding="utf-8")
        made[name] = tokenmill.Tokenizer.load(f"{name}.json")
    for name, tokenizer in made.items():
        for suffix in ("tiktoken", "json", "tokenmill", "model"):
            path = Path(f"saved-{name}.{suffix}")
            try:
                tokenizer.save(path)
                found[f"{name}.{suffix}"] = digest(path.read_bytes())
            except (tokenmill.TokenmillError, OSError) as error:
                found[f"{name}.{suffix}"] = type(error).__name__
        ids = tokenizer.encode_ragged(documents()).ids
        found[f"{name} ids"] = digest(ids.astype("uint32").tobytes())
    return found


def merges(names: dict[str, str]) -> Outputs:
    """The vocabularies of all trainers, from texts and from every kind of file they read."""
    found: Outputs = {}
    for trainer in TRAINERS:
        for source in ("texts", "in.jsonl", "in.txt", "in.parquet"):
            given: Any = documents() if source == "texts" else Path(source)
            if source == "in.jsonl":
                given = Path("good.jsonl")
                lines = [json.dumps({"text": text}) for text in documents()]
                given.write_text("\n".join(lines), encoding="utf-8")
            train: Any = tokenmill.train_from_iterator if source == "texts" else tokenmill.train
            learned = train(given, 2_000, trainer=trainer, threads=1)
            suffix = "vocab" if trainer == "sentencepiece" else "tiktoken"
            path = Path(f"{trainer}.{suffix}")
            learned.save(path)
            found[f"{trainer} {source}"] = digest(path.read_bytes())
    return found


# The command line


def run(*arguments: str, given: bytes = b"") -> tuple[int, str]:
    """The exit code and the standard output of a command, run in this process."""
    streams = sys.stdin, sys.stdout
    sys.stdin = io.TextIOWrapper(io.BytesIO(given), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    try:
        code = main(list(arguments))
        sys.stdout.flush()
        return code, sys.stdout.buffer.getvalue().decode()  # type: ignore[attr-defined]
    finally:
        sys.stdin, sys.stdout = streams


def command_line(names: dict[str, str]) -> Outputs:
    """The JSON of every command that has --json."""
    Path("small.txt").write_text("grain in, tokens out\n" * 3, encoding="utf-8")
    Path("good.jsonl").write_text('{"text": "grain in"}\n{"text": "tokens out"}\n')
    for name in ("small.txt", "good.jsonl"):
        os.utime(name, ns=(TIME_NS, TIME_NS))
    commands = [
        "encode small.txt --json --tokenizer gpt2",
        "encode small.txt --json --count --tokenizer gpt2",
        "encode small.txt --json --lines --tokenizer gpt2",
        "train good.jsonl small.txt --vocab-size 270 --output t.json --json --quiet",
        "count-pretokens good.jsonl small.txt --output c.tmc --json --quiet",
        "count good.jsonl small.txt --tokenizer gpt2 --json",
        "tokenize in.jsonl in.csv --tokenizer gpt2 --output s --threads 1 --json --progress none",
        "verify s --json",
        "verify s --json --sample 100%",
        "inspect s --json",
        "inspect t.json --json --word grain --text grain",
        "inspect gpt2 --json --rows 3",
        "convert gpt2 g.json --json",
    ]
    found: Outputs = {}
    for command in commands:
        with contextlib.redirect_stderr(io.StringIO()):
            code, text = run(*command.split())
        lines = [without_machine(json.loads(line)) for line in text.splitlines()]
        found[command] = {"code": code, "lines": lines}
    return found


GROUPS: dict[str, Callable[[dict[str, str]], Outputs]] = {
    "shards": shards,
    "manifests": manifests,
    "sets": sets,
    "saved tokenizers": saved_tokenizers,
    "merges": merges,
    "command line": command_line,
}


@contextlib.contextmanager
def inputs() -> Iterator[dict[str, str]]:
    """A folder with the inputs, which is the current one inside of the block."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            with threaded():
                yield write_inputs()
        finally:
            os.chdir(before)


def make(group: str) -> Outputs:
    """The outputs of a group, as expected.json has them."""
    with inputs() as names:
        made: Outputs = json.loads(json.dumps(GROUPS[group](names)))
        return made


if __name__ == "__main__":
    expected = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    for chosen in sys.argv[1:] or GROUPS:
        expected[chosen] = make(chosen)
    EXPECTED.write_text(json.dumps(expected, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
