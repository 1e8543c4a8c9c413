"""Training with trainer="sentencepiece" → the pieces of the reference, and files."""

import json
import random
from functools import partial

import numpy as np
import pytest
import sentencepiece
import sentencepiece_reference as twin
import training_cases
from conftest import SEED, examples
from trained import count, train_on

import tokenmill
from tokenmill import Tokenizer, TrainingWarning
from tokenmill.errors import InputError, TrainingError, VocabularyError
from tokenmill.native import _native
from tokenmill.patterns.schemes import scheme_of
from tokenmill.patterns.unicode import scripts
from tokenmill.training.sentencepiece import (
    PATTERN,
    find_alphabet,
    learn,
    script_table,
    sentences,
    words_of,
)


def lines_of(size):
    documents = training_cases.real(size).documents
    return [line for text in documents for line in text.splitlines()]


BYTES = max(100_000, examples(400_000))
LINES = lines_of(BYTES)
train = partial(train_on, trainer="sentencepiece")


def pieces_of(tokenizer):
    """The pieces by id."""
    model = tokenizer._spec.model
    ends, sizes = np.cumsum(model.lengths).tolist(), model.lengths.tolist()
    return [model.data[end - size : end].decode() for end, size in zip(ends, sizes, strict=True)]


def counted(lines, names=twin.META):
    counter = _native.Counter(scheme_of(PATTERN), [], 1, False)
    counter.add(sentences([line.encode() for line in lines], tuple(names)), 1)
    return counter.take()


def learned(counts, size, coverage=0.9995, length_max=16, **options):
    """All pieces by id, from the core."""
    alphabet = find_alphabet(counts, coverage)
    room = size - len(twin.META) - len(alphabet)
    options = {"min_frequency": 0, "threads": 1, "memory": 0, "spill": None, **options}
    texts, merges, check = learn(
        alphabet, lambda: words_of(counts, alphabet), room, length_max=length_max, **options
    )
    assert check.min_tracked_count <= check.last_count or not len(merges)
    learned = texts[len(alphabet) :]
    assert len(learned) == len(merges)
    return [*twin.META, *learned, *alphabet], merges.tolist()


def cases(count):
    """Lines, a size and the options that there are here; some lines hold symbols."""
    for round, (lines, size, options) in enumerate(training_cases.lines(count)):
        rng = random.Random(f"{SEED} pieces {round}")
        symbols = rng.sample(["ab", "[X]", "[X", "aa", "日", "b", "é"], rng.choice([0, 0, 1, 3]))
        lines = [rng.choice([line, line, line + "[X]a", "[X" + line]) for line in lines]
        names = ("character_coverage", "max_sentencepiece_length")
        chosen = {name: options[name] for name in names}
        yield lines, size, twin.Options(**chosen, user_defined_symbols=tuple(symbols))


def test_scripts_equal_the_reference():
    # Where either may change, and some between.
    bounds = {bound for _, found in scripts() for bound in found.bounds}
    bounds |= {bound for newer in twin.NEWER for bound in (newer.start, newer.stop)}
    looked_at = {bound + more for bound in bounds for more in (-1, 0, 1)}
    looked_at |= set(random.Random(SEED).sample(range(0x110000), examples(5000)))
    table, numbers = script_table(), {}
    for code_point in looked_at & {*range(0xD800), *range(0xE000, 0x110000)}:
        if chr(code_point) != twin.SPACE:
            number = int(table[code_point])
            assert numbers.setdefault(twin.script(chr(code_point)), number) == number
    assert len(set(numbers.values())) == len(numbers)
    assert numbers["Inherited"] == script_table()[ord(twin.SPACE)] == 0


def test_pieces_equal_the_reference_for_all_threads_and_memory(tmp_path):
    for round, (lines, size, options) in enumerate(cases(examples(400))):
        rng = random.Random(f"{SEED} {round}")
        try:
            expected = twin.train(lines, size, options, twin.merge)
        except ValueError:
            continue
        counts = counted(lines, options.front)
        alphabet = find_alphabet(counts, options.character_coverage)
        texts, _, _ = learn(
            alphabet,
            lambda c=counts, a=alphabet: words_of(c, a),
            size - len(options.front) - len(alphabet),
            min_frequency=0,
            length_max=options.max_sentencepiece_length,
            threads=rng.choice([1, 2, 3]),
            memory=rng.choice([0, 0, 1, 5000]),
            spill=rng.choice([None, None, tmp_path]),
        )
        learned = texts[len(alphabet) :]
        found = [*options.front, *learned, *alphabet]
        assert found == expected, f"round {round}, TOKENMILL_SEED={SEED}, {lines}, {size}"


def test_train_returns_the_pieces_of_the_reference():
    for round, (lines, size, options) in enumerate(cases(max(20, examples(200)))):
        given = {
            "vocab_size": size,
            "character_coverage": options.character_coverage,
            "max_token_length": options.max_sentencepiece_length,
            "special_tokens": options.user_defined_symbols,
        }
        try:
            expected = twin.train(lines, size, options)
        except ValueError:
            expected = []
        if set(expected) <= set(options.front):  # no merges, or a vocabulary that is too small
            with pytest.raises((TrainingError, InputError)):
                train(iter(lines), **given)
            continue
        found = pieces_of(train(iter(lines), **given))
        assert found == expected, f"{round}, TOKENMILL_SEED={SEED}"


def test_pieces_of_real_text_are_the_same_in_every_tier(tmp_path):
    counts = counted(LINES)
    expected, merges = learned(counts, 3000)
    assert expected == twin.train(LINES, 3000)
    memory = (2 << 20) * BYTES // 400_000  # for some of the words
    for options in (
        {"threads": 2},
        {"threads": 2, "memory": 1},
        {"threads": 3, "memory": memory},
        {"threads": 2, "memory": 1, "spill": tmp_path},
        {"threads": 2, "memory": memory, "spill": tmp_path},
    ):
        assert learned(counts, 3000, **options) == (expected, merges)


def test_more_than_two_bytes_of_ids_are_learned_the_same():
    counts = counted(lines_of(400_000))
    _, narrow = learned(counts, 60_000)
    _, wide = learned(counts, 70_000)
    assert wide[: len(narrow)] == narrow
    assert len(wide) > len(narrow)


def test_pairs_without_a_word_become_pieces():
    with pytest.warns(TrainingWarning, match=r"only \d+ pieces"):
        pieces = train(["abab abc"], vocab_size=100)
    assert pieces_of(pieces) == twin.train(["abab abc"], 100)
    assert "aba" in pieces_of(pieces)  # which is there only within one merge
    least = train(["abab abc"], vocab_size=100, min_frequency=1)
    assert "aba" not in pieces_of(least)
    assert len(least) < len(pieces)


def test_sources_of_all_kinds_give_the_same_pieces(tmp_path, monkeypatch):
    expected = train(iter(LINES), vocab_size=2500)
    text = "\n".join(LINES)
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8", newline="")
    (tmp_path / "text.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in LINES))
    for source in (path, tmp_path / "text.jsonl", [text], [text.encode()], [LINES]):
        assert train(source, vocab_size=2500) == expected
    for options in ({"threads": 3}, {"resume": tmp_path / "work"}, {"memory": 64 << 20}):
        assert train(path, vocab_size=2500, **options) == expected
    assert train(path, vocab_size=2500, resume=tmp_path / "work") == expected
    monkeypatch.setattr("tokenmill.training.counting._BATCH_BYTES_MIN", 1_000)
    monkeypatch.setattr("tokenmill.training.options._MEMORY_MIN", 1)
    monkeypatch.setattr("tokenmill.training.sentencepiece._CHUNK_BYTES", 300)
    monkeypatch.setattr("tokenmill.training.sentencepiece._SLICE_ENTRIES", 100)
    assert train(path, vocab_size=2500, memory=50_000) == expected
    sizes = tokenmill.train_sizes(path, [2000, 2500, 2200], trainer="sentencepiece")
    assert [len(pieces) for pieces in sizes] == [2000, 2500, 2200]
    assert sizes[1] == expected
    assert sizes[0] == train(path, vocab_size=2000)


def test_invalid_utf8_is_read_as_in_sentencepiece():
    lines = [b"ab \xe2\x96 ab\xff\xfe \xed\xa0\x80 b"] * 5
    fixed = [line.decode("utf-8", "surrogateescape") for line in lines]
    fixed = ["".join("\ufffd" if "\udc80" <= c <= "\udcff" else c for c in f) for f in fixed]
    assert pieces_of(train(lines, vocab_size=16)) == twin.train(fixed, 16)
    assert train(["a\ud83d\ude42b\ud800"] * 3, vocab_size=9) == train(
        ["a🙂b\ufffd"] * 3, vocab_size=9
    )


def test_weights_multiply_counts_of_lines(tmp_path):
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text("ab cd\n" * 3)
    two.write_text("ce\n" * 2)
    for weight in (1, 2, 2.5):
        found = train([one, two], vocab_size=14, weights={two: weight})
        repeated = train(["ab cd"] * 3 + ["ce"] * int(2 * weight), vocab_size=14)
        assert found == repeated


def test_trace_and_report_contain_the_pieces(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES), encoding="utf-8", newline="")
    trace, report = tmp_path / "trace", tmp_path / "report"
    pieces = train(path, vocab_size=2500, trace=trace, report=report)
    head, *rows = map(json.loads, trace.read_text().splitlines())
    assert (head["trainer"], head["merges"]) == ("sentencepiece", len(rows))
    assert head["character_coverage"] == 0.9995
    texts = [row["text"] for row in rows]
    by_id = pieces_of(pieces)
    assert texts == by_id[3 : 3 + len(rows)]
    for row in rows:
        left, right = by_id[row["left"]], by_id[row["right"]]
        assert by_id[row["id"]] == left + right == row["text"]
    assert [row["count"] for row in rows] == sorted((row["count"] for row in rows), reverse=True)

    pieces.save(tmp_path / "p.model")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "p.model"))
    assert max(len(line.encode()) for line in LINES) <= 4192
    ids = np.array([id for line in LINES for id in processor.encode(line)])
    document = json.loads(report.read_text())
    assert document["vocab_size"] == 2500
    figures = document["sources"][str(path)]
    assert figures["tokens"] == len(ids)
    spaces = sum(len(line.split(" ")) for line in LINES)
    assert abs(figures["bytes"] - sum(len(line.encode()) for line in LINES)) <= spaces
    used = {token["id"]: token["used"].get(str(path), 0) for token in document["tokens"]}
    assert used == {id: int((ids == id).sum()) for id in used}


def test_tokenizer_encodes_and_decodes_as_sentencepiece(tmp_path):
    for options in ({}, {"special_tokens": ["<sep>", "中"]}):
        pieces = train(LINES, vocab_size=2000, **options)
        pieces.save(tmp_path / "p.model")
        processor = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "p.model"))
        texts = [*LINES[:200], "", " ", "  a  b ", "<sep> 中中", "☃☃ x", "▁a", "<s>"]
        expected = [processor.encode(text) for text in texts]
        assert pieces.encode_batch(texts) == expected
        for text, ids in zip(texts, expected, strict=True):
            assert pieces.encode(text) == ids
            assert pieces.decode(ids) == processor.decode(ids)
            assert pieces.count(text) == len(ids)
        assert pieces.encode("</s>", allowed_special=True) == [2]


def test_tokenizer_saves_to_every_sentencepiece_format(tmp_path):
    pieces = train(LINES[:50], vocab_size=400)
    assert isinstance(pieces, Tokenizer)
    assert len(pieces) == pieces.vocab_size == 400
    assert dict(pieces.special_tokens) == {"<s>": 1, "</s>": 2}
    assert "400" in repr(pieces)
    assert {pieces: 1}[train(LINES[:50], vocab_size=400)] == 1
    assert pieces != train(LINES[:50], vocab_size=401)
    assert pieces != 5
    for name in ("vocab.json", "merges.txt", "p.tiktoken"):
        with pytest.raises(VocabularyError):
            pieces.save(tmp_path / name)
    assert not list(tmp_path.iterdir())
    pieces.save(tmp_path / "p.tokenmill")
    again = Tokenizer.load(tmp_path / "p.tokenmill")
    assert again == pieces
    for name in ("p.model", "p.vocab", "tokenizer.json"):
        pieces.save(tmp_path / name)
        first = (tmp_path / name).read_bytes()
        again.save(tmp_path / name)
        assert (tmp_path / name).read_bytes() == first


def test_folder_gets_the_same_tokenizer_json_as_a_file(tmp_path):
    pieces = train(LINES[:50], vocab_size=400, special_tokens=["<sep>"])
    pieces.save(tmp_path / "tokenizer.json")
    pieces.save(f"{tmp_path}/folder/")
    data = (tmp_path / "tokenizer.json").read_bytes()
    assert (tmp_path / "folder" / "tokenizer.json").read_bytes() == data


def test_unsupported_options_are_rejected(tmp_path):
    count(LINES, tmp_path / "c.tmc")
    for options, expected in (
        (
            {"pattern": "r50k"},
            "pattern='r50k' is not supported .*; remove pattern",
        ),
        ({"extend": "r50k_base"}, "extend='r50k_base' is not supported .*; remove extend"),
        ({"initial_alphabet": "seen"}, "initial_alphabet='seen' is not supported .*; remove"),
        ({"character_coverage": 0}, "character_coverage must be .* got 0"),
        ({"character_coverage": True}, "character_coverage must be .* got True"),
        ({"special_tokens": ["<s>"]}, "special token '<s>' cannot be a SentencePiece symbol"),
        ({"special_tokens": ["a b"]}, "special token 'a b' cannot be a SentencePiece symbol"),
        (
            {"vocab_size": 20},
            r"vocab_size=20 is too small: .* characters and 3 special tokens; pass",
        ),
        (
            {"trainer": "rustbpe", "character_coverage": 1.0},
            "character_coverage=1.0 requires trainer='sentencepiece'",
        ),
    ):
        with pytest.raises(TrainingError, match=expected):
            train(iter(LINES), **{"vocab_size": 500, **options})
    for source in (tmp_path / "c.tmc", {"a": 5}):
        with pytest.raises(TrainingError, match="inputs contain counts; pass the documents"):
            train(source, vocab_size=500)
    with pytest.raises(InputError, match="no text"):
        train(["a" * 5000, "▅", " ▁ ", ""], vocab_size=500)


def test_report_counts_a_single_space_sign_as_one_token(tmp_path):
    path, report = tmp_path / "text.txt", tmp_path / "report.json"
    path.write_text("ab ▁ ab\n" * 5, encoding="utf-8")
    train(path, vocab_size=9, report=report)
    figures = json.loads(report.read_text())["sources"][str(path)]
    assert figures["tokens"] == 5 * (1 + 2 + 1)  # "▁" between two spaces is two words
