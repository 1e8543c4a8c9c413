"""The tests of tiktoken and tokenizers → how many pass with our drop-ins.

    python tests/peers/run.py tiktoken [FOLDER] [pytest's arguments]
    python tests/peers/run.py tokenizers FOLDER [pytest's arguments]

FOLDER is an unpacked source distribution of tiktoken 0.14.0 (pip downloads it if no folder is
given) or of tokenizers 0.23.3 (pip needs a Rust compiler to download it). Their tests are not
copied into this tree. `refused.py` lists the tests of features that are not supported, with the
reasons. They are not run. `--real` runs the same tests with the real library, and shows the tests
that fail because of our substitutes for their files. The exit status is pytest's.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import pytest
from refused import REFUSED

VERSIONS = {"tiktoken": "0.14.0", "tokenizers": "0.23.3"}
SUITES = {"tiktoken": "tests", "tokenizers": "bindings/python"}
# Names in the hub, and the embedded vocabularies that replace them.
MODELS = {"gpt2": "gpt2", "hf-internal-testing/gpt-oss-20b": "o200k_base"}
# Any text does for the tests that train.
LINES = "Beautiful is better than ugly. Now is better than never; 2 or 3 lines are enough.\n" * 40


def main() -> int:
    peer, *rest = sys.argv[1:] or [""]
    if peer not in VERSIONS:
        sys.exit(__doc__)
    real = "--real" in rest
    rest = [each for each in rest if each != "--real"]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(rest.pop(0)) if rest and Path(rest[0]).is_dir() else None
        folder = (folder or fetch(peer, Path(scratch))).resolve()
        if not real:
            alias(peer)
            alias_in_children(peer, Path(scratch))
        if peer == "tokenizers":
            sys.modules["huggingface_hub"] = Hub(Path(scratch))
            os.environ["HF_HUB_CACHE"] = scratch
            (folder / SUITES[peer] / "tests" / "data").mkdir(exist_ok=True)
        os.chdir(folder / SUITES[peer])
        tests = "tests" if peer == "tokenizers" else "."
        options = [tests, "-q", "-p", "no:cacheprovider", *rest]
        plugins: list[Any] = [Coroutines()] if real else [Coroutines(), Refusals(peer)]
        return int(pytest.main(options, plugins))


def fetch(peer: str, scratch: Path) -> Path:
    """The source distribution, by pip."""
    if peer != "tiktoken":
        sys.exit(f"{peer}: give the folder of its unpacked source distribution")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", peer]
    subprocess.run([*command, f"{peer}=={VERSIONS[peer]}", "--dest", scratch], check=True)
    (archive,) = scratch.glob("*.tar.gz")
    subprocess.run(["tar", "xzf", archive, "-C", scratch], check=True)
    return scratch / archive.name.removesuffix(".tar.gz")


def alias(peer: str) -> None:
    """Puts our modules where the peer's are imported from."""
    ours = f"tokenmill.compat.{peer}"
    package = importlib.import_module(ours)
    for each in pkgutil.walk_packages(package.__path__, f"{ours}."):
        importlib.import_module(each.name)
    for name, module in list(sys.modules.items()):
        if name == ours or name.startswith(f"{ours}."):
            sys.modules[name.removeprefix("tokenmill.compat.")] = module


def alias_in_children(peer: str, scratch: Path) -> None:
    """The same in the processes that tests start: a module of that name, found first."""
    here = str(Path(__file__).parent)
    lines = ["import sys", f"sys.path.append({here!r})", "import run", f"run.alias({peer!r})"]
    (scratch / f"{peer}.py").write_text("\n".join(lines))
    old = os.environ.get("PYTHONPATH")
    paths = [str(scratch), *(str(Path(each).resolve()) for each in (old or "").split(":") if each)]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)


class Hub(types.ModuleType):
    """Replaces huggingface_hub: GPT-2's tokens instead of RoBERTa's, and no other vocabulary."""

    def __init__(self, scratch: Path) -> None:
        super().__init__("huggingface_hub")
        self._scratch = scratch
        for name in MODELS:  # in the cache, which is where we look
            self._save(name)

    def hf_hub_download(self, repo_id: str, filename: str, **_: Any) -> str:
        path = self._scratch / filename
        if filename == "tokenizer.json" and repo_id in MODELS:
            path = self._folder(repo_id) / "snapshots" / "0" / filename
        elif filename in ("big.txt", "small.txt"):
            path.write_text(LINES)
        elif filename in ("roberta-base-vocab.json", "roberta-base-merges.txt"):
            self._save_gpt2(path.parent)
        else:
            pytest.skip(f"{filename} is not here")
        return str(path)

    def _folder(self, name: str) -> Path:
        return self._scratch / f"models--{name.replace('/', '--')}"

    def _save(self, name: str) -> None:
        from tokenmill import Tokenizer

        folder = self._folder(name)
        for each in ("refs", "snapshots/0"):
            (folder / each).mkdir(parents=True)
        (folder / "refs" / "main").write_text("0")
        Tokenizer.load(MODELS[name]).save(folder / "snapshots" / "0" / "tokenizer.json")

    def _save_gpt2(self, folder: Path) -> None:
        from tokenmill import Tokenizer

        Tokenizer.load("gpt2").save(folder / "vocab.json")
        for name in ("vocab.json", "merges.txt"):
            (folder / name).rename(folder / f"roberta-base-{name}")


class Coroutines:
    """Runs the tests that are coroutines, without a plugin for them."""

    def pytest_configure(self, config: Any) -> None:
        for mark in ("asyncio", "timeout"):
            config.addinivalue_line("markers", f"{mark}: of a plugin that is not needed here")

    def pytest_pyfunc_call(self, pyfuncitem: Any) -> bool | None:
        if not inspect.iscoroutinefunction(pyfuncitem.obj):
            return None
        names = pyfuncitem._fixtureinfo.argnames
        asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
        return True


class Refusals:
    """Deselects the tests of features that are not supported, and reports them."""

    def __init__(self, peer: str) -> None:
        self._refused = REFUSED[peer]
        self._left: dict[str, int] = {}

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        for name, why in self._refused.items():
            if name.endswith(".py") and str(collection_path).endswith(f"tests/{name}"):
                said = f"{why} (whole files)"
                self._left[said] = self._left.get(said, 0) + 1
                return True
        return None

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        kept, left = [], []
        for item in items:
            found = [why for name, why in self._refused.items() if matches(item.nodeid, name)]
            (left if found else kept).append(item)
            for why in found[:1]:
                self._left[why] = self._left.get(why, 0) + 1
        items[:] = kept
        config.hook.pytest_deselected(items=left)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for why, count in sorted(self._left.items()):
            terminalreporter.write_line(f"not run: {count:3d}  {why}")


def matches(nodeid: str, name: str) -> bool:
    """Whether a test is the named one, or in the named class or file."""
    return nodeid == f"tests/{name}" or nodeid.startswith((f"tests/{name}::", f"tests/{name}["))


if __name__ == "__main__":
    sys.exit(main())
