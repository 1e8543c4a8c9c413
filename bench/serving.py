"""Patched transformers → milliseconds of each call, in new processes that take turns.

    serving.py [TOKENIZER] [TEXT] [--rounds 7] [--systems transformers,tokenmill] [--write]
    serving.py --render

TOKENIZER is a tokenizer.json, also with .xz. TEXT is a text file or .jsonl, also with .xz. Without
them, the files of Qwen 3 and of English in the folder of packed data are used, and nothing is
measured if it is missing. Every system loads one folder with `AutoTokenizer` and gets the same
calls. A system with other results than transformers alone gets no time. Values are medians of the
rounds. `--write` stores them in results/serving.json and puts the table into docs/serving-speed.md.
`--render` makes the table of the stored results.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import lzma
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# isort: split
import documents
import machine
import markdown

RESULTS = machine.ROOT / "bench" / "results" / "serving.json"
PAGE = machine.ROOT / "docs" / "serving-speed.md"
CHARACTERS = 176_000
# Job → its row in the table.
JOBS = {
    "load": "load the folder",
    "first": "first call, 176,000 characters",
    "new": "new text of that length",
    "again": "the same text again",
    "short": "200 characters",
    "encode": "200 characters, `encode`",
    "batch": "64 texts, padded and truncated",
    "chat": "`apply_chat_template`, 40 messages",
    "offsets": "offsets of 176,000 characters",
    "decode": "`decode`, 176,000 characters",
    "batch_decode": "`batch_decode`, 64 texts",
}
CHAT = (
    "{% for m in messages %}{{ bos_token }}{{ m.role }}\n{{ m.content }}{{ eos_token }}\n"
    "{% endfor %}{{ bos_token }}assistant\n"
)


# ── Systems: a folder → a tokenizer with the interface of transformers ───────────────────────────


def load_transformers(folder: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def load_fastokens(folder: str) -> Any:
    import fastokens

    fastokens.patch_transformers()
    return load_transformers(folder)


def load_basetenkenizer(folder: str) -> Any:
    import basetenkenizer

    basetenkenizer.patch_transformers()
    return load_transformers(folder)


def load_gigatoken(folder: str) -> Any:
    import gigatoken

    return gigatoken.Tokenizer(load_transformers(folder)).as_hf()


def load_tokenmill(folder: str) -> Any:
    from tokenmill.compat.transformers import patch

    patch()
    return load_transformers(folder)


SYSTEMS: dict[str, Callable[[str], Any]] = {
    "transformers": load_transformers,
    "fastokens": load_fastokens,
    "basetenkenizer": load_basetenkenizer,
    "gigatoken": load_gigatoken,
    "tokenmill": load_tokenmill,
}


# ── One process: all jobs of one system ──────────────────────────────────────────────────────────


def milliseconds(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = call()
    return (time.perf_counter() - start) * 1e3, found


def median(call: Callable[[], Any], count: int) -> tuple[float, Any]:
    times = [milliseconds(call)[0] for _ in range(count)]
    return statistics.median(times), call()


def digest(found: Any) -> str:
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()


def measure(system: str, folder: str) -> dict[str, tuple[float, str]]:
    """Return the milliseconds of each job, and the digest of its result."""
    first, new = json.loads((Path(folder) / "texts.json").read_text())
    __import__("transformers").AutoTokenizer  # noqa: B018, its import is not part of loading
    texts = [first[place : place + 500] for place in range(0, 64 * 500, 500)]
    chat = [{"role": "user" if i % 2 else "system", "content": x} for i, x in enumerate(texts[:40])]
    try:
        loading, tokenizer = milliseconds(lambda: SYSTEMS[system](folder))
    except Exception as error:  # a tokenizer that the system does not support
        return dict.fromkeys(JOBS, (0.0, type(error).__name__))
    made: dict[str, tuple[float, str]] = {"load": (loading, "")}

    def run(job: str, call: Callable[[], Any], read: Callable[[Any], Any], count: int = 0) -> Any:
        try:
            spent, found = median(call, count) if count else milliseconds(call)
            made[job] = spent, digest(read(found))
        except Exception as error:  # a system that lacks the call
            made[job] = 0.0, type(error).__name__
            return None
        return found

    def columns(found: Any) -> list[Any]:
        return [found["input_ids"], found["attention_mask"]]

    long = run("first", lambda: tokenizer(first), columns)
    run("new", lambda: tokenizer(new), columns)
    run("again", lambda: tokenizer(first), columns, 9)
    run("short", lambda: tokenizer(first[:200]), columns, 999)
    run("encode", lambda: tokenizer.encode(first[:200]), list, 999)
    cut = {"padding": True, "truncation": True, "max_length": 100}
    rows = run("batch", lambda: tokenizer(texts, **cut), columns, 49)["input_ids"]
    run("chat", lambda: tokenizer.apply_chat_template(chat, tokenize=True), columns, 9)
    offsets = {"return_offsets_mapping": True}
    run("offsets", lambda: tokenizer(first, **offsets), lambda x: x["offset_mapping"], 5)
    run("decode", lambda: tokenizer.decode(long["input_ids"]), str, 9)
    skip = {"skip_special_tokens": True}
    run("batch_decode", lambda: tokenizer.batch_decode(rows, **skip), list, 49)
    return made


# ── All processes ────────────────────────────────────────────────────────────────────────────────


def read(path: Path) -> bytes:
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


def text_of(path: Path) -> str:
    """Return the text of a file, or the documents of JSON lines."""
    whole = read(path).decode()
    if ".jsonl" not in path.name:
        return whole
    return "\n\n".join(json.loads(line)["text"] for line in whole.split("\n") if line)


def make_folder(folder: Path, tokenizer: Path, text: Path) -> None:
    document = read(tokenizer)
    (folder / "tokenizer.json").write_bytes(document)
    added = [token["content"] for token in json.loads(document)["added_tokens"] if token["special"]]
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": added[0],
        "bos_token": added[1],
        "eos_token": added[2],
        "chat_template": CHAT,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    whole = text_of(text)
    if len(whole) < 2 * CHARACTERS:
        raise SystemExit(f"{text} has {len(whole):,} characters, {2 * CHARACTERS:,} are needed")
    texts = [whole[:CHARACTERS], whole[CHARACTERS : 2 * CHARACTERS]]
    (folder / "texts.json").write_text(json.dumps(texts))


def rounds(systems: list[str], count: int, folder: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {system: [] for system in systems}
    # Modules are compiled once, as those of an installed package are.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(count):
        for system in systems:
            command = [sys.executable, __file__, "--measure", system, str(folder)]
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, env=environment
            )
            if done.returncode:
                raise SystemExit(f"{system}: {done.stderr[-2000:]}")
            found[system].append(json.loads(done.stdout.splitlines()[-1]))
    return found


def release(name: str) -> str:
    """Return the version. tokenmill is imported from `src` and has no metadata."""
    import tokenmill  # not by the processes of the other systems

    return tokenmill.__version__ if name == "tokenmill" else importlib.metadata.version(name)


def cell(found: list[dict[str, Any]], want: dict[str, Any], job: str) -> str:
    if any(each[job][1] != want[job][1] for each in found):
        return "–" if found[0][job][0] == 0.0 else "≠"
    middle = statistics.median(each[job][0] for each in found)
    return f"{middle:.4f}" if middle < 0.1 else markdown.number(middle)


def render(results: dict[str, Any]) -> str:
    found, where = results["rounds"], results["machine"]
    want = found["transformers"][0]
    rows = [[row, *(cell(each, want, job) for each in found.values())] for job, row in JOBS.items()]
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    return (
        f"{markdown.table([['ms', *found], *rows])}\n\n"
        f"{where['cpu']}, {where['cores']} cores, {where['system']}, {results['date']}; medians of "
        f"{len(found['transformers'])} rounds. Tokenizer `{results['tokenizer']}`, text "
        f"`{results['text']}`. Versions: {versions}. `python bench/serving.py --write`."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    data = documents.data_folder()
    qwen, english = data / "vocab/hf/qwen3.tokenizer.json.xz", data / "corpus/en.jsonl.xz"
    parser.add_argument("tokenizer", type=Path, nargs="?", default=qwen)
    parser.add_argument("text", type=Path, nargs="?", default=english)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--render", action="store_true")
    given = parser.parse_args()
    if given.render:
        markdown.write_block(PAGE, "serving", render(json.loads(RESULTS.read_text("utf-8"))))
        return
    for path in (given.tokenizer, given.text):
        if not path.exists():
            print(f"patched transformers: not measured, because {path} does not exist")
            return
    systems = given.systems.split(",")
    if "transformers" not in systems:
        systems = ["transformers", *systems]
    with tempfile.TemporaryDirectory() as folder:
        make_folder(Path(folder), given.tokenizer, given.text)
        found = rounds(systems, given.rounds, Path(folder))
    results = {
        "machine": machine.describe(),
        "date": time.strftime("%Y-%m-%d"),
        "versions": {name: release(name) for name in systems},
        "tokenizer": given.tokenizer.name,
        "text": given.text.name,
        "rounds": found,
    }
    print(render(results))
    if given.write:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
        markdown.write_block(PAGE, "serving", render(results))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(*sys.argv[2:])))
    else:
        main()
