"""Tasks of the Ray executor, without Ray: their progress messages and their result.

Tests of tokenizing/ray_executor.py and tokenmill/ray_cluster.py.
"""

import sys
import threading
from types import SimpleNamespace

import pytest

import tokenmill
from tokenmill import ray_cluster
from tokenmill.tokenizing import executors, ray_executor
from tokenmill.tokenizing.executors import Order, Settings
from tokenmill.tokenizing.ray_executor import RayExecutor


@pytest.fixture
def begun(tmp_path):
    """A folder in which the second of two units is still to do."""
    (tmp_path / "corpus.txt").write_text("grain into flour\n" * 2000)
    half = {"input_format": "lines", "task_bytes": 20_000, "rank": 0, "world_size": 2}
    tokenmill.tokenize(tmp_path / "corpus.txt", tmp_path / "out", "gpt2", **half)
    return tmp_path / "out"


def messages_of(folder, cwd=None, **more):
    settings = Settings(str(folder), 1, 64 << 20, cwd=cwd)
    common = RayExecutor(settings, None).order | {"report_seconds": 0.01} | more
    return ray_executor.do_remotely(common, Order(1))


def test_a_task_reports_its_progress_and_then_its_result(begun, monkeypatch):
    heard, real = threading.Event(), executors.run_task

    def waiting(job, unit, *, threads, report):
        report(10, 3, 1)
        assert heard.wait(10)
        return real(job, unit, threads=threads, report=report)

    monkeypatch.setattr(executors, "run_task", waiting)
    said = []
    for message in messages_of(begun):
        said.append(message)
        if message == {"counts": [10, 3, 1]}:
            heard.set()
    assert heard.is_set() and all("counts" in message for message in said[:-1])
    assert said[-1]["entry"]["task"] == 1
    assert said[-1]["entry"]["tokens"] > 0


def test_a_task_that_raises_reports_the_error(begun, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("of this unit")

    monkeypatch.setattr(executors, "run_task", broken)
    assert "ZeroDivisionError: of this unit" in list(messages_of(begun))[-1]["failed"]


def test_a_task_that_finds_no_thread_is_not_done_later(begun, monkeypatch):
    def refused(*_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(executors.ThreadPoolExecutor, "submit", refused)
        (message,) = messages_of(begun, run="none")
        assert "can't start new thread" in message["failed"]
    assert "none" not in ray_executor._workers
    assert list(messages_of(begun, run="none"))[-1]["entry"]["task"] == 1


def test_ray_client_is_refused():
    client = SimpleNamespace(ray=SimpleNamespace(is_connected=lambda: True))
    with pytest.raises(tokenmill.TokenmillError, match="does not work through Ray Client"):
        ray_cluster.refuse_client(SimpleNamespace(util=SimpleNamespace(client=client)))


def test_a_folder_that_this_machine_does_not_see_stops_the_run(begun):
    (message,) = messages_of(begun, cwd=str(begun / "elsewhere"))
    assert "all machines of the cluster need the same file system" in message["stop"]


def test_address_auto_without_a_cluster_leaves_no_folder(tmp_path, monkeypatch):
    def init(**options):
        assert options["address"] == "auto"
        raise ConnectionError("Could not find any running Ray instance")

    ray = SimpleNamespace(init=init, is_initialized=lambda: False, shutdown=lambda: None)
    monkeypatch.setitem(sys.modules, "ray", ray)
    (tmp_path / "corpus.txt").write_text("grain into flour\n")
    out = tmp_path / "out"
    with pytest.raises(tokenmill.TokenmillError, match="no Ray cluster answers at 'auto'"):
        tokenmill.tokenize(tmp_path / "corpus.txt", out, "gpt2", engine="ray", ray_address="auto")
    assert not out.exists()
