"""Sources → a tokenizer: documents are counted, merges learned, ids given. `train` and `count`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from tokenmill import arguments
from tokenmill.cluster import LOCAL, RAY, Engine
from tokenmill.corpus import ReadOptions, Source, find_sources
from tokenmill.errors import InputError, TrainingError
from tokenmill.native import _native
from tokenmill.schemes import scheme_of
from tokenmill.tokenizer import Tokenizer
from tokenmill.training import options
from tokenmill.training.counting import Counted, Plan, bytes_seen, count_documents, metadata, parts
from tokenmill.training.encoding import Encoder
from tokenmill.training.journal import Journal
from tokenmill.training.layout import (
    Layout,
    Learned,
    assign,
    extended_layout,
    new_layout,
)
from tokenmill.training.merging import Merges, Merging, no_merges
from tokenmill.training.pieces.sentences import PATTERN, sentences
from tokenmill.training.pieces.train import Resources, train_pieces
from tokenmill.training.pieces.vocabulary import PieceOptions, Pieces
from tokenmill.training.progress import Progress, Report, silent
from tokenmill.training.report import write_report
from tokenmill.training.trace import write_trace

Path_: TypeAlias = "str | os.PathLike[str]"
BytesTies: TypeAlias = Literal["huggingface", "rustbpe", "cs336", "minbpe"]
PieceTies: TypeAlias = Literal["sentencepiece"]

# Whose trainer cuts documents at the names of specials; to the others they are text.
_CUT_AT_SPECIALS = ("cs336",)

# About what a word takes while it is merged; and of the memory, what words may take: the rest is
# for their pairs. Where that is not enough, they lie in files.
_WORD_BYTES = 56
_PYTHON_BYTES = 64 << 20  # the interpreter, numpy and what else was imported
_WORDS_SHARE = 0.5
# Threads that merge wait for each other at each merge. Fewer words than these take one thread less
# than a tenth of a second, where two on busy processors took two to ten times as long.
_FEW_WORDS = 100_000


@dataclass(frozen=True, slots=True)
class Summary:
    """What `count` has counted: pretokens, and how many of them differ."""

    total: int
    unique: int


def count(
    source: Any,
    output: Path_,
    *,
    pattern: str | None = None,
    specials: Sequence[str] = (),
    field: str = "text",
    format: str | None = None,
    separator: str | None = None,
    weights: Mapping[Any, float] | None = None,
    sample: float | None = None,
    seed: int = 0,
    threads: int | None = None,
    memory: int | None = None,
    engine: str = LOCAL,
    ray_address: str | None = None,
    progress: Report | None = None,
) -> Summary:
    """Counts the pretokens of a source into a file, from which `train` learns at any size.

    `output` is the file, `.tmc`. Files of several machines are added up by giving them together to
    `train` or `count`. All other arguments are those of `train`, and so are the errors.

    Examples:
        >>> count(["the mill mills", "the meal"], "corpus.tmc")
        Summary(total=5, unique=4)
        >>> train("corpus.tmc", vocab_size=258)
        <Tokenizer 'trained': vocab_size 258, 0 specials>
    """
    sources = find_sources(source, weights, format)
    with ExitStack() as stack:
        job = _Job(
            stack, sources, pattern=pattern, specials=specials, field=field, sample=sample,
            seed=seed, threads=threads, memory=memory, progress=progress, separator=separator,
            engine=Engine(engine, ray_address),
        )  # fmt: skip
        counted = job.count()
        counts = counted.take()
        path = os.path.realpath(output)
        if isinstance(counts, _native.Inventory):
            counts.write(path, job.metadata)
        else:
            _native.merge_counts([counted.path], np.ones(1), path, job.metadata)
        return Summary(counts.total(), len(counts))


@overload
def train(
    source: Any, *, vocab_size: int, pattern: str | None = ..., ties: BytesTies = ...,
    specials: Sequence[str] = ..., min_frequency: int = ..., max_token_length: int | None = ...,
    initial_alphabet: str = ..., character_coverage: float | None = ...,
    weights: Mapping[Any, float] | None = ..., sample: float | None = ..., seed: int = ...,
    threads: int | None = ..., memory: int | None = ..., resume: Path_ | None = ...,
    extend: Tokenizer | Path_ | None = ..., field: str = ..., format: str | None = ...,
    separator: str | None = ..., trace: Path_ | None = ..., report: Path_ | None = ...,
    engine: str = ..., ray_address: str | None = ..., progress: Report | None = ...,
) -> Tokenizer: ...  # fmt: skip
@overload
def train(
    source: Any, *, vocab_size: Iterable[int], pattern: str | None = ..., ties: BytesTies = ...,
    specials: Sequence[str] = ..., min_frequency: int = ..., max_token_length: int | None = ...,
    initial_alphabet: str = ..., character_coverage: float | None = ...,
    weights: Mapping[Any, float] | None = ..., sample: float | None = ..., seed: int = ...,
    threads: int | None = ..., memory: int | None = ..., resume: Path_ | None = ...,
    extend: Tokenizer | Path_ | None = ..., field: str = ..., format: str | None = ...,
    separator: str | None = ..., trace: Path_ | None = ..., report: Path_ | None = ...,
    engine: str = ..., ray_address: str | None = ..., progress: Report | None = ...,
) -> list[Tokenizer]: ...  # fmt: skip
@overload
def train(
    source: Any, *, vocab_size: int, pattern: str | None = ..., ties: PieceTies,
    specials: Sequence[str] = ..., min_frequency: int = ..., max_token_length: int | None = ...,
    initial_alphabet: str = ..., character_coverage: float | None = ...,
    weights: Mapping[Any, float] | None = ..., sample: float | None = ..., seed: int = ...,
    threads: int | None = ..., memory: int | None = ..., resume: Path_ | None = ...,
    extend: Tokenizer | Path_ | None = ..., field: str = ..., format: str | None = ...,
    separator: str | None = ..., trace: Path_ | None = ..., report: Path_ | None = ...,
    engine: str = ..., ray_address: str | None = ..., progress: Report | None = ...,
) -> Pieces: ...  # fmt: skip
@overload
def train(
    source: Any, *, vocab_size: Iterable[int], pattern: str | None = ..., ties: PieceTies,
    specials: Sequence[str] = ..., min_frequency: int = ..., max_token_length: int | None = ...,
    initial_alphabet: str = ..., character_coverage: float | None = ...,
    weights: Mapping[Any, float] | None = ..., sample: float | None = ..., seed: int = ...,
    threads: int | None = ..., memory: int | None = ..., resume: Path_ | None = ...,
    extend: Tokenizer | Path_ | None = ..., field: str = ..., format: str | None = ...,
    separator: str | None = ..., trace: Path_ | None = ..., report: Path_ | None = ...,
    engine: str = ..., ray_address: str | None = ..., progress: Report | None = ...,
) -> list[Pieces]: ...  # fmt: skip
def train(
    source: Any,
    *,
    vocab_size: int | Iterable[int],
    pattern: str | None = None,
    ties: BytesTies | PieceTies = "huggingface",
    specials: Sequence[str] = (),
    min_frequency: int = 0,
    max_token_length: int | None = None,
    initial_alphabet: str = "bytes",
    character_coverage: float | None = None,
    weights: Mapping[Any, float] | None = None,
    sample: float | None = None,
    seed: int = 0,
    threads: int | None = None,
    memory: int | None = None,
    resume: Path_ | None = None,
    extend: Tokenizer | Path_ | None = None,
    field: str = "text",
    format: str | None = None,
    separator: str | None = None,
    trace: Path_ | None = None,
    report: Path_ | None = None,
    engine: str = LOCAL,
    ray_address: str | None = None,
    progress: Report | None = None,
) -> Tokenizer | list[Tokenizer] | Pieces | list[Pieces]:
    """Learns a vocabulary from a path, a glob, texts, an Arrow column or counts.

    The result depends on the documents and these options alone, not on threads or memory. An input
    that cannot be read is an InputError or a MissingInputError, options that cannot be met are a
    TrainingError, and what the caller should know of the result is a TrainingWarning.

    Args:
        source: A path or a glob, or a list of `Path`s; texts; an Arrow column or table; a mapping
            of pretokens to counts.
        vocab_size: Bytes, merges and specials together. Several sizes give a list of tokenizers
            from one run.
        pattern: The name of a scheme or a regular expression; o200k's, unless counts or `extend`
            have another.
        ties: Which library's rule decides between pairs of one count, and gives ids. With that of
            SentencePiece the result is `Pieces`.
        specials: Names that get ids of their own.
        min_frequency: Merges of a lower count are not made.
        max_token_length: Tokens have fewer bytes than this; of SentencePiece at most so many
            characters.
        initial_alphabet: `bytes` for all 256, `seen` for those that occur.
        character_coverage: Of SentencePiece: the share of the text whose characters are kept.
        weights: Source → factor of its counts.
        sample: The share of the documents that is taken, by a hash of each and `seed`.
        seed: See `sample`.
        threads: How many to use; None is all processors.
        memory: Bytes; what is over it goes to disk.
        resume: A folder in which work is kept, so that a killed run goes on.
        extend: A tokenizer to go on from, whose ids stay.
        field: Where the text is in JSON lines, Parquet and tables; `a.b` leads into objects.
        format: What files are, whatever their names: text, lines, jsonl, parquet or counts.
        separator: A text at which a document also ends, and which is no text itself.
        trace: A file for every merge with its count.
        report: A file that says how each source uses the vocabulary.
        engine: `ray` counts files on a Ray cluster that shares the file system.
        ray_address: Where the cluster is; without it one is started on this machine.
        progress: Called with a `Progress` now and then.

    Examples:
        >>> tokenizer = train(["the mill mills the meal"] * 9, vocab_size=260)
        >>> [tokenizer.decode([id]) for id in tokenizer.encode("the mill")]
        ['the', ' m', 'il', 'l']
    """
    sizes = options.vocab_sizes(vocab_size)
    frequency = options.bounded(arguments.whole_number(min_frequency, "min_frequency", 0))
    length = None
    if max_token_length is not None:
        length = min(arguments.whole_number(max_token_length, "max_token_length", 1), 1 << 31)
    chosen: dict[str, Any] = {
        "ties": ties, "min_frequency": frequency, "max_token_length": length,
        "initial_alphabet": initial_alphabet,
    }  # fmt: skip
    pieces = options.piece_options(
        ties, specials, length, character_coverage,
        {
            "pattern": pattern, "extend": extend, "initial_alphabet": initial_alphabet,
            "separator": separator,
        },
    )  # fmt: skip
    if pieces is not None:
        pattern = PATTERN
        del chosen["initial_alphabet"]
        chosen |= {"max_token_length": pieces.length_max, "character_coverage": pieces.coverage}
    base = options.tokenizer_to_extend(extend, pattern)
    sources = find_sources(source, weights, format)
    options.check_choices(ties, initial_alphabet, sources, resume, report)
    if pieces is not None:  # whose text files are lines, too
        sources = [replace(s, kind="lines") if s.kind == "text" else s for s in sources]
    with ExitStack() as stack:
        job = _Job(
            stack, sources, pattern=pattern, specials=specials, field=field, sample=sample,
            seed=seed, threads=threads, memory=memory, progress=progress, base=base,
            cuts=ties in _CUT_AT_SPECIALS, ordered=ties == "minbpe",
            apart=report is not None, resume=resume,
            fixed={"vocab_size": sizes, **chosen}, pieces=pieces, separator=separator,
            engine=Engine(engine, ray_address),
        )  # fmt: skip
        if pieces is not None:
            found = train_pieces(
                job.count(), sizes, pieces, frequency, {**job.provenance(), **chosen},
                job.resources, trace, report,
            )  # fmt: skip
            return found[0] if hasattr(vocab_size, "__index__") else found
        if initial_alphabet == "bytes":
            job.layout(ties, range(256)).merges_max(min(sizes))  # an error before hours of work
        counted = job.count()
        seen = range(256) if initial_alphabet == "bytes" else bytes_seen(counted.counts)
        layout = job.layout(ties, seen)
        most = max(map(layout.merges_max, sizes))
        merges, certificate = job.learn(counted, layout, most, ties, frequency, length)
        provenance = {**job.provenance(), **chosen}
        trained = [job.tokenizer(layout, merges, size, provenance) for size in sizes]
        if trace is not None or report is not None:
            learned = assign(layout, merges, max(sizes))
        if trace is not None:
            write_trace(Path(trace), learned, merges, {**provenance, **certificate})
        if report is not None:
            encoder = Encoder(learned)
            size = max(one.vocab_size for one in trained)
            write_report(Path(report), size, learned, encoder, counted.runs, job.progress)
    return trained[0] if hasattr(vocab_size, "__index__") else trained


class _Job:
    """What `train` and `count` share: checked options, a folder for spilled work, a plan."""

    def __init__(
        self,
        stack: ExitStack,
        sources: list[Source],
        *,
        pattern: str | None,
        specials: Sequence[str],
        field: str,
        sample: float | None,
        seed: int,
        threads: int | None,
        memory: int | None,
        progress: Report | None,
        engine: Engine,
        base: Tokenizer | None = None,
        cuts: bool = True,
        ordered: bool = False,
        apart: bool = False,
        resume: Path_ | None = None,
        fixed: Mapping[str, Any] | None = None,
        pieces: PieceOptions | None = None,
        separator: str | None = None,
    ) -> None:
        engine.check()
        if ordered and engine.name == RAY:
            raise TrainingError("minbpe's ties need all texts in order, which a cluster has not")
        self._base = base
        self._extended: Layout | None = None
        self.progress = progress or silent
        self.pattern = options.choose_pattern(pattern, base, sources)
        self.specials = options.special_names(specials, base)
        cut_at = self.specials if cuts else ()
        self.metadata = metadata(self.pattern, cut_at)
        self._separator = options.separator_text(separator)
        ends = (*cut_at, self._separator) if self._separator else cut_at
        self._memory = options.memory_bytes(memory)
        self._threads = arguments.thread_count(threads)
        self._are_threads_asked_for = threads is not None
        self._sample = options.sample_share(sample, sources)
        self._seed = arguments.whole_number(seed, "seed", 0) % (1 << 64)
        scheme = scheme_of(self.pattern)
        reading = ReadOptions(
            field=field,
            whole=not isinstance(scheme, str),
            specials=tuple(name.encode() for name in ends),
            sample=self._sample,
            seed=self._seed,
            note=options.note,
        )
        options.refuse_other_counts(sources, self.pattern, self.specials, cut_at)
        self._journal = None
        if resume is not None:
            self._journal = Journal(Path(resume), self._fixed(sources, field, apart, fixed or {}))
            folder = Path(resume)
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tokenmill-")))
        self._plan = Plan(
            sources, reading, scheme, ends, self.metadata, folder, self._threads,
            self._memory, ordered, apart, self.progress, self._journal,
            None if pieces is None else partial(sentences, names=pieces.front),
            engine if engine.name == RAY else None,
        )  # fmt: skip

    def _fixed(
        self, sources: list[Source], field: str, apart: bool, more: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The options that decide the result, as the journal compares them."""
        inputs = [[s.name, s.kind, s.size, s.modified, s.weight] for s in sources]
        base = None if self._base is None else self._base._digest().hex()
        return {
            "pattern": self.pattern, "specials": list(self.specials), "field": field,
            "separator": self._separator, "sample": self._sample, "seed": self._seed,
            "report": apart, "extend": base, **more, "inputs": inputs,
        }  # fmt: skip

    def count(self) -> Counted:
        counted = count_documents(self._plan)
        if not counted.counts:
            raise InputError(
                "the inputs hold no text; give others, or another field, format or sample"
            )
        return counted

    def provenance(self) -> dict[str, Any]:
        """What was learned from, as far as the result depends on it."""
        known: dict[str, Any] = {"sample": self._sample, "seed": self._seed}
        return {k: v for k, v in known.items() if self._sample is not None}

    def layout(self, ties: str, alphabet: Iterable[int]) -> Layout:
        if self._base is None:
            return new_layout(ties, self.specials, alphabet)
        if self._extended is None:  # finding the merges of a large vocabulary takes a second
            self._extended = extended_layout(self._base, self.specials, ties)
        return self._extended

    def learn(
        self,
        counted: Counted,
        layout: Layout,
        merges_max: int,
        ties: str,
        min_frequency: int,
        length_max: int | None,
    ) -> tuple[Merges, dict[str, Any]]:
        """The merges, and the certificate that they are exact."""
        journal = self._journal
        before = journal.merges if journal is not None else no_merges()
        if journal is not None and journal.is_finished:
            return before, {}
        counts = counted.take()
        done = assign(layout, before, layout.first_id + len(layout.back) + merges_max)
        merging = Merging(
            tokens={**layout.taken, **done.tokens},
            alphabet=layout.alphabet(),
            first_id=done.next_id,
            ids_end=layout.first_id + merges_max,
            ties=ties,
            min_frequency=min_frequency,
            max_token_length=length_max,
            threads=self._merging_threads(len(counts)),
            memory=self._words_memory(),
            made_from=layout.made_from(),
            revives=bool(layout.base),
            spill=self._plan.folder if self._is_large(len(counts)) else None,
        )

        def tell(count: int, best_count: int) -> None:
            self.progress(Progress("merging", len(before) + count, merges_max, 0, best_count))
            if journal is not None and journal.is_due():
                journal.record_merges(before + merging.merges())

        with merging:
            self._add_words(merging, counts, done)
            del counts
            merges, certificate = merging.run(tell)
            merges = before + merges
        last = (certificate.last_count, certificate.floor)
        self.progress(Progress("merging", len(merges), len(merges), 0, *last))
        if journal is not None:
            journal.record_merges(merges, is_finished=True)
        return merges, {"certificate": asdict(certificate)}

    def resources(self, entries: int) -> Resources:
        """What learning from so many entries may use."""
        spill = self._plan.folder if self._is_large(entries) else None
        threads = self._merging_threads(entries)
        return Resources(threads, self._words_memory(), spill, self.progress)

    def _merging_threads(self, entries: int) -> int:
        """As many as are asked for, or else one for few words."""
        few = entries < _FEW_WORDS and not self._are_threads_asked_for
        return 1 if few else self._threads

    def _is_large(self, entries: int) -> bool:
        """Whether the words would take more than their share of the memory."""
        memory = self._words_memory()
        return memory > 0 and entries * _WORD_BYTES > memory * _WORDS_SHARE

    def _words_memory(self) -> int:
        """What is left for words and pairs; 0 is as much as they take."""
        if self._memory is None:
            return 0
        return max(self._memory - _PYTHON_BYTES, self._memory // 4)

    def _add_words(
        self, merging: Merging, counts: _native.Inventory | _native.CountsFile, done: Learned
    ) -> None:
        """Gives the pretokens to be merged, as what earlier merges leave of them."""
        if not done.merges:
            merging.add(counts)
            return
        encoder = Encoder(done)
        for part in parts(counts):
            merging.add_ids(*encoder.encode(part, self._threads))

    def tokenizer(
        self, layout: Layout, merges: Merges, size: int, provenance: Mapping[str, Any]
    ) -> Tokenizer:
        learned = assign(layout, merges, size)
        names = {id_: name.encode() for name, id_ in learned.specials.items()}
        for id_ in names.keys() & learned.tokens.keys():
            options.note(
                f"special {names[id_].decode()!r} is written like a learned token and has its id "
                f"{id_}, as in tokenizers; text is encoded as there with tokenizer.json, and here "
                "merged as that id says"
            )
        tokens = {
            token: id_ for id_, token in learned.tokens.items() if names.get(id_, token) == token
        }
        arrays = arguments.token_arrays(tokens, "the trained vocabulary")
        tokenizer = Tokenizer._from_arrays(
            arrays, self.pattern, learned.specials, "trained", learned.merges,
            {**provenance, "vocab_size": size},
        )  # fmt: skip
        if tokenizer.vocab_size < size:
            options.note(
                f"the text has only {len(learned.merges) - learned.base:_} merges to learn, so "
                f"the vocabulary has {tokenizer.vocab_size:_} entries, not {size:_}; more text, or "
                "a lower min_frequency, gives more"
            )
        return tokenizer
