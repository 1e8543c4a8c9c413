"""Tokenizers with ready-made components: byte-level BPE, and BPE in SentencePiece's style."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, TypeAlias

from tokenmill.compat.tokenizers import decoders, normalizers, pre_tokenizers, processors, trainers
from tokenmill.compat.tokenizers.components import AddedToken, refused_call, refused_class
from tokenmill.compat.tokenizers.encoding import Encoding
from tokenmill.compat.tokenizers.models import BPE
from tokenmill.compat.tokenizers.tokenizer import Tokenizer

Vocab: TypeAlias = dict[str, int] | str | None
Merges: TypeAlias = Sequence[tuple[str, str]] | str | None


class BaseTokenizer:
    """A tokenizer with its constructor's parameters. Other attributes are the tokenizer's."""

    def __init__(self, tokenizer: Tokenizer, parameters: Mapping[str, Any] | None = None) -> None:
        self._tokenizer = tokenizer
        self._parameters = dict(parameters or {})

    @classmethod
    def from_file(cls, vocab_filename: str, merges_filename: str, **kwargs: Any) -> Self:
        """Return the tokenizer of vocab.json and merges.txt."""
        files: Any = BPE.read_file(vocab_filename, merges_filename)
        return cls(*files, **kwargs)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value}" for name, value in self._parameters.items())
        return f"Tokenizer(vocabulary_size={self._tokenizer.get_vocab_size()}, {shown})"

    def __getattr__(self, name: str) -> Any:
        if name == "_tokenizer":  # not set yet, during unpickling
            raise AttributeError(name)
        return getattr(self._tokenizer, name)

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self if name.startswith("_") else self._tokenizer, name, value)

    def enable_padding(self, *args: Any, **kwargs: Any) -> None:
        """Pad encodings, with the options of `Tokenizer.enable_padding` by name or position."""
        names = ("direction", "pad_to_multiple_of", "pad_id", "pad_type_id", "pad_token", "length")
        self._tokenizer.enable_padding(**dict(zip(names, args, strict=False)), **kwargs)

    def enable_truncation(
        self, max_length: int, stride: int | None = 0, strategy: str | None = "longest_first"
    ) -> None:
        self._tokenizer.enable_truncation(max_length, stride=stride, strategy=strategy)

    def encode(self, sequence: Any, *args: Any, **kwargs: Any) -> Encoding:
        """Return the encoding of a text or a pair, as `Tokenizer.encode`."""
        if sequence is None:
            raise ValueError("sequence must not be None")
        return self._tokenizer.encode(sequence, *args, **kwargs)

    def encode_batch(self, inputs: Any, *args: Any, **kwargs: Any) -> list[Encoding]:
        """Return the encodings of texts and pairs, as `Tokenizer.encode_batch`."""
        if inputs is None:
            raise ValueError("inputs must not be None")
        return self._tokenizer.encode_batch(inputs, *args, **kwargs)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool | None = True) -> str:
        if ids is None:
            raise ValueError("ids must not be None")
        return self._tokenizer.decode(ids, skip_special_tokens=bool(skip_special_tokens))

    def decode_batch(
        self, sequences: Sequence[Sequence[int]], skip_special_tokens: bool | None = True
    ) -> list[str]:
        if sequences is None:
            raise ValueError("sequences must not be None")
        return self._tokenizer.decode_batch(sequences, bool(skip_special_tokens))

    def normalize(self, sequence: str) -> str:
        found: str = self._tokenizer.normalizer.normalize_str(sequence)
        return found

    def save_model(self, directory: str, prefix: str | None = None) -> list[str]:
        found: list[str] = self._tokenizer.model.save(directory, prefix)
        return found


class ByteLevelBPETokenizer(BaseTokenizer):
    """BPE on bytes, as in GPT-2."""

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
                vocab, merges, dropout=dropout,
                continuing_subword_prefix=continuing_subword_prefix or "",
                end_of_word_suffix=end_of_word_suffix or "",
            )  # fmt: skip
        tokenizer = Tokenizer(model)
        chosen = []
        if unicode_normalizer:
            chosen.append(normalizers.unicode_normalizer_from_str(unicode_normalizer))
        if lowercase:
            chosen.append(normalizers.Lowercase())
        if chosen:
            tokenizer.normalizer = chosen[0] if len(chosen) == 1 else normalizers.Sequence(chosen)
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

    def train(self, files: str | list[str], *args: Any, **kwargs: Any) -> None:
        """Learn from the lines of files, with the options of `train_from_iterator`."""
        lines = trainers.lines_of([files] if isinstance(files, str) else files)
        self.train_from_iterator(lines, *args, **kwargs)

    def train_from_iterator(
        self,
        iterator: Iterable[Any],
        vocab_size: int = 30000,
        min_frequency: int = 2,
        show_progress: bool = True,
        special_tokens: Sequence[str | AddedToken] = (),
        length: int | None = None,
    ) -> None:
        """Learn tokens and merges from texts, or from lists of them."""
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size, min_frequency=min_frequency, show_progress=show_progress,
            special_tokens=special_tokens, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        )  # fmt: skip
        self._tokenizer.train_from_iterator(iterator, trainer)


class SentencePieceBPETokenizer(BaseTokenizer):
    """BPE on characters with "▁" for spaces. It encodes; training it is not supported."""

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
        tokenizer = Tokenizer(BPE(vocab, merges, **options))
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

    train = refused_call("training SentencePieceBPETokenizer, which is on characters,")
    train_from_iterator = train


CharBPETokenizer, BertWordPieceTokenizer, SentencePieceUnigramTokenizer = (
    refused_class(BaseTokenizer, name, f"{name}, {reason},", ["from_file"])
    for name, reason in {
        "CharBPETokenizer": "which needs BERT's components",
        "BertWordPieceTokenizer": "whose model is WordPiece",
        "SentencePieceUnigramTokenizer": "whose model is Unigram",
    }.items()
)
