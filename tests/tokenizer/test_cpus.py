"""The default number of threads: CPU affinity, cgroup limits, and the size of a batch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tokenmill import Tokenizer, arguments

TASKS = Path("/proc/self/task")
EIGHT_KB = "lorem ipsum " * 683


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/a/b\n", {"a/cpu.max": "200000 100000\n", "a/b/cpu.max": "max 100000\n"}, 2),
        ("0::/a/b\n", {"a/cpu.max": "400000 100000\n", "a/b/cpu.max": "50000 100000\n"}, 0.5),
        ("0::/host/path\n", {"cpu.max": "300000 100000\n"}, 3),
        (
            "4:cpu,cpuacct:/job\n3:memory:/job\n",
            {"cpu,cpuacct/job/cpu.cfs_quota_us": "200000\n",
             "cpu,cpuacct/job/cpu.cfs_period_us": "100000\n"},
            2,
        ),
        (
            "4:cpu,cpuacct:/host\n",
            {"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n"},
            0.5,
        ),
        (
            "4:cpu:/\n",
            {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"},
            None,
        ),
        ("3:memory:/\n", {"cpu.max": "100000 100000\n"}, None),
        ("0::/\n", {"cpu.max": "damaged"}, None),
        ("0::/\n", {}, None),
    ],
)  # fmt: skip
def test_cgroup_quota_is_the_smallest_limit(tmp_path, own, files, expected):
    (tmp_path / "own").write_text(own)
    write(tmp_path / "mount", files)
    assert arguments.cgroup_quota(tmp_path / "own", tmp_path / "mount") == expected


def test_cgroup_quota_without_cgroups_is_none(tmp_path):
    assert arguments.cgroup_quota(tmp_path / "missing", tmp_path) is None


def test_cpu_count_follows_the_quota(monkeypatch):
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    for quota, expected in ((None, count), (0.5, 1), (1.0, 1), (1.5, min(2, count)), (1e6, count)):
        monkeypatch.setattr(arguments, "_cgroup_quota", lambda quota=quota: quota)
        assert arguments.cpu_count() == expected
        assert arguments.thread_count(None) == min(expected, 256)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="affinity is Linux only")
def test_cpu_count_follows_the_affinity():
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from tokenmill import arguments; print(arguments.thread_count(None))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "1\n"


def test_small_batch_starts_no_threads(monkeypatch):
    monkeypatch.setattr(arguments, "cpu_count", lambda: 16)
    batch = [EIGHT_KB] * 32
    assert arguments.threads_for_batch(batch, None) == 1
    assert arguments.threads_for_batch([text.encode() for text in batch], None) == 1
    assert arguments.threads_for_batch(batch * 4, None) == 16
    assert arguments.threads_for_batch(batch, 3) == 3
    assert arguments.threads_for_batch([5], None) == 1


def test_batch_is_weighed_in_utf8_bytes(monkeypatch):
    monkeypatch.setattr(arguments, "cpu_count", lambda: 16)
    chinese = ["中" * 8000] * 32  # 768 KB
    assert arguments.threads_for_batch(chinese, None) == 16
    assert arguments.threads_for_batch(chinese[:16], None) == 1
    assert arguments.threads_for_batch([EIGHT_KB + "é"] * 32, None) == 1
    assert arguments.threads_for_batch(["\ud800" * 8000] * 32, None) == 16


@pytest.mark.skipif(not TASKS.exists(), reason="threads are listed on Linux")
def test_batch_of_32_documents_runs_in_the_calling_thread():
    tokenizer = Tokenizer.load("gpt2")
    before = len([*TASKS.iterdir()])
    expected = [tokenizer.encode(EIGHT_KB)] * 32
    assert tokenizer.encode_batch([EIGHT_KB] * 32) == expected
    assert len([*TASKS.iterdir()]) <= before
