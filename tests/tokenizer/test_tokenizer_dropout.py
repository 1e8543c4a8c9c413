"""Dropout of merges: its frequency and its results equal those of Hugging Face."""

from __future__ import annotations

import collections
import functools
import json
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tokenizers
from conftest import DATA, examples
from hf_documents import document, dumps
from tokenizers import decoders, models, pre_tokenizers, trainers

from tokenmill import Tokenizer
from tokenmill.compat import tokenizers as compat
from tokenmill.errors import VocabularyError

KINDS = ("bytes", "whole", "characters", "unk", "fused", "fallback", "shuffled", "spaces")
BYTE_NAMES = [f"<0x{byte:02X}>" for byte in range(256)]
each_kind = pytest.mark.parametrize("kind", KINDS)


@functools.cache
def words() -> list[str]:
    """Ten thousand words of a few languages, mixed."""
    names = ("eng", "fra", "deu_1996", "fin", "ita", "cmn_hans", "ell_monotonic")
    found: list[str] = []
    for name in names:
        found += (DATA / f"udhr/{name}.txt").read_text(encoding="utf-8").split()
    order = np.random.default_rng(0).permutation(10_000) % len(found)
    return [found[index] for index in order]


@functools.cache
def trained(kind: str) -> str:
    """A tokenizer.json whose tokens can be made of other pairs than the first too."""
    is_bytes = kind in ("bytes", "whole", "shuffled")
    tokenizer = tokenizers.Tokenizer(models.BPE())
    special_tokens = []
    if is_bytes:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(False)
        tokenizer.decoder = decoders.ByteLevel()
    elif kind == "spaces":
        # All of a text is one pretoken.
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(split=False, prepend_scheme="never")
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if kind in ("unk", "fused", "fallback"):
        special_tokens = ["<unk>", *BYTE_NAMES]
    # Rare letters are not tokens if the model has a replacement for them.
    alphabet = 60 if kind in ("unk", "fused", "fallback", "characters") else 10_000
    trainer = trainers.BpeTrainer(
        vocab_size=1200 + len(special_tokens),
        special_tokens=special_tokens,
        limit_alphabet=alphabet,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if is_bytes else [],
        show_progress=False,
    )
    lines = [" ".join(words()[at : at + 8]) for at in range(0, len(words()), 8)]
    tokenizer.train_from_iterator(lines if kind == "spaces" else words(), trainer)
    made = json.loads(tokenizer.to_str())
    made["added_tokens"] = []
    model = made["model"]
    pairs = [tuple(pair) for pair in model["merges"]]
    known = set(pairs)
    for left, right in list(pairs):
        token = left + right
        splits = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
        new = [s for s in splits if s[0] in model["vocab"] and s[1] in model["vocab"]]
        pairs += [pair for pair in new if pair not in known]
        known.update(new)
    if kind == "shuffled":
        np.random.default_rng(1).shuffle(pairs)
    model["merges"] = [list(pair) for pair in pairs]
    model["ignore_merges"] = kind == "whole"
    if kind in ("unk", "fused", "fallback"):
        model["unk_token"] = "<unk>"
        model["fuse_unk"] = kind == "fused"
        model["byte_fallback"] = kind == "fallback"
    return json.dumps(made)


def both(kind: str, dropout: float | None) -> tuple[compat.Tokenizer, tokenizers.Tokenizer]:
    """Ours and theirs."""
    data = json.loads(trained(kind))
    data["model"]["dropout"] = dropout
    text = json.dumps(data)
    return compat.Tokenizer.from_str(text), tokenizers.Tokenizer.from_str(text)


def own(kind: str, dropout: float | None, folder) -> Tokenizer:
    data = json.loads(trained(kind))
    data["model"]["dropout"] = dropout
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return Tokenizer.load(path)


@each_kind
def test_nothing_is_dropped_at_zero(kind):
    ours, theirs = both(kind, 0.0)
    without, _ = both(kind, None)
    for word in words()[: examples(10_000) : 5]:
        ids = ours.encode(word).ids
        assert ids == without.encode(word).ids == theirs.encode(word).ids


@each_kind
def test_all_is_dropped_at_one(kind):
    ours, theirs = both(kind, 1.0)
    for word in words()[: examples(10_000) : 5]:
        made, expected = ours.encode(word), theirs.encode(word)
        assert made.ids == expected.ids
        assert made.tokens == expected.tokens
        assert made.offsets == expected.offsets


@each_kind
@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_words_have_as_many_tokens_as_theirs(kind, dropout):
    compare_lengths(kind, dropout, words()[: max(2_000, examples(10_000))])


@pytest.mark.parametrize("dropout", [0.5, 0.9])
def test_a_text_that_is_one_pretoken_has_as_many_tokens_as_theirs(dropout):
    """Skipped merges are tried again after each merge, so few of them are lost."""
    count = max(4_000, examples(10_000))
    texts = [" ".join(words()[at : at + 20]) for at in range(0, count, 20)]
    compare_lengths("spaces", dropout, texts)


def compare_lengths(kind: str, dropout: float, texts: list[str]) -> None:
    ours, theirs = (
        np.array([len(made.ids) for made in tokenizer.encode_batch(texts)])
        for tokenizer in both(kind, dropout)
    )
    without = np.array([len(made.ids) for made in both(kind, None)[0].encode_batch(texts)])
    # The texts are the same, so they differ by chance only as far as one does from itself.
    error = math.sqrt(np.var(ours - theirs) / len(texts))
    assert abs(ours.mean() - theirs.mean()) <= 4 * error
    assert ours.mean() > without.mean() + 4 * error


@each_kind
@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.9])
def test_words_come_apart_as_theirs_do(kind, dropout):
    """Compares how often each encoding of a word is met."""
    ours, theirs = both(kind, dropout)
    rounds = max(300, examples(1500))
    for word in ("everyone", "international", "déclaration", "aabaabaab", "人人生而自由"):
        made = [
            collections.Counter(tuple(e.ids) for e in tokenizer.encode_batch([word] * rounds))
            for tokenizer in (ours, theirs)
        ]
        distance(made, rounds)
        firsts = [collections.Counter() for _ in made]
        for counter, first in zip(made, firsts, strict=True):
            for ids, count in counter.items():
                first[ids[:1]] += count
        distance(firsts, rounds)


def distance(made: list[collections.Counter], rounds: int) -> None:
    """Whether two samples may come from the same place: chi-square, with rare ones as one."""
    rare = {key for key in made[0] | made[1] if made[0][key] + made[1][key] < 20}
    cells = [[counter[key] for counter in made] for key in (made[0] | made[1]) if key not in rare]
    cells.append([sum(counter[key] for key in rare) for counter in made])
    cells = [cell for cell in cells if sum(cell)]
    statistic = sum((a - b) ** 2 / (a + b) for a, b in cells)
    free = max(len(cells) - 1, 1)
    assert statistic < free + 5 * math.sqrt(2 * free) + 15, (statistic, free)


@pytest.mark.parametrize("kind", ["bytes", "whole", "shuffled"])
def test_text_comes_back_and_offsets_cover_it(kind, tmp_path):
    tokenizer = own(kind, 0.3, tmp_path)
    for text in (*words()[:300], " ".join(words()[:3000]), "", "a", "\n \n"):
        ids, spans = tokenizer.encode_with_offsets(text.encode())
        assert tokenizer.decode(ids) == text
        assert tokenizer.decode(tokenizer.encode(text)) == text
        ends = [0, *(end for _, end in spans)]
        assert [start for start, _ in spans] == ends[:-1]
        assert ends[-1] == len(text.encode())


@each_kind
def test_offsets_are_those_of_the_tokens(kind):
    """The same tokens have the same offsets in Hugging Face, also those that are not merged."""
    ours, theirs = both(kind, 0.3)
    texts = [" ".join(words()[at : at + 4]) for at in range(0, max(40, examples(400)), 4)]
    for text in texts:
        made = {tuple(e.ids): e for e in theirs.encode_batch([text] * 30)}
        for one in ours.encode_batch([text] * 30):
            if tuple(one.ids) not in made:
                continue
            other = made[tuple(one.ids)]
            assert (one.offsets, one.tokens, one.word_ids) == (
                other.offsets,
                other.tokens,
                other.word_ids,
            )


@each_kind
def test_every_way_to_encode_is_random(kind, tmp_path):
    tokenizer = own(kind, 0.9, tmp_path)
    text = " ".join(words()[:100])
    ways = {
        "encode": lambda: tokenizer.encode(text),
        "bytes": lambda: tokenizer.encode(text.encode()),
        "array": lambda: tokenizer.encode_array(text).tolist(),
        "offsets": lambda: tokenizer.encode_with_offsets(text)[0],
        "batch": lambda: tokenizer.encode_batch([text, text], threads=2)[1],
        "ragged": lambda: tokenizer.encode_ragged([text], threads=1)[0].tolist(),
    }
    for name, way in ways.items():
        assert len({tuple(way()) for _ in range(8)}) == 8, name
    batch = tokenizer.encode_batch([text] * 8, threads=4)
    assert len({tuple(ids) for ids in batch}) == 8
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: tuple(tokenizer.encode(text)), range(40)))
    assert len(set(found)) == 40


def test_long_texts_come_back(tmp_path):
    """They are neither cut nor joined, on any number of threads."""
    tokenizer = own("bytes", 0.2, tmp_path)
    text = " ".join(words() * 35)
    assert len(text) > 2 << 20
    for threads in (1, 3):
        assert tokenizer.decode(tokenizer.encode_array(text, threads=threads)) == text
        found = tokenizer.encode_ragged([text, "a", text[:1000]], threads=threads)
        assert [tokenizer.decode(ids) for ids in found] == [text, "a", text[:1000]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_processes_draw_their_own_numbers(tmp_path):
    own("bytes", 0.5, tmp_path)
    program = (
        "import os, sys, tokenmill\n"
        f"t = tokenmill.Tokenizer.load({str(tmp_path / 'tokenizer.json')!r})\n"
        "text = 'All human beings are born free and equal in dignity and rights. ' * 5\n"
        "t.encode(text)\n"
        "child = os.fork()\n"
        "if child: os.waitpid(child, 0)\n"
        "print(hash(tuple(t.encode(text))), flush=True)\n"
    )
    lines = []
    for _ in range(2):
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
        lines += run.stdout.decode().splitlines()
    assert len(lines) == len(set(lines)) == 4


def test_methods_that_need_one_encoding_are_rejected(tmp_path):
    tokenizer = own("bytes", 0.1, tmp_path)
    for name, call in {
        "count": lambda: tokenizer.count("a"),
        "count_batch": lambda: tokenizer.count_batch(["a"]),
        "truncate": lambda: tokenizer.truncate("a", 1),
        "a session": lambda: tokenizer.session("a"),
    }.items():
        with pytest.raises(VocabularyError, match=f"^{name} .*dropout .* to None"):
            call()
    assert own("bytes", None, tmp_path).count("a") == own("bytes", 0.0, tmp_path).count("a") == 1


def test_dropout_of_a_model_can_be_set():
    tokenizer = compat.Tokenizer.from_str(trained("bytes"))
    text = " ".join(words()[:40])
    certain = tokenizer.encode(text).ids
    assert tokenizer.encode(text).ids == certain
    tokenizer.model.dropout = 0.4
    assert len({tuple(tokenizer.encode(text).ids) for _ in range(6)}) == 6
    for encoding in (tokenizer.encode(text), *tokenizer.encode_batch([text, text])):
        assert tokenizer.decode(encoding.ids) == text
        assert len(encoding.offsets) == len(encoding.ids) == len(encoding.tokens)
    tokenizer.model.dropout = 1.0
    assert len(tokenizer.encode(text).ids) == len(text.encode())
    tokenizer.model.dropout = None
    assert tokenizer.encode(text).ids == certain


@pytest.mark.parametrize("dropout", [-0.1, 1.5])
def test_dropout_is_a_probability(dropout, tmp_path):
    wrong = "(?i)dropout (should|must) be"
    with pytest.raises(Exception, match=wrong):
        models.BPE({"a": 0}, [], dropout=dropout)
    with pytest.raises(Exception, match=wrong):
        compat.models.BPE({"a": 0}, [], dropout=dropout)
    path = tmp_path / "tokenizer.json"
    path.write_bytes(dumps(document({"dropout": dropout})))
    with pytest.raises(VocabularyError, match=wrong):
        Tokenizer.load(path)
