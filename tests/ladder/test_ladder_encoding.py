"""The encoding ladder: every step returns the ids of the reference, and the command shows it."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree

import hard_inputs
import pytest
from conftest import examples, sample
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ladder_steps import keep_steps
from ladder_steps import run_ladder as run
from rich.console import Console

from ladder import runner, values
from ladder.encoding import command as ladder_encoding
from ladder.encoding import (
    compiled,
    libraries,
    native,
    step01_naive,
    step02_in_place,
    step03_heap,
    step04_cached,
    steps,
    texts,
)
from ladder.encoding.criteria import Criterion
from ladder.encoding.pretokens import Encode
from ladder.errors import LadderError
from ladder.runner import Statistics
from tokenmill import reference, train_from_iterator

PATTERN = reference.GPT2_PATTERN
ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))
nanochat = importlib.import_module("nanochat")

MODULES = (step01_naive, step02_in_place, step03_heap, step04_cached, native)
ZIG = [step for step in (*steps.STEPS, *steps.TRIED) if step.language == "Zig"]
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


def prepare_all(ranks: dict[bytes, int]) -> dict[str, Encode]:
    found = {module.__name__: module.prepare(ranks, PATTERN) for module in MODULES}
    return found | {f"{step.number} {step.name}": step.prepare(ranks, PATTERN) for step in ZIG}


def assert_equal_ids(encoders: dict[str, Encode], ranks: dict[bytes, int], text: str) -> None:
    expected = reference.encode(text, ranks, PATTERN)
    for name, encode in encoders.items():
        assert encode(text) == expected, name
        assert encode(text) == expected, f"{name}, again"


@pytest.fixture(scope="module")
def encoders() -> dict[str, Encode]:
    return prepare_all(RANKS)


@settings(deadline=None, max_examples=max(20, examples(100)))
@given(TEXTS)
@example("")
@example("a")
@example("\ud800x")
@example("a" * 500)
@example("ab" * 300)
@example("\U0010ffff\u200d\u0301")
@example(" 's '  're\u3000\u3000x \u2028")
def test_all_steps_return_the_ids_of_the_reference(encoders, text):
    assert_equal_ids(encoders, RANKS, text)


@settings(deadline=None, max_examples=max(8, examples(40)))
@given(st.lists(TEXTS, max_size=5), st.integers(256, 320), TEXTS)
def test_all_steps_return_the_same_ids_with_any_trained_vocabulary(documents, size, text):
    ranks = reference.train(documents, PATTERN, size)
    encoders = prepare_all(ranks)
    assert_equal_ids(encoders, ranks, text)
    assert_equal_ids(encoders, ranks, "".join(documents))


def test_hard_inputs_have_the_ids_of_the_reference(encoders):
    for text in sample(hard_inputs.STRINGS):
        assert_equal_ids(encoders, RANKS, text)


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
        *("encoding", "--steps", "2,10-12", "--encodes", "100", "--runs", "2"),
        *("--warmup", "1", "--json", "--plot", plot),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(row["step"], row["name"]) for row in found["steps"]] == [
        (2, "in place"), (10, "cache"), (11, "native"), (12, "rustbpe"), (24, "separate keys"),
    ]  # fmt: skip
    for row in found["steps"]:
        assert row["ids_equal"] is True
        assert row["run"]["runs"] == 2 and row["run"]["warmup"] == 1
        assert 0 < row["run"]["cpu_min"] <= row["run"]["cpu"] <= row["run"]["cpu_max"]
        assert row["long_seconds"] > 0
    assert [row["encodes"] for row in found["steps"]] == [1, 100, 100, 25, 100]
    criteria = {row["text"]: row for row in found["criteria"]}
    assert len(criteria) == 10
    assert criteria["less than 1 KB per tokenizer, shared vocabulary"]["holds"] is True
    assert criteria["training twice as fast as rustbpe"]["holds"] is True
    root = ElementTree.parse(plot).getroot()
    assert root.tag.endswith("svg")
    assert "native" in plot.read_text(encoding="utf-8")


def test_invalid_steps_are_rejected():
    steps_of = values.numbers(1, 5)
    assert steps_of("4-5, 2,5") == [2, 4, 5]
    for wrong in ("0", "1-6", "3-2", "x", "1,,2", "", "-1", "²", "1-"):
        with pytest.raises(argparse.ArgumentTypeError, match="numbers from 1 to 5, such as 1-5"):
            steps_of(wrong)
    done = run("encoding", "--steps", "1-14")
    assert done.returncode == 2
    assert "'1-14' is not made of numbers from 1 to 13" in done.stderr


def test_step_with_other_ids_has_no_time(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "run_fresh", lambda *_: ({"ids_equal": False}, 0))
    with pytest.raises(LadderError, match="'priority queue' returns other ids than the reference"):
        steps.measure(steps.STEPS[2], tmp_path, 1, 1, 0, "")


def test_library_is_compiled_once_and_in_other_modes(tmp_path, monkeypatch):
    assert compiled.load_library() is compiled.load_library()
    for number in range(len(compiled.STEPS)):
        encode = compiled.Compiled(number, RANKS, "ReleaseSafe")  # checks bounds and overflows
        for text in (*DOCUMENTS, texts.TEXT, texts.LONG):
            assert encode(text) == reference.encode(text, RANKS, PATTERN)
    monkeypatch.setattr(compiled, "UNICODE", tmp_path / "unicode.zig")
    (tmp_path / "unicode.zig").write_text("not Zig")
    with pytest.raises(LadderError, match="cannot be compiled; run `make demo`"):
        compiled.load_library("Debug")
    with pytest.raises(LadderError, match="pattern of GPT-2 only"):
        compiled.prepare(RANKS, "other", 5)


def test_libraries_return_the_ids_of_the_reference():
    ranks = dict(libraries.train_rustbpe(PATTERN).get_mergeable_ranks())
    for step in steps.STEPS[11:]:
        encode = step.prepare(ranks, PATTERN)
        for text in (texts.TEXT, *DOCUMENTS):
            assert encode(text) == reference.encode(text, ranks, PATTERN)
    with pytest.raises(LadderError, match="has learned other ranks"):
        libraries.prepare_rustbpe(RANKS, PATTERN)


def test_every_step_has_a_file_with_its_idea():
    for step in steps.STEPS[:10]:
        source = (ROOT / step.path()).read_text(encoding="utf-8")
        assert f"Step {step.number}, " in source.splitlines()[0]
        for word in ("The idea", "Costs: ", "Saves: "):
            assert word in source, f"{step.path()} lacks {word!r}"


def test_table_has_figures(rows):
    cells = ladder_encoding.cells(rows)
    assert cells[0][:4] == ["1 naive, Python", "30.0 s (28.8–31.2)", "", "500.00"]
    assert cells[1][:5] == ["10 cache, Zig", "120 ms (115–125)", "", "2.00", "120 ms"]
    assert cells[2][:5] == ["11 native", "60.0 ms (57.6–62.4)", "2.00 ×", "1.00", ""]
    assert cells[3][:5] == ["12 rustbpe", "60.0 ms (57.6–62.4)", "", "1.00", "234 ms"]
    assert "median of 3 runs after 1 warm-up runs" in ladder_encoding.note(rows)
    assert ladder_encoding.tried_cells(rows) == [
        ["separate keys", "10 cache", "180 ms (173–187)", "120 ms (115–125)", "0.67"]
    ]


def test_markdown_is_written_between_the_marks_of_a_document(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(ladder_encoding, "measure_all", lambda *_: rows)
    found = [Criterion("training in less than 10 ms", "9.00 ms", True)]
    monkeypatch.setattr(ladder_encoding, "checklist", lambda *_: found)
    document = tmp_path / "page.md"
    marks = [ladder_encoding._BEGIN, ladder_encoding._END]
    document.write_text(f"before\n{marks[0]}\nearlier\n{marks[1]}\nafter\n", encoding="utf-8")
    options = {"encodes": 60_000, "plot": None, "json": False, "markdown": str(document)}
    options |= {"short": False, "runs": 3, "warmup": 1}
    ladder_encoding.run(argparse.Namespace(**options))
    text = document.read_text(encoding="utf-8")
    assert text.startswith("before\n") and text.endswith("\nafter\n")
    assert "earlier" not in text
    link = "../ladder/encoding/zig/step10_cache.zig"
    assert f"| 10 [cache, Zig]({link}) | 120 ms (115–125) |" in text
    assert "| training in less than 10 ms | 9.00 ms | yes |" in text
    document.write_text("no marks", encoding="utf-8")
    with pytest.raises(LadderError, match="has no lines <!-- ladder-encoding:start -->"):
        ladder_encoding.run(argparse.Namespace(**options))


@pytest.fixture
def rows() -> list[steps.Measurement]:
    def measured(step: steps.Step, each: float) -> steps.Measurement:
        count = 60_000 // step.share
        least, most = each * 0.96, each * 1.04
        time = Statistics(each, least, most, each, least, most, 3, 1)
        return steps.Measurement(step, count, time * count, each * 10, 20.0)

    [separate] = [step for step in steps.TRIED if step.name == "separate keys"]
    chosen = [steps.STEPS[0], steps.STEPS[9], steps.NATIVE, steps.RUSTBPE, separate]
    times = (500e-6, 2e-6, 1e-6, 1e-6, 3e-6)
    return [measured(step, each) for step, each in zip(chosen, times, strict=True)]


# ── nanochat's tokenizer ─────────────────────────────────────────────────────────────────────


def test_drop_ins_make_the_tokenizer_of_nanochat(tmp_path, capsys):
    path = tmp_path / "documents.json"
    path.write_text(json.dumps([text * 3 for text in texts.short_texts(300)]))
    found = []
    for modules in nanochat.SYSTEMS.values():
        nanochat.run(str(path), "600", *modules)
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["digest"] == found[1]["digest"]
    assert set(nanochat.WORK) <= set(found[0])


def test_page_of_nanochat_has_the_figures(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    shutil.copy(nanochat.PAGE, page)
    monkeypatch.setattr(nanochat, "PAGE", page)
    nanochat.render(json.loads(nanochat.RESULTS.read_text()))
    assert page.read_text() == (ROOT / "docs" / "migrate-rustbpe.md").read_text()


# ── statistics, tables and plots of all ladders ──────────────────────────────────────────────


def test_statistics_are_medians_with_the_range_of_cpu_time():
    pairs = [(9.0, 9.0), (1.0, 1.0), (2.0, 1.5), (3.0, 4.0)]
    found = runner.statistics_of([runner.Times(*pair) for pair in pairs], warmup=1)
    assert (found.cpu, found.cpu_min, found.cpu_max) == (1.5, 1.0, 4.0)
    assert (found.seconds, found.seconds_min, found.seconds_max) == (2.0, 1.0, 3.0)
    assert (found.runs, found.warmup) == (3, 1)
    assert found.spread() == "1.50 s (1.00–4.00)"
    assert (found * 1e-3).spread() == "1.50 ms (1.00–4.00)"
    assert runner.statistics_of([runner.Times(0.25, 0.2)]).spread() == "200 ms"
    with pytest.raises(ValueError, match="2 times with a warm-up of 2 leave none"):
        runner.statistics_of([runner.Times(1.0, 1.0)] * 2, 2)


def test_warm_up_runs_are_not_counted():
    calls = []
    found = runner.measure_runs(lambda: calls.append(1), runs=4, warmup=2)
    assert len(calls) == 6
    assert (found.runs, found.warmup) == (4, 2)


def test_rounds_alternate_and_add_the_missing_runs():
    order: list[str] = []
    found = {"a": [0], "b": []}

    def measure(key):
        order.append(key)
        return len(order)

    runner.measure_rounds(found, measure, 2, lambda: order.append("saved"))
    assert order == ["b", "saved", "a", "saved", "b", "saved"]
    assert found == {"a": [0, 3], "b": [1, 5]}
    runner.measure_rounds(found, lambda key: 7, 3, jobs=2)
    assert found == {"a": [0, 3, 7], "b": [1, 5, 7]}


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (2.5, "2.50 s"), (0.0123, "12.3 ms"), (1e-3, "1.00 ms"), (4.2e-7, "420 ns"),
        (1234.0, "1,234 s"), (3e-11, "0.03 ns"),
    ],
)  # fmt: skip
def test_times_have_three_digits(seconds, said):
    assert runner.duration(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"), [(90.0, "90 s"), (1_200.0, "20 minutes"), (5_400.0, "1.5 hours")]
)
def test_long_times_have_the_largest_unit(seconds, said):
    assert runner.long_duration(seconds) == said


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
