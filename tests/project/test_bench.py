"""The benchmarks run: a tiny sweep checks ids before speeds, renders and judges."""

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from conftest import FUZZ

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))

import comparison  # noqa: E402
import corpora  # noqa: E402
import corpus as corpus_bench  # noqa: E402
import corpus_systems  # noqa: E402
import documents  # noqa: E402
import generated  # noqa: E402
import goal_tables  # noqa: E402
import goals  # noqa: E402
import measure_training  # noqa: E402
import render  # noqa: E402
import render_training  # noqa: E402
import soak  # noqa: E402
import trainers  # noqa: E402
import training  # noqa: E402
import training_corpora  # noqa: E402
import training_goals  # noqa: E402
from jobs import Cell  # noqa: E402

import tokenmill  # noqa: E402
from tokenmill import Tokenizer  # noqa: E402


def row(system, job, metric, samples, corpus="en", threads=1):
    cell = asdict(Cell("o200k_base", job, corpus, threads))
    return {"system": system, "status": "ok", "metrics": {metric: {"samples": samples}}} | cell


def judged(rows, title, corpus="en"):
    return next(
        o
        for o in goals.judge(rows)
        if (o["goal"], o["vocabulary"], o["corpus"]) == (title, "o200k_base", corpus)
    )


def test_quick_sweep_checks_ids_and_renders_a_table(tmp_path):
    results = tmp_path / "quick.json"
    sweep = [sys.executable, str(ROOT / "bench" / "sweep.py"), "--quick", "--out", str(results)]
    sweep += ["--systems", "tokenmill,tiktoken,read_only"]
    # Each system and job is a process, and a large vocabulary takes a second to load.
    jobs = ["load", "array", "latency"] if FUZZ >= 100 else ["load", "array"]
    sweep += ["--jobs", ",".join(jobs)]
    if FUZZ < 100:
        sweep += ["--vocabularies", "r50k_base", "--megabytes", "0.02"]
    subprocess.run(sweep, check=True, capture_output=True, timeout=300)
    found = json.loads(results.read_text())
    assert found["complete"]
    assert {check["system"]: check["verdict"] for check in found["checks"]} == {
        "tokenmill": "ok",
        "tiktoken": "ok",
    }
    speeds = [row["metrics"] for row in found["rows"] if row["status"] == "ok"]
    assert len(speeds) == len(found["rows"]) == 3 * len(jobs)
    assert all(metric["median"] >= 0 for row in speeds for metric in row.values())
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- bench:start -->\noutdated\n<!-- bench:end -->\nafter\n")
    render = [sys.executable, str(ROOT / "bench" / "render.py"), "--results", str(results)]
    log = tmp_path / "LOG.md"
    blocks = ("goals", "encode", "calls", "losses")
    log.write_text("\n".join(f"<!-- {name}:start -->\n<!-- {name}:end -->" for name in blocks))
    render += ["--readme", str(readme), "--page", str(log), "--log", str(log)]
    subprocess.run(render, check=True, capture_output=True)
    assert "of 135; 134 have no figure" in log.read_text()  # the load needs no peer
    assert "not measured" in results.with_suffix(".md").read_text()
    rendered = readme.read_text()
    assert "tiktoken" in rendered
    assert "outdated" not in rendered
    assert rendered.startswith("before\n")
    assert rendered.endswith("after\n")


def test_goal_is_judged_by_the_median_of_the_ratios_of_the_rounds():
    ours = row("tokenmill", "array", "cold_mb_s", [300.0, 50.0, 250.0])
    theirs = row("gigatoken", "array", "cold_mb_s", [100.0, 10.0, 125.0, 1.0])
    found = judged([ours, theirs], "text → array, cold")
    assert (found["value"], found["low"], found["high"]) == (3.0, 2.0, 5.0)
    assert found["met"]
    assert not judged([theirs | {"system": "tokenmill"}, theirs], "text → array, cold")["met"]


def test_goal_that_asks_for_less_is_met_below_its_bar():
    theirs = row("gigatoken", "latency", "array_ns_20", [400.0], "mix")
    for nanoseconds, met in ((200.0, True), (201.0, False)):
        ours = row("tokenmill", "latency", "ns_20", [nanoseconds], "mix")
        assert judged([ours, theirs], "time of one call, 20 characters", "mix")["met"] is met
    load = row("tokenmill", "load", "first_ids_ms", [30.5], "")
    assert not judged([load], "ms to load and first ids", "")["met"]


def test_goal_without_a_figure_is_not_met_and_names_the_reason():
    ours = row("tokenmill", "array", "warm_mb_s", [300.0])
    assert judged([ours], "text → array, warm")["why"] == "not measured"
    theirs = ours | {"system": "gigatoken", "status": "ids differ", "metrics": {}}
    found = judged([ours, theirs], "text → array, warm")
    assert found["why"] == "gigatoken: ids differ"
    assert not found["met"]
    assert "gigatoken: ids differ" in goal_tables.unmet_text([found])


PARAGRAPHS = (ROOT / "README.md").read_text(encoding="utf-8").split("\n\n")


def test_generated_documents_are_new_and_the_same_each_time():
    model = generated.Model(PARAGRAPHS, 3)
    documents = list(model.documents(200_000))
    assert documents == list(generated.Model(PARAGRAPHS, 3).documents(200_000))
    assert documents != list(model.documents(200_000, seed=1))
    assert sum(len(d.encode()) for d in documents) == pytest.approx(200_000, rel=0.1)
    assert set("".join(documents)) <= set("".join(PARAGRAPHS))
    assert len(set(documents) - set(PARAGRAPHS)) > 100


def test_generated_documents_resemble_the_real_ones():
    header = (ROOT / "tests" / "data" / "code" / "sqlite3.h").read_text(encoding="utf-8")
    real = header.split("\n\n")
    made = generated.Model(real, 6).documents(len(header))
    found = generated.figures(list(made), str.split)
    for name, value in generated.figures(real, str.split).items():
        assert found[name] == pytest.approx(value, rel=0.1), name


def test_kind_distinguishes_english_code_and_others():
    assert (
        documents.kind("The mill is on the bank of a river, and was built for the grain.") == "en"
    )
    assert documents.kind("def f(x):\n    return {'a': x[0], 'b': g(x)}\n") == "code"
    assert documents.kind("Die Mühle steht am Ufer des Flusses und wurde für das Korn gebaut.") == (
        "other"
    )
    assert documents.kind("谷物在磨坊里磨成面粉。") == "other"
    assert documents.kind("") == "other"


def test_samples_of_a_text_are_spread_evenly():
    parts = [corpora.Part("a", ["a" * 10] * 30), corpora.Part("b", ["b" * 100])]
    parts.append(corpora.Part("none", []))
    spread = list(corpora._spread([*parts, corpora.Part("c", ["c"] * 3)]))
    assert [at for at, d in enumerate(spread) if d == "c"] == [2, 13, 24]
    assert corpora._listed(parts) == "a 0.0 MB, b 0.0 MB"


def test_texts_without_the_packed_data_are_installed_and_generated(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKENMILL_DATA", str(tmp_path))
    monkeypatch.setattr(corpora, "FOLDER", tmp_path)
    monkeypatch.setattr(corpora, "CORPUS_BYTES", 50_000)
    monkeypatch.setattr(corpora, "installed", lambda patterns: iter([patterns[0] * 9_000]))
    info = {name: corpora.prepare(name) for name in ("en", "en-real", "code", "mix", "zh")}
    assert info["en"]["source"].startswith("documents of installed packages 0.0 MB, generated")
    assert info["en"]["bytes"] >= 50_000 > info["en-real"]["bytes"] == len("*.md") * 9_000
    assert info["mix"]["source"] == "documents and sources of installed packages"
    assert info["zh"]["bytes"] == 0
    assert corpora.prepare("en") == info["en"]
    seen, unseen = (sum(map(len, x)) for x in vars(corpora.read("en", 0.001)).values())
    assert seen >= 1_000
    assert unseen >= 111
    monkeypatch.setattr(corpora, "CORPUS_BYTES", 60_000)
    assert corpora.prepare("en")["bytes"] >= 60_000  # another size, so it is made again


def test_real_documents_alone_are_shown_but_not_counted():
    rows = [
        row(system, "array", "cold_mb_s", [speed], "zh-real")
        for system, speed in (("tokenmill", 300.0), ("gigatoken", 10.0))
    ]
    counted, real = goals.judge(rows), goals.judge(rows, goals.REAL_GOALS)
    assert not any("value" in outcome for outcome in counted)
    assert [o["value"] for o in real if "value" in o] == [30.0]
    shown = goal_tables.full(counted, real)
    assert "30.0 ✓" in shown
    assert "Goals met: 0 of 135; 135 have no figure." in shown
    assert "-real" not in goal_tables.full(counted, goals.judge([], goals.REAL_GOALS))


def test_documents_show_the_measured_results(tmp_path, monkeypatch):
    names = ("README.md", "docs/performance.md", "bench/LOG.md", "docs/scaling.md")
    paths = {name: tmp_path / Path(name).name for name in names}
    for name, copy in paths.items():
        copy.write_text((ROOT / name).read_text("utf-8"), "utf-8")
    readme, page, log, runs = map(str, paths.values())
    out = str(tmp_path / "encode.md")
    shutil.copy(ROOT / "bench/results/training.json", tmp_path)
    monkeypatch.setattr(corpus_bench, "PAGE", Path(runs))
    for module, arguments in (
        (render, ["--readme", readme, "--page", page, "--log", log, "--out", out]),
        (
            render_training,
            ["--results", str(tmp_path / "training.json"), "--page", page, "--log", log],
        ),
        (corpus_bench, ["--render"]),
    ):
        monkeypatch.setattr(sys, "argv", ["render", *arguments])
        module.main()
    for name, copy in paths.items():
        assert copy.read_text("utf-8") == (ROOT / name).read_text("utf-8"), name
    for name in ("encode.md", "training.md"):
        assert (tmp_path / name).read_text() == (ROOT / "bench/results" / name).read_text(), name


def test_comparison_in_the_readme_has_the_pinned_versions():
    """`make comparison` compares its cells. Here a change of a pin alone fails."""
    heads = re.search(r"^\| +\| (tokenmill .*) \|$", (ROOT / "README.md").read_text("utf-8"), re.M)
    pins = (ROOT / "bench/requirements.txt").read_text("utf-8").lower()
    versions = [head.lower().split() for head in heads.group(1).split(" | ")]
    assert [name for name, _ in versions] == [each.lower() for each in comparison.LIBRARIES]
    assert versions[0][1] == tokenmill.__version__
    assert [f"{name}=={version}" in pins for name, version in versions[1:]] == [True] * 4


def test_trial_of_the_comparison_works_if_it_returns_a_result():
    def fails() -> list[int]:
        raise NotImplementedError

    trials = {"a": lambda: [1], "b": fails, "c": list, "d": lambda: None, "e": lambda: "x"}
    assert comparison.listed(trials) == "a, e"
    assert comparison.listed({"b": fails}) == comparison.NONE


def test_comparison_stops_at_a_name_that_may_be_the_feature(monkeypatch):
    assert comparison.words_of("StreamSession.encode_batch") == {
        *("stream", "session", "encode", "batch"),
    }
    monkeypatch.setattr(comparison, "LIBRARIES", {"tokenmill": "tokenmill"})
    with pytest.raises(SystemExit, match=r"tokenmill has .*Session"):
        comparison.by_names("ids of a growing text")


def test_loss_is_divided_by_the_figure_of_the_peer():
    assert render.worse("grown_mb", 66.0, 0.06) == pytest.approx(1100)
    assert render.worse("grown_mb", 66.0, 0.0) == float("inf")
    assert render.worse("grown_mb", 1.9, 0.1) == 0  # noise of the allocator
    assert render.worse("warm_mb_s", 100.0, 150.0) == 1.5
    assert render.loss("grown_mb", 66.0, 0.06) == "65.9 MB more"
    assert render.loss("warm_mb_s", 100.0, 150.0) == "1.50 times"


def test_best_figure_is_bold_only_if_it_was_repeated():
    def cell(*samples):
        metric = {"median": samples[0], "samples": [*samples]}
        return {"metrics": {"cold_mb_s": metric}}

    for samples, bold in (((9.0,), "9.0"), ((9.0, 9.0), "**9.0**")):
        peers = {"tokenmill": cell(*samples), "gigatoken": cell(5.0)}
        assert render.figures(peers, peers["tokenmill"], ("cold_mb_s",)) == bold


def test_soak_text_is_new_and_valid():
    source = soak.Source(["grain and mill ", "谷物磨坊, สวัสดี 🌾"] * 200)
    blocks = [source.block(40_000) for _ in range(3)]
    assert all(b"".join(pieces).decode() for pieces in blocks)
    assert sum(map(len, blocks[0])) == pytest.approx(40_000, rel=0.1)
    words = [set(b"".join(pieces).split()) for pieces in blocks]
    assert len(words[2] - words[1] - words[0]) > 100
    again = soak.Source(["grain and mill ", "谷物磨坊, สวัสดี 🌾"] * 200)
    assert again.block(40_000) == blocks[0]


def test_soak_compares_every_call_with_the_oracle():
    tokenizer = Tokenizer.load("r50k_base")
    pieces = soak.Source(["grain and mill, 谷物磨坊"] * 200).block(20_000)
    oracle = lambda text: tokenizer.encode_with_offsets(text)[0]  # noqa: E731
    for call, threads in soak.TURNS:
        got = soak.CALLS[call](tokenizer, pieces, threads)
        assert soak.is_right(call, got, pieces, oracle), call
        assert not soak.is_right(call, got, pieces, lambda text: [*oracle(text), 0]), call


def test_soak_fails_when_memory_grows_or_a_cache_is_too_large():
    run = soak.Soak(Tokenizer.load("r50k_base"), soak.Source(["mill"]), len)
    run.reports = [soak.Report(n, megabytes, 1.0, 1) for n, megabytes in enumerate((50, 90, 95))]
    assert run.grown_mb == 5
    assert list(run.failures(cache_mb=0.0)) == []
    run.reports.append(soak.Report(3, 99.0, 1.0, 1))
    assert "grew by 9.0 MB" in next(run.failures(cache_mb=0.0))
    run.reports.clear()
    run.wrong.append("block 25: count on 2 threads")
    failures = list(run.failures(cache_mb=1e6))
    assert failures[0] == "other ids than expected: block 25: count on 2 threads"
    assert "the caches hold 1000000.0 MB; their limit is" in failures[1]


TEXT = (
    "The mill grinds grain, and the miller's flour is ground finely.\nMehl für Brot, 谷物。\n" * 300
)


def test_generated_training_text_is_the_same_each_time_and_has_new_words():
    data = TEXT.encode()
    blocks = list(training_corpora.generated(data, 200_000))
    assert blocks == list(training_corpora.generated(data, 200_000))
    text = b"".join(blocks).decode()
    assert len(text.encode()) == pytest.approx(200_000, abs=8)
    new = Counter(text.split()) - Counter(dict.fromkeys(TEXT.split(), 10**9))
    assert 100 < len(new) < 0.5 * new.total()  # some of them come again
    assert set("".join(new)) <= set(TEXT)


def test_pretoken_counts_have_the_requested_sizes():
    words, lengths, counts = training_corpora.pretoken_counts(20_000, 1_000_000)
    found = words.split(b" ")[1:]
    assert len(set(found)) == len(found) == len(lengths) == len(counts) == 20_000
    assert [len(word) + 1 for word in found] == lengths.tolist()
    assert int(counts.sum()) == 1_000_000
    assert counts.min() >= 1
    assert counts[0] > counts[100] > counts[10_000]
    text = b"".join(training_corpora.zipf_text(20_000, 90_000)).split(b" ")[1:]
    assert set(text) == set(found)
    assert len(text) == 90_000


def test_trainers_of_one_rule_learn_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(training_corpora, "FOLDER", tmp_path)
    (tmp_path / "10MB.txt").write_text(training_corpora.END.join([TEXT, "grain " * 90]), "utf-8")
    rules = {"rustbpe": "rustbpe", "ffbpe": "rustbpe", "bpeasy": "rustbpe"}
    rules |= {"tokenizers": "tokenizers", "sentencepiece": None}
    digests: dict[str | None, set[str]] = {}
    for name, rule in rules.items():
        result = measure_training.run(trainers.TRAINERS[name](), "10MB", 300, 2, "")
        assert result["status"] == "ok", name
        assert result["tokens"] == (300 - 257 if rule else result["tokens"]), name
        digests.setdefault(rule, set()).add(result["digest"])
    assert {rule: len(found) for rule, found in digests.items()} == dict.fromkeys(digests, 1)


def training_row(system, text, *seconds, **more):
    row = {"system": system, "text": text, "threads": 2, "status": "ok", "vocab_size": 32_000}
    row |= {"seconds": seconds, "peak_mb": [150.0], "digest": "a", "version": "1", "how": "train"}
    return row | more


def test_training_goal_compares_medians_and_names_missing_figures():
    rows = [training_row("tokenmill, file", "100MB", 9.0, 1.0, 0.9)]
    rows += [training_row("gigatoken", "100MB", 12.4), training_row("rustbpe", "100MB", 24.9)]
    found = {o["goal"]: o for o in training_goals.judge(rows, {})}
    assert found["100MB: times as fast as gigatoken"]["value"] == 12.4
    assert found["100MB: times as fast as gigatoken"]["met"]
    assert not found["100MB: times as fast as rustbpe"]["met"]
    assert found["100MB: MB above the text"]["met"]
    assert "value" not in found["100MB: times as fast as tokenizers"]
    limits = {"limited": {"peak_mb": 590.0, "seconds": 9.0}, "unlimited": {"seconds": 2.0}}
    bounded = [o for o in training_goals.judge([], {"zipf": limits}) if "value" in o]
    assert [(o["value"], o["met"]) for o in bounded] == [(590.0, True), (4.5, False)]


def test_trainer_that_learned_something_else_has_no_speed(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "MEMORY_RESULTS", tmp_path / "none.json")
    sweep = training.Sweep(argparse.Namespace(out=tmp_path / "x.json"))
    ours = training_row("tokenmill, file", "100MB", 1.0, digest="b")
    theirs = training_row("tokenizers", "100MB", 50.0)
    sweep.rows = {(r["system"], "100MB", 2): r for r in (ours, theirs)}
    sweep.compare(theirs)  # measured after ours
    assert ours["status"] == "merges differ from tokenizers"
    sweep.write()
    results = json.loads((tmp_path / "x.json").read_text("utf-8"))
    shown = render_training.full(results)
    assert "merges differ from tokenizers" in shown
    assert "0 of 14" in render_training.verdict(results)


def test_a_corpus_run_with_other_ids_has_no_speed():
    documents = [np.array(ids, np.uint32) for ids in ([1, 2], [], [3])]
    expected = np.array(list(map(corpus_bench.hash_ids, documents)), np.uint64)
    corpus_bench.compare(expected.copy(), expected)
    with pytest.raises(SystemExit, match="2 documents instead of 3"):
        corpus_bench.compare(expected[:2], expected)
    for other in (documents[::-1], [documents[0], documents[2], documents[2]]):
        found = np.array(list(map(corpus_bench.hash_ids, other)), np.uint64)
        with pytest.raises(SystemExit, match="documents have other ids; the first is"):
            corpus_bench.compare(found, expected)
    ids = np.array([1, 2, corpus_systems.EOS, corpus_systems.EOS, 3], np.uint32)
    assert [list(one) for one in corpus_systems.split(ids[:4], [3, 1])] == [[1, 2], []]
    for lengths in ([3], [3, 2], [2, 2]):
        with pytest.raises(AssertionError, match=r"without EOS|behind the last"):
            list(corpus_systems.split(ids, lengths))
