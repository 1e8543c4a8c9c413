"""Inputs and outputs in an S3 store on loopback → the bytes of a folder.

Tests of tokenmill/object_store.py.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fsspec
import pytest
from corpus_cases import command, contents, run, texts, write_jsonl

import tokenmill
from tokenmill import TokenmillError, tokenize

OPTIONS = {"task_bytes": 20_000, "threads": 2}


class Server:
    """moto's server."""

    def __init__(self, log: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
                stdout=file,
                stderr=file,
            )
        deadline = time.monotonic() + 120
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                assert time.monotonic() < deadline and self._process.poll() is None
                time.sleep(0.1)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Busy(BaseHTTPRequestHandler):
    """A way to the server on which each third request for a shard is answered with 500."""

    protocol_version = "HTTP/1.1"
    port = 0
    asked = 0
    refused = 0

    def _pass_on(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(size)
        if ".bin" in self.path:
            type(self).asked += 1
            if self.asked % 3 == 0:
                type(self).refused += 1
                self._answer(500, {}, b"<Error><Code>InternalError</Code></Error>")
                return
        there = HTTPConnection("127.0.0.1", self.port, timeout=60)
        there.request(self.command, self.path, body, dict(self.headers))
        answer = there.getresponse()
        self._answer(answer.status, dict(answer.headers), answer.read())
        there.close()

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass_on  # noqa: N815

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "connection", "transfer-encoding", "server"):
                self.send_header(name, value)
        of_head = headers.get("Content-Length", "0") if self.command == "HEAD" else None
        self.send_header("Content-Length", of_head or str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("log") / "moto.log")
    yield server
    server.close()


@pytest.fixture(autouse=True)
def environment(monkeypatch, server) -> None:
    """The settings of botocore for the store, in this process and its children."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    fsspec.get_filesystem_class("s3").clear_instance_cache()


@pytest.fixture
def bucket(environment) -> str:
    files = fsspec.filesystem("s3")
    name = f"b{random.randrange(1 << 40)}"
    files.mkdir(name)
    return name


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("inputs")
    return [write_jsonl(folder / f"{n}.jsonl", [*texts(200, n), None]) for n in range(4)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory, inputs) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("out") / "whole"
    tokenize(inputs, out, "gpt2", **OPTIONS)
    return contents(out)


def objects(address: str) -> dict[str, bytes]:
    files, path = fsspec.core.url_to_fs(address)
    files.invalidate_cache()
    return {name[len(path) + 1 :]: files.cat_file(name) for name in files.find(path)}


def arguments(inputs: list[Path], out: str, *more: str) -> list[str | Path]:
    return [
        *("tokenize", *inputs, "--tokenizer", "gpt2", "--output", out, "--progress", "none"),
        *("--task-bytes", "20000", *more),
    ]


def test_objects_are_the_files_of_a_folder_and_are_read_back(bucket, inputs, whole):
    out = f"s3://{bucket}/deep/out"
    done = run(*arguments(inputs, out, "--threads", "2"))
    assert done.returncode == 3, done.stderr
    assert f"see {out}/errors.jsonl" in done.stdout
    assert objects(out) == whole
    again = tokenize(inputs, out, "gpt2", **OPTIONS)
    assert again.tasks_resumed == again.tasks_total
    checked = run("verify", out, "--sample", "100%")
    assert checked.returncode == 0 and "800 documents compared" in checked.stdout, checked
    assert len(tokenmill.shards.open(out)) == 800


def test_inputs_and_output_are_in_the_store(bucket, inputs):
    files = fsspec.filesystem("s3")
    for path in inputs:
        files.put_file(str(path), f"{bucket}/in/{path.name}")
    for _ in range(2):  # the second time its own files are among the inputs
        done = run(*arguments([f"s3://{bucket}/in"], f"s3://{bucket}/in/out"))
        assert done.returncode == 3 and "800 documents" in done.stdout, done
    assert run("verify", f"s3://{bucket}/in/out", "--sample", "100%").returncode == 0


def test_a_run_that_is_killed_resumes(bucket, inputs, whole):
    out = f"s3://{bucket}/out"
    files = fsspec.filesystem("s3")
    for least in (1, 3):
        process = subprocess.Popen(
            command(*arguments(inputs, out, "--threads", "1")),
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            files.invalidate_cache()
            if sum("/journal/" in name for name in files.find(f"{bucket}/out")) >= least:
                break
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert "manifest.json" not in objects(out)
    result = tokenize(inputs, out, "gpt2", **OPTIONS)
    assert 3 <= result.tasks_resumed < result.tasks_total
    assert objects(out) == whole


def test_ranks_at_once_give_the_bytes_of_one_run(bucket, inputs, whole):
    out = f"s3://{bucket}/out"
    ranks = [
        subprocess.Popen(
            command(*arguments(inputs, out, "--rank", str(rank), "--world-size", "2")),
            stdout=subprocess.DEVNULL,
        )
        for rank in range(2)
    ]
    assert [rank.wait(timeout=120) for rank in ranks] == [3, 3]
    done = run("finalize", out)
    assert done.returncode == 3, done.stderr
    assert objects(out) == whole


def test_tasks_of_a_ray_cluster_write_to_the_store(bucket, inputs, whole):
    out = f"s3://{bucket}/out"
    done = run(*arguments(inputs, out, "--engine", "ray", "--threads", "2"))
    assert done.returncode == 3, done.stderr
    assert objects(out) == whole


def test_a_store_that_is_busy_is_asked_again(monkeypatch, server, bucket, inputs, whole):
    Busy.port = server.port
    way = ThreadingHTTPServer(("127.0.0.1", 0), Busy)
    thread = threading.Thread(target=way.serve_forever)
    thread.start()
    try:
        environment = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{way.server_port}"}
        out = f"s3://{bucket}/out"
        # Without the store's own tries, so that it is ours that are seen.
        done = run(*arguments(inputs, out), env=environment | {"AWS_MAX_ATTEMPTS": "1"})
    finally:
        way.shutdown()
        thread.join()
        way.server_close()
    assert done.returncode == 3, done.stderr
    assert Busy.refused > 2 and objects(out) == whole


def test_no_bucket_and_no_store_are_named(monkeypatch, inputs):
    out = "s3://no-such-bucket-of-ours/out"
    with pytest.raises(TokenmillError, match=rf"cannot (list|write) '{out}.*'"):
        tokenize(inputs, out, "gpt2", **OPTIONS)
    assert not fsspec.filesystem("s3").exists("no-such-bucket-of-ours")
    nowhere = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_MAX_ATTEMPTS": "1"}
    done = run(*arguments(inputs, "s3://b/out"), env=nowhere)
    assert done.returncode == 2 and "cannot list 's3://b/out'" in done.stderr
