"""Training cases → the vocabularies of the real libraries, for each trainer.

Every case runs twice: with the reference implementation, which defines the rules, and with
`tokenmill.train_from_iterator`, which must follow them.
"""

from __future__ import annotations

import json
import random
import re
import tempfile
from pathlib import Path

import pytest
import sentencepiece
import sentencepiece_reference
import tokenizers as huggingface
import training_cases
import training_peers as peers
import training_reference
from compare import read_corpus
from conftest import DATA, SEED, SHARED_DATA, examples

import tokenmill
from tokenmill import reference
from tokenmill.errors import InputError, TrainingError


def by_twin(case: training_cases.Case, trainer: str) -> peers.Vocabulary:
    trained = training_reference.train(
        training_reference.count(case.documents, case.pattern),
        case.vocab_size,
        trainer,
        case.special_tokens,
        case.min_frequency,
        case.max_token_length,
        range(256) if case.all_bytes else (),
    )
    tokens = {id: token for token, id in trained.tokens.items()}
    tokens |= {id: name.encode() for name, id in trained.special_tokens.items()}
    return peers.Vocabulary(tokens, trained.merges)


def by_tokenmill(case: training_cases.Case, trainer: str) -> peers.Vocabulary:
    try:
        return with_size(case, trainer, case.vocab_size)
    except TrainingError as error:
        # Too small for its bytes and special tokens, which the libraries do not mind.
        least = re.search(r"is too small: .* pass ([\d_]+) or more", str(error))
        return with_size(case, trainer, int(least[1]))


def with_size(case: training_cases.Case, trainer: str, vocab_size: int) -> peers.Vocabulary:
    tokenizer = tokenmill.train_from_iterator(
        list(case.documents),
        vocab_size=vocab_size,
        pattern=case.pattern,
        trainer=trainer,
        special_tokens=case.special_tokens,
        min_frequency=case.min_frequency,
        max_token_length=case.max_token_length,
        initial_alphabet="bytes" if case.all_bytes else "seen",
    )
    tokens = {id: tokenizer.id_to_token(id) for id in range(tokenizer.vocab_size)}
    if trainer != "tokenizers":
        return peers.Vocabulary(tokens)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.json"
        tokenizer.save(path)
        written = peers.of_json(path.read_text("utf-8"), case.special_tokens)
    assert written.tokens == tokens
    return written


TRAINERS = {"twin": by_twin}
if hasattr(tokenmill, "train"):
    TRAINERS["tokenmill"] = by_tokenmill
each_trainer = pytest.mark.parametrize("train", TRAINERS.values(), ids=TRAINERS)


def assert_same(got: peers.Vocabulary, want: peers.Vocabulary, case: object, what: str) -> None:
    if got.tokens != want.tokens:
        ids = sorted(got.tokens.keys() | want.tokens.keys())
        id = next(i for i in ids if got.tokens.get(i) != want.tokens.get(i))
        ours, theirs = got.tokens.get(id), want.tokens.get(id)
        pytest.fail(f"{what}: id {id} is {ours!r}, not {theirs!r}, TOKENMILL_SEED={SEED}, {case}")
    if None not in (got.merges, want.merges):
        assert got.merges == want.merges, f"{what}, TOKENMILL_SEED={SEED}, {case}"


@each_trainer
def test_merges_are_those_of_tokenizers(train):
    for round, case in enumerate(training_cases.with_options(max(20, examples(150)))):
        want = peers.by_tokenizers(case)
        assert_same(train(case, "tokenizers"), want, case, f"round {round}")


# Libraries that agree with one mode on text and a size alone.
PLAIN = {
    "rustbpe": ("rustbpe", peers.by_rustbpe),
    "bpeasy": ("rustbpe", peers.by_bpeasy),
    "ffbpe": ("rustbpe", peers.by_ffbpe),
    "ffbpe, largest": ("cs336", peers.by_ffbpe_largest),
    "minbpe": ("minbpe", peers.by_minbpe),
}


@each_trainer
@pytest.mark.parametrize(("trainer", "library"), PLAIN.values(), ids=PLAIN)
def test_merges_are_those_of_the_library(train, trainer, library):
    for round, case in enumerate(training_cases.plain(max(20, examples(100)))):
        assert_same(train(case, trainer), library(case), case, f"round {round}")


@each_trainer
def test_greater_strings_win_as_in_subword_nmt(train):
    for round, case in enumerate(training_cases.words(max(20, examples(60)))):
        want = peers.by_subword_nmt(case)
        assert_same(train(case, "cs336"), want, case, f"round {round}")


@each_trainer
def test_length_limit_is_that_of_bpeasy(train):
    for case in training_cases.with_options(max(20, examples(60))):
        if case.max_token_length in (None, 1):  # which it refuses
            continue
        plain = training_cases.Case(
            case.documents,
            300,
            case.pattern,
            max_token_length=case.max_token_length,
        )
        assert_same(train(plain, "rustbpe"), peers.by_bpeasy(plain), plain, "bpeasy")


@each_trainer
def test_specials_spelled_like_merges_keep_their_ids(train):
    case = training_cases.Case(("abcab abcab ab",), 262, special_tokens=("<s>", "abc", "Ġab", "c"))
    found = train(case, "tokenizers")
    assert_same(found, peers.by_tokenizers(case), case, "tokenizers")
    assert [found.tokens[id] for id in range(4)] == [b"<s>", b"abc", "Ġab".encode(), b"c"]
    assert len(found.tokens) == 262
    assert found.tokens[260 - 1] == b"ab"  # 255 more bytes, then the first merge


def test_tokenizers_counts_the_names_of_specials_as_text():
    """It does not cut documents at them; neither rustbpe nor minbpe know special tokens at all."""
    text = "one<|end|>two <|end|> three<|end|>"
    case = training_cases.Case((text,) * 3, 300, special_tokens=("<|end|>",))
    want = peers.by_tokenizers(case)
    assert_same(by_twin(case, "tokenizers"), want, case, "tokenizers")
    assert b"<|" in want.tokens.values()


# Real text, and a vocabulary whose last merges have many ties.
FIXTURE_BYTES = max(100_000, examples(400_000))
REAL = {"fixtures": training_cases.real(FIXTURE_BYTES)}
if SHARED_DATA and len(TRAINERS) > 1:  # the reference would take minutes
    mix = read_corpus(SHARED_DATA / "corpus" / "mix.jsonl.xz", examples(10_000_000))
    REAL["10 MB"] = training_cases.Case(tuple(mix), 8000)
PEERS = {"tokenizers": ("tokenizers", peers.by_tokenizers), **PLAIN}
del PEERS["minbpe"]  # it keeps every pretoken, and would take hours


@pytest.mark.parametrize("text", REAL)
@pytest.mark.parametrize(("trainer", "library"), PEERS.values(), ids=PEERS)
def test_real_text_gives_the_vocabulary_of_the_library(trainer, library, text):
    case = REAL[text]
    want = library(case)
    for name, train in TRAINERS.items():
        if name == "tokenmill" or text == "fixtures":
            assert_same(train(case, trainer), want, text, name)


def test_minbpe_ties_on_real_text_follow_the_order_of_the_corpus():
    size = max(20_000, examples(60_000))
    case = training_cases.Case(training_cases.real(size).documents, 256 + 60)
    want = peers.by_minbpe(case)
    turned = training_cases.Case(case.documents[::-1], case.vocab_size)
    for name, train in TRAINERS.items():
        assert_same(train(case, "minbpe"), want, "fixtures", name)
        assert_same(train(turned, "minbpe"), peers.by_minbpe(turned), "turned", name)


@pytest.mark.parametrize("name", ["eng", "tha"])
def test_file_of_lines_is_read_as_tokenizers_reads_it(tmp_path, name):
    path = tmp_path / "lines.txt"
    text = (DATA / "udhr" / f"{name}.txt").read_text(encoding="utf-8")
    path.write_text(text.replace(". ", ".\n\n  "))
    theirs = huggingface.Tokenizer(huggingface.models.BPE())
    theirs.pre_tokenizer = huggingface.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = huggingface.pre_tokenizers.ByteLevel.alphabet()
    trainer = huggingface.trainers.BpeTrainer(
        vocab_size=700, initial_alphabet=alphabet, show_progress=False
    )
    theirs.train([str(path)], trainer)
    ours = tokenmill.train(path, vocab_size=700, pattern="gpt2", input_format="lines")
    ours.save(tmp_path / "tokenizer.json")
    written = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    assert written == theirs.get_vocab()


# ── SentencePiece ────────────────────────────────────────────────────────────────────────────


def test_sentencepiece_reference_learns_the_pieces_of_sentencepiece():
    for round, (lines, size, options) in enumerate(training_cases.lines(max(40, examples(300)))):
        try:
            twin = sentencepiece_reference.train(
                lines, size, sentencepiece_reference.Options(**options)
            )
        except ValueError:
            twin = None  # fewer entries than characters, or no lines
        want = peers.sentencepiece_pieces(lines, size, **options)
        assert twin == want, f"round {round}, TOKENMILL_SEED={SEED}, {lines}, {size}, {options}"


def test_real_text_gives_the_sentencepiece_reference_its_pieces():
    texts = training_cases.real(FIXTURE_BYTES).documents
    lines = [line for text in texts for line in text.splitlines()]
    assert sentencepiece_reference.train(lines, 4000) == peers.sentencepiece_pieces(lines, 4000)


def test_tokenmill_writes_the_model_of_sentencepiece(tmp_path):
    path = tmp_path / "pieces.model"
    for round, (lines, size, options) in enumerate(training_cases.lines(max(40, examples(300)))):
        rng = random.Random(f"{SEED} symbols {round}")
        symbols = rng.sample(["ab", "[X]", "[X", "aa", "日", "b"], rng.choice([0, 0, 1, 3]))
        lines = [rng.choice([line, line, line + "[X]a", "[X" + line]) for line in lines]
        coverage, length = (options[n] for n in ("character_coverage", "max_sentencepiece_length"))
        want = peers.sentencepiece_model(
            lines,
            size,
            user_defined_symbols=symbols,
            **({} if coverage == 0.9995 else {"character_coverage": coverage}),
            **({} if length == 16 else {"max_sentencepiece_length": length}),
        )
        found = None if want is None else peers.sentencepiece_parts(want)
        try:
            pieces = tokenmill.train_from_iterator(
                iter(lines),
                vocab_size=size,
                trainer="sentencepiece",
                special_tokens=symbols,
                character_coverage=coverage,
                max_token_length=length,
            )
        except (TrainingError, InputError):
            assert found is None or len(found[0]) == 3 + len(symbols)  # it learned nothing
            continue
        pieces.save(path)
        what = f"round {round}, TOKENMILL_SEED={SEED}, {lines}, {size}, {options}"
        assert peers.sentencepiece_parts(path.read_bytes()) == found, what


def by_sentencepiece(tmp_path: Path, lines: list[str], vocab_size: int) -> tuple[Path, Path]:
    """The lines in a file, and the model that spm_train makes of it."""
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(lines), encoding="utf-8", newline="")
    sentencepiece.SentencePieceTrainer.train(
        input=str(path),
        model_prefix=str(tmp_path / "theirs"),
        vocab_size=vocab_size,
        model_type="bpe",
        normalization_rule_name="identity",
        minloglevel=3,
    )
    return path, tmp_path / "theirs.model"


def lines_of(case: training_cases.Case) -> list[str]:
    return [line for text in case.documents for line in text.split("\n")]


@pytest.mark.parametrize("text", REAL)
def test_files_of_pieces_encode_real_text_as_those_of_sentencepiece(tmp_path, text):
    lines = lines_of(REAL[text])
    path, model = by_sentencepiece(tmp_path, lines, 8000)
    pieces = tokenmill.train(path, vocab_size=8000, trainer="sentencepiece")
    for name in ("ours.model", "ours.vocab", "tokenizer.json"):
        pieces.save(tmp_path / name)
    vocabs = [(tmp_path / name).read_bytes() for name in ("ours.vocab", "theirs.vocab")]
    assert vocabs[0] == vocabs[1]
    # The training options in the middle are left out, because they contain names of files.
    ours, theirs = (
        peers.sentencepiece_parts(file.read_bytes()) for file in (tmp_path / "ours.model", model)
    )
    assert (ours[0], ours[2]) == (theirs[0], theirs[2])

    some, size = [], 0
    while size < examples(1_000_000) and len(some) < len(lines):
        some.append(lines[len(some)])
        size += len(some[-1])
    some += ["", " ", "  a  b  ", "▁", " ▁ a▁▁b ▁", "a\tb\t\tc", "\n a\n\n", "\0a", "a\u3000b "]
    some = [line for line in some if not any(name in line for name in sentencepiece_reference.META)]
    processors = [
        sentencepiece.SentencePieceProcessor(model_file=str(file))
        for file in (tmp_path / "ours.model", model)
    ]
    want = processors[1].encode(some)
    assert processors[0].encode(some) == want
    hub = huggingface.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert [encoding.ids for encoding in hub.encode_batch(some)] == want
    # One decodes <unk> to " ⁇ ", the other to an empty text. One decodes a first "▁" to a space.
    known = [ids for ids, line in zip(want, some, strict=True) if 0 not in ids and "▁" not in line]
    assert hub.decode_batch(known) == processors[1].decode(known)


@each_trainer
def test_patterns_other_than_gpt2_split_as_in_tokenizers(train):
    pattern = r"\p{N}{1,3}|\p{L}+|\s+|[^\s\p{L}\p{N}]+"
    size = max(40_000, examples(100_000))
    case = training_cases.Case(training_cases.real(size).documents, 1000, pattern)
    assert pattern != reference.GPT2_PATTERN
    assert_same(train(case, "tokenizers"), peers.by_tokenizers(case), pattern, "tokenizers")
