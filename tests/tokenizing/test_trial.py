"""A dirty corpus, tokenized as a data engineer does it, and broken in every way that happens.

Each test runs the command line in processes of its own. `make trial MB=2000` runs them with 2 GB
instead of 4 MB. tests/helpers/dirty_corpus.py makes the corpus and tells the truth about each file.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import dirty_corpus
import pytest
from conftest import SEED, variable
from corpus_cases import command, contents
from dirty_corpus import Corpus, digest_of

import tokenmill.shards
from tokenmill import Tokenizer

MEGABYTES = variable("TOKENMILL_TRIAL_MB", 4, 1, 10**6)
TOKENIZER = "o200k_base"
TASKS = 32
SECONDS_MAX = 120 + MEGABYTES
# The exit code of a complete run with rejected records. The corpus always has some.
REJECTED = 3


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return dirty_corpus.make(tmp_path_factory.mktemp("trial") / "corpus", MEGABYTES * 10**6, SEED)


@pytest.fixture(scope="module")
def undisturbed(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    done = run(*arguments(corpus, out))
    assert done.returncode == REJECTED, done.stderr
    return out


def arguments(corpus: Corpus, out: Path, *more: str | Path) -> list[str | Path]:
    fields = [argument for name in corpus.fields for argument in ("--field", name)]
    size = max(MEGABYTES * 10**6 // TASKS, 1)
    return [
        *("tokenize", corpus.folder, "--tokenizer", TOKENIZER, "--output", out),
        *("--progress", "plain", "--task-bytes", str(size), *fields, *more),
    ]


def run(*given: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*given), capture_output=True, text=True, timeout=SECONDS_MAX, **more
    )


def start(*given: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*given),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_task(process: subprocess.Popen[str], out: Path) -> None:
    """Return when the first task is done and others are not."""
    ends = time.monotonic() + SECONDS_MAX
    while not list(out.glob("journal/*.json")):
        assert process.poll() is None, f"the run ended with {process.returncode}"
        assert time.monotonic() < ends, "no task was done"
        time.sleep(0.002)


def children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def same(out: Path, undisturbed: Path) -> bool:
    """Whether all files are equal, apart from the times of inputs, the number of restarts, and
    checksums of both."""
    return _lasting(contents(out)) == _lasting(contents(undisturbed))


def _lasting(files: dict[str, bytes]) -> dict[str, bytes]:
    changing = re.compile(rb'"(modified|restarts)": [0-9]+|"digest": "\w+"|\{[^{]*"plan.json"\}')
    made = ("manifest.json", "plan.json")
    return files | {name: changing.sub(b"", files[name]) for name in made}


# ── The documents ────────────────────────────────────────────────────────────────────────────


def test_every_good_record_is_a_document_and_every_bad_one_is_reported(corpus, undisturbed):
    manifest = json.loads((undisturbed / "manifest.json").read_bytes())
    lines = (undisturbed / "errors.jsonl").read_bytes().splitlines()
    errors = [json.loads(line) for line in lines]
    sources = {name_of(corpus, row["path"]): row for row in manifest["sources"]}
    assert sources.keys() == corpus.truth.keys() | {corpus.cut}
    for name, truth in corpus.truth.items():
        bad = [row for row in errors if name_of(corpus, row["source"]) == name]
        assert sources[name]["documents"] == truth.documents, name
        if truth.documents:
            reasons = [kind_of(row["reason"]) for row in bad]
            assert {reason: reasons.count(reason) for reason in reasons} == truth.bad, name
            assert all(row["line"] > 0 for row in bad)
    assert {row["path"]: row["error"] for row in manifest["sources"] if "error" in row}.keys() == {
        str(corpus.folder / corpus.cut),
        str(corpus.folder / "empty.jsonl"),
    }
    skipped = [name_of(corpus, row["path"]) for row in manifest["skipped"]]
    assert sorted(skipped) == sorted(corpus.skipped)


# The beginning of a reason in errors.jsonl, and the kind of dirt.
REASONS = {
    "is not JSON": "is not JSON",
    "has null in the": "has null in the field",
    "has no field": "has no field",
    "is not UTF-8": "is not UTF-8",
    "is a JSON array": "is not a JSON object",
}


def kind_of(reason: str) -> str:
    kinds = [kind for start, kind in REASONS.items() if reason.startswith(start)]
    assert kinds, f"{reason!r} is not the reason of a bad record"
    return kinds[0]


def name_of(corpus: Corpus, path: str) -> str:
    return str(Path(path).relative_to(corpus.folder))


def test_decoded_documents_are_those_of_the_files(corpus, undisturbed):
    tokenizer = Tokenizer.load(TOKENIZER)
    digests: dict[str, list[bytes]] = {}
    with tokenmill.shards.open(undisturbed) as shards:
        documents = iter(shards)
        for task in shards.manifest["tasks"]:
            for segment in task["segments"]:
                found = digests.setdefault(name_of(corpus, segment["source"]), [])
                for ids in islice(documents, segment["documents"]):
                    assert ids[-1] == shards.manifest["eos"]
                    found.append(tokenizer.decode_bytes(ids[:-1]))
        assert next(documents, None) is None
    for name, truth in corpus.truth.items():
        if truth.documents:
            assert digest_of(digests[name]) == truth.digest, name


def test_threads_and_repeated_runs_give_the_same_folder(corpus, undisturbed, tmp_path):
    assert run(*arguments(corpus, tmp_path / "out", "--threads", "1")).returncode == REJECTED
    assert same(tmp_path / "out", undisturbed)
    again = run(*arguments(corpus, tmp_path / "out"))
    assert again.returncode == REJECTED
    assert same(tmp_path / "out", undisturbed)


def test_ranks_give_the_folder_of_one_run(corpus, undisturbed, tmp_path):
    for rank in range(4):
        more = ("--rank", str(rank), "--world-size", "4")
        done = run(*arguments(corpus, tmp_path / "out", *more))
        assert done.returncode in (0, REJECTED) and "finalize" in done.stdout, done.stderr
    done = run("finalize", tmp_path / "out")
    assert done.returncode == REJECTED, done.stderr
    assert same(tmp_path / "out", undisturbed)


# ── Disturbances ─────────────────────────────────────────────────────────────────────────────

# (signal, to whom, exit code, part of the message) of a run that is disturbed in its middle. A
# negative code is a signal that ended the command.
SIGNALS: dict[str, tuple[int, str, int, str]] = {
    "kill -9 of the command": (signal.SIGKILL, "group", -signal.SIGKILL, ""),
    "kill -9 of the first process alone": (signal.SIGKILL, "command", -signal.SIGKILL, ""),
    "kill -9 of a worker": (signal.SIGKILL, "worker", REJECTED, "signal 9"),
    "Ctrl-C": (signal.SIGINT, "group", 130, "same command"),
    "SIGTERM": (signal.SIGTERM, "command", 143, "same command"),
}


@pytest.mark.parametrize("number, target, code, message", SIGNALS.values(), ids=SIGNALS.keys())
def test_a_run_that_gets_a_signal_resumes(
    corpus, undisturbed, tmp_path, number, target, code, message
):
    out = tmp_path / "out"
    process = start(*arguments(corpus, out, "--threads", "2"))
    try:
        wait_for_task(process, out)
        workers = children(process.pid)
        if target == "group":
            os.killpg(process.pid, number)
        else:
            os.kill(process.pid if target == "command" else workers[-1], number)
        _, errors = process.communicate(timeout=SECONDS_MAX)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == code, errors
    assert message in errors and "Traceback" not in errors
    for worker in workers:
        ends = time.monotonic() + 10
        while Path(f"/proc/{worker}/cmdline").exists() and time.monotonic() < ends:
            time.sleep(0.01)
        assert not Path(f"/proc/{worker}/cmdline").exists(), "a worker is still there"
    assert run(*arguments(corpus, out)).returncode == REJECTED
    assert same(out, undisturbed)


def test_a_run_that_is_paused_goes_on(corpus, undisturbed, tmp_path):
    process = start(*arguments(corpus, tmp_path / "out", "--threads", "2"))
    wait_for_task(process, tmp_path / "out")
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(1)
    os.kill(process.pid, signal.SIGCONT)
    _, errors = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == REJECTED, errors
    assert same(tmp_path / "out", undisturbed)


def test_a_full_disk_has_exit_code_1_and_the_run_resumes(corpus, undisturbed, tmp_path):
    largest = max(path.stat().st_size for path in undisturbed.rglob("*.bin"))

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest // 2, largest // 2))

    done = run(*arguments(corpus, tmp_path / "out"), preexec_fn=limit)
    assert done.returncode == 1, done.stderr
    assert "same command" in done.stderr and "Traceback" not in done.stderr
    assert run(*arguments(corpus, tmp_path / "out")).returncode == REJECTED
    assert same(tmp_path / "out", undisturbed)


def test_inputs_that_were_touched_are_accepted(corpus, undisturbed, tmp_path):
    out = tmp_path / "out"
    process = start(*arguments(corpus, out))
    wait_for_task(process, out)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    path = corpus.folder / "a/part-000.jsonl"
    before = path.stat()
    try:
        os.utime(path)
        done = run(*arguments(corpus, out))
    finally:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert done.returncode == REJECTED, done.stderr
    assert same(out, undisturbed)


def test_damaged_shards_are_found_and_made_again(corpus, undisturbed, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(undisturbed, out)
    flipped, gone = sorted(out.glob("*.bin"))[1:3]
    data = bytearray(flipped.read_bytes())
    data[len(data) // 2] ^= 1
    flipped.write_bytes(data)
    gone.unlink()
    done = run("verify", out)
    assert done.returncode == 4
    assert flipped.name in done.stdout + done.stderr and gone.name in done.stdout + done.stderr
    flipped.unlink()
    assert run(*arguments(corpus, out)).returncode == REJECTED
    assert same(out, undisturbed)
    assert run("verify", out).returncode == 0


def test_a_source_that_grew_is_noted_by_verify(corpus, undisturbed):
    path = corpus.folder / "b/part-001.jsonl"
    before, stat = path.read_bytes(), path.stat()
    try:
        path.write_bytes(before + b'{"text": "more"}\n')
        done = run("verify", undisturbed, "--sample", "1%")
    finally:
        path.write_bytes(before)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert done.returncode == 0, done.stderr
    assert path.name in done.stdout + done.stderr


# ── Refusals ─────────────────────────────────────────────────────────────────────────────────

# (arguments instead of those of the corpus, exit code, part of the message). OUT is an empty
# folder, DONE a complete output, FILE a file.
REFUSALS: dict[str, tuple[list[str], int, str]] = {
    "wrong field": (["a", "--field", "txt"], 2, "its fields are 'text'"),
    "misspelt tokenizer": (["a", "--tokenizer", "o200kbase"], 2, "did you mean 'o200k_base'"),
    "name of the Hub": (["a", "--tokenizer", "meta-llama/Llama-3.2-1B"], 2, "hf download"),
    "ids beyond uint16": (["a", "--format", "nanogpt"], 2, "65,536"),
    "rank out of range": (["a", "--rank", "4", "--world-size", "4"], 2, "below world_size 4"),
    "another tokenizer": (["a", "--output", "DONE", "--tokenizer", "gpt2"], 2, "the tokenizer was"),
    "other inputs": (["b", "--output", "DONE"], 2, "is new"),
    "output is a file": (["a", "--output", "FILE"], 2, "not a file"),
    "skipped files": ([".", "--strict"], 2, "notes"),
    "unknown content": (["notes"], 2, "--input-format"),
    "missing input": (["missing.jsonl"], 2, "missing.jsonl"),
    "too little memory": (["a", "--memory", "100MB"], 2, "at least 201,326,592"),
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a complete output of `a`, and inputs that cannot be read."""
    folder = tmp_path_factory.mktemp("small")
    for name in ("a", "b"):
        (folder / name).mkdir()
        (folder / name / "one.jsonl").write_text('{"text": "one"}\n' * 10)
    (folder / "notes").write_bytes(b'{"text": "one"}\n' * 3 + b"A line of text.\n" * 5)
    (folder / "FILE").touch()
    done = run("tokenize", "a", "--tokenizer", TOKENIZER, "--output", "DONE", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("given, code, message", REFUSALS.values(), ids=REFUSALS.keys())
def test_a_mistake_is_named_and_leaves_the_output_as_it_was(small, given, code, message):
    before = contents(small)
    names = {path.name for path in small.iterdir()}
    standard = [("--tokenizer", TOKENIZER), ("--output", "OUT")]
    more = [argument for pair in standard if pair[0] not in given for argument in pair]
    done = run("tokenize", *given, *more, cwd=small)
    assert done.returncode == code, done.stderr
    assert message in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert contents(small) == before
    assert {path.name for path in small.iterdir()} == names


def test_a_second_run_into_a_folder_is_refused(corpus, undisturbed, tmp_path):
    process = start(*arguments(corpus, tmp_path / "out"))
    wait_for_task(process, tmp_path / "out")
    os.killpg(process.pid, signal.SIGSTOP)
    try:
        done = run(*arguments(corpus, tmp_path / "out"))
    finally:
        os.killpg(process.pid, signal.SIGCONT)
    process.communicate(timeout=SECONDS_MAX)
    assert done.returncode == 2 and "another run is writing into" in done.stderr, done.stderr
    assert same(tmp_path / "out", undisturbed)


# ── Names and sizes ──────────────────────────────────────────────────────────────────────────


@pytest.fixture
def linked(tmp_path) -> Iterator[Callable[[str, str], Path]]:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "x.jsonl").write_text('{"text": "one"}\n')

    def link(name: str, target: str) -> Path:
        (folder / name).symlink_to(target)
        return folder

    return link


@pytest.mark.parametrize(
    "name, target, code, message",
    [
        ("y.jsonl", "x.jsonl", 2, "is a link to"),
        ("dead.jsonl", "nowhere", 3, "dead.jsonl"),
        ("loop", ".", 0, ""),
    ],
)
def test_links_are_followed_once_or_named(tmp_path, linked, name, target, code, message):
    folder = linked(name, target)
    done = run("tokenize", folder, "--tokenizer", "gpt2", "--output", tmp_path / "out", "--json")
    assert done.returncode == code, done.stderr
    assert message in done.stderr + done.stdout
    if code != 2:
        assert json.loads(done.stdout)["documents"] == 1


def test_many_small_files_share_tasks_and_merge_into_one_shard(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    count = 1000 * max(1, MEGABYTES // 20)
    for number in range(count):
        (folder / f"{number:06}.jsonl").write_text(f'{{"text": "file {number}"}}\n')
    out = tmp_path / "out"
    done = run("tokenize", folder, "--tokenizer", "gpt2", "--output", out, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["documents"] == count
    done = run("merge", out, tmp_path / "merged", "--json")
    assert done.returncode == 0, done.stderr
    with tokenmill.shards.open(out) as parts, tokenmill.shards.open(tmp_path / "merged") as whole:
        assert len(parts.shards) <= -(-count // 1000) and len(whole.shards) == 1
        assert all((a == b).all() for a, b in zip(parts, whole, strict=True))
