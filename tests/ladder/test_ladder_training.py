"""The training ladder: all steps learn the merges of the reference, and the command shows it."""

from __future__ import annotations

import importlib
import json
import os
import pty
import random
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import hard_inputs
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from ladder_steps import keep_steps
from ladder_steps import run_ladder as run

from ladder.errors import LadderError
from ladder.runner import median_of
from ladder.training import command as ladder_training
from ladder.training import step03_stream, step09_compaction, step13_adaptive, texts
from ladder.training.alone import lines
from ladder.training.patterns import pattern_for
from ladder.training.steps import STEPS, Measurement, Skipped, Task, estimate, learn
from tokenmill import reference
from tokenmill.cli.app import BUG, Parser
from tokenmill.errors import InputError
from tokenmill.patterns.schemes import PATTERNS, pattern_of

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))
bench_ladder = importlib.import_module("ladder_pages")
ladder_full = importlib.import_module("ladder_full")
GPT2 = pattern_of("gpt2")
MODULES = {step.number: importlib.import_module(f"ladder.training.{step.module}") for step in STEPS}


def train_with(module: ModuleType) -> Callable[[str, str, int], list[tuple[int, int]]]:
    """The function of a step, with the source of a pattern as its argument."""
    return lambda text, source, size: module.train(text, pattern_for(source, text), size)


TRAIN = {number: train_with(module) for number, module in MODULES.items()}
ENGLISH = "the mill mills the meal, and the miller's meal is what the mill has milled. " * 3
TEXTS = {
    "one byte": "a",
    "one word": "grain",
    "blanks": "   \n\n \t ",
    "one letter": "a" * 77 + " " + "a" * 6 + " aaa aa",
    "chains": "abababab ababa bababa abab ab",
    "ties": "ab cd ef gh ab cd ef gh xy yx",
    "english": ENGLISH,
    "unicode": "谷物进，词元出。 Зерно внутрь 곡물이 🌾➡️🧮 e\u0301 naïve ǅ ١٢٣ ²½\u3000\u2028\x85"
    * 2,
    "newest letters": "\U00016d40\U00016d41 \U00016d40\U00016d41 ꟚꟚ",
    "code": "def f(x):\n    return {'a': x[0], 'b': g(x)}\n\n\ndef g(x):\n    return x\n" * 2,
}
# No halves of surrogate pairs, which no file of UTF-8 has.
HARD = "".join(hard_inputs.STRINGS).encode(errors="ignore").decode()


def ranks_of(merges: list[tuple[int, int]]) -> dict[bytes, int]:
    tokens = [bytes([byte]) for byte in range(256)]
    for left, right in merges:
        tokens.append(tokens[left] + tokens[right])
    return {token: id for id, token in enumerate(tokens)}


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.module)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_step_learns_the_merges_of_the_reference(step, text):
    expected = reference.train([text], GPT2, 320)
    assert ranks_of(TRAIN[step.number](text, GPT2, 320)) == expected


def test_empty_text_has_no_merges():
    assert all(TRAIN[number]("", GPT2, 320) == [] for number in range(1, 15))
    with pytest.raises(InputError, match="contain no text"):
        TRAIN[15]("", GPT2, 320)


@settings(max_examples=max(5, examples(25)), deadline=None)
@given(st.text("abé 谷'\n", min_size=1, max_size=60) | st.text(min_size=1, max_size=40))
def test_all_steps_learn_the_same_merges(text):
    expected = ranks_of(TRAIN[1](text, GPT2, 280))
    assert expected == reference.train([text], GPT2, 280)
    for train in TRAIN.values():
        assert ranks_of(train(text, GPT2, 280)) == expected


@pytest.mark.parametrize("scheme", PATTERNS)
def test_all_steps_take_any_pattern(scheme):
    pattern, text = pattern_of(scheme), TEXTS["unicode"] + ENGLISH + TEXTS["code"]
    expected = TRAIN[1](text, pattern, 290)
    assert all(train(text, pattern, 290) == expected for train in TRAIN.values())
    assert ranks_of(expected) == reference.train([text], pattern, 290)


@pytest.mark.parametrize("number", [9, 10, 11, 12, 13])
def test_rebuilt_lists_keep_all_types(number, monkeypatch):
    module = MODULES[number]
    low = {"SIZE_MIN": 1, "COOLDOWN": 0}
    low |= {"COMPACTION_MIN_TOUCHED_FOR_WASTE": 1, "COMPACTION_LIVE_RATIO_THRESHOLD": 1.1}
    for name, value in low.items():
        if hasattr(module, name):
            monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(module.Trainer, "compactions", 0)
    text = texts.prose(30_000).decode()
    assert TRAIN[number](text, GPT2, 500) == TRAIN[15](text, GPT2, 500)
    assert module.Trainer.compactions > 100


@pytest.mark.parametrize(
    ("size", "touched", "rebuilt"),
    [
        (2048, 1025, True),  # long, and more than half of it is stale
        (2048, 1024, False),
        (2047, 1025, False),  # short, with a live share above a quarter
        (700, 530, True),  # short, with 512 stale entries and a lower live share
        (700, 520, False),  # the live share decides
        (600, 511, False),  # the number of stale entries decides
        (600, 512, True),
    ],
)
def test_each_threshold_of_compaction_decides(size, touched, rebuilt, monkeypatch):
    trainer = step09_compaction.Trainer(Counter(["ab"]))
    key = step09_compaction.pack_pair(*b"ab")
    trainer.index[key] = [0] * size
    trainer.touched[key] = touched
    monkeypatch.setattr(step09_compaction.Trainer, "compactions", 0)
    trainer.maintain(key)
    assert step09_compaction.Trainer.compactions == rebuilt
    assert len(trainer.index[key]) == (1 if rebuilt else size)


def test_policy_moves_its_threshold_both_ways():
    policy = step13_adaptive.Policy()
    start = policy.live_ratio
    for key in range(10):
        policy.note(key, 1000, 100)
    assert policy.live_ratio == pytest.approx(start + 0.1)
    for key in range(60):
        policy.note(key, 1000, 900)
    assert policy.live_ratio < start
    assert policy.cooldown[0] == step13_adaptive.COOLDOWN
    assert not policy.wants(0, 1000, 0)
    policy.now = step13_adaptive.COOLDOWN
    assert policy.wants(0, 1000, 0)


@pytest.mark.parametrize("number", TRAIN)
def test_step_runs_alone(number, text_file):
    path = ROOT / "ladder" / "training" / f"{STEPS[number - 1].module}.py"
    command = [sys.executable, path, text_file, "--vocab-size", "270", "--merges", "3"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=text_file.parent)
    assert done.returncode == 0, done.stderr
    text = text_file.read_text()
    expected = lines(TRAIN[15](text, GPT2, 270), 3)
    assert done.stdout.splitlines() == expected
    assert expected[0].startswith("   256 = ")
    assert expected[-1] == "and 11 more; pass --merges 14 for all"


def test_step_alone_names_a_wrong_file(tmp_path):
    path = ROOT / "ladder" / "training" / "step01_naive.py"
    command = [sys.executable, path, tmp_path / "none.txt"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "none.txt" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("scheme", PATTERNS)
def test_pattern_for_re_splits_as_the_reference(scheme):
    pattern = pattern_of(scheme)
    for text in [*TEXTS.values(), HARD]:
        found = [each.encode() for each in pattern_for(pattern, text).compiled.findall(text)]
        assert [word for word in found if word] == list(reference.pretokens(text.encode(), pattern))


@settings(max_examples=max(40, examples(200)), deadline=None)
@given(st.text("abé 谷7²'s!\n\t\u3000lre", max_size=30) | st.text(max_size=30))
def test_hand_written_scan_splits_as_the_pattern(text):
    pattern = pattern_for(GPT2, text)
    expected = [match.group() for match in pattern.compiled.finditer(text)]
    assert list(step03_stream.scan(text, pattern.kinds)) == expected
    assert list(step03_stream.scan_with(pattern.compiled, text)) == expected


def test_pattern_that_re_does_not_support_is_named():
    with pytest.raises(LadderError, match=r"Python's re.*look-behind requires fixed-width"):
        pattern_for(r"(?<=a+)b|(?s:.)", "aab")


def test_steps_are_short_and_document_their_costs():
    for step in STEPS:
        source = (ROOT / f"ladder/training/{step.module}.py").read_text()
        assert source.count("\n") <= 200, step.module
        for word in (f'"""Step {step.number}, ', "\nThe idea", "\nCosts: ", "\nSaves: "):
            assert word in source, f"{step.module} lacks {word!r}"


# ── the command ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def text_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("ladder") / "text.txt"
    path.write_bytes(texts.prose(40_000))
    return path


def test_command_runs_all_steps_with_equal_merges(text_file, tmp_path, monkeypatch):
    keep_steps(monkeypatch, STEPS[0].name, STEPS[-1].name)
    picture = tmp_path / "ladder.svg"
    done = run(
        "training",
        text_file,
        "--vocab-size",
        "300",
        "--limit",
        "0",
        "--runs",
        "1",
        "--json",
        "--plot",
        picture,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert [step["step"] for step in found["steps"]] == list(range(1, 16))
    assert all(step["merges_equal"] is True for step in found["steps"])
    assert all(step["seconds"] > 0 and step["peak_mb"] > 1 for step in found["steps"])
    assert found["skipped"] == []
    assert found["merges"] == 44
    assert found["text_bytes"] == 40_000
    root = ElementTree.parse(picture).getroot()
    assert len(root.findall("{*}circle")) >= 15


def test_command_shows_a_table(text_file, monkeypatch):
    keep_steps(monkeypatch, STEPS[-1].name)
    done = run("training", text_file, "--steps", "2,6,10-13,15", "--vocab-size", "300")
    assert done.returncode == 0, done.stderr
    assert re.search(r" 2 type frequency +[0-9.]+ m?s \([0-9.]+–[0-9.]+\)", done.stdout)
    for word in (
        "CPU time",
        "over previous",
        "over step 1",
        "added",
        "rebuilds",
        "15 native core",
        "equal",
    ):
        assert word in done.stdout
    assert "DIFFERENT" not in done.stdout
    assert "its compaction was never used at this size" in done.stdout


def test_command_shows_the_change_of_a_step(capsys):
    done = run("training", "--diff", "13")
    assert done.returncode == 0, done.stderr
    assert "--- step11_arrays.py" in done.stdout
    assert "+class Policy:" in done.stdout
    assert run("training", "--diff", "16").returncode == 2


def test_step_that_would_take_too_long_is_skipped_with_a_note(text_file):
    arguments = ("training", text_file, "--steps", "1,15", "--vocab-size", "3000")
    done = run(*arguments, "--limit", "1", "--runs", "1")
    assert done.returncode == 0, done.stderr
    assert "1 naive: skipped, it would take about" in done.stdout
    assert "15 native core" in done.stdout


def test_estimate_is_near_the_truth(text_file):
    task = Task(text_file, 40_000, 330, GPT2)
    learned = learn(task)
    guess = estimate(STEPS[0], task, learned)
    assert 0.02 < guess < 20
    assert 0.5 * learned.merges < learned.walks < learned.merges == 74


def test_progress_is_shown_in_a_terminal_only(text_file):
    arguments = [
        sys.executable,
        "-m",
        "ladder",
        "training",
        text_file,
        "--steps",
        "8,15",
        "--runs=1",
    ]
    arguments += ["--json"]
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=theirs, env=environment, cwd=ROOT
    )
    os.close(theirs)
    seen = b""
    try:
        while part := os.read(ours, 4096):
            seen += part
    except OSError:  # the end, on Linux
        pass
    finally:
        os.close(ours)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert len(json.loads(said)["steps"]) == 2
    assert b"8 windowed pair updates" in seen


@pytest.mark.parametrize("steps", ["0", "16", "a", "3-", "", "5-4"])
def test_invalid_steps_are_rejected(steps):
    done = run("training", f"--steps={steps}")
    assert done.returncode == 2
    assert "is not made of numbers from 1 to 15" in done.stderr


def test_wrong_outputs_fail_before_the_measurement(tmp_path):
    done = run("training", "--plot", tmp_path / "none" / "ladder.svg")
    assert done.returncode == 2
    assert "not found; create it first" in done.stderr
    done = run("training", "--vocab-size", "3,000,000")
    assert done.returncode == 2
    assert "3,000,000 is too large" in done.stderr


def test_text_ends_between_characters(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes("aé谷".encode() + b"\xff")
    assert [texts.read(path, size) for size in (2, 3, 5, 6)] == ["a", "aé", "aé", "aé谷"]
    for size in (7, 9):
        with pytest.raises(LadderError, match="is not UTF-8 text"):
            texts.read(path, size)


def test_documents_of_python_have_a_megabyte():
    assert len(texts.prose(1_000_000)) == 1_000_000
    assert texts.prose(1_000) == texts.prose(2_000)[:1_000]


def test_unknown_file_is_an_error_without_a_traceback(tmp_path):
    done = run("training", tmp_path / "none.txt")
    assert done.returncode == 2
    assert "none.txt" in done.stderr
    assert "Traceback" not in done.stderr


# ── tables and plots of figures ──────────────────────────────────────────────────────────────


def row(step: int, seconds: float, added_mb: float = 10.0, equal: bool = True) -> Measurement:
    return Measurement(
        step=step,
        name=STEPS[step - 1].name,
        seconds=seconds,
        cpu_seconds=seconds,
        peak_mb=added_mb + 20,
        added_mb=added_mb,
        merges_equal=equal,
    )


def test_median_of_runs_is_taken():
    found = median_of([row(7, 3.0, 5.0), row(7, 1.0, 6.0), row(7, 2.0, 9.0, equal=False)])
    assert (found.step, found.added_mb, found.merges_equal) == (7, 6.0, False)
    assert (found.seconds, found.seconds_min, found.seconds_max) == (2.0, 1.0, 3.0)
    assert (found.cpu_seconds, found.cpu_min, found.cpu_max) == (2.0, 1.0, 3.0)


def test_wrong_merges_have_no_speed_up_and_fail(monkeypatch, text_file, capsys):
    monkeypatch.setattr(
        ladder_training, "measure", lambda step, *_: row(step.number, 1.0, 1.0, False)
    )
    parser = Parser()
    ladder_training.add_parser(parser.add_subparsers())
    options = parser.parse_args(["training", str(text_file), "--steps", "14-15"])
    assert ladder_training.run(options) == BUG
    assert "DIFFERENT" in capsys.readouterr().out


def test_plot_names_all_steps_and_skipped_ones():
    drawn = ladder_training.plot(
        [row(14, 0.2), row(15, 0.004, 0.0)], [Skipped(1, "naive", 93.0)], "1 MB & so"
    )
    root = ElementTree.fromstring(drawn)
    words = [text.text for text in root.findall("{*}text")]
    for word in ("naive", "skipped: about 93.0 s", "200 ms", "4.00 ms", "10.0 MB", "1 MB & so"):
        assert word in words
    assert "prefers-color-scheme: dark" in drawn


def test_page_is_rendered_from_the_results(tmp_path, monkeypatch):
    page, picture = tmp_path / "ladder.md", tmp_path / "ladder.svg"
    shutil.copy(bench_ladder.PAGE, page)
    monkeypatch.setattr(bench_ladder, "PAGE", page)
    monkeypatch.setattr(bench_ladder, "PICTURE", picture)
    bench_ladder.render(json.loads(bench_ladder.RESULTS.read_text()))
    assert page.read_text() == (ROOT / "docs" / "ladder.md").read_text()
    assert picture.read_text() == (ROOT / "docs" / "ladder.svg").read_text()
    folded = (
        page.read_text().partition("<!-- changes:start -->")[2].partition("<!-- changes:end")[0]
    )
    assert folded.count("<details") == 14
    assert page.read_text().count("\n") - folded.count("\n") <= 300


def test_page_has_the_figures_of_the_full_sizes(tmp_path, monkeypatch):
    page = tmp_path / "ladder.md"
    shutil.copy(bench_ladder.PAGE, page)
    monkeypatch.setattr(ladder_full, "PAGE", page)
    ladder_full.render(json.loads(ladder_full.RESULTS.read_text()))
    assert page.read_text() == (ROOT / "docs" / "ladder.md").read_text()


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((10, 12), (7, 9), "holds"),
        ((10, 12), (13, 15), "does not hold"),
        ((10, 12), (11, 14), "not clear"),
    ],
)
def test_verdict_follows_the_spread(before, after, expected):
    rows = [
        replace(row(step, low), cpu_min=low, cpu_max=high)
        for step, (low, high) in ((9, before), (10, after))
    ]
    claim = ladder_full.Claim("100/2000", 9, 10, "the heap saves time", (2.0, 1.0), None)
    assert ladder_full.verdict(claim, *rows) == expected
    slower = claim._replace(seconds=(1.0, 2.0))
    opposite = {"holds": "does not hold", "does not hold": "holds"}
    assert ladder_full.verdict(slower, *rows) == opposite.get(expected, expected)
    assert ladder_full.verdict(claim, None, rows[1]) == "not measured"


def test_repeated_documents_have_new_words():
    words = ladder_full.altered("a b c d e f g h i j " * 50, random.Random(0)).split()
    assert len(words) == 500
    assert 1 <= len(set(words) - set("abcdefghij")) <= 10


def test_step_is_a_small_change_of_the_previous_one():
    assert all(bench_ladder.new_lines(step) <= 45 for step in STEPS[:13])
