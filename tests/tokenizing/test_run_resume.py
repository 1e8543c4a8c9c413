"""Runs that are killed, stopped or disturbed → the bytes of an undisturbed run.

Tests of tokenizing/plan.py, tokenizing/run.py, tokenizing/shuffle.py and tokenizing/task.py.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

import fsspec
import pytest
from conftest import FUZZ, SEED, examples
from corpus_cases import command, contents, run, texts, write_jsonl
from fsspec.implementations.memory import MemoryFileSystem
from in_process import run_main
from in_process import threaded_runs as threaded_runs
from shard_files import replace_digested

from tokenmill import Tokenizer, TokenmillError, tokenize, train_from_iterator
from tokenmill.corpus import find
from tokenmill.tokenizing import executors, plan
from tokenmill.tokenizing import output as outputs
from tokenmill.tokenizing import run as runs
from tokenmill.tokenizing.options import PLANNED, resolve_options
from tokenmill.tokenizing.output import open_output
from tokenmill.tokenizing.plan import make_plan
from tokenmill.tokenizing.task import Job, run_task

KILLS = max(3, examples(20))
SHUFFLED_KILLS = max(2, examples(6))
FILES = 6
COPIES = max(6, examples(60))


@pytest.fixture(scope="module")
def gpt2() -> Tokenizer:
    return Tokenizer.load("gpt2")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Enough that a run takes a second or two, in several units; by default with `pauses`."""
    folder = tmp_path_factory.mktemp("inputs")
    documents = texts(2000, 1)
    return [
        write_jsonl(folder / f"{number}.jsonl", documents * (COPIES if number else COPIES // 3))
        for number in range(FILES)
    ]


@pytest.fixture
def pauses(tmp_path) -> dict[str, str]:
    """Variables of a run that lasts a second with few inputs: its worker waits at each unit."""
    if FUZZ >= 100:
        return {}
    return poison(tmp_path / "pauses", "", "__import__('time').sleep(0.15)")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, inputs) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("undisturbed")
    assert run_main(*arguments(inputs, out)).returncode == 0
    return contents(out)


def arguments(inputs: list[Path], out: Path, *more: str) -> list[str | Path]:
    return [
        *("tokenize", *inputs, "--tokenizer", "gpt2", "--output", out, "--progress", "none"),
        *("--task-bytes", "1MB", *more),
    ]


def test_a_run_that_is_killed_at_any_moment_resumes(tmp_path, inputs, undisturbed, pauses):
    chance = random.Random(SEED)
    out = tmp_path / "out"
    started = time.monotonic()
    assert run(*arguments(inputs, tmp_path / "timed"), env=pauses).returncode == 0
    whole = time.monotonic() - started
    kills = 0
    while kills < KILLS:
        workers = chance.choice(["1", "2", "3"])
        process = subprocess.Popen(
            command(*arguments(inputs, out, "--threads", workers)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=os.environ | pauses,
        )
        try:
            process.wait(timeout=chance.uniform(0.05, whole * 0.8))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
        else:
            assert process.returncode == 0, process.stderr.read()
            assert contents(out) == undisturbed, f"TOKENMILL_SEED={SEED}"
            for path in out.iterdir():  # and from the start again
                path.unlink()
        finally:
            process.stderr.close()
    assert run(*arguments(inputs, out, "--threads", "2")).returncode == 0
    assert contents(out) == undisturbed, f"TOKENMILL_SEED={SEED}"


def test_a_shuffled_run_that_is_killed_resumes(tmp_path, inputs, pauses):
    options = ("--shuffle", "3", "--shard-tokens", "100000")
    whole, out = tmp_path / "whole", tmp_path / "out"
    started = time.monotonic()
    assert run(*arguments(inputs[:3], whole, *options), env=pauses).returncode == 0
    seconds = time.monotonic() - started
    chance = random.Random(SEED)
    kills = 0
    for _ in range(SHUFFLED_KILLS):
        process = subprocess.Popen(
            command(*arguments(inputs[:3], out, *options)),
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            env=os.environ | pauses,
        )
        try:
            process.wait(timeout=chance.uniform(0.3, 0.8) * seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
    assert kills, f"no run was killed: TOKENMILL_SEED={SEED}"
    assert run_main(*arguments(inputs[:3], out, *options, "--threads", "1")).returncode == 0
    assert contents(out) == contents(whole), f"TOKENMILL_SEED={SEED}"


def test_leftovers_of_a_kill_after_the_manifest_are_removed(tmp_path, gpt2):
    path = write_jsonl(tmp_path / "a.jsonl", texts(20))
    tokenize(path, tmp_path / "out", gpt2, shuffle=1)
    before = contents(tmp_path / "out")
    for name in ("shuffle-tmp", ".tmp", "journal"):
        (tmp_path / "out" / name).mkdir()
        (tmp_path / "out" / name / "00000.ids").write_bytes(b"x")
    tokenize(path, tmp_path / "out", gpt2, shuffle=1)
    assert contents(tmp_path / "out") == before


def test_a_kill_before_the_plan_does_not_spoil_the_folder(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", texts(20))
    tokenizer = train_from_iterator(["abc abc"], vocab_size=260)
    out = tmp_path / "out"
    tokenize(path, out, tokenizer, eos="none")
    before = contents(out)
    for path_ in out.iterdir():
        if path_.name not in ("tokenizer.tokenmill", ".lock"):
            path_.unlink()
    (out / ".plan.json.abc").write_bytes(b"{")
    tokenize(path, out, tokenizer, eos="none")
    assert contents(out) == before


def test_names_that_are_not_utf8_are_names(tmp_path, gpt2):
    name = os.fsencode(tmp_path) + b"/caf\xe9.jsonl"
    path = Path(os.fsdecode(name))
    write_jsonl(path, [*texts(5), None])
    result = tokenize(path, tmp_path / "out", gpt2)
    assert result.documents == 5 and result.quarantined == 1
    assert tokenize(path, tmp_path / "out", gpt2).documents == 5


def planned_options(tokenizer: Tokenizer) -> dict[str, object]:
    options = resolve_options({"format": "npy", "on_error": "fail"}, tokenizer)
    return {name: options[name] for name in PLANNED}


def test_a_file_that_changes_while_it_is_read_stops_the_run(tmp_path, gpt2):
    path = write_jsonl(tmp_path / "a.jsonl", texts(20))
    options = planned_options(gpt2)
    planned = make_plan(find(path), options, gpt2)
    os.utime(path, ns=(1, 1))
    (tmp_path / "out" / ".tmp").mkdir(parents=True)
    with pytest.raises(TokenmillError, match=r"a\.jsonl' was changed"):
        output = open_output(tmp_path / "out")
        run_task(Job(output, tmp_path, options, gpt2, 1 << 20), planned.tasks[0])
    assert not list((tmp_path / "out" / ".tmp").iterdir())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_run_soon_and_it_resumes(
    tmp_path, inputs, undisturbed, pauses, number, code
):
    out = tmp_path / "out"
    process = subprocess.Popen(
        command(*arguments(inputs, out, "--threads", "2")),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | pauses,
    )
    wait_for(out / "journal", lambda path: list(path.glob("*.json")))
    started = time.monotonic()
    os.kill(process.pid, number)
    _, said = process.communicate(timeout=30)
    assert time.monotonic() - started < 2
    assert process.returncode == code
    assert "run the same command again" in said and "Traceback" not in said
    wait_for_end(process.pid)
    done = list((out / "journal").glob("[0-9]*.json"))
    assert done
    result = run_main(*arguments(inputs, out, "--json"))
    assert json.loads(result.stdout)["tasks_resumed"] == len(done)
    assert contents(out) == undisturbed


def wait_for_end(group: int) -> None:
    """Wait for the last process of a group, whose last file may appear when it ends."""
    deadline = time.monotonic() + 10
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.killpg(group, 0)
            assert time.monotonic() < deadline, "a worker outlives its run"
            time.sleep(0.01)


def wait_for(path: Path, holds) -> None:
    deadline = time.monotonic() + 60
    while not (path.exists() and holds(path)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_second_run_into_the_same_folder_is_refused(tmp_path, inputs, pauses):
    out = tmp_path / "out"
    process = subprocess.Popen(
        command(*arguments(inputs, out)),
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        env=os.environ | pauses,
    )
    try:
        wait_for(out / "plan.json", lambda _: True)
        os.killpg(process.pid, signal.SIGSTOP)  # so that it is not over before the other begins
        done = run_main(*arguments(inputs, out))
        assert done.returncode == 2 and "another run is writing" in done.stderr
        os.killpg(process.pid, signal.SIGCONT)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()


def test_a_full_disk_stops_the_run_and_it_resumes(tmp_path, inputs, undisturbed):
    out = tmp_path / "out"

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    done = run(*arguments(inputs, out), preexec_fn=limit)
    assert done.returncode == 1, done.stderr
    assert "run the same command again" in done.stderr and "Traceback" not in done.stderr
    assert not (out / "manifest.json").exists()
    assert not list((out / ".tmp").glob("*"))
    assert run_main(*arguments(inputs, out)).returncode == 0
    assert contents(out) == undisturbed


def test_changes_since_the_start_of_a_run_are_named(tmp_path, gpt2):
    path = write_jsonl(tmp_path / "a.jsonl", texts(10))
    out = tmp_path / "out"
    tokenize(path, out, gpt2)
    with pytest.raises(TokenmillError, match="field was 'text' and is 'n'"):
        tokenize(path, out, gpt2, field="n")
    with pytest.raises(TokenmillError, match="the tokenizer was gpt2"):
        tokenize(path, out, "cl100k_base")
    with pytest.raises(TokenmillError, match=r"'.*b\.jsonl' is new"):
        other = write_jsonl(tmp_path / "b.jsonl", texts(3))
        tokenize([path, other], out, gpt2)
    path.write_bytes(path.read_bytes() + b'{"text": "more"}\n')
    with pytest.raises(TokenmillError, match=r"a\.jsonl' had .* bytes and has"):
        tokenize(path, out, gpt2)


class Tagged(MemoryFileSystem):
    """Files without times, as those of HTTP are: an ETag tells them apart."""

    protocol = "tagged"
    store: ClassVar[dict[str, object]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    tags: ClassVar[dict[str, str]] = {}

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix("tagged://"))

    def info(self, path, **more):
        found = super().info(path, **more)
        del found["created"]
        return found | {"ETag": self.tags["now"]}

    def modified(self, path):
        raise NotImplementedError


def test_a_url_whose_file_changed_is_named(tmp_path, gpt2):
    fsspec.register_implementation("tagged", Tagged, clobber=True)
    files = fsspec.filesystem("tagged")
    files.pipe("/a.jsonl", b'{"text": "one"}\n')
    Tagged.tags["now"] = "1"
    options = planned_options(gpt2)
    was = make_plan(find("tagged://a.jsonl"), options, gpt2)
    plan.refuse_difference(was, make_plan(find("tagged://a.jsonl"), options, gpt2), str(tmp_path))
    Tagged.tags["now"] = "2"  # and the same size
    now = make_plan(find("tagged://a.jsonl"), options, gpt2)
    with pytest.raises(TokenmillError, match=r"tagged:.*a\.jsonl' was written again"):
        plan.refuse_difference(was, now, str(tmp_path))
    assert was.tasks[0].id != now.tasks[0].id
    job = Job(open_output(tmp_path), tmp_path, options, gpt2, 1 << 20)
    with pytest.raises(TokenmillError, match=r"a\.jsonl' was changed while it was read"):
        run_task(job, was.tasks[0])
    assert run_task(job, now.tasks[0])["documents"] == 1


def test_urls_are_tokenized_and_resumed(tmp_path, gpt2):
    path = write_jsonl(tmp_path / "a.jsonl", texts(10))
    address = f"file://{path}"
    tokenize(address, tmp_path / "out", gpt2)
    assert tokenize(address, tmp_path / "out", gpt2).tasks_resumed == 1
    os.utime(path, ns=(1, 1))
    with pytest.raises(TokenmillError, match=r"a\.jsonl' was written again"):
        tokenize(address, tmp_path / "out", gpt2)


POISON = """
import os, signal
from tokenmill.tokenizing import executors

run_task = executors.run_task

def poisoned(job, which, **more):
    names = [segment.source.name for segment in which.segments]
    if any({name!r} in name for name in names):
        {act}
    return run_task(job, which, **more)

executors.run_task = poisoned
"""


def poison(tmp_path: Path, name: str, act: str) -> dict[str, str]:
    """A worker that does something when it comes to a file of this name."""
    folder = tmp_path / "site"
    folder.mkdir(parents=True)
    (folder / "poison.py").write_text(POISON.format(name=name, act=act))
    (folder / "sitecustomize.py").write_text("import poison\n")
    return {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}


def test_a_task_that_kills_its_worker_is_quarantined(tmp_path, inputs, undisturbed):
    env = poison(tmp_path, "0.jsonl", "os.kill(os.getpid(), signal.SIGKILL)")
    out = tmp_path / "out"
    done = run(*arguments(inputs, out, "--threads", "2"), env=env)
    assert done.returncode == 3, done.stderr
    manifest = json.loads((out / "manifest.json").read_bytes())
    failed = [row for row in manifest["tasks"] if "failed" in row]
    assert failed and all("0.jsonl" in row["segments"][0]["source"] for row in failed)
    assert "signal 9, 2 times" in failed[0]["failed"].replace(")", "")
    (source,) = [source for source in manifest["sources"] if "error" in source]
    assert source["path"].endswith("0.jsonl")
    # All other tasks are unchanged, and a run without the fault completes the output.
    for row in manifest["tasks"]:
        for shard in row["shards"]:
            for file in shard["files"]:
                name = shard["stem"] + file["suffix"]
                assert (out / name).read_bytes() == undisturbed[name]
    assert run_main(*arguments(inputs, out)).returncode == 0
    assert contents(out) == undisturbed


def test_a_worker_that_cannot_start_stops_the_run(tmp_path, inputs):
    env = poison(tmp_path, "", "pass")
    code = "from tokenmill.tokenizing import executors\nexecutors.ThreadExecutor = lambda _: 1 / 0"
    (tmp_path / "site" / "poison.py").write_text(code)
    done = run(*arguments(inputs, tmp_path / "out"), env=env)
    assert done.returncode == 2 and "cannot be started (exit code" in done.stderr


@pytest.mark.parametrize(("threads", "kind"), [(1, "ForkedProcess"), (2, "Popen")])
def test_worker_of_a_program_with_threads_is_not_forked(
    tmp_path, monkeypatch, inputs, undisturbed, threads, kind
):
    started = []

    def make(settings, address, names):
        executor = executors.ProcessExecutor(settings)
        start = executors.start_process
        monkeypatch.setattr(
            executors, "start_process", lambda given: started.append(start(given)) or started[-1]
        )
        return executor

    monkeypatch.setattr(executors, "make_executor", make)
    monkeypatch.setattr(executors.threading, "active_count", lambda: threads)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyarrow")
    tokenize(inputs, tmp_path / "out", "gpt2", task_bytes=1_000_000)
    assert [type(process).__name__ for process in started] == [kind]
    assert contents(tmp_path / "out") == undisturbed


def test_the_output_may_be_in_the_folder_of_the_inputs(tmp_path, gpt2):
    write_jsonl(tmp_path / "a.jsonl", [*texts(5), None])
    out = tmp_path / "shards"
    for _ in range(2):  # the second time errors.jsonl exists
        result = tokenize(tmp_path, out, gpt2)
        assert result.documents == 5 and result.quarantined == 1


def test_a_worker_that_is_killed_once_is_replaced(tmp_path, inputs, undisturbed):
    mark = tmp_path / "killed"
    act = f"os.path.exists({str(mark)!r}) or (open({str(mark)!r}, 'w').close(), "
    act += "os.kill(os.getpid(), signal.SIGKILL))"
    env = poison(tmp_path, "3.jsonl", act)
    out = tmp_path / "out"
    done = run(*arguments(inputs, out, "--threads", "2"), env=env)
    assert done.returncode == 0, done.stderr
    assert mark.exists()
    assert "note: a worker process died (signal 9) and was restarted" in done.stderr
    manifest = out / "manifest.json"
    replace_digested(manifest, manifest.read_bytes(), b' "restarts": 1,', b' "restarts": 0,')
    assert contents(out) == undisturbed


def test_files_that_went_missing_are_made_again(tmp_path, inputs, undisturbed, pauses):
    out = tmp_path / "out"
    process = subprocess.Popen(
        command(*arguments(inputs, out, "--threads", "2")),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=os.environ | pauses,
    )
    wait_for(out / "journal", lambda path: list(path.glob("*.json")))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    row = json.loads(next((out / "journal").glob("[0-9]*.json")).read_text())
    (out / (row["shards"][0]["stem"] + row["shards"][0]["files"][0]["suffix"])).unlink()
    assert run_main(*arguments(inputs, out)).returncode == 0
    assert contents(out) == undisturbed


def test_units_of_a_shuffled_run_that_failed_are_tried_again(tmp_path, monkeypatch):
    inputs = [write_jsonl(tmp_path / f"{name}.jsonl", texts(300, name)) for name in range(3)]
    out, whole = tmp_path / "out", tmp_path / "whole"
    options = ("--shuffle", "3", "--shard-tokens", "4000", "--task-bytes", "20000")
    assert run_main(*arguments(inputs, whole)[:-2], *options).returncode == 0

    def ill(job, which, **more):
        if any("0.jsonl" in segment.source.name for segment in which.segments):
            raise RuntimeError("ill")
        return run_task(job, which, **more)

    words = [*arguments(inputs, out)[:-2], *options]
    with monkeypatch.context() as patch:
        patch.setattr(executors, "run_task", ill)
        assert run_main(*words).returncode == 3
        before = contents(out)
        # It still fails, and the existing files stay.
        assert run_main(*words).returncode == 3
        assert contents(out) == before and before != contents(whole)
    assert run_main(*words).returncode == 0
    assert contents(out) == contents(whole)


def test_shards_that_were_shuffled_without_a_task_are_shuffled_again(tmp_path, gpt2):
    inputs = [write_jsonl(tmp_path / f"{name}.jsonl", texts(300, name)) for name in range(3)]
    out, whole = tmp_path / "out", tmp_path / "whole"
    options = {"shuffle": 3, "shard_tokens": 4000, "task_bytes": 20000}
    tokenize(inputs, whole, gpt2, **options)
    tokenize(inputs, out, gpt2, **options)
    # As a kill leaves it that came when some shards were mixed without the first unit.
    manifest = json.loads((out / "manifest.json").read_bytes())
    rows = [row | {"tasks": "0" * 32} for row in manifest["shuffled"][:2]]
    (out / "journal").mkdir()
    for row in rows:
        path = out / "journal" / f"shuffled-{row['shuffled']:05d}.json"
        path.write_text(json.dumps(row))
    (out / "manifest.json").unlink()
    for row in rows:
        for file in row["shards"][0]["files"]:
            path = out / (row["shards"][0]["stem"] + file["suffix"])
            path.write_bytes(b"x" * file["bytes"])
    tokenize(inputs, out, gpt2, **options)
    assert contents(out) == contents(whole)


def test_shuffled_shards_of_which_a_file_is_gone_are_made_again(tmp_path, gpt2):
    path = write_jsonl(tmp_path / "a.jsonl", texts(300))
    out = tmp_path / "out"
    tokenize(path, out, gpt2, shuffle=3, shard_tokens=4000, task_bytes=20000)
    before = contents(out)
    next(out.glob("*.bin")).unlink()
    tokenize(path, out, gpt2, shuffle=3, shard_tokens=4000, task_bytes=20000)
    assert contents(out) == before


def test_a_file_system_without_locks_is_not_a_second_run(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with open_output(tmp_path).hold(shared=False):
        assert (tmp_path / ".lock").exists()


def test_a_lock_that_the_run_before_removed_is_taken_again(tmp_path, monkeypatch):
    output = open_output(tmp_path)
    lock, found = outputs._lock, []

    def lock_late(handle: int, shared: bool) -> bool:
        if not found:
            (tmp_path / ".lock").unlink()
        found.append(handle)
        return lock(handle, shared)

    monkeypatch.setattr(outputs, "_lock", lock_late)
    with output.hold(shared=False):
        assert len(found) == 2 and (tmp_path / ".lock").exists()
        with (
            pytest.raises(TokenmillError, match="another run is writing"),
            output.hold(shared=True),
        ):
            pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [{}, {"shuffle": 1}], ids=str)
def test_an_input_with_another_time_and_the_same_content_is_accepted(tmp_path, gpt2, options):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    paths = [write_jsonl(folder / f"{n}.jsonl", [*texts(50, n), None]) for n in range(4)]
    options = options | {"task_bytes": 2000}
    first = tokenize(folder, out, gpt2, **options)
    before = contents(out)
    for path in paths:
        os.utime(path, ns=(1, 1))
    assert tokenize(folder, out, gpt2, **options).was_complete
    assert contents(out) == before  # and with it the digest
    name = "manifest.json" if options.get("shuffle") else next(out.glob("00000*.bin")).name
    (out / name).unlink()
    assert tokenize(folder, out, gpt2, **options).documents == first.documents
    text = paths[2].read_bytes()
    paths[2].write_bytes(text.replace(b"the", b"THE"))
    os.utime(paths[2], ns=(2, 2))
    with pytest.raises(TokenmillError, match=r"2\.jsonl' was written again and has other content"):
        tokenize(folder, out, gpt2, **options)
    paths[2].write_bytes(text)
    assert tokenize(folder, out, gpt2, **options).was_complete


def test_touched_inputs_of_an_unfinished_run_are_compared_once(tmp_path, gpt2, monkeypatch):
    path = write_jsonl(tmp_path / "a.jsonl", texts(50, 1))
    options = {"rank": 0, "world_size": 1}
    tokenize(path, tmp_path / "out", gpt2, **options)
    reads = []
    compare = runs.checksum_input
    monkeypatch.setattr(
        runs, "checksum_input", lambda *given: reads.append(given) or compare(*given)
    )
    for _ in range(2):  # the new time is in the plan after the first
        os.utime(path, ns=(1, 1))
        tokenize(path, tmp_path / "out", gpt2, **options)
        assert len(reads) == 1


def test_a_stopped_run_resumes_with_inputs_that_were_touched(tmp_path, inputs, undisturbed, pauses):
    out = tmp_path / "out"
    copies = [tmp_path / path.name for path in inputs]
    for path, copy in zip(inputs, copies, strict=True):
        copy.write_bytes(path.read_bytes())
    process = subprocess.Popen(
        command(*arguments(copies, out, "--threads", "2")),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=os.environ | pauses,
    )
    wait_for(out / "journal", lambda path: list(path.glob("*.json")))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for copy in copies:
        os.utime(copy, ns=(1, 1))
    done = run_main(*arguments(copies, out, "--json"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tasks_resumed"] > 0
    found = contents(out)
    assert {name for name in found if found[name] != undisturbed[name]} == {
        "manifest.json",
        "plan.json",
    }
