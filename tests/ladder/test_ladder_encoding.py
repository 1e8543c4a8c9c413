"""The encoding ladder: every step returns the ids of the reference, and the command shows it."""

from __future__ import annotations

import argparse
import hashlib
import json
from xml.etree import ElementTree

import pytest
from conftest import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ladder_steps import keep_steps
from ladder_steps import run_ladder as run
from rich.console import Console

from ladder import runner, values
from ladder.encoding import command as ladder_encoding
from ladder.encoding import (
    native,
    step01_naive,
    step02_in_place,
    step03_heap,
    step04_cached,
    steps,
    texts,
)
from ladder.errors import LadderError
from ladder.runner import Statistics
from tokenmill import reference, train_from_iterator

PATTERN = reference.GPT2_PATTERN
MODULES = (step01_naive, step02_in_place, step03_heap, step04_cached, native)
DOCUMENTS = [
    "aaaa aaa aa a",
    "abab abba baab",
    "the mill mills the meal",
    "naïve 中文中 🙂🙂",
    "\r\n 12 12",
]
RANKS = reference.train(DOCUMENTS, PATTERN, 300)
# Few letters give many merges; any text at all has to work.
TEXTS = st.text("ab ' \n1中🙂", max_size=40) | st.text(max_size=40)


def assert_equal_ids(ranks: dict[bytes, int], text: str) -> None:
    expected = reference.encode(text, ranks, PATTERN)
    for module in MODULES:
        encode = module.prepare(ranks, PATTERN)
        assert encode(text) == expected, module.__name__
        assert encode(text) == expected, f"{module.__name__}, again"


@settings(deadline=None, max_examples=max(20, examples(100)))
@given(TEXTS)
@example("")
@example("a")
@example("\ud800x")
@example("a" * 500)
@example("ab" * 300)
@example("\U0010ffff\u200d\u0301")
def test_all_steps_return_the_ids_of_the_reference(text):
    assert_equal_ids(RANKS, text)


@settings(deadline=None, max_examples=max(8, examples(40)))
@given(st.lists(TEXTS, max_size=5), st.integers(256, 320), TEXTS)
def test_all_steps_return_the_same_ids_with_any_trained_vocabulary(documents, size, text):
    ranks = reference.train(documents, PATTERN, size)
    assert_equal_ids(ranks, text)
    assert_equal_ids(ranks, "".join(documents))


def test_full_cache_keeps_the_ids(monkeypatch):
    monkeypatch.setattr(step04_cached, "CACHE_MAX", 1)
    encode = step04_cached.prepare(RANKS, PATTERN)
    for text in (*DOCUMENTS, *DOCUMENTS):
        assert encode(text) == reference.encode(text, RANKS, PATTERN)


def test_workloads_are_fixed():
    assert len(texts.TEXT.encode()) == 286
    made = texts.short_texts()
    assert len(made) == 15_000
    assert max(map(len, made)) < 120
    assert len(set(made)) > 14_000
    assert len(train_from_iterator(made, vocab_size=texts.VOCAB_SIZE, pattern=PATTERN)) == 2048
    digest = hashlib.sha256("\n".join(made).encode()).hexdigest()
    assert digest[:12] == "dbbfcdb1e240"  # figures of two machines can be compared
    [pretoken] = reference.pretokens(texts.LONG.encode(), PATTERN)
    assert len(pretoken) > 2_000


# ── the command ──────────────────────────────────────────────────────────────────────────────


def test_command_measures_steps(tmp_path, monkeypatch):
    keep_steps(monkeypatch, "native")
    plot = tmp_path / "encoding.svg"
    done = run(
        *("encoding", "--steps", "2,4-5", "--encodes", "100", "--runs", "2"),
        *("--warmup", "1", "--json", "--plot", plot),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(row["step"], row["name"]) for row in found["steps"]] == [
        (2, "in place"), (4, "cache"), (5, "native"),
    ]  # fmt: skip
    for row in found["steps"]:
        assert row["ids_equal"] is True
        assert row["run"]["runs"] == 2 and row["run"]["warmup"] == 1
        assert 0 < row["run"]["min"] <= row["run"]["mean"] <= row["run"]["max"]
        assert row["seconds"] == pytest.approx(row["run"]["mean"] / row["encodes"])
        assert row["long_seconds"] > 0
    assert [row["encodes"] for row in found["steps"]] == [1, 5, 100]
    root = ElementTree.parse(plot).getroot()
    assert root.tag.endswith("svg")
    assert "native" in plot.read_text(encoding="utf-8")


def test_invalid_steps_are_rejected():
    steps_of = values.numbers(1, 5)
    assert steps_of("4-5, 2,5") == [2, 4, 5]
    for wrong in ("0", "1-6", "3-2", "x", "1,,2", "", "-1", "²", "1-"):
        with pytest.raises(argparse.ArgumentTypeError, match="numbers from 1 to 5, such as 1-5"):
            steps_of(wrong)
    done = run("encoding", "--steps", "1-6")
    assert done.returncode == 2
    assert "'1-6' is not made of numbers from 1 to 5" in done.stderr


def test_step_with_other_ids_has_no_time(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "run_fresh", lambda *_: ({"ids_equal": False}, 0))
    with pytest.raises(LadderError, match="'priority queue' returns other ids than the reference"):
        steps.measure(steps.STEPS[2], tmp_path, 1, 1, 0, "")


def test_table_has_figures(rows):
    cells = ladder_encoding.cells(rows)
    assert cells[0][:7] == [
        "1 naive", "500 ± 10 µs", "480 … 520 µs", "490 µs", "600", "", "1.00 ×",
    ]  # fmt: skip
    assert cells[1][:2] == ["5 native", "1.00 ± 0.02 µs"]
    assert cells[1][4:7] == ["60,000", "500 ×", "500 ×"]
    assert "Mean ± σ of 10 runs after 3 warm-up runs" in ladder_encoding.note(rows, 60_000)


def test_markdown_is_written_between_the_marks_of_a_document(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(ladder_encoding, "measure_all", lambda *_: rows)
    document = tmp_path / "page.md"
    marks = [ladder_encoding._BEGIN, ladder_encoding._END]
    document.write_text(f"before\n{marks[0]}\nearlier\n{marks[1]}\nafter\n", encoding="utf-8")
    options = {"encodes": 60_000, "plot": None, "json": False, "markdown": str(document)}
    ladder_encoding.run(argparse.Namespace(**options))
    text = document.read_text(encoding="utf-8")
    assert text.startswith("before\n") and text.endswith("\nafter\n")
    assert "earlier" not in text
    assert "| 1 naive | 500 ± 10 µs | 480 … 520 µs |" in text
    document.write_text("no marks", encoding="utf-8")
    with pytest.raises(LadderError, match="has no lines <!-- ladder-encoding:start -->"):
        ladder_encoding.run(argparse.Namespace(**options))


@pytest.fixture
def rows() -> list[steps.Measurement]:
    def measured(step: steps.Step, each: float) -> steps.Measurement:
        count = 60_000 // step.share
        time = Statistics(each, each / 50, each * 0.96, each * 1.04, each * 0.98, 10, 3)
        return steps.Measurement(step, count, time * count, each * 10, 20.0)

    return [measured(steps.STEPS[0], 500e-6), measured(steps.STEPS[4], 1e-6)]


# ── statistics, tables and plots of all ladders ──────────────────────────────────────────────


def test_statistics_equal_hyperfine():
    found = runner.statistics_of([9.0, 1.0, 2.0, 3.0, 4.0], [9.0, 1.0, 1.0, 1.0, 1.0], warmup=1)
    assert (found.mean, found.min, found.max, found.cpu) == (2.5, 1.0, 4.0, 1.0)
    assert found.sigma == pytest.approx((5 / 3) ** 0.5)
    assert (found.runs, found.warmup) == (4, 1)
    assert found.spread() == "2.50 ± 1.29 s"
    assert (found * 1e-3).span() == "1.00 … 4.00 ms"
    assert runner.statistics_of([0.25], [0.2]).spread() == "250 ± 0 ms"
    with pytest.raises(ValueError, match="2 times with a warm-up of 2 leave none"):
        runner.statistics_of([1.0, 1.0], [1.0, 1.0], 2)


def test_warm_up_runs_are_not_counted():
    calls = []
    found = runner.measure_runs(lambda: calls.append(1), runs=4, warmup=2)
    assert len(calls) == 6
    assert (found.runs, found.warmup) == (4, 2)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (2.5, "2.50 s"), (0.0123, "12.3 ms"), (1e-3, "1.00 ms"), (4.2e-7, "420 ns"),
        (1234.0, "1,234 s"), (3e-11, "0.03 ns"),
    ],
)  # fmt: skip
def test_times_have_three_digits(seconds, said):
    assert runner.duration(seconds) == said


def test_plot_has_logarithmic_scales():
    panel = runner.Panel("time", "time", {1: 1.0, 2: 100.0}, runner.duration)
    drawn = runner.draw("a < b", "", {1: "1 x", 2: "2 y"}, [panel], {1: "a note"})
    root = ElementTree.fromstring(drawn)
    first, second = (float(dot.attrib["cx"]) for dot in root if dot.tag.endswith("circle"))
    assert first < second
    assert "a &lt; b" in drawn and "a note" in drawn


def test_wide_tables_are_split(capsys):
    console = Console(width=24)
    runner.print_table(console, ("name", "a" * 9, "b" * 9), [("x", "1", "2")])
    assert capsys.readouterr().out.count("name") == 2
