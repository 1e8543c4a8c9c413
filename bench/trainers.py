"""Trainer name → an adapter that learns a vocabulary from a text. One small class per trainer.

All trainers learn with GPT-2's pattern and one special token, <|endoftext|>, if they support them.
Without special tokens, one id stays unused. The adapters return the tokens of the merges in order,
so trainers with the same tie-breaking rule can be compared.

Invariant: a module is imported in `open`, never at the top, after the number of threads is set.
"""

# mypy: disable-error-code="no-any-return"
# Most of the peers come without types.

from __future__ import annotations

import importlib
import io
from collections.abc import Iterable
from typing import Any, ClassVar

END = "<|endoftext|>"
PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


class Trainer:
    name: ClassVar[str]
    module: ClassVar[str]
    package: ClassVar[str]
    how: ClassVar[str]
    takes: ClassVar[str] = "texts"  # a list of str; or "bytes", "lines" (a list of str), "file"
    ties: ClassVar[
        str | None
    ]  # tie-breaking rule; equal rules learn equal merges; None: its own rule

    def open(self) -> None:
        self.lib: Any = importlib.import_module(self.module)

    def train(self, text: Any, vocab_size: int, threads: int) -> Any:
        raise NotImplementedError

    def tokens(self, result: Any) -> Iterable[bytes]:
        """Return the tokens of the merges, in order; this is not timed."""
        raise NotImplementedError


class TokenmillFile(Trainer):
    name = "tokenmill, file"
    module = package = "tokenmill"
    how = "train(path)"
    takes = "file"
    ties = "tokenizers"

    def train(self, text: Any, vocab_size: int, threads: int) -> Any:
        self.vocab_size = vocab_size
        train = self.lib.train if self.takes == "file" else self.lib.train_from_iterator
        return train(
            text,
            vocab_size=vocab_size,
            pattern="gpt2",
            trainer=self.ties,
            special_tokens=[END],
            separator=END if self.takes == "file" else None,
            threads=threads,
        )

    def tokens(self, result: Any) -> Iterable[bytes]:
        return [result.id_to_token(id) for id in range(257, result.vocab_size)]


class Tokenmill(TokenmillFile):
    name = "tokenmill"
    how = "train(iterator of str)"
    takes = "texts"

    def train(self, text: Any, vocab_size: int, threads: int) -> Any:
        return super().train(iter(text), vocab_size, threads)


class Gigatoken(Trainer):
    name = module = package = "gigatoken"
    how = "train_bpe(bytes)"
    takes = "bytes"
    ties = "tokenizers"

    def train(self, text: Any, vocab_size: int, threads: int) -> Any:
        return self.lib.train_bpe(text, vocab_size, [END], separator=END.encode())

    def tokens(self, result: Any) -> Iterable[bytes]:
        return [left + right for left, right in result[1]]


class Tokenizers(Trainer):
    name = module = package = "tokenizers"
    how = "train_from_iterator, ByteLevel, BpeTrainer"
    ties = "tokenizers"

    def train(self, text: Any, vocab_size: int, threads: int) -> Any:
        lib = self.lib
        tokenizer = lib.Tokenizer(lib.models.BPE())
        tokenizer.pre_tokenizer = lib.pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = lib.trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=[END],
            initial_alphabet=lib.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(text, trainer)
        return tokenizer

    def tokens(self, result: Any) -> Iterable[bytes]:
        byte_of = {letter: byte for byte, letter in enumerate(letters_of_bytes())}
        found = sorted((id, token) for token, id in result.get_vocab().items() if id > 256)
        return [bytes(byte_of[letter] for letter in token) for _, token in found]


class Rustbpe(Trainer):
    name = module = package = "rustbpe"
    how = "train_from_iterator"
    ties = "rustbpe"

    def train(self, text: Any, vocab_size: int, threads: int) -> Any:
        tokenizer = self.lib.Tokenizer()
        tokenizer.train_from_iterator(text, vocab_size - 1, pattern=PATTERN)
        return tokenizer

    def tokens(self, result: Any) -> Iterable[bytes]:
        return [bytes(token) for token, id in result.get_mergeable_ranks() if id >= 256]


class Bpeasy(Trainer):
    name = module = package = "bpeasy"
    how = "train_bpe_stream, max_token_length 10⁶"
    ties = "rustbpe"

    def train(self, text: Any, vocab_size: int, threads: int) -> Any:
        return self.lib.train_bpe_stream(iter(text), PATTERN, 10**6, vocab_size - 1, 1000)

    def tokens(self, result: Any) -> Iterable[bytes]:
        return [token for token, id in sorted(result.items(), key=lambda x: x[1]) if id >= 256]


class Ffbpe(Trainer):
    name = module = package = "ffbpe"
    how = "WordCounter.add_source, BpeTrainer"
    ties = "rustbpe"

    def train(self, text: Any, vocab_size: int, threads: int) -> Any:
        counter = self.lib.PreTokenizer([], pat_str=PATTERN).word_counter()
        counter.add_source(text)
        rule = {"initial_alphabet": "raw", "tie_break": "smallest_pair_id"}
        trainer = self.lib.BpeTrainer([], unit="byte", **rule)
        trainer.add_word_counter(counter)
        trainer.train(vocab_size - 1)
        return trainer

    def tokens(self, result: Any) -> Iterable[bytes]:
        return [
            token for token, id in sorted(result.vocab.items(), key=lambda x: x[1]) if id >= 256
        ]


class Sentencepiece(Trainer):
    """Characters instead of bytes, and pieces of one script: a vocabulary of another kind."""

    name = module = package = "sentencepiece"
    how = "SentencePieceTrainer.train(sentence_iterator), BPE"
    takes = "lines"
    ties = None

    def train(self, text: Any, vocab_size: int, threads: int) -> Any:
        model = io.BytesIO()
        self.lib.SentencePieceTrainer.train(
            sentence_iterator=iter(text),
            model_writer=model,
            vocab_size=vocab_size,
            model_type="bpe",
            num_threads=threads,
            hard_vocab_limit=False,
            minloglevel=2,
        )
        return model

    def tokens(self, result: Any) -> Iterable[bytes]:
        processor = self.lib.SentencePieceProcessor(model_proto=result.getvalue())
        return [processor.id_to_piece(id).encode() for id in range(3, processor.get_piece_size())]


def letters_of_bytes() -> list[str]:
    """GPT-2's letter for each byte: itself where Latin-1 shows it, else one from U+0100 on."""
    shown = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in shown else chr(next(others)) for byte in range(256)]


TRAINERS: dict[str, type[Trainer]] = {
    trainer.name: trainer
    for trainer in (
        TokenmillFile,
        Tokenmill,
        Gigatoken,
        Ffbpe,
        Rustbpe,
        Tokenizers,
        Bpeasy,
        Sentencepiece,
    )
}
