"""A case of training → the vocabulary that a real library learns from it, in one common form."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from dataclasses import dataclass

import bpeasy
import ffbpe
import regex
import rustbpe
import sentencepiece
import tokenizers
import training_reference
from subword_nmt.learn_bpe import learn_bpe
from tokenizers import models, pre_tokenizers, trainers
from training_cases import WHOLE, Case

from tokenmill import reference


@dataclass(frozen=True)
class Vocabulary:
    tokens: dict[int, bytes]  # by id; a special is its name
    merges: list[tuple[bytes, bytes]] | None = None  # where a trainer tells them


def of_ranks(ranks: Iterable[tuple[bytes, int]]) -> Vocabulary:
    return Vocabulary({id: bytes(token) for token, id in ranks})


def by_tokenizers(case: Case) -> Vocabulary:
    """Hugging Face tokenizers; its strings are turned back into bytes."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = tokenizers_split(case.pattern)
    limit = {} if case.max_token_length is None else {"max_token_length": case.max_token_length}
    trainer = trainers.BpeTrainer(
        vocab_size=case.vocab_size,
        min_frequency=case.min_frequency,
        special_tokens=list(case.special_tokens),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if case.all_bytes else [],
        show_progress=False,
        **limit,
    )
    tokenizer.train_from_iterator(case.documents, trainer)
    return of_json(tokenizer.to_str(), case.special_tokens)


def of_json(text: str, special_tokens: Iterable[str]) -> Vocabulary:
    """The vocabulary and the merges that a tokenizer.json holds."""
    model = json.loads(text)["model"]
    names = set(special_tokens)
    spelled = training_reference.spelled
    return Vocabulary(
        {id: t.encode() if t in names else spelled(t) for t, id in model["vocab"].items()},
        [(spelled(left), spelled(right)) for left, right in model["merges"]],
    )


def tokenizers_split(pattern: str) -> pre_tokenizers.PreTokenizer:
    if pattern == reference.GPT2_PATTERN:
        return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    if pattern == WHOLE:
        return whole
    split = pre_tokenizers.Split(tokenizers.Regex(pattern), "removed", invert=True)
    return pre_tokenizers.Sequence([split, whole])


def by_rustbpe(case: Case) -> Vocabulary:
    tokenizer = rustbpe.Tokenizer()
    tokenizer.train_from_iterator(case.documents, case.vocab_size, pattern=case.pattern)
    return of_ranks(tokenizer.get_mergeable_ranks())


def by_bpeasy(case: Case) -> Vocabulary:
    """bpeasy, whose limit of length is not optional; its rule is that of tokenizers."""
    ranks = bpeasy.train_bpe_stream(
        iter(case.documents), case.pattern, case.max_token_length or 10**6, case.vocab_size, 1000
    )
    return of_ranks(ranks.items())


def by_ffbpe(case: Case, tie_break: str = "smallest_pair_id") -> Vocabulary:
    counter = ffbpe.PreTokenizer([], pat_str=case.pattern).word_counter()
    counter.add_batch(case.documents)
    trainer = ffbpe.BpeTrainer([], unit="byte", initial_alphabet="raw", tie_break=tie_break)
    trainer.add_word_counter(counter)
    trainer.train(case.vocab_size)
    return of_ranks(trainer.vocab.items())


def by_ffbpe_largest(case: Case) -> Vocabulary:
    return by_ffbpe(case, "largest_content")


def by_subword_nmt(case: Case) -> Vocabulary:
    """subword-nmt, on cases of `words`: it gives merges only, and marks the ends of words."""
    out = io.StringIO()
    learn_bpe(io.StringIO("\n".join(case.documents)), out, case.vocab_size - 256, min_frequency=1)
    lines = out.getvalue().replace("</w>", "").encode().splitlines()[1:]
    merges = [(left, right) for left, right in (line.split() for line in lines)]
    return Vocabulary(with_bytes(left + right for left, right in merges), merges)


def by_minbpe(case: Case) -> Vocabulary:
    """minbpe's RegexTokenizer as it was published: it is not on PyPI. It keeps every pretoken of
    the text, in order, and takes the first pair that has the highest count."""
    chunks = [
        list(match.group().encode())
        for document in case.documents
        for match in regex.finditer(case.pattern, document)
    ]
    tokens = [bytes([byte]) for byte in range(256)]
    while len(tokens) < case.vocab_size:
        counts: dict[tuple[int, int], int] = {}
        for chunk in chunks:
            for pair in zip(chunk, chunk[1:], strict=False):  # noqa: RUF007
                counts[pair] = counts.get(pair, 0) + 1
        if not counts:  # minbpe itself fails here
            break
        left, right = max(counts, key=counts.__getitem__)
        for chunk in chunks:
            reference.replace(chunk, left, right, len(tokens))
        tokens.append(tokens[left] + tokens[right])
    return Vocabulary(dict(enumerate(tokens)))


def with_bytes(tokens: Iterable[bytes]) -> dict[int, bytes]:
    every = [*(bytes([byte]) for byte in range(256)), *tokens]
    return dict(enumerate(every))


def sentencepiece_pieces(lines: list[str], vocab_size: int, **options: object) -> list[str] | None:
    """All pieces by id; None where the trainer refuses."""
    model = sentencepiece_model(lines, vocab_size, **options)
    if model is None:
        return None
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(id) for id in range(processor.get_piece_size())]


def sentencepiece_model(lines: list[str], vocab_size: int, **options: object) -> bytes | None:
    model = io.BytesIO()
    fixed = {"normalization_rule_name": "identity", "hard_vocab_limit": False, "minloglevel": 3}
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            vocab_size=vocab_size,
            model_type="bpe",
            **fixed,
            **options,
        )
    except RuntimeError:
        return None
    return model.getvalue()


def sentencepiece_parts(model: bytes) -> tuple[list[bytes], bytes, list[bytes]]:
    """The messages of a model: its pieces, its training options, and all others. The option that
    allows a smaller vocabulary is left out."""
    parts: dict[int, list[bytes]] = {}
    at = 0
    while at < len(model):
        field, size, shift = model[at] >> 3, 0, 0
        while True:
            at += 1
            size |= (model[at] & 0x7F) << shift
            shift += 7
            if model[at] < 0x80:
                break
        at += 1
        parts.setdefault(field, []).append(model[at : at + size])
        at += size
    trainer = b"".join(parts.pop(2)).replace(b"\x88\x02\x00", b"")
    return parts.pop(1), trainer, [part for number in sorted(parts) for part in parts[number]]
