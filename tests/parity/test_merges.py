"""Long pretokens and odd vocabularies → the ids of tiktoken, for ranks in any order.

Fast merging could depend on the order of a trained vocabulary: parts rank before wholes, and every
token can be reached. A rank file may have another order. So these vocabularies are in random order
and have tokens that no merge reaches. The texts have few letters, many runs and repetitions, which
show every shortcut that is not exact.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import tiktoken
from compare import parts
from conftest import SEED, examples, read_ranks, write_ranks

from tokenmill import Tokenizer, reference

Source = Callable[[random.Random], list[bytes]]
BYTES = [bytes([byte]) for byte in range(256)]
ALL = r"(?s:.)+"


def random_strings(rng: random.Random) -> list[bytes]:
    """Strings of two or three letters: most lack the parts that would build them."""
    letters = rng.choice([b"ab", b"abc", "aé".encode(), b"a "])
    longest = rng.choice([3, 5, 9, 17])
    count = rng.choice([5, 30, 200])
    strings = {bytes(rng.choices(letters, k=rng.randrange(2, longest))) for _ in range(count)}
    return _in_some_order(rng, sorted(strings))


def runs(rng: random.Random) -> list[bytes]:
    """Runs of one letter, of some lengths, perhaps with something at an end."""
    lengths = rng.sample(range(2, 90), rng.randrange(1, 30))
    strings = [b"a" * length for length in lengths]
    strings += [b"b" + b"a" * n for n in lengths[::3]] + [b"a" * n + b"b" for n in lengths[::4]]
    return _in_some_order(rng, strings)


def towers(rng: random.Random) -> list[bytes]:
    """Repetitions up to hundreds of bytes long, each of them two shorter ones: tokens that are
    longer than any piece that merging might work on at a time."""
    unit = rng.choice([b"a", b"ab", b"aab"])
    counts = [1]
    while counts[-1] * len(unit) < 600:
        counts.append(counts[-1] + rng.choice(counts[-3:]))
    return _in_some_order(rng, [unit * count for count in counts if len(unit * count) > 1])


def trained(rng: random.Random) -> list[bytes]:
    """The tokens of a training on random text, in its order or in another one."""
    text = bytes(rng.choices(b"aaab ", k=400)) + b"ab" * 40 + b"a" * 70
    return _in_some_order(rng, list(reference.train([text], ALL, 256 + 60))[256:])


def nearly_trained(rng: random.Random) -> list[bytes]:
    """The tokens of a training. Some are missing, so others are never reached. Some are before or
    after their parts, and some are new."""
    text = bytes(rng.choices(b"aaab ", k=400)) + b"ab" * 40 + b"a" * 70
    strings = list(reference.train([text], ALL, 256 + 60))[256:]
    for _ in range(rng.randrange(4)):
        strings.pop(rng.randrange(len(strings)))
    for _ in range(rng.choice([0, 0, 1, 3])):
        strings.insert(rng.randrange(len(strings)), strings.pop(rng.randrange(len(strings))))
    for _ in range(rng.choice([0, 0, 1, 3])):
        joined = rng.choice(strings) + rng.choice(strings)
        if joined not in strings:
            strings.insert(rng.randrange(len(strings)), joined)
    return strings


def _in_some_order(rng: random.Random, strings: list[bytes]) -> list[bytes]:
    order = rng.choice(["as it is", "short first", "long first", "random", "random"])
    if order == "random":
        rng.shuffle(strings)
    elif order != "as it is":
        strings.sort(key=len, reverse=order == "long first")
    return strings


each_source = pytest.mark.parametrize(
    "source",
    [random_strings, runs, towers, trained, nearly_trained],
    ids=lambda source: source.__name__,
)


def texts(rng: random.Random) -> list[str]:
    """Long texts of few letters: random ones, runs, periods and runs with a fault."""
    found = []
    for size in (1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 255, 300, 1000, 5000, 20_000):
        period = "".join(rng.choices("abc é", k=rng.randrange(1, 9)))
        fault = rng.randrange(size)
        found += [
            "a" * size,
            "ab" * (size // 2),
            "".join(rng.choices("ab", weights=[rng.choice([1, 9, 50]), 1], k=size)),
            "".join(rng.choices("abc é", k=size)),
            (period * size)[:size],
            (period * size)[:fault] + "b" + (period * size)[fault:size],
            "a" * fault + "b" + "a" * (size - fault),
        ]
    return found


def vocabulary(rng: random.Random, source: Source) -> list[bytes]:
    """The tokens of a source, with the single bytes before, after or among them."""
    strings = source(rng)
    place = rng.choice([0, len(strings), rng.randrange(len(strings) + 1)])
    return strings[:place] + BYTES + strings[place:]


@each_source
def test_any_ranks_merge_as_in_tiktoken(tmp_path: Path, source):
    for round in range(examples(60)):
        rng = random.Random(f"{SEED} {round}")
        path = write_ranks(tmp_path / "odd.tiktoken", vocabulary(rng, source))
        tokenizer = Tokenizer.load(path, pattern=ALL)
        ranks = read_ranks(path.read_bytes())
        encoding = tiktoken.Encoding("odd", pat_str=ALL, mergeable_ranks=ranks, special_tokens={})
        for text in texts(rng):
            got, expected = tokenizer.encode(text), encoding.encode_ordinary(text)
            same = got == expected
            assert same, f"{text[:200]!r} of {len(text)} characters TOKENMILL_SEED={SEED} {round}"
            assert tokenizer.count(text) == len(expected)


@each_source
def test_any_ranks_truncate_to_the_longest_part(tmp_path: Path, source):
    """Of long pretokens, too, where most parts cannot be tried."""
    for round in range(examples(4)):
        rng = random.Random(f"{SEED} {round}")
        path = write_ranks(tmp_path / "odd.tiktoken", vocabulary(rng, source))
        tokenizer = Tokenizer.load(path, pattern=rng.choice([ALL, r"[ab]+|.", r"\s+(?!\S)|\S+|."]))
        for text in rng.sample([t[:1300] for t in texts(rng) if len(t) >= 1000], 2):
            for side in ("right", "left"):
                every = parts(text, side)
                counts = tokenizer.count_batch(every)
                for max_tokens in {0, 1, 2, 3, *rng.choices(range(counts[-1] + 1), k=20)}:
                    expected = max(i for i, count in enumerate(counts) if count <= max_tokens)
                    got = tokenizer.truncate(text, max_tokens, side)
                    same = got == every[expected]
                    assert same, (
                        f"{len(got)} characters, not {expected}, for {max_tokens} tokens, cut on "
                        f"the {side}: {text!r} TOKENMILL_SEED={SEED} {round}"
                    )


@pytest.mark.parametrize("size", [100, 1000, 30_000])
def test_long_pretokens_merge_as_in_tiktoken(tokenizers, encodings, size):
    """One pretoken each, in the real vocabularies."""
    rng = random.Random(SEED)
    pieces = ["a", "A", "the", "ing", "é", "中", "ß", "tion", "z", "straße", "ОК", "안", "qq"]
    for name in ("r50k_base", "cl100k_base", "o200k_base"):
        for _ in range(examples(40)):
            few = rng.sample(pieces, rng.randrange(1, len(pieces)))
            text = "".join(rng.choices(few, k=size // 3))
            for case in (text, text.upper(), text.lower()):
                got, expected = tokenizers[name].encode(case), encodings[name].encode_ordinary(case)
                same = got == expected
                assert same, f"{name}: {case[:200]!r} of {len(case)} TOKENMILL_SEED={SEED}"


def falling_chain(letters: bytes) -> tuple[bytes, list[bytes]]:
    """A text in which each pair of neighbours is a token and ranks fall from left to right."""
    # A walk over all ordered pairs of letters, each taken once (Hierholzer).
    after = {a: [b for b in letters if b != a] for a in letters}
    stack, trail = [letters[0]], []
    while stack:
        if after[stack[-1]]:
            stack.append(after[stack[-1]].pop())
        else:
            trail.append(stack.pop())
    text = bytes(trail)
    return text, [text[i : i + 2] for i in range(len(text) - 2, -1, -1)]


def test_chain_that_only_its_end_decides_merges_as_in_tiktoken(tmp_path: Path):
    """Every split point in it fails, back to its start. The ids must still be right."""
    text, pairs = falling_chain(bytes(range(97, 123)) + bytes(range(65, 91)))
    path = write_ranks(tmp_path / "chain.tiktoken", BYTES + pairs)
    tokenizer = Tokenizer.load(path, pattern=ALL)
    ranks = read_ranks(path.read_bytes())
    encoding = tiktoken.Encoding("chain", pat_str=ALL, mergeable_ranks=ranks, special_tokens={})
    assert len(text) > 1000
    for part in (text, text[:-1], text[1:], text * 3):
        assert tokenizer.encode(part) == encoding.encode_ordinary(part.decode())
