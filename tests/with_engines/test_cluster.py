"""A Ray cluster of three nodes → the bytes of a local run, also if nodes and workers are killed.

Tests of tokenmill/ray_cluster.py, tokenizing/ray_executor.py and training/counting.py.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from corpus_cases import contents, texts, write_jsonl
from ray.cluster_utils import Cluster
from shard_files import replace_digested

import tokenmill
from tokenmill.tokenizing import ray_executor
from tokenmill.training import counting

FILES = 50
UNIT_BYTES = 20_000
# Runs before each task, and each group of files to count, in the processes of the nodes. Tests
# write its code.
ACTS = """
import os, signal, sys, time
from tokenmill.tokenizing import executors
from tokenmill.training import counting

run_task, count_documents = executors.run_task, counting.count_documents

def act(name, report=None):
    if os.path.exists({acts!r}):
        exec(open({acts!r}).read(), globals() | locals())

def acting(job, which, **more):
    act(which.segments[0].source.name, more["report"])
    return run_task(job, which, **more)

def acting_count(plan):
    act(plan.sources[0].name)
    return count_documents(plan)

executors.run_task, counting.count_documents = acting, acting_count
"""


class Nodes:
    """A head and two more nodes, each with a processor, and what their processes do."""

    def __init__(self, folder: Path) -> None:
        self._acts = folder / "acts"
        site = folder / "site"
        site.mkdir()
        (site / "acts.py").write_text(ACTS.format(acts=str(self._acts)))
        (site / "sitecustomize.py").write_text("import sys\nif 'ray' in sys.argv[0]: import acts\n")
        self._path = os.pathsep.join([str(site), os.environ["PYTHONPATH"]])
        with self._acting():
            self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        self.others = [self.add() for _ in range(2)]
        self.cluster.wait_for_nodes()

    @contextmanager
    def _acting(self) -> Iterator[None]:
        """Processes that are started inside act."""
        before = os.environ["PYTHONPATH"]
        os.environ["PYTHONPATH"] = self._path
        yield
        os.environ["PYTHONPATH"] = before

    def add(self) -> Any:
        with self._acting():
            return self.cluster.add_node(num_cpus=1)

    def act(self, code: str) -> None:
        self._acts.write_text(code)

    def rest(self) -> None:
        self._acts.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    made = Nodes(tmp_path_factory.mktemp("nodes"))
    yield made
    made.cluster.shutdown()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("inputs")
    return [write_jsonl(folder / f"{n:02d}.jsonl", texts(80, n)) for n in range(FILES)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, inputs: list[Path]) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("local") / "out"
    result = tokenmill.tokenize(inputs, out, "gpt2", task_bytes=UNIT_BYTES)
    assert result.tasks_total > 20
    return contents(out)


@pytest.fixture
def start(
    tmp_path: Path, inputs: list[Path], nodes: Nodes
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the command on the cluster, or with another engine."""
    started = []

    def run(*more: str | Path, engine: str = "ray") -> subprocess.Popen[str]:
        where = ["--engine", "ray", "--ray-address", nodes.cluster.address]
        command = [sys.executable, "-m", "tokenmill", "tokenize", *inputs, "--tokenizer", "gpt2"]
        command += ["--task-bytes", str(UNIT_BYTES), "--output", tmp_path / "out"]
        command += where if engine == "ray" else []
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen([*command, *more], **pipes))
        return started[-1]

    yield run
    nodes.rest()
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory, inputs: list[Path]) -> bytes:
    path = tmp_path_factory.mktemp("counted") / "local.tmc"
    tokenmill.count_pretokens(inputs, path)
    return path.read_bytes()


@pytest.fixture
def start_count(
    tmp_path: Path, inputs: list[Path], nodes: Nodes
) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    started = []

    def run() -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tokenmill", "count-pretokens", *inputs]
        command += ["--output", tmp_path / "ray.tmc"]
        command += ["--engine", "ray", "--ray-address", nodes.cluster.address]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(command, **pipes))
        return started[-1]

    yield run
    nodes.rest()
    for process in started:
        process.kill()
        process.communicate()


def rows(folder: Path) -> int:
    return len(list((folder / "journal").glob("*.json")))


def wait_for_rows(process: subprocess.Popen[str], folder: Path, count: int) -> None:
    deadline = time.monotonic() + 120
    while rows(folder) < count:
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.02)


def end(process: subprocess.Popen[str]) -> int:
    said = process.communicate(timeout=180)
    assert "Traceback" not in said[1], said
    return process.returncode


def test_fifty_files_give_the_bytes_of_one_machine(tmp_path, undisturbed, start):
    process = start("--progress", "json")
    said, progress = process.communicate(timeout=180)
    assert process.returncode == 0, progress
    assert contents(tmp_path / "out") == undisturbed
    assert '"tokens_per_second"' in progress
    assert "4,000 documents" in said


def test_counts_and_merges_are_those_of_one_machine(tmp_path, inputs, nodes):
    on_ray = {"engine": "ray", "ray_address": nodes.cluster.address}
    for name, more in (("local", {}), ("ray", on_ray)):
        tokenmill.count_pretokens(
            inputs, tmp_path / f"{name}.tmc", weights={inputs[0]: 2.5}, **more
        )
    assert (tmp_path / "ray.tmc").read_bytes() == (tmp_path / "local.tmc").read_bytes()
    assert tokenmill.train(inputs, vocab_size=350, **on_ray) == tokenmill.train(
        inputs, vocab_size=350
    )


def killing_once(mark: Path) -> str:
    """Code that kills the first process that runs it."""
    return (
        f"if not os.path.exists({str(mark)!r}):\n"
        f"    open({str(mark)!r}, 'w').close()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )


def test_counts_of_a_worker_that_is_killed_are_not_lost(tmp_path, counted, start_count, nodes):
    nodes.act(killing_once(tmp_path / "killed"))
    assert end(start_count()) == 0
    assert (tmp_path / "killed").exists()
    assert (tmp_path / "ray.tmc").read_bytes() == counted


def test_counts_of_a_node_that_is_killed_are_not_lost(tmp_path, counted, start_count, nodes):
    began = tmp_path / "began"
    nodes.act(f"open({str(began)!r}, 'a').write('x')\ntime.sleep(1)")
    process = start_count()
    deadline = time.monotonic() + 120
    # Each node has counted something, and counts.
    while not began.exists() or len(began.read_text()) < 5:
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.02)
    nodes.cluster.remove_node(nodes.others.pop(), allow_graceful=False)
    assert end(process) == 0
    assert (tmp_path / "ray.tmc").read_bytes() == counted
    nodes.others.append(nodes.add())


def without_restarts(folder: Path) -> tuple[dict[str, bytes], int]:
    """The files of an output as if no process had died, and the number of those that did."""
    path = folder / "manifest.json"
    match = re.search(rb'"restarts": ([0-9]+)', path.read_bytes())
    assert match
    replace_digested(path, path.read_bytes(), match[0], b'"restarts": 0')
    return contents(folder), int(match[1])


def test_a_worker_that_is_killed_is_replaced(tmp_path, undisturbed, start, nodes):
    mark = tmp_path / "killed"
    nodes.act(killing_once(mark))
    assert end(start()) == 0
    assert mark.exists()
    found, restarts = without_restarts(tmp_path / "out")
    assert restarts >= 1 and found == undisturbed


def test_a_node_that_is_killed_is_done_without(tmp_path, undisturbed, start, nodes):
    nodes.act("time.sleep(0.3)")
    process = start()
    wait_for_rows(process, tmp_path / "out", 5)
    nodes.cluster.remove_node(nodes.others.pop(), allow_graceful=False)
    assert end(process) == 0
    assert without_restarts(tmp_path / "out")[0] == undisturbed
    nodes.others.append(nodes.add())


def test_a_task_that_always_fails_is_quarantined(tmp_path, undisturbed, start, nodes):
    nodes.act("if '11.jsonl' in name: raise RuntimeError('no luck')")
    process = start("--json")
    said, wrong = process.communicate(timeout=180)
    assert process.returncode == 3, wrong
    assert "no luck" in said and "2 times" in said
    nodes.rest()
    assert end(start(engine="local")) == 0  # it does the missing tasks
    assert contents(tmp_path / "out") == undisturbed


@pytest.mark.parametrize("then", ["ray", "local"])
def test_a_run_whose_driver_is_killed_resumes(tmp_path, undisturbed, start, nodes, then):
    nodes.act("time.sleep(0.2)")
    process = start()
    wait_for_rows(process, tmp_path / "out", 5)
    process.kill()
    process.communicate()
    nodes.rest()
    assert end(start("--threads", "3", engine=then)) == 0
    assert contents(tmp_path / "out") == undisturbed


@pytest.mark.parametrize("split", [{}, {"split": {"val": 0.1}}])
def test_a_shuffled_run_gives_the_bytes_of_one_machine(tmp_path, inputs, start, split):
    options: Any = {"task_bytes": UNIT_BYTES, "shuffle": 3, **split}
    tokenmill.tokenize(inputs, tmp_path / "local", "gpt2", **options)
    assert end(start("--shuffle", "3", *(["--split", "val=10%"] if split else []))) == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "local")


def test_machines_that_cannot_run_tasks_stop_the_run(
    tmp_path, inputs, undisturbed, nodes, monkeypatch
):
    """A fault of a machine does not quarantine a task."""

    def broken(*_):
        raise ModuleNotFoundError("no module named tokenmill")
        yield

    on_ray = {"engine": "ray", "ray_address": nodes.cluster.address, "task_bytes": UNIT_BYTES}
    monkeypatch.setattr(ray_executor, "do_remotely", broken)
    with pytest.raises(tokenmill.TokenmillError, match="a task cannot run on the cluster: Module"):
        tokenmill.tokenize(inputs, tmp_path / "out", "gpt2", **on_ray)
    monkeypatch.undo()
    assert tokenmill.tokenize(inputs, tmp_path / "out", "gpt2", **on_ray).tasks_resumed == 0
    assert contents(tmp_path / "out") == undisturbed


TOLD = 10
TELLS_AND_DIES = """
try:
    os.close(os.open({mark!r}, os.O_CREAT | os.O_EXCL))
except FileExistsError:
    pass
else:
    report(1000, {told}, 1)
    while not os.path.isdir({rows!r}) or len(os.listdir({rows!r})) < {others}:
        time.sleep(0.1)
    time.sleep(3)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_task_that_dies_after_its_report_is_repeated(tmp_path, undisturbed, start, nodes):
    units = json.loads(undisturbed["manifest.json"])["tasks"]
    where = {"mark": str(tmp_path / "mark"), "rows": str(tmp_path / "out" / "journal")}
    nodes.act(TELLS_AND_DIES.format(told=TOLD, others=len(units) - 1, **where))
    process = start("--progress", "json")
    _, progress = process.communicate(timeout=180)
    assert process.returncode == 0, progress
    assert without_restarts(tmp_path / "out")[0] == undisturbed
    # All other tasks are done, and a part of this one is reported.
    rows = [json.loads(line) for line in progress.splitlines()]
    [note] = [row["note"] for row in rows if "note" in row]
    assert "a worker process died" in note
    lines = [row for row in rows if "note" not in row]
    waiting = {line["tokens"] for line in lines if line["tasks"] == line["tasks_total"] - 1}
    whole = {unit["tokens"] for unit in units}
    assert whole & {lines[-1]["tokens"] - tokens + TOLD for tokens in waiting}


def test_ray_client_is_refused_before_anything_is_written(tmp_path, inputs):
    there = {"engine": "ray", "ray_address": "ray://127.0.0.1:10001"}
    with pytest.raises(tokenmill.TokenmillError, match="does not work through Ray Client"):
        tokenmill.tokenize(inputs, tmp_path / "out", "gpt2", **there)
    assert not (tmp_path / "out").exists()


def test_a_missing_token_is_an_error_and_not_a_bug(tmp_path, start, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("HOME", str(tmp_path))
    process = start()
    said = process.communicate(timeout=180)[1]
    assert process.returncode == 2, said
    assert "no Ray cluster answers at" in said and "RAY_AUTH_TOKEN" in said
    assert "bug" not in said and "Traceback" not in said


def test_machines_without_the_folder_cannot_count(tmp_path, inputs, nodes, monkeypatch):
    monkeypatch.setattr(Path, "cwd", lambda: tmp_path / "elsewhere")
    on_ray = {"engine": "ray", "ray_address": nodes.cluster.address}
    with pytest.raises(tokenmill.TokenmillError, match="need the same file system") as said:
        tokenmill.count_pretokens(inputs, tmp_path / "counts.tmc", **on_ray)
    assert "versions" not in str(said.value)


def test_machines_that_cannot_count_are_an_error_of_one_line(tmp_path, inputs, nodes, monkeypatch):
    def broken(*_):
        raise RuntimeError("failed to import\n\nModuleNotFoundError: no module named tokenmill\n")

    monkeypatch.setattr(counting, "_count", broken)
    on_ray = {"engine": "ray", "ray_address": nodes.cluster.address}
    with pytest.raises(tokenmill.TokenmillError, match="cannot run on the cluster: Module") as said:
        tokenmill.count_pretokens(inputs, tmp_path / "counts.tmc", **on_ray)
    assert "\n" not in str(said.value)
    assert not (tmp_path / "counts.tmc").exists()


NICENESS = """
import os
from tokenmill import ray_cluster

before = dict(os.environ)
with ray_cluster.connected(None, 1, list) as ray:
    print(ray.get(ray.remote(lambda: os.nice(0)).remote()))
print(sorted(name for name in os.environ if name not in before and "nice" in name))
"""


def test_a_cluster_of_this_machine_works_at_our_priority():
    command = [
        sys.executable,
        "-c",
        NICENESS,
    ]  # Ray leaves processes and threads, so it has its own process
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.stdout.splitlines() == [str(os.nice(0)), "[]"], done.stderr


CONNECTED = """
import pathlib, sys, ray, tokenmill
ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
out, *inputs = map(pathlib.Path, sys.argv[1:])

class Enough(Exception):
    pass

def enough(progress):
    if progress.tasks:
        raise Enough

on_ray = {"engine": "ray", "task_bytes": 20_000}
try:
    tokenmill.tokenize(inputs, out, "gpt2", progress=enough, **on_ray)
except Enough:
    print("stopped")
print(tokenmill.tokenize(inputs, out, "gpt2", **on_ray).documents)
tokenmill.count_pretokens(inputs, out.with_suffix(".tmc"), engine="ray")
print(ray.is_initialized())
"""


def test_a_program_that_is_connected_stays_so(tmp_path, inputs, undisturbed, counted):
    command = [sys.executable, "-c", CONNECTED, tmp_path / "out", *inputs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.stdout.split() == ["stopped", "4000", "True"], done.stderr
    assert contents(tmp_path / "out") == undisturbed
    assert (tmp_path / "out.tmc").read_bytes() == counted


def test_a_ray_that_does_not_start_is_an_error_and_not_a_bug(tmp_path, inputs):
    (tmp_path / "file").touch()
    command = [sys.executable, "-m", "tokenmill", "tokenize", *inputs, "--tokenizer", "gpt2"]
    command += ["--output", tmp_path / "out", "--engine", "ray"]
    env = os.environ | {"RAY_TMPDIR": str(tmp_path / "file")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, env=env)
    assert done.returncode == 2, done.stderr
    assert "cannot start Ray on this machine" in done.stderr
    assert "bug" not in done.stderr and "Traceback" not in done.stderr


def test_a_run_begun_locally_ends_on_the_cluster(tmp_path, inputs, undisturbed, start):
    share = {"rank": 0, "world_size": 3}
    tokenmill.tokenize(inputs, tmp_path / "out", "gpt2", task_bytes=UNIT_BYTES, **share)
    assert end(start()) == 0
    assert contents(tmp_path / "out") == undisturbed


def running_tasks() -> int:
    """The number of processes on this machine that run a task. Ray writes it into their titles."""
    titles = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # the process has ended
            titles.append(path.read_bytes())
    return sum(title.startswith(b"ray::do_remotely") for title in titles)


def test_an_interrupt_ends_the_tasks(tmp_path, undisturbed, start, nodes):
    nodes.act("time.sleep(0.5)")
    process = start()
    wait_for_rows(process, tmp_path / "out", 3)
    nodes.act("time.sleep(120)")
    time.sleep(2)  # every task that runs now began to sleep for 120 s
    assert running_tasks() > 0
    before = contents(tmp_path / "out")
    process.send_signal(signal.SIGINT)
    assert end(process) == 130
    # Ray ends the tasks of a driver when it notices that the driver is gone.
    deadline = time.monotonic() + 30
    while running_tasks():
        assert time.monotonic() < deadline, "tasks run on after the interrupt"
        time.sleep(0.1)
    assert contents(tmp_path / "out") == before
    nodes.rest()
    assert end(start()) == 0
    assert contents(tmp_path / "out") == undisturbed


def test_address_without_a_cluster_is_an_error_at_once(tmp_path, inputs):
    with pytest.raises(tokenmill.TokenmillError, match="no Ray cluster answers at '127"):
        tokenmill.tokenize(
            inputs, tmp_path / "out", "gpt2", engine="ray", ray_address="127.0.0.1:1"
        )
