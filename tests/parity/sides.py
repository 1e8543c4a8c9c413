"""A vocabulary → ours and the real library's tokenizer of it, side by side."""

from __future__ import annotations

import json
import lzma
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import hard_inputs
import sentencepiece
import tiktoken
import tokenizers
from conftest import EMBEDDED, SHARED_DATA, make_encodings, read_ranks, save_ranks

from tokenmill import Tokenizer

Spans = list[tuple[int, int]]


@dataclass(frozen=True)
class Sides:
    """Our tokenizer and functions of the real library; `spans` are None if it has none."""

    name: str
    library: str
    ours: Tokenizer
    special_tokens: bool  # for our `encode`
    encode: Callable[[Sequence[str]], list[tuple[list[int], Spans | None]]]
    decode: Callable[[Sequence[list[int]]], list[str]]
    names: Sequence[str] = ()  # of added tokens
    source: str = ""  # a tokenizer.json


def of_tiktoken(name: str, ours: Tokenizer, real: tiktoken.Encoding) -> Sides:
    def encode(texts: Sequence[str]) -> list[tuple[list[int], Spans | None]]:
        ids = real.encode_batch(list(texts), num_threads=2, allowed_special="all")
        return [(one, None) for one in ids]

    def decode(batch: Sequence[list[int]]) -> list[str]:
        return [real.decode(ids) for ids in batch]

    return Sides(name, "tiktoken", ours, True, encode, decode, sorted(real.special_tokens_set))


def of_tokenizers(name: str, source: str) -> Sides:
    # pairs.py compares the steps after the model.
    bare = {**json.loads(source), "post_processor": None, "padding": None, "truncation": None}
    real = tokenizers.Tokenizer.from_str(json.dumps(bare))

    def encode(texts: Sequence[str]) -> list[tuple[list[int], Spans | None]]:
        found = real.encode_batch(list(texts), add_special_tokens=False)
        return [(one.ids, one.offsets) for one in found]

    def decode(batch: Sequence[list[int]]) -> list[str]:
        return real.decode_batch(batch, skip_special_tokens=False)

    names = [token.content for token in real.get_added_tokens_decoder().values()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.json"
        path.write_text(source, encoding="utf-8")
        ours = Tokenizer.load(path)
    return Sides(name, "tokenizers", ours, True, encode, decode, names, source)


def of_sentencepiece(name: str, data: bytes) -> Sides:
    real = sentencepiece.SentencePieceProcessor(model_proto=data)

    def encode(texts: Sequence[str]) -> list[tuple[list[int], Spans | None]]:
        return [(ids, None) for ids in real.encode(list(texts))]

    def decode(batch: Sequence[list[int]]) -> list[str]:
        return [real.decode(ids) for ids in batch]

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.model"
        path.write_bytes(data)
        ours = Tokenizer.load(path)
    return Sides(name, "sentencepiece", ours, False, encode, decode, ["<s>", "</s>", "<unk>"])


def embedded_sides() -> Iterator[Sides]:
    """The vocabularies of the package."""
    ours = {name: Tokenizer.load(name) for name in EMBEDDED}
    with tempfile.TemporaryDirectory() as folder:
        encodings = make_encodings(save_ranks(ours, Path(folder)))
    for name, tokenizer in ours.items():
        yield of_tiktoken(name, tokenizer, encodings[name])


def shared_sides() -> Iterator[Sides]:
    """The vocabularies next to the checkout that are not embedded."""
    if SHARED_DATA is None:
        return
    for path in sorted(SHARED_DATA.glob("vocab/*.json")):
        if path.stem in EMBEDDED:
            continue
        about = json.loads(path.read_text(encoding="utf-8"))
        ranks = read_ranks(lzma.decompress(path.with_suffix(".tiktoken.xz").read_bytes()))
        pattern, special_tokens = about["pat_str"], about["special_tokens"]
        if not isinstance(pattern, str):
            continue  # several splits: the tokenizer.json of the same model is there
        real = tiktoken.Encoding(
            path.stem, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special_tokens
        )
        yield of_tiktoken(f"{path.stem} (ranks)", Tokenizer.from_object(real), real)
    for path in sorted(SHARED_DATA.glob("vocab/hf/*.xz")):
        source = lzma.decompress(path.read_bytes()).decode()
        yield of_tokenizers(path.name.removesuffix(".xz"), source)
    for path in sorted(SHARED_DATA.glob("vocab/spm/*.xz")):
        yield of_sentencepiece(path.name.removesuffix(".xz"), lzma.decompress(path.read_bytes()))


def corpora() -> dict[str, Path]:
    """The corpora next to the checkout, by name."""
    if SHARED_DATA is None:
        return {}
    paths = sorted(SHARED_DATA.glob("corpus/*.jsonl.xz"))
    return {path.name.removesuffix(".jsonl.xz"): path for path in paths}


def documents(path: Path) -> Iterator[str]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)["text"]


_PIECES = [
    *("▁", "▁▁", " ▁", "e\u0301", "\u0301", "ﬁ", "Å", "ガ", "한", "\u1112\u1161\u11ab", "①", "½"),
    *("\u200b", "\ufeff", "\u3000", "\x85", "\x00", "\u0378", "\U000e0001", "🙂", "👨‍👩‍👧", "𝔘"),
    *("Hello", " world", "  ", "\n", "\n\n", "\t", "don't", "123", "4567", "x1y", "naïve", "中文"),
    *("ไทย", "हिन्दी", "İ", "ſ", "ß", "ΑΣ", "...", "!?", "<", ">", "_", "\r\n", "'LL", "٣", "²"),
]


def generated(names: Sequence[str], count: int, seed: int) -> list[str]:
    """Strings of names of added tokens, parts of them, and text that is easily mistaken."""
    rng = random.Random(seed)
    some = rng.sample(list(names), min(len(names), 30))
    near = [name[:-1] for name in some[:8]] + [name[1:] for name in some[:8]]
    found = []
    for _ in range(count):
        kinds = rng.sample(_PIECES, 6) + rng.sample(hard_inputs.FRAGMENTS, 4)
        if some and rng.random() < 0.5:
            kinds += rng.sample([*some, *near], 2)
        found.append("".join(rng.choices(kinds, k=rng.randrange(1, 14))))
    return [text for text in found if is_plain(text)]


def is_plain(text: str) -> bool:
    """Whether it can be UTF-8: the real libraries take no lone surrogates."""
    return not any("\ud800" <= character < "\ue000" for character in text)
