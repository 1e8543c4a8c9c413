"""A seed → small corpora and settings on which trainers are known, or feared, to differ.

Runs of one byte, in which neighbours overlap; words of equal counts, where only ties decide; few
letters, so that pairs meet again and again; scripts of two to four bytes; special tokens that a
merge spells; limits of length and count; vocabularies that end in the middle, or that the text
cannot fill.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from conftest import FIXTURES, SEED

from tokenmill import reference

WHOLE = r"(?s:.+)"  # a document is one pretoken
LETTERS = r"[a-z]+"

ALPHABETS = ("a", "ab", "abc", "abcdefgh", "ab ", " ab\n", "aé", "日本語", "xyzé日🙂 ", "a1 .'s")
# Some are spelled like a byte or like what merges make, in GPT-2's letters for bytes.
SPECIALS = ("<s>", "<|endoftext|>", "a", "é", "Ġ", "ab", "aa", "aab", "Ġa", "æĹ", "日", "Ċ")


@dataclass(frozen=True)
class Case:
    documents: tuple[str, ...]
    vocab_size: int
    pattern: str = reference.GPT2_PATTERN
    special_tokens: tuple[str, ...] = ()
    min_frequency: int = 0
    max_token_length: int | None = None
    all_bytes: bool = True  # in the alphabet from the start; else those of the text


def plain(count: int, pattern: str | None = None) -> Iterator[Case]:
    """Cases for every trainer: text and a size."""
    for round in range(count):
        rng = random.Random(f"{SEED} {round}")
        size = 256 + rng.choice([0, 1, 5, 30, 200, 1000])
        pieces = pattern or rng.choice([reference.GPT2_PATTERN] * 3 + [WHOLE])
        yield Case(tuple(documents(rng)), size, pieces)


def with_options(count: int) -> Iterator[Case]:
    """Cases for tokenizers alone: special tokens, limits and a smaller alphabet."""
    for round, case in enumerate(plain(count)):
        rng = random.Random(f"{SEED} options {round}")
        special_tokens = tuple(rng.sample(SPECIALS, rng.choice([0, 1, 1, 3])))
        size = rng.choice([case.vocab_size, case.vocab_size - 240, 256 + len(special_tokens)])
        yield replace(
            case,
            vocab_size=size,
            special_tokens=special_tokens,
            min_frequency=rng.choice([0, 0, 1, 2, 3]),
            max_token_length=rng.choice([None, None, 1, 2, 3, 4, 6, 20]),
            all_bytes=rng.random() < 0.6,
        )


def words(count: int) -> Iterator[Case]:
    """Words that end in z, which occurs only there. Trainers with a mark at the end of words then
    order strings like those without one."""
    for round in range(count):
        rng = random.Random(f"{SEED} words {round}")
        letters = rng.choice(["a", "ab", "abc", "abcdefghijklmnopqrstuvwxy"])
        found = ["".join(rng.choices(letters, k=rng.randrange(9))) + "z" for _ in range(60)]
        found += [rng.choice(letters) * rng.randrange(20) + "z" for _ in range(5)]
        yield Case((" ".join(rng.choices(found, k=200)),), 256 + rng.choice([1, 30, 400]), LETTERS)


def real(size_max: int = 400_000) -> Case:
    """Real text: the fixtures of the tests, many languages and code."""
    texts = [path.read_text("utf-8") for path in FIXTURES]
    random.Random(0).shuffle(texts)
    while sum(len(text.encode()) for text in texts) > size_max:
        texts.pop()
    return Case(tuple(texts), 256 + 1500)


def documents(rng: random.Random) -> Iterator[str]:
    letters = rng.choice(ALPHABETS)
    kind = rng.choice(["random", "random", "runs", "ties", "nested"])
    for _ in range(rng.choice([1, 3, 20, 60])):
        size = rng.choice([1, 2, 3, 10, 40])
        if kind == "runs" or rng.random() < 0.2:
            yield rng.choice(letters) * size + rng.choice(["", letters[0]])
        elif kind == "ties":  # every pair as often as every other
            yield " ".join(rng.sample(letters * 2, len(letters)))
        elif kind == "nested":  # the halves of a word are words
            word = "".join(rng.choices(letters, k=size))
            yield " ".join([word, word[: size // 2], word[size // 2 :], word * 2])
        else:
            yield "".join(rng.choices(letters, k=size))


def lines(count: int) -> Iterator[tuple[list[str], int, dict[str, object]]]:
    """Lines, a size and options for SentencePiece."""
    alphabets = (
        *ALPHABETS,
        "カなー日",
        " ab1２3",
        "aя!ά ",
        "a\u0301b\u0300 ",
        "ab\t ",
        "a▁b ",
        "a\0b",
    )
    for round in range(count):
        rng = random.Random(f"{SEED} lines {round}")
        letters = rng.choice([*alphabets, "<s>ab </unk>", "กขค ง"]).replace("\n", "")
        found = ["".join(rng.choices(letters, k=rng.choice([1, 3, 10, 40]))) for _ in range(20)]
        found += [rng.choice(letters) * rng.choice([1, 3, 10, 40]) for _ in range(5)]
        found += rng.choice([[], [], ["ab" * 3000], ["aa▅b"]])  # too long; with a reserved sign
        options = {
            "character_coverage": rng.choice([0.9995, 1.0, 0.98]),
            "max_sentencepiece_length": rng.choice([16, 16, 1, 2, 3, 5]),
        }
        for name, chance in CHANCES.items():
            options[name] = rng.random() < chance
        yield rng.sample(found, rng.choice([1, 3, len(found)])), rng.choice([10, 20, 200]), options


CHANCES = {
    "split_by_unicode_script": 0.7,
    "split_by_number": 0.7,
    "split_digits": 0.3,
    "split_by_whitespace": 0.7,
    "add_dummy_prefix": 0.7,
    "remove_extra_whitespaces": 0.7,
}
