"""The ladder of encoders: every step gives the ids of the reference, and the command shows it."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from xml.etree import ElementTree

import pytest
from corpus_cases import run
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tokenmill import reference, train
from tokenmill.cli import ladder_encoding, values
from tokenmill.errors import LadderError
from tokenmill.ladder import bars, fresh, statistics
from tokenmill.ladder.encoding import cached, heap, native, rebuild, report, scan, steps, texts
from tokenmill.ladder.encoding.claims import claims
from tokenmill.ladder.encoding.instances import Weighed
from tokenmill.ladder.encoding.results import Results, as_json
from tokenmill.ladder.encoding.training import Trained
from tokenmill.ladder.statistics import Statistics

PATTERN = reference.GPT2_PATTERN
MODULES = (rebuild, scan, heap, cached, native)
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
        assert encode(text) == expected, f"{module.__name__}, once more"


@settings(deadline=None)
@given(TEXTS)
@example("")
@example("a")
@example("\ud800x")
@example("a" * 500)
@example("ab" * 300)
@example("\U0010ffff\u200d\u0301")
def test_all_steps_give_the_ids_of_the_reference(text):
    assert_equal_ids(RANKS, text)


@settings(deadline=None, max_examples=40)
@given(st.lists(TEXTS, max_size=5), st.integers(256, 320), TEXTS)
def test_all_steps_give_the_same_ids_with_any_trained_vocabulary(documents, size, text):
    ranks = reference.train(documents, PATTERN, size)
    assert_equal_ids(ranks, text)
    assert_equal_ids(ranks, "".join(documents))


def test_full_cache_changes_no_id(monkeypatch):
    monkeypatch.setattr(cached, "CACHE_MAX", 1)
    encode = cached.prepare(RANKS, PATTERN)
    for text in (*DOCUMENTS, *DOCUMENTS):
        assert encode(text) == reference.encode(text, RANKS, PATTERN)


def test_workloads_are_the_seeds():
    assert len(texts.TEXT.encode()) == 286
    made = texts.short_texts()
    assert len(made) == 15_000
    assert max(map(len, made)) < 120
    assert len(set(made)) > 14_000
    assert len(train(made, vocab_size=texts.VOCAB_SIZE, pattern=PATTERN)) == 2048
    digest = hashlib.sha256("\n".join(made).encode()).hexdigest()
    assert digest[:12] == "dbbfcdb1e240"  # figures of two machines can be compared
    [pretoken] = reference.pretokens(texts.LONG.encode(), PATTERN)
    assert len(pretoken) > 2_000


# ── the command ──────────────────────────────────────────────────────────────────────────────


def test_command_measures_steps_and_markers(tmp_path):
    plot = tmp_path / "encoding.svg"
    done = run(
        *("ladder", "encoding", "--steps", "2,4-5", "--encodes", "100", "--runs", "2"),
        *("--warmup", "1", "--json", "--plot", plot),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(row["step"], row["name"]) for row in found["steps"]] == [
        (2, "scan"), (4, "cached"), (5, "native"),
    ]  # fmt: skip
    for row in (*found["steps"], *found["markers"]):
        assert row["ids_equal"] is True
        assert row["run"]["runs"] == 2 and row["run"]["warmup"] == 1
        assert 0 < row["run"]["min"] <= row["run"]["mean"] <= row["run"]["max"]
        assert row["seconds"] == pytest.approx(row["run"]["mean"] / row["encodes"])
        assert row["long_seconds"] > 0
    assert [row["encodes"] for row in found["steps"]] == [1, 5, 100]
    assert {row["name"] for row in found["markers"]} == {
        "native_batch", "rustbpe", "rustbpe_batch", "tiktoken", "tiktoken_ordinary",
    }  # fmt: skip
    assert [row["name"] for row in found["training"]] == ["tokenmill", "rustbpe", "tokenizers"]
    shared = {row["name"]: row["bytes"] for row in found["instances"]}
    assert shared["shared"] <= 1024 and shared["by_name"] <= 1024
    by_text = {claim["text"]: claim["holds"] for claim in found["claims"]}
    assert by_text["a second tokenizer that shares its vocabulary takes 1 KB at most"] is True
    assert by_text["a heap is 2 × as fast as a scan"] is None  # which was not run
    root = ElementTree.parse(plot).getroot()
    assert root.tag.endswith("svg")
    assert "5 native" in plot.read_text(encoding="utf-8")


def test_steps_that_are_none_are_refused():
    steps_of = values.numbers(1, 5)
    assert steps_of("4-5, 2,5") == [2, 4, 5]
    for wrong in ("0", "1-6", "3-2", "x", "1,,2", "", "-1", "²", "1-"):
        with pytest.raises(argparse.ArgumentTypeError, match="numbers from 1 to 5, such as 1-5"):
            steps_of(wrong)
    done = run("ladder", "encoding", "--steps", "1-6")
    assert done.returncode == 2
    assert "'1-6' is not made of numbers from 1 to 5" in done.stderr


def test_step_with_other_ids_has_no_time(tmp_path, monkeypatch):
    monkeypatch.setattr(fresh, "run", lambda *_: ({"ids_equal": False}, 0))
    with pytest.raises(LadderError, match="'heap' gives other ids than the reference"):
        steps.measure(steps.STEPS[2], tmp_path, 1, 1, 0, "")


def test_tables_show_figures_and_claims(results, capsys):
    ladder_encoding.show(results)
    shown = capsys.readouterr().out
    assert re.search(r"1 rebuild +500 ± 10 µs +480 … 520 µs +490 µs +600 +1.00 ×", shown)
    assert re.search(r"5 native +1.00 ± 0.02 µs .* 60,000 +500 × +500 × ", shown)
    assert re.search(r"optimized +60.0 ± 1.2 ms +25.00 × +134 B +120 ms, 1.95 ×, 1 KB", shown)
    assert "Mean ± σ of 10 runs after 3 to warm up" in shown
    assert "does not hold here" in shown


def test_claims_hold_by_their_figures(results):
    found = {claim.text: claim for claim in claims(results)}
    native_claim = "the native core encodes 1.95 × as fast as rustbpe, one call for each text"
    assert found[native_claim].measured == "25.0 × (1.00 µs and 25.0 µs)"
    assert found[native_claim].verdict == "holds"
    assert found["60,000 encodes take less than 120 ms"].verdict == "holds"
    slow = "training on 15,000 short texts to 2,048 entries takes less than 10.0 ms"
    assert found[slow].verdict == "does not hold here"
    assert found["a heap is 2 × as fast as a scan"].verdict == "not measured"
    assert {claim.holds for claim in claims(Results(1))} == {None}
    assert as_json(results)["steps"][0]["run"]["mean"] == pytest.approx(0.3)


def test_markdown_goes_between_the_marks_of_a_document(results, tmp_path, monkeypatch):
    monkeypatch.setattr(ladder_encoding, "climb", lambda made, *_: made.steps.extend(results.steps))
    monkeypatch.setattr(ladder_encoding, "show", lambda made: None)
    document = tmp_path / "page.md"
    marks = [ladder_encoding._BEGIN, ladder_encoding._END]
    document.write_text(f"before\n{marks[0]}\nearlier\n{marks[1]}\nbehind\n", encoding="utf-8")
    options = {"encodes": 60_000, "plot": None, "json": False, "markdown": str(document)}
    ladder_encoding.run(argparse.Namespace(**options))
    text = document.read_text(encoding="utf-8")
    assert text.startswith("before\n") and text.endswith("\nbehind\n")
    assert "earlier" not in text
    assert "| 1 rebuild | 500 ± 10 µs | 480 … 520 µs |" in text
    document.write_text("no marks", encoding="utf-8")
    with pytest.raises(LadderError, match="has no lines <!-- ladder-encoding:start -->"):
        ladder_encoding.run(argparse.Namespace(**options))


@pytest.fixture
def results() -> Results:
    def measured(step: steps.Step, each: float) -> steps.Measured:
        count = 60_000 // step.share
        time = Statistics(each, each / 50, each * 0.96, each * 1.04, each * 0.98, 10, 3)
        return steps.Measured(step, count, time * count, each * 10, 20.0, True)

    found = Results(60_000)
    found.steps = [
        measured(steps.STEPS[0], 500e-6),
        measured(steps.STEPS[4], 1e-6),
        measured(steps.MARKERS[1], 25e-6),
    ]
    found.training = [Trained("tokenmill", Statistics(0.011, 0, 0.01, 0.02, 0.01, 10, 3), 30.0)]
    found.instances = [Weighed("shared", "Tokenizer.load(tokenizer)", 134.0)]
    return found


# ── statistics and bars, which all ladders share ─────────────────────────────────────────────


def test_statistics_are_those_of_hyperfine():
    found = statistics.of([9.0, 1.0, 2.0, 3.0, 4.0], [9.0, 1.0, 1.0, 1.0, 1.0], warmup=1)
    assert (found.mean, found.min, found.max, found.processor) == (2.5, 1.0, 4.0, 1.0)
    assert found.sigma == pytest.approx((5 / 3) ** 0.5)
    assert (found.runs, found.warmup) == (4, 1)
    assert found.spread() == "2.50 ± 1.29 s"
    assert (found * 1e-3).span() == "1.00 … 4.00 ms"
    assert statistics.of([0.25], [0.2]).spread() == "250 ± 0 ms"
    with pytest.raises(ValueError, match="2 times with a warm-up of 2 leave none"):
        statistics.of([1.0, 1.0], [1.0, 1.0], 2)


def test_runs_are_counted_without_those_that_warm_up():
    calls = []
    found = statistics.measure(lambda: calls.append(1), runs=4, warmup=2)
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
    assert statistics.duration(seconds) == said


def test_bars_are_as_long_as_their_logarithms():
    drawn = bars.draw("a < b", [("x", 1.0, "one"), ("y", 100.0, "a hundred")], frozenset({"y"}))
    root = ElementTree.fromstring(drawn)
    lengths = [float(each.attrib["width"]) for each in root if each.tag.endswith("rect")][1:]
    assert 0 < lengths[0] < lengths[1]
    assert "a &lt; b" in drawn
    with pytest.raises(ValueError, match="above zero"):
        bars.draw("", [("x", 0.0, "")], frozenset())


def test_names_say_the_number_of_a_step(results):
    assert [report.name_of(row) for row in results.steps] == ["1 rebuild", "5 native", "rustbpe"]
