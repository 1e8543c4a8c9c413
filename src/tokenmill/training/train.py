"""Inputs → tokenizers: pretokens are counted, merges learned, ids assigned."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, Unpack

import numpy as np

from tokenmill import corpus
from tokenmill.errors import InputError
from tokenmill.formats.ranks import of_ranks
from tokenmill.formats.spec import Ranks
from tokenmill.options import describe, table
from tokenmill.progress import Progress
from tokenmill.tokenizer import Tokenizer
from tokenmill.training import options as rules
from tokenmill.training import sentencepiece
from tokenmill.training.checkpoint import Checkpoint, temporary_folder
from tokenmill.training.counting import Counted, Plan, bytes_seen, count_documents, parts
from tokenmill.training.merging import NO_MERGES, TRAINERS, ExactnessCheck, Merges, Merging, limits
from tokenmill.training.numbering import (
    Numbering,
    Vocabulary,
    assign,
    encode_counts,
    encoder_of,
    extended_numbering,
    new_numbering,
)
from tokenmill.training.options import CountOptions, TrainOptions
from tokenmill.training.report import write_reports
from tokenmill.training.sentencepiece import piece_options

Path_: TypeAlias = str | os.PathLike[str]
Inputs: TypeAlias = Path_ | Iterable[Path_]


@dataclass(frozen=True, slots=True)
class Summary:
    """The number of pretokens that `count_pretokens` counted, and of unique ones."""

    total: int
    unique: int


@describe(CountOptions, **rules.READ_DEFAULTS)
def count_pretokens(inputs: Inputs, output: Path_, **options: Unpack[CountOptions]) -> Summary:
    """Count the pretokens of files into a file, from which `train` learns any vocabulary size.

    The file `output` has the suffix `.tmc`. To add up the files of several machines, pass them
    together to `train` or `count_pretokens`. The errors are those of `train`.

    Options:

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("mill.txt").write_text("the mill mills the meal")
        >>> count_pretokens("mill.txt", "mill.tmc")
        Summary(total=5, unique=5)
        >>> train("mill.tmc", 258)
        <Tokenizer 'trained': vocab_size 258, 0 special tokens>
    """
    with _start(inputs, rules.resolve_options(CountOptions, options)) as plan:
        counted = _count(plan)
        counted.write(os.path.realpath(output), plan.metadata)
        return Summary(counted.counts.total(), len(counted.counts))


@describe(TrainOptions, **rules.READ_DEFAULTS)
def train(inputs: Inputs, vocab_size: int, **options: Unpack[TrainOptions]) -> Tokenizer:
    """Train a tokenizer on files.

    The result depends on the documents and the options. Threads and memory do not change it.

    Args:
        inputs: File, folder, glob or URL, or `-` for standard input, or a list of them. Names that
            end in `.tmc` are files of `count_pretokens`.
        vocab_size: Number of bytes, merges and special tokens together.

    Options:

    Raises:
        InputError: An input cannot be read. If it does not exist, a MissingInputError.
        TrainingError: An option has a wrong value, or options exclude each other.

    Warns:
        TrainingWarning: The result differs from the request, for example in its size.

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("mill.txt").write_text("the mill mills the meal " * 9)
        >>> tokenizer = train("mill.txt", 260)
        >>> [tokenizer.decode([id]) for id in tokenizer.encode("the mill")]
        ['the', ' m', 'il', 'l']
    """
    return _train(inputs, [vocab_size], options)[0]


@describe(TrainOptions, **rules.READ_DEFAULTS)
def train_sizes(
    inputs: Inputs, sizes: Iterable[int], **options: Unpack[TrainOptions]
) -> list[Tokenizer]:
    """Train tokenizers of several vocabulary sizes in one run. See `train`.

    Options:

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("mill.txt").write_text("the mill mills the meal " * 9)
        >>> [tokenizer.vocab_size for tokenizer in train_sizes("mill.txt", [258, 260])]
        [258, 260]
    """
    return _train(inputs, sizes, options)


@describe(TrainOptions, **rules.READ_DEFAULTS)
def train_from_iterator(
    texts: Iterable[Any], vocab_size: int, **options: Unpack[TrainOptions]
) -> Tokenizer:
    """Train a tokenizer on texts, lists of texts or an Arrow column. See `train`.

    A text is a str or has a buffer of bytes. An Arrow table has the texts in the column `field`.

    Options:

    Examples:
        >>> train_from_iterator(["the mill mills the meal"] * 9, 260)
        <Tokenizer 'trained': vocab_size 260, 0 special tokens>
    """
    if isinstance(texts, Mapping):
        raise TypeError("texts must be an iterable of texts, got a mapping; use train_from_counts")
    return _train([corpus.from_python(texts)], [vocab_size], options)[0]


@describe(TrainOptions, **rules.READ_DEFAULTS)
def train_from_counts(
    counts: Mapping[Any, int], vocab_size: int, **options: Unpack[TrainOptions]
) -> Tokenizer:
    """Train a tokenizer on a mapping of pretokens, str or bytes, to counts. See `train`.

    Options:

    Examples:
        >>> train_from_counts({"the": 9, " mill": 5}, 258)
        <Tokenizer 'trained': vocab_size 258, 0 special tokens>
    """
    if not isinstance(counts, Mapping):
        raise TypeError(f"counts must be a mapping of pretokens to int, got {counts!r}")
    return _train([corpus.from_python(counts)], [vocab_size], options)[0]


@contextmanager
def _start(inputs: Any, options: dict[str, Any], sizes: list[int] | None = None) -> Iterator[Plan]:
    """The plan of a run over inputs or sources. Without `sizes` it only counts.

    In its options, `extend`, `special_tokens` and `pattern` are those of the run.
    """
    trainer, resume, pattern = options.get("trainer"), options.get("resume"), options["pattern"]
    base = rules.tokenizer_to_extend(options.get("extend"), pattern)
    sources = corpus.find(
        inputs, options["input_format"], options["weights"], counts=True, strict=options["strict"]
    )
    corpus.refuse_unused_patterns(options["field"], sources)
    rules.check_sources(options, sources)
    names = rules.special_names(options, base)
    prepare = None
    if trainer == "sentencepiece":
        pattern = sentencepiece.PATTERN
        prepare = partial(sentencepiece.sentences, names=piece_options(options, names).front)
    pattern = rules.choose_pattern(pattern, base, sources)
    # `count_pretokens`, which has no trainer, cuts at special tokens.
    cut_at = names if trainer is None or TRAINERS[trainer].cuts_at_special_tokens else ()
    rules.check_counts_files(sources, pattern, names, cut_at)
    options = options | {"extend": base, "special_tokens": names, "pattern": pattern}
    with temporary_folder() if resume is None else nullcontext(resume) as folder:
        plan = Plan(sources, options, pattern, cut_at, folder, prepare=prepare)
        if resume is not None:
            plan = replace(plan, checkpoint=Checkpoint(resume, _decisive(plan, sizes)))
        yield plan


def _count(plan: Plan) -> Counted:
    counted = count_documents(plan)
    if not counted.counts:
        raise InputError(
            "the inputs contain no text; check the inputs, field, input_format and sample"
        )
    return counted


def _decisive(plan: Plan, sizes: list[int] | None) -> dict[str, Any]:
    """The options and inputs that decide the result, as a checkpoint compares them."""
    known, base = table(TrainOptions), plan.options["extend"]
    decisive = {
        **{name: value for name, value in plan.options.items() if known[name].shapes_output},
        "extend": None if base is None else base._fingerprint,
        "report": plan.is_apart,
        "vocab_size": sizes,
        "inputs": [source.name for source in plan.sources],
    }
    for source in plan.sources:
        decisive[f"the format of input {source.name!r}"] = source.kind
        decisive[f"the size of input {source.name!r}"] = source.size
        decisive[f"the modification time of input {source.name!r}"] = source.modified
        decisive[f"the weight of input {source.name!r}"] = source.weight
    return decisive


def _train(inputs: Any, sizes: Iterable[int], given: Mapping[str, Any]) -> list[Tokenizer]:
    """Tokenizers of all sizes from one run."""
    sizes = rules.check_sizes(sizes)
    options = rules.resolve_options(TrainOptions, given)
    # Files of vocabularies contain these options.
    names = ["trainer", "min_frequency", "max_token_length"]
    if options["sample"] is not None:
        names = ["sample", "seed", *names]
    provenance = {name: options[name] for name in names}
    with _start(inputs, options, sizes) as plan:
        if options["trainer"] == "sentencepiece":
            return sentencepiece.train_pieces(_count(plan), sizes, plan, provenance)
        provenance["initial_alphabet"] = options["initial_alphabet"]
        return _train_bytes(plan, sizes, provenance)


def _train_bytes(plan: Plan, sizes: list[int], provenance: dict[str, Any]) -> list[Tokenizer]:
    """Train byte-level vocabularies."""
    base, names, trainer = (plan.options[name] for name in ("extend", "special_tokens", "trainer"))
    if base is None:
        numbering = new_numbering(trainer, names, range(256))
    else:
        numbering = extended_numbering(base, names, trainer)
    takes_seen = plan.options["initial_alphabet"] == "seen"
    if not takes_seen:
        numbering.merges_max(min(sizes))  # an error before hours of counting
    counted = _count(plan)
    if takes_seen and base is None:
        numbering = new_numbering(trainer, names, bytes_seen(counted.counts))
    merges, check = _learn(plan, counted, numbering, max(map(numbering.merges_max, sizes)))
    vocabularies = {size: assign(numbering, merges, size) for size in sizes}
    trained = [_tokenizer(plan.pattern, vocabularies[n], n, provenance) for n in sizes]
    largest = vocabularies[max(sizes)]
    write_reports(plan, provenance, largest, check, counted.runs, partial(encoder_of, largest))
    return trained


def _learn(
    plan: Plan, counted: Counted, numbering: Numbering, merges_max: int
) -> tuple[Merges, ExactnessCheck | None]:
    """The merges, and their exactness check unless the checkpoint contains all of them."""
    checkpoint, progress = plan.checkpoint, plan.progress
    before = NO_MERGES if checkpoint is None else checkpoint.merges
    if checkpoint is not None and checkpoint.is_finished:
        return before, None
    counts = counted.take()
    done = assign(numbering, before, numbering.first_id + len(numbering.back) + merges_max)
    longer = (id_ for id_, token in numbering.tokens.items() if len(token) > 1)
    merging = Merging(
        tokens={**numbering.reserved, **done.tokens},
        first_id=done.next_id,
        ids_end=numbering.first_id + merges_max,
        trainer=plan.options["trainer"],
        min_frequency=plan.options["min_frequency"],
        max_token_length=plan.options["max_token_length"],
        made_from=min(longer, default=numbering.first_id),
        revives=len(numbering.base) > 0,
        **limits(plan.options, plan.folder, len(counts)),
    )

    def report(count: int, best_count: int) -> None:
        progress(Progress("merging", len(before) + count, merges_max, 0, best_count))
        if checkpoint is not None and checkpoint.is_due():
            checkpoint.record_merges(np.concatenate([before, merging.merges()]))

    with merging:
        if len(done.base) or len(done.merges):
            encoder = encoder_of(done)
            for part in parts(counts):
                merging.add_ids(*encode_counts(encoder, part, plan.threads))
        else:
            merging.add(counts)
        del counts
        merges, check = merging.run(report)
    merges = np.concatenate([before, merges])
    last = (check.last_count, check.min_tracked_count)
    progress(Progress("merging", len(merges), len(merges), 0, *last))
    if checkpoint is not None:
        checkpoint.record_merges(merges, is_finished=True)
    return merges, check


def _tokenizer(
    pattern: str, vocabulary: Vocabulary, size: int, provenance: Mapping[str, Any]
) -> Tokenizer:
    names = {id_: name.encode() for name, id_ in vocabulary.special_tokens.items()}
    for id_ in names.keys() & vocabulary.tokens.keys():
        rules.note(
            f"special token {names[id_].decode()!r} is spelled like a learned token and shares its "
            f"id {id_}, as in tokenizers; save to tokenizer.json to encode text as tokenizers does"
        )
    tokens = {
        token: id_ for id_, token in vocabulary.tokens.items() if names.get(id_, token) == token
    }
    merges = np.concatenate([vocabulary.base, vocabulary.merges])
    pairs = np.stack([merges["left"], merges["right"]], axis=1)
    spec = of_ranks(tokens, pattern, vocabulary.special_tokens, "the trained vocabulary")
    made = Ranks(pairs, {**provenance, "vocab_size": size})
    if vocabulary.size < size:
        rules.note(
            f"the text contains only {len(vocabulary.merges):_} merges to learn: the vocabulary "
            f"has {vocabulary.size:_} tokens instead of {size:_}; add more text, or lower "
            "min_frequency"
        )
    return Tokenizer._of_trained(replace(spec, ranks=made))
