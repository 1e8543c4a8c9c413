"""Tokenizers with their parts put together: byte-level, SentencePiece's style, characters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from tokenmill.compat.tokenizers import (
    decoders,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
    values,
)
from tokenmill.compat.tokenizers.added import AddedToken
from tokenmill.compat.tokenizers.encoding import Encoding
from tokenmill.compat.tokenizers.models import BPE
from tokenmill.compat.tokenizers.tokenizer import Tokenizer

Vocab: TypeAlias = Mapping[str, int] | str | None
Merges: TypeAlias = Sequence[tuple[str, str]] | str | None


def _part(name: str) -> property:
    """A part of the tokenizer within, which can be read and set."""
    return property(
        lambda self: getattr(self._tokenizer, name),
        lambda self, part: setattr(self._tokenizer, name, part),
    )


class BaseTokenizer:
    """A tokenizer with the parameters that it was made with; all else is the tokenizer's."""

    def __init__(self, tokenizer: Tokenizer, parameters: Mapping[str, Any] | None = None) -> None:
        self._tokenizer = tokenizer
        self._parameters = dict(parameters or {})

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value}" for name, value in self._parameters.items())
        return f"Tokenizer(vocabulary_size={self._tokenizer.get_vocab_size()}, {shown})"

    model = _part("model")
    normalizer = _part("normalizer")
    pre_tokenizer = _part("pre_tokenizer")
    post_processor = _part("post_processor")
    decoder = _part("decoder")

    def __getattr__(self, name: str) -> Any:
        if name == "_tokenizer":  # not made yet, as while it is unpickled
            raise AttributeError(name)
        return getattr(self._tokenizer, name)

    def enable_padding(
        self,
        direction: str | None = "right",
        pad_to_multiple_of: int | None = None,
        pad_id: int | None = 0,
        pad_type_id: int | None = 0,
        pad_token: str | None = "[PAD]",
        length: int | None = None,
    ) -> None:
        self._tokenizer.enable_padding(
            direction=direction, pad_to_multiple_of=pad_to_multiple_of, pad_id=pad_id,
            pad_type_id=pad_type_id, pad_token=pad_token, length=length,
        )  # fmt: skip

    def enable_truncation(
        self, max_length: int, stride: int | None = 0, strategy: str | None = "longest_first"
    ) -> None:
        self._tokenizer.enable_truncation(max_length, stride=stride, strategy=strategy)

    def encode(
        self,
        sequence: Any,
        pair: Any = None,
        is_pretokenized: bool = False,
        add_special_tokens: bool = True,
    ) -> Encoding:
        if sequence is None:
            raise ValueError("encode: `sequence` can't be `None`")
        return self._tokenizer.encode(sequence, pair, is_pretokenized, add_special_tokens)

    def encode_batch(
        self, inputs: Any, is_pretokenized: bool = False, add_special_tokens: bool = True
    ) -> list[Encoding]:
        if inputs is None:
            raise ValueError("encode_batch: `inputs` can't be `None`")
        return self._tokenizer.encode_batch(inputs, is_pretokenized, add_special_tokens)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool | None = True) -> str:
        if ids is None:
            raise ValueError("None input is not valid. Should be a list of integers.")
        return self._tokenizer.decode(ids, skip_special_tokens=bool(skip_special_tokens))

    def decode_batch(
        self, sequences: Sequence[Sequence[int]], skip_special_tokens: bool | None = True
    ) -> list[str]:
        if sequences is None:
            raise ValueError("None input is not valid. Should be list of list of integers.")
        return self._tokenizer.decode_batch(sequences, bool(skip_special_tokens))

    def normalize(self, sequence: str) -> str:
        found: str = self._tokenizer.normalizer.normalize_str(sequence)
        return found

    def save_model(self, directory: str, prefix: str | None = None) -> list[str]:
        found: list[str] = self._tokenizer.model.save(directory, prefix)
        return found

    def _learn(self, source: Any, from_files: bool, **options: Any) -> None:
        trainer = trainers.BpeTrainer(**options)
        if from_files:
            files = [source] if isinstance(source, str) else source
            self._tokenizer.train(files, trainer=trainer)
        else:
            self._tokenizer.train_from_iterator(source, trainer=trainer)


def _set_normalizer(tokenizer: Tokenizer, chosen: list[normalizers.Normalizer]) -> None:
    if chosen:
        tokenizer.normalizer = chosen[0] if len(chosen) == 1 else normalizers.Sequence(chosen)


class ByteLevelBPETokenizer(BaseTokenizer):
    """GPT-2's way."""

    def __init__(
        self,
        vocab: Vocab = None,
        merges: Merges = None,
        add_prefix_space: bool = False,
        lowercase: bool = False,
        dropout: float | None = None,
        unicode_normalizer: str | None = None,
        continuing_subword_prefix: str | None = None,
        end_of_word_suffix: str | None = None,
        trim_offsets: bool = False,
    ) -> None:
        model = BPE()
        if vocab is not None and merges is not None:
            model = BPE(
                vocab, merges, dropout=dropout,  # type: ignore[arg-type]
                continuing_subword_prefix=continuing_subword_prefix or "",
                end_of_word_suffix=end_of_word_suffix or "",
            )  # fmt: skip
        tokenizer = Tokenizer(model)
        chosen = []
        if unicode_normalizer:
            chosen.append(normalizers.unicode_normalizer_from_str(unicode_normalizer))
        if lowercase:
            chosen.append(normalizers.Lowercase())
        _set_normalizer(tokenizer, chosen)
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=trim_offsets)
        super().__init__(
            tokenizer,
            {
                "model": "ByteLevelBPE", "add_prefix_space": add_prefix_space,
                "lowercase": lowercase, "dropout": dropout,
                "unicode_normalizer": unicode_normalizer,
                "continuing_subword_prefix": continuing_subword_prefix,
                "end_of_word_suffix": end_of_word_suffix, "trim_offsets": trim_offsets,
            },
        )  # fmt: skip

    @staticmethod
    def from_file(
        vocab_filename: str, merges_filename: str, **kwargs: Any
    ) -> ByteLevelBPETokenizer:
        """A tokenizer of vocab.json and merges.txt."""
        return ByteLevelBPETokenizer(*BPE.read_file(vocab_filename, merges_filename), **kwargs)

    def train(
        self,
        files: str | list[str],
        vocab_size: int = 30000,
        min_frequency: int = 2,
        show_progress: bool = True,
        special_tokens: Sequence[str | AddedToken] = (),
    ) -> None:
        """Learns from the lines of files."""
        self._learn(
            files, True, vocab_size=vocab_size, min_frequency=min_frequency,
            show_progress=show_progress, special_tokens=special_tokens,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        )  # fmt: skip

    def train_from_iterator(
        self,
        iterator: Iterable[Any],
        vocab_size: int = 30000,
        min_frequency: int = 2,
        show_progress: bool = True,
        special_tokens: Sequence[str | AddedToken] = (),
        length: int | None = None,
    ) -> None:
        """Learns from texts, or from lists of them."""
        self._learn(
            iterator, False, vocab_size=vocab_size, min_frequency=min_frequency,
            show_progress=show_progress, special_tokens=special_tokens,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        )  # fmt: skip


class SentencePieceBPETokenizer(BaseTokenizer):
    """SentencePiece's style, with "▁" for blanks."""

    def __init__(
        self,
        vocab: Vocab = None,
        merges: Merges = None,
        unk_token: str | AddedToken = "<unk>",
        replacement: str = "▁",
        add_prefix_space: bool = True,
        dropout: float | None = None,
        fuse_unk: bool | None = False,
    ) -> None:
        options = {"dropout": dropout, "unk_token": str(unk_token), "fuse_unk": bool(fuse_unk)}
        tokenizer = Tokenizer(BPE(vocab, merges, **options))  # type: ignore[arg-type]
        if tokenizer.token_to_id(str(unk_token)) is not None:
            tokenizer.add_special_tokens([str(unk_token)])
        tokenizer.normalizer = normalizers.NFKC()
        scheme = "always" if add_prefix_space else "never"
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement, scheme)
        tokenizer.decoder = decoders.Metaspace(replacement, scheme)
        super().__init__(
            tokenizer,
            {
                "model": "SentencePieceBPE", "unk_token": unk_token, "replacement": replacement,
                "add_prefix_space": add_prefix_space, "dropout": dropout,
            },
        )  # fmt: skip

    @staticmethod
    def from_file(
        vocab_filename: str, merges_filename: str, **kwargs: Any
    ) -> SentencePieceBPETokenizer:
        """A tokenizer of vocab.json and merges.txt."""
        return SentencePieceBPETokenizer(*BPE.read_file(vocab_filename, merges_filename), **kwargs)

    def train(
        self,
        files: str | list[str],
        vocab_size: int = 30000,
        min_frequency: int = 2,
        special_tokens: Sequence[str | AddedToken] = ("<unk>",),
        limit_alphabet: int = 1000,
        initial_alphabet: Sequence[str] = (),
        show_progress: bool = True,
    ) -> None:
        """Learns from the lines of files."""
        self._learn(
            files, True, vocab_size=vocab_size, min_frequency=min_frequency,
            special_tokens=special_tokens, limit_alphabet=limit_alphabet,
            initial_alphabet=initial_alphabet, show_progress=show_progress,
        )  # fmt: skip

    def train_from_iterator(
        self,
        iterator: Iterable[Any],
        vocab_size: int = 30000,
        min_frequency: int = 2,
        special_tokens: Sequence[str | AddedToken] = ("<unk>",),
        limit_alphabet: int = 1000,
        initial_alphabet: Sequence[str] = (),
        show_progress: bool = True,
        length: int | None = None,
    ) -> None:
        """Learns from texts, or from lists of them."""
        self._learn(
            iterator, False, vocab_size=vocab_size, min_frequency=min_frequency,
            special_tokens=special_tokens, limit_alphabet=limit_alphabet,
            initial_alphabet=initial_alphabet, show_progress=show_progress,
        )  # fmt: skip


class CharBPETokenizer(BaseTokenizer):
    """The first BPE: words that end in a suffix."""

    def __init__(
        self,
        vocab: Vocab = None,
        merges: Merges = None,
        unk_token: str | AddedToken = "<unk>",
        suffix: str = "</w>",
        dropout: float | None = None,
        lowercase: bool = False,
        unicode_normalizer: str | None = None,
        bert_normalizer: bool = True,
        split_on_whitespace_only: bool = False,
    ) -> None:
        model = BPE(unk_token=str(unk_token), dropout=dropout, end_of_word_suffix=suffix)
        if vocab is not None and merges is not None:
            model = BPE(
                vocab, merges, dropout=dropout, unk_token=str(unk_token),  # type: ignore[arg-type]
                end_of_word_suffix=suffix,
            )  # fmt: skip
        tokenizer = Tokenizer(model)
        if tokenizer.token_to_id(str(unk_token)) is not None:
            tokenizer.add_special_tokens([str(unk_token)])
        chosen: list[normalizers.Normalizer] = []
        if unicode_normalizer:
            chosen.append(normalizers.unicode_normalizer_from_str(unicode_normalizer))
        if bert_normalizer:
            chosen.append(normalizers.BertNormalizer(lowercase=False))
        if lowercase:
            chosen.append(normalizers.Lowercase())
        _set_normalizer(tokenizer, chosen)
        tokenizer.pre_tokenizer = (
            pre_tokenizers.WhitespaceSplit()
            if split_on_whitespace_only
            else pre_tokenizers.BertPreTokenizer()
        )
        tokenizer.decoder = decoders.BPEDecoder(suffix=suffix)
        super().__init__(
            tokenizer,
            {
                "model": "BPE", "unk_token": unk_token, "suffix": suffix, "dropout": dropout,
                "lowercase": lowercase, "unicode_normalizer": unicode_normalizer,
                "bert_normalizer": bert_normalizer,
                "split_on_whitespace_only": split_on_whitespace_only,
            },
        )  # fmt: skip

    @staticmethod
    def from_file(vocab_filename: str, merges_filename: str, **kwargs: Any) -> CharBPETokenizer:
        """A tokenizer of vocab.json and merges.txt."""
        return CharBPETokenizer(*BPE.read_file(vocab_filename, merges_filename), **kwargs)

    def train(
        self,
        files: str | list[str],
        vocab_size: int = 30000,
        min_frequency: int = 2,
        special_tokens: Sequence[str | AddedToken] = ("<unk>",),
        limit_alphabet: int = 1000,
        initial_alphabet: Sequence[str] = (),
        suffix: str | None = "</w>",
        show_progress: bool = True,
    ) -> None:
        """Learns from the lines of files."""
        self._learn(
            files, True, vocab_size=vocab_size, min_frequency=min_frequency,
            special_tokens=special_tokens, limit_alphabet=limit_alphabet,
            initial_alphabet=initial_alphabet, end_of_word_suffix=suffix,
            show_progress=show_progress,
        )  # fmt: skip

    def train_from_iterator(
        self,
        iterator: Iterable[Any],
        vocab_size: int = 30000,
        min_frequency: int = 2,
        special_tokens: Sequence[str | AddedToken] = ("<unk>",),
        limit_alphabet: int = 1000,
        initial_alphabet: Sequence[str] = (),
        suffix: str | None = "</w>",
        show_progress: bool = True,
        length: int | None = None,
    ) -> None:
        """Learns from texts, or from lists of them."""
        self._learn(
            iterator, False, vocab_size=vocab_size, min_frequency=min_frequency,
            special_tokens=special_tokens, limit_alphabet=limit_alphabet,
            initial_alphabet=initial_alphabet, end_of_word_suffix=suffix,
            show_progress=show_progress,
        )  # fmt: skip


def _other(name: str, model: str) -> type[BaseTokenizer]:
    def refuse(self: BaseTokenizer | None = None, *_: object, **__: object) -> NoReturn:
        values.not_there(f"{name}, whose model is {model},")

    members = {
        "__init__": refuse,
        "from_file": staticmethod(refuse),
        "__doc__": f"{name}: not here.",
    }
    return type(name, (BaseTokenizer,), members)


BertWordPieceTokenizer = _other("BertWordPieceTokenizer", "WordPiece")
SentencePieceUnigramTokenizer = _other("SentencePieceUnigramTokenizer", "Unigram")
