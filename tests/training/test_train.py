"""Sources → tokenizers: the same vocabulary from every kind of source, and all errors.

Tests of training/counting.py, training/numbering.py, training/options.py, training/report.py and
training/train.py.
"""

from __future__ import annotations

import inspect
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import training_reference
from conftest import SEED, sample, write_ranks
from trained import TEXTS, count, expected, raises, tokens, train, write_files

import tokenmill
from tokenmill import Tokenizer, TrainingWarning, formats
from tokenmill.cli.app import every_parser, make_parser
from tokenmill.errors import InputError, TrainingError
from tokenmill.options import table
from tokenmill.patterns.schemes import pattern_of
from tokenmill.training.options import READ_DEFAULTS, TrainOptions

# A process that trains on one str, and prints the bytes of its peak memory that are added.
ONE_TEXT = """
import sys
import tokenmill
def peak():
    status = dict(line.split(":") for line in open("/proc/self/status"))
    return int(status["VmHWM"].split()[0]) * 1024
text = "the mill grinds the meal. " * 1_500_000 + sys.argv[1]
tokenmill.train_from_iterator(["warm up"], 257)
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before = peak()
tokenmill.train_from_iterator([text], 260)
print(peak() - before)
"""


@pytest.fixture(scope="module")
def want() -> dict[int, bytes]:
    return expected()


@pytest.fixture
def files(tmp_path):
    return write_files(tmp_path / "files")


def test_native_tokenizer_is_built_at_the_first_use(tmp_path, monkeypatch):
    built = []
    build = formats.build.build
    monkeypatch.setattr(formats.build, "build", lambda spec: built.append(spec) or build(spec))
    for trainer in ("tokenizers", "sentencepiece"):
        tokenizer = tokenmill.train_from_iterator(
            ["the mill mills the meal"] * 9, 280, trainer=trainer, special_tokens=["<s1>"]
        )
        tokenizer.save(tmp_path / "tokenizer.json")
        size = tokenizer.vocab_size
        copy = pickle.loads(pickle.dumps(tokenizer))
        assert not built
        with pytest.raises(AttributeError, match="'Tokenizer' object has no attribute 'nothing'"):
            tokenizer.nothing  # noqa: B018
        assert tokenizer.decode(tokenizer.encode("the mill")) == "the mill"
        assert type(tokenizer) is Tokenizer  # whose attributes are faster
        assert tokenizer.count("the mill") > 0
        assert len(built) == 1
        loaded = Tokenizer.load(tmp_path / "tokenizer.json")
        assert (size, loaded.vocab_size) == (tokenizer._core.ids_end(),) * 2
        assert copy == tokenizer
        built.clear()


# ── every source gives the same vocabulary ───────────────────────────────────────────────────


def test_texts_paths_columns_and_counts_give_the_same_vocabulary(files, tmp_path, want):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    pq.write_table(pa.table({"text": TEXTS}), tmp_path / "rows.parquet")
    count(TEXTS, tmp_path / "counts.tmc", pattern="r50k")
    halves = [tmp_path / "one.tmc", tmp_path / "two.tmc"]
    for path, texts in zip(halves, (TEXTS[:3], TEXTS[3:]), strict=True):
        count(texts, path, pattern="r50k")
    sources = {
        "list": TEXTS,
        "iterator": iter(TEXTS),
        "bytes": [text.encode() for text in TEXTS],
        "column": pa.array(TEXTS),
        "glob": str(files / "*.txt"),
        "paths": sorted(files.iterdir()),
        "rows": rows,
        "parquet": tmp_path / "rows.parquet",
        "counts": tmp_path / "counts.tmc",
        "two counts": halves,
        "counts and text": [halves[0], *sorted(files.iterdir())[3:]],
    }
    for name, source in sources.items():
        assert tokens(train(source)) == want, name


def test_mapping_of_counts_is_a_source():
    counts = {" the": 5, b" mill": 3, "mills": 4, "x": 2**40}
    trained = training_reference.train(
        {k.encode() if isinstance(k, str) else k: v for k, v in counts.items()}, 262, "rustbpe"
    )
    got = tokens(train(counts, vocab_size=262))
    assert got == {id: token for token, id in trained.tokens.items()}


@pytest.mark.parametrize("trainer", training_reference.TRAINERS)
def test_result_does_not_depend_on_threads_or_batches(trainer, monkeypatch):
    want = expected(trainer=trainer) if trainer != "tokenizers" else None
    for threads in (1, 2, 5):
        got = tokens(train(iter(TEXTS), trainer=trainer, threads=threads))
        want = want or got
        assert got == want


def test_result_does_not_depend_on_order_or_memory(files, want, monkeypatch):
    shuffled = random.Random(SEED).sample(TEXTS, len(TEXTS))
    assert tokens(train(shuffled)) == want
    monkeypatch.setattr("tokenmill.training.counting._TABLES_SHARE", 0)  # every batch is spilled
    monkeypatch.setattr("tokenmill.training.counting._BATCH_BYTES_MIN", 1_000)
    monkeypatch.setattr("tokenmill.training.options._MEMORY_MIN", 1)
    for memory in (48_000, 1 << 27):
        assert tokens(train(str(files / "*.txt"), memory=memory)) == want


def test_text_file_in_many_blocks_counts_as_the_whole(tmp_path, monkeypatch):
    path = tmp_path / "all.txt"
    path.write_text("\n".join(TEXTS))
    monkeypatch.setattr("tokenmill.training.counting._BATCH_BYTES_MIN", 1_000)
    monkeypatch.setattr("tokenmill.training.options._MEMORY_MIN", 1)
    for pattern in sample(("r50k", "cl100k", "o200k", "qwen2", "tekken", r"\w+\s?|\W")):
        want = expected([path.read_bytes()], pattern=pattern)
        assert tokens(train(path, pattern=pattern, memory=96_000)) == want, pattern


def test_weights_multiply_counts(tmp_path):
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text(TEXTS[0])
    two.write_text(TEXTS[1])
    got = tokens(train([one, two], weights={two: 3}))
    assert got == expected([TEXTS[0], *[TEXTS[1]] * 3])
    tokenmill.count_pretokens([one, two], tmp_path / "c.tmc", pattern="r50k", weights={two: 3})
    assert tokens(train(tmp_path / "c.tmc")) == got
    # A share is rounded, half of one up: 0.5 leaves what occurs once, and 0.25 does not.
    text = tmp_path / "text.txt"
    text.write_text("once twice twice thrice thrice thrice")
    for weight, total in ((0.5, 1 + 1 + 2), (0.25, 0 + 1 + 1)):
        summary = tokenmill.count_pretokens(text, tmp_path / "w.tmc", weights={text: weight})
        assert summary.total == total
    assert tokenmill.count_pretokens(text, tmp_path / "w.tmc", weights={text: 2}).total == 12


def test_sample_trains_on_the_documents_that_it_takes():
    texts = [f"{text} {i}" for i, text in enumerate(TEXTS * 20)]
    kept = tokens(train(texts, sample=0.5, seed=3))
    assert kept == tokens(train(texts[::-1], sample=0.5, seed=3, threads=2))
    assert kept != tokens(train(texts, sample=0.5, seed=4))


# ── sizes, ids, special tokens ────────────────────────────────────────────────────────────────────


def test_several_sizes_come_from_one_run(files, want):
    small, large, middle = tokenmill.train_sizes(
        files / "*.txt", [300, 500, 400], special_tokens=["<s>"], pattern="r50k", trainer="rustbpe"
    )
    assert [t.vocab_size for t in (small, large, middle)] == [300, 500, 400]
    for tokenizer in (small, middle, large):
        one = train(TEXTS, vocab_size=tokenizer.vocab_size, special_tokens=["<s>"])
        assert one == tokenizer
        assert tokenizer.special_tokens == {"<s>": tokenizer.vocab_size - 1}


def test_ids_are_those_of_the_library():
    hugging = train(TEXTS, trainer="tokenizers", special_tokens=["<s>", "</s>"], vocab_size=300)
    assert hugging.special_tokens == {"<s>": 0, "</s>": 1}
    assert hugging.id_to_token(2) == b"!"
    assert hugging.vocab_size == 300
    for trainer in ("rustbpe", "cs336", "minbpe"):
        other = train(TEXTS, trainer=trainer, special_tokens=["<s>", "</s>"], vocab_size=300)
        assert [other.id_to_token(byte) for byte in (0, 33, 255)] == [b"\0", b"!", b"\xff"]
        assert other.special_tokens == {"<s>": 298, "</s>": 299}


def test_new_trainer_is_one_row_of_the_table():
    """A row makes the option, the help and the rules. The process inserts it before the import."""
    program = """
from tokenmill.training.merging import TRAINERS, Trainer
TRAINERS["mine"] = Trainer("bytes", special_tokens_first=True)
import tokenmill
from tokenmill.cli.app import main
made = tokenmill.train_from_counts({"ab": 2, "yz": 2}, 258, trainer="mine", special_tokens=["<s>"])
print(made.token_to_id("<s>"), made.token_to_id("yz"))
main(["train", "--help"])
"""
    command = [sys.executable, "-c", program]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown.startswith("0 257\n")
    assert "mine" in shown.split("--trainer", 1)[1]


def test_document_ends_at_the_separator(tmp_path):
    documents = ["ab ab", " cd\n", "\n\nab cd", "", "x <|end|" * 3, "abab" * 9]
    path = tmp_path / "text.txt"
    path.write_text("<|end|>".join(documents))
    for trainer in ("tokenizers", "cs336", "minbpe"):
        options = {"trainer": trainer, "special_tokens": ["<|s|>"], "vocab_size": 280}
        expected = tokens(train(documents, **options))
        assert tokens(train(path, separator="<|end|>", **options)) == expected
        assert tokens(train(path, **options)) != expected
    counts = tmp_path / "counts.tmc"
    tokenmill.count_pretokens(path, counts, separator="<|end|>", pattern="r50k")
    assert tokens(train(counts, vocab_size=280)) == tokens(train(documents, vocab_size=280))
    with pytest.raises(tokenmill.TokenmillError, match="separator must be a non-empty str"):
        train(path, vocab_size=300, separator="")
    with pytest.raises(TrainingError, match="separator must be a non-empty str, got b'x'"):
        train(path, vocab_size=300, separator=b"x")
    with pytest.raises(tokenmill.TokenmillError, match="separator='x' is not supported"):
        tokenmill.train(path, vocab_size=300, separator="x", trainer="sentencepiece")


def test_special_tokens_split_documents_only_for_cs336():
    texts = ["ab<|x|>ab" * 50]
    assert (
        b"<|"
        in tokens(
            train(texts, trainer="rustbpe", special_tokens=["<|x|>"], vocab_size=262)
        ).values()
    )
    got = tokens(train(texts, trainer="cs336", special_tokens=["<|x|>"], vocab_size=258))
    assert list(got.values())[256:] == [b"ab", b"<|x|>"]


def test_too_small_vocab_size_is_rejected(files):
    with raises(TrainingError, "vocab_size=256", "256 bytes and 2 special tokens", "258 or more"):
        train(TEXTS, vocab_size=256, special_tokens=["a", "b"])
    with raises(TrainingError, "vocab_size=100"):
        tokenmill.train_sizes(files / "*.txt", [1_000, 100])
    assert train(TEXTS, vocab_size=256).vocab_size == 256
    assert train(["ab ab"], vocab_size=4, initial_alphabet="seen").vocab_size == 4


def test_too_few_merges_raise_a_warning():
    with pytest.warns(TrainingWarning, match=r"only 2 merges.* has 258 tokens instead of 1_000"):
        tokenizer = train(["aaa aaa"], vocab_size=1_000, pattern=r"\w+")
    assert tokenizer.vocab_size == 258
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(TEXTS)


def test_extended_vocabulary_keeps_its_ids(tmp_path, want):
    base = train(TEXTS, vocab_size=300, special_tokens=["<s>"])
    for extend in (base, tmp_path / "base.tokenmill"):
        base.save(tmp_path / "base.tokenmill")
        grown = tokenmill.train_from_iterator(
            TEXTS, vocab_size=400, extend=extend, trainer="rustbpe", special_tokens=["<x>"]
        )
        assert grown.vocab_size == 400
        assert grown.special_tokens == {"<s>": 299, "<x>": 399}
        assert [grown.id_to_token(id) for id in range(300)] == [
            base.id_to_token(id) for id in range(300)
        ]
        # The new tokens are those of a run without `extend`.
        assert [grown.id_to_token(id) for id in range(300, 399)] == [
            want[id] for id in range(299, 398)
        ]
    with raises(TrainingError, "pattern='cl100k' is not the pattern"):
        train(TEXTS, extend=base, pattern="cl100k", vocab_size=400)
    with raises(TrainingError, "vocab_size=200", "300 ids", "1 new", "pass 301 plus the number"):
        train(TEXTS, extend=base, vocab_size=200, special_tokens=["<x>"])


def test_tokenizer_that_cannot_be_extended_is_described(tmp_path):
    for name, trainer, kind in (
        ("base.json", "rustbpe", "file has a list of merges"),
        ("base.model", "sentencepiece", "tokens consist of characters"),
    ):
        base = tmp_path / name
        train(TEXTS, vocab_size=2_000, trainer=trainer, pattern=None).save(base)
        hint = "pass a name such as gpt2, a .tiktoken file, or a .tokenmill file of train"
        with raises(TrainingError, f"cannot extend base, whose {kind}; {hint}"):
            train(TEXTS, extend=base, pattern=None)


# "Ġ" is how `tokenizers` writes a space: a special token shares the id of a byte or learned token.
@pytest.mark.filterwarnings("ignore::tokenmill.TrainingWarning")
@pytest.mark.parametrize("special_token", ["Ġthe", "Ġ", "th"])
@pytest.mark.parametrize("trainer", ["tokenizers", "rustbpe"])
def test_extended_vocabulary_may_share_ids_with_special_tokens(tmp_path, special_token, trainer):
    texts = ["the mill mills the meal the the the "] * 9

    def learn(size: int, **options: Any) -> Tokenizer:
        return tokenmill.train_from_iterator(texts, vocab_size=size, **options)

    options = {"trainer": "tokenizers", "special_tokens": [special_token]}
    learn(261, **options).save(tmp_path / "base.tokenmill")
    grown = learn(266, trainer=trainer, extend=tmp_path / "base.tokenmill")
    want = learn(266, **options)
    assert (grown._merges(), grown._tokens()) == (want._merges(), want._tokens())
    assert grown.special_tokens == want.special_tokens == {special_token: 0}


def test_rank_file_without_all_bytes_can_be_extended(tmp_path):
    path = write_ranks(tmp_path / "few.tiktoken", [b"a", b"b", b"ab", b" a"])  # and no b" "
    options = {"extend": path, "pattern": r"\w+", "vocab_size": 5}
    grown = tokenmill.train_from_iterator(["abab abab"], **options)
    assert grown._merges() == [(b"a", b"b"), (b"ab", b"ab")]


def test_embedded_vocabulary_can_be_extended():
    base = Tokenizer.load("r50k_base")
    text = "tokenmillery tokenmillery zyxwvut zyxwvut " * 20
    grown = tokenmill.train_from_iterator([text], vocab_size=50_262, extend="gpt2")
    assert grown.vocab_size == 50_262
    assert grown.count(text) < base.count(text)
    assert grown.encode("hello world") == base.encode("hello world")
    assert grown.decode(grown.encode(text)) == text


def test_trained_tokenizer_is_equal_after_save_and_load(tmp_path, want):
    tokenizer = train(TEXTS, special_tokens=["<s>"])
    tokenizer.save(tmp_path / "a.tokenmill")
    again = Tokenizer.load(tmp_path / "a.tokenmill")
    assert again == tokenizer == pickle.loads(pickle.dumps(tokenizer))
    for name in ("tokenizer.json", "vocab.json", "merges.txt", "x.tiktoken"):
        tokenizer.save(tmp_path / name)
        first = (tmp_path / name).read_bytes()
        again.save(tmp_path / name)
        assert (tmp_path / name).read_bytes() == first


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
@pytest.mark.parametrize("last", ["", "\u00e9", "\u4e2d", "\U0001f600"], ids=ascii)
def test_one_long_text_is_copied_once(last):
    """A str with a wide character has up to four bytes for each, and its UTF-8 has one."""
    command = [sys.executable, "-c", ONE_TEXT, last]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 1.2 * 1_500_000 * 26


def test_limits_of_frequency_and_length():
    assert max(map(len, tokens(train(TEXTS, max_token_length=4)).values())) == 3
    few = train(TEXTS, vocab_size=5_000, min_frequency=200)
    assert 256 < few.vocab_size < 1_000


# ── trace and report ─────────────────────────────────────────────────────────────────────────


def test_trace_has_a_line_for_each_merge(tmp_path):
    path = tmp_path / "trace.jsonl"
    tokenizer = train(TEXTS, trace=path)
    head, *merges = [json.loads(line) for line in path.read_text().splitlines()]
    assert head["merges"] == len(merges) == 244
    assert head["exactness_check"]["min_tracked_count"] <= merges[-1]["count"]
    for merge in merges:
        token = bytes.fromhex(merge["hex"])
        assert tokenizer.id_to_token(merge["id"]) == token
        assert tokenizer.id_to_token(merge["left"]) + tokenizer.id_to_token(merge["right"]) == token
    counts = [merge["count"] for merge in merges]
    assert counts == sorted(counts, reverse=True)


def test_report_counts_the_tokens_of_each_source(files, tmp_path, want):
    path = tmp_path / "report.json"
    tokenizer = train(str(files / "*.txt"), report=path)
    assert tokens(tokenizer) == want
    report = json.loads(path.read_text())
    assert report["vocab_size"] == 500
    assert sum(report["token_lengths"].values()) == 500
    for file in sorted(files.iterdir()):
        figures = report["sources"][str(file)]
        assert figures["bytes"] == file.stat().st_size
        assert figures["tokens"] == tokenizer.count(file.read_bytes())
    used = Counter(id for file in files.iterdir() for id in tokenizer.encode(file.read_bytes()))
    for token in report["tokens"]:
        assert sum(token["used"].values()) == used[token["id"]]


# ── mistakes ─────────────────────────────────────────────────────────────────────────────────


def test_inputs_without_text_are_rejected(tmp_path):
    (tmp_path / "empty.txt").write_text("")
    for source in ([], [""], tmp_path / "empty.txt", {}, iter(())):
        with raises(InputError, "no text"):
            train(source)
    with raises(InputError, "no text"):
        tokenmill.count_pretokens(tmp_path / "empty.txt", tmp_path / "c.tmc")
    assert not (tmp_path / "c.tmc").exists()


def test_truncated_file_raises_an_error(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"some words " * 4_000_000)

    def cut(_):
        os.truncate(path, 1000)

    with raises(InputError, "text.txt", "had 44,000,000 bytes", "cut while it was read"):
        tokenmill.train(path, vocab_size=300, progress=cut, memory=64 << 20)


def test_huge_numbers_are_limited(files):
    for options in ({"memory": 2**70}, {"max_token_length": 2**70}):
        assert train(str(files / "*.txt"), **options).vocab_size == 500
    with pytest.warns(TrainingWarning, match="min_frequency"):
        assert train(str(files / "*.txt"), min_frequency=2**70).vocab_size == 256


def test_incompatible_options_are_rejected(tmp_path, files):
    every = str(files / "*.txt")
    count(TEXTS, tmp_path / "c.tmc", pattern="r50k")
    for options, *parts in (
        ({"trainer": "nobody"}, "trainer", "tokenizers", "'nobody'"),
        ({"initial_alphabet": "x"}, "initial_alphabet", "seen", "'x'"),
        ({"trainer": "minbpe", "weights": {every: 2}}, "minbpe", "weights"),
        ({"trainer": "minbpe", "resume": tmp_path / "r"}, "minbpe", "resume"),
        ({"trainer": "minbpe", "report": tmp_path / "r"}, "minbpe", "report"),
        ({"sample": 0}, "sample", "0"),
        ({"sample": 1.5}, "sample", "1.5"),
        ({"input_format": "odd"}, "input_format", "jsonl", "'odd'"),
        ({"vocab_size": 2**31}, "vocab_size", "at most 2_096_895"),
        ({"separator": "\ud800"}, "separator", "ud800"),
        ({"resume": files / "00.txt"}, "resume", "folder"),
    ):
        with raises(TrainingError, *parts):
            train(every, **options)
    with raises(TrainingError, "sizes", "at least one"):
        tokenmill.train_sizes(every, [])
    with raises(TrainingError, "minbpe", "counts"):
        train(tmp_path / "c.tmc", trainer="minbpe")
    with raises(TrainingError, "sample", "counts"):
        train(tmp_path / "c.tmc", sample=0.5)
    with raises(TrainingError, "c.tmc", "counted with pattern"):
        train(tmp_path / "c.tmc", pattern="cl100k")
    assert tokenmill.train(tmp_path / "c.tmc", vocab_size=300).pattern == pattern_of("r50k")


def test_wrong_types_are_named_in_errors():
    for options, *parts in (
        ({"vocab_size": "500"}, "vocab_size", "'500'"),
        ({"vocab_size": 1.5}, "vocab_size", "1.5"),
        ({"extend": 5}, "extend", "5"),
        ({"tie": 5}, "unknown option 'tie'"),
    ):
        with raises(TypeError, *parts):
            train(TEXTS, **options)
    for options, *parts in (
        ({"pattern": 5}, "pattern", "5"),
        ({"special_tokens": "<s>"}, "special_tokens", "<s>"),
        ({"special_tokens": {"<s>": 5000}}, "special_tokens", "<s>"),
        ({"weights": 3}, "weights", "3"),
        ({"weights": {"texts": -1}}, "weights", "above 0", "-1"),
        ({"min_frequency": "2"}, "min_frequency", "'2'"),
        ({"max_token_length": 2.5}, "max_token_length", "2.5"),
        ({"threads": "2"}, "threads", "'2'"),
        ({"memory": "2XB"}, "memory", "'2XB'"),
        ({"seed": -1}, "seed", "-1"),
        ({"trace": 5}, "trace", "a path, got 5"),
        ({"on_error": "quarantine"}, "on_error must be one of fail, skip"),
    ):
        with raises(TrainingError, *parts):
            train(TEXTS, **options)
    for inputs in (b"a.txt", 5, ["a.txt", 5]):
        with raises(TypeError, "input", "must be a path"):
            tokenmill.train(inputs, 300)
    for texts in ("a text", b"a text"):
        with raises(TypeError, "expected a list of texts", "[text]"):
            tokenmill.train_from_iterator(texts, 300)
    with raises(TypeError, "texts must be", "train_from_counts"):
        tokenmill.train_from_iterator({"a": 1}, 300)
    with raises(TypeError, "counts must be a mapping"):
        tokenmill.train_from_counts(["a"], 300)
    for counts in ({5: 1}, {"a": "b"}, {"a": 1.5}):
        with pytest.raises(TypeError):
            train(counts)
    for value in (-1, 2**64):
        with pytest.raises(ValueError, match="count of 'a'"):
            train({"a": value})


def test_invalid_counts_file_is_named_in_the_error(tmp_path):
    path = tmp_path / "c.tmc"
    path.write_text("not counts")
    with raises(ValueError, "c.tmc"):
        train(path)


def test_failed_source_leaves_no_files(tmp_path):
    def texts():
        yield "some text"
        raise RuntimeError("the source is broken")

    before = set(tmp_path.iterdir())
    with pytest.raises(RuntimeError, match="broken"):
        train(texts())
    assert set(tmp_path.iterdir()) == before


def test_interrupt_ends_counting_and_merging(tmp_path):
    code = (
        "import tokenmill, sys\n"
        "def texts():\n"
        "    print('begun', flush=True)\n"
        "    while True: yield 'grain and tokens ' * 1000\n"
        "tokenmill.train_from_iterator(texts(), vocab_size=300)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout.readline() == b"begun\n"
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    assert b"KeyboardInterrupt" in child.communicate(timeout=30)[1]


def test_vocabulary_with_only_a_special_token_is_allowed(tmp_path):
    """The only byte of the text is written like the special, which then has its id."""
    options = {"trainer": "tokenizers", "special_tokens": ["Ċ"], "initial_alphabet": "seen"}
    with pytest.warns(TrainingWarning, match="spelled like a learned token"):
        tokenizer = tokenmill.train_from_iterator(["\n"], vocab_size=286, **options)
    assert (tokenizer.vocab_size, tokenizer.encode("")) == (1, [])
    tokenizer.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").vocab_size == 1


# ── documentation ────────────────────────────────────────────────────────────────────────────


def test_options_are_the_same_in_python_the_command_line_and_the_page():
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    shown = make_parser(["train"]).format_help()
    [command] = [p for p in every_parser(make_parser(["train"])) if p.prog == "tokenmill train"]
    parameters = inspect.signature(tokenmill.train).parameters
    for name, option in table(TrainOptions).items():
        assert parameters[name].default == READ_DEFAULTS.get(name, option.default)
        assert f"    {name}: {option.help}." in tokenmill.train.__doc__
        if name != "progress":
            assert name in {action.dest for action in command._actions}
            assert f"| {option.help}" in page.replace("`", "")
    assert "train" in shown


def test_folder_of_a_killed_run_is_removed_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code = (
        "import os, signal, sys, tempfile, tokenmill\n"
        "tempfile.tempdir = sys.argv[1]\n"
        "kill = lambda progress: os.kill(os.getpid(), signal.SIGKILL)\n"
        "tokenmill.train_from_iterator(['ab ab'], 257, progress=kill)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    [left] = tmp_path.iterdir()
    train(TEXTS)
    assert left.exists()  # too young: its process may be about to lock it
    monkeypatch.setattr("tokenmill.training.checkpoint._LOCK_SECONDS", 0)
    seen = []
    train(TEXTS, progress=lambda _: seen.extend(tmp_path.iterdir()))
    assert left not in seen
    train(TEXTS, progress=lambda _: train(TEXTS))  # the folder of a live run stays
    assert not list(tmp_path.iterdir())


def test_memory_that_cannot_be_kept_is_an_error(files, monkeypatch):
    monkeypatch.setattr("tokenmill.training.merging.sys.platform", "darwin")
    monkeypatch.setattr("tokenmill.training.merging._WORD_BYTES", 1 << 20)
    with raises(TrainingError, "memory=67_108_864 is too small", "darwin", "or more"):
        train(str(files / "*.txt"), memory="64MiB")
