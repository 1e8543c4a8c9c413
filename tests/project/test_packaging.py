"""The wheel works without the source tree, and a missing core raises a clear error.

Tests of tokenmill/native.py.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SMOKE = """
import tokenmill
tokenizer = tokenmill.Tokenizer.load("gpt-4o")
text = "smoke 🌾 test"
assert tokenizer.decode(tokenizer.encode(text)) == text
custom = tokenmill.Tokenizer.load(__import__("sys").argv[1], pattern=r"\\p{L}+|[^\\p{L}]+")
assert custom.decode(custom.encode(text)) == text
print(tokenmill.__file__)
"""


def run(command: list[str], **more: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """One wheel, built by the first of the test run's processes that wants it."""
    folder = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        folder = folder.parent
    folder /= "dist"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(folder.glob("*.whl")):
            command = [sys.executable, "-m", "build", "--wheel", "--no-isolation"]
            run([*command, "--outdir", folder, ROOT])
    return next(folder.glob("*.whl"))


def test_wheel_is_for_the_stable_abi_and_complete(wheel):
    assert "-cp311-abi3-" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    native = [name for name in names if name.startswith("tokenmill/_native.")]
    assert sorted(Path(name).suffix for name in native) == [".pyi", ".so"]
    assert {"tokenmill.pth", "tokenmill/py.typed", "tokenmill/inspection/page.css"} <= {*names}
    assert not [name for name in names if name.endswith((".zig", ".new"))]
    assert not [name for name in names if "ladder" in name]


def test_wheel_works_in_a_fresh_environment_without_the_source_tree(wheel, tmp_path, rank_files):
    venv.create(tmp_path / "env", with_pip=True)
    python = str(tmp_path / "env" / "bin" / "python")
    # Its dependencies are those of this environment: the test needs no network.
    run([python, "-m", "pip", "install", "--no-index", "--no-deps", str(wheel)])
    site = run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
    (Path(site) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [python, "-c", SMOKE, str(rank_files["r50k_base"])]
    assert run(command, cwd=tmp_path, env=environment).startswith(site)
    script = [str(tmp_path / "env" / "bin" / "tokenmill"), "encode", "--text", "hello world"]
    assert run(script, cwd=tmp_path, env=environment) == "24912 2375\n"


def test_import_without_the_core_names_the_build_command(tmp_path):
    ignore = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(ROOT / "src" / "tokenmill", tmp_path / "tokenmill", ignore=ignore)
    command = [sys.executable, "-c", "from tokenmill import Tokenizer"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert "make build" in done.stderr
    assert "pip install" in done.stderr


def test_clean_deletes_built_modules_and_keeps_their_types():
    command = ["make", "--dry-run", "--no-print-directory", "clean"]
    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    patterns = [word for word in out.split() if word.startswith("src/tokenmill/")]
    names = ["_native.abi3.so", "_native.abi3.so.tmp", "_native.pyd", "_native.pyi", "native.py"]
    found = [
        name
        for name in names
        if any(fnmatchcase(f"src/tokenmill/{name}", pattern) for pattern in patterns)
    ]
    assert found == names[:3]
