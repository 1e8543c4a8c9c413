"""The options of training: one table per function, and the rules between options and inputs."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from tokenmill import arguments
from tokenmill.corpus import Source
from tokenmill.corpus.inputs import is_weight
from tokenmill.corpus.options import ReadOptions
from tokenmill.errors import InputError, TokenmillError, TrainingError
from tokenmill.formats import tokenmill_file
from tokenmill.formats.build import added_of
from tokenmill.native import _native
from tokenmill.options import (
    Option,
    amount,
    anything,
    number,
    one_of,
    parse_amount,
    resolve,
    share,
    text,
)
from tokenmill.patterns.schemes import pattern_of, scheme_of
from tokenmill.progress import Report
from tokenmill.ray_cluster import ENGINES, LOCAL, RAY, check_options
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.merging import TRAINERS

Path_: TypeAlias = str | os.PathLike[str]

# The default of training for `ReadOptions`.
READ_DEFAULTS = {"utf8": "bytes"}
_DEFAULT_PATTERN = "o200k"
_MEMORY_MIN = 64 << 20
VOCAB_SIZE_MAX = (1 << 21) - 257  # a tokenizer has no larger ids
_NUMBER_MAX = (1 << 62) - 1
_INPUTS: dict[str, Any] = {"group": "inputs"}
_VOCABULARY: dict[str, Any] = {"group": "vocabulary"}
_RUN: dict[str, Any] = {"group": "run", "shapes_output": False}


def _limited(option: Option, most: int = _NUMBER_MAX) -> Option:
    """The option with larger numbers reduced to `most`."""

    def check(value: Any) -> Any:
        return option.check(min(value, most) if isinstance(value, int) else value)

    return replace(option, check=check)


def _check_memory(value: Any) -> int:
    found: int = _limited(amount(None, "", least=_MEMORY_MIN)).check(value)
    return found


def _check_names(value: Any) -> list[str]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise ValueError("a list of str")
    return list(value)


def _check_weights(value: Any) -> dict[str, float]:
    """Weights from a mapping, or from the pairs of a command line."""
    try:
        pairs = [(os.fspath(name), weight) for name, weight in dict(value).items()]
    except (TypeError, ValueError):
        pairs = [("", 0.0)]
    if not all(is_weight(weight) for _, weight in pairs):
        raise ValueError("a mapping of inputs to numbers above 0")
    if len(pairs) < len(value):
        raise ValueError("a mapping with one number for each input")
    return {name: float(weight) for name, weight in pairs}


def _parse_weight(word: str) -> tuple[str, float]:
    """FILE=2.5"""
    name, _, digits = word.rpartition("=")
    try:
        weight = float(digits)
    except ValueError:
        weight = 0.0
    if not name or not is_weight(weight):
        raise ValueError("FILE=NUMBER such as wiki.txt=2.5")
    return name, weight


def _path(help: str, metavar: str) -> Option:
    def check(value: Any) -> Path:
        if not isinstance(value, str | os.PathLike):
            raise ValueError("a path")
        return Path(value)

    return Option(None, help, check, metavar=metavar, **_RUN)


class CountOptions(ReadOptions, total=False):
    """The options of `count_pretokens`."""

    weights: Annotated[Mapping[Any, float] | None, Option(
        None, "factor for the counts of an input or a glob", _check_weights, _parse_weight,
        metavar="FILE=2.5", flag="--weight", repeats=True, shapes_output=False, **_INPUTS,
    )]  # fmt: skip
    sample: Annotated[float | None, share(
        None, "share of the documents to train on; each line of a text file is one", **_INPUTS
    )]  # fmt: skip
    seed: Annotated[int, number(0, "seed of the sample", least=0, most=(1 << 64) - 1, **_INPUTS)]
    pattern: Annotated[str | None, text(
        None, "regular expression that splits texts into pretokens, which tokens do not cross, "
        "or its name, such as o200k (default: that of the counts or of the extended tokenizer, "
        "else o200k)", **_VOCABULARY,
    )]  # fmt: skip
    special_tokens: Annotated[Sequence[str], Option(
        (), "text of a special token, which gets an id", _check_names, metavar="TEXT",
        flag="--special-token", repeats=True, **_VOCABULARY,
    )]  # fmt: skip
    threads: Annotated[int | None, number(None, "number of threads (default: all cores)", **_RUN)]
    memory: Annotated[int | str | None, Option(
        None, "memory limit of at least 64MiB; data beyond it is on disk (default: no limit)",
        _check_memory, parse_amount, metavar="BYTES", **_RUN,
    )]  # fmt: skip
    engine: Annotated[str, one_of(ENGINES, LOCAL, "this machine or a Ray cluster counts", **_RUN)]
    ray_address: Annotated[str | None, text(
        None, "address of a Ray cluster (default: a new one on this machine)", **_RUN
    )]  # fmt: skip
    progress: Annotated[Report | None, anything(
        None, "function that is called with a Progress", **_RUN
    )]  # fmt: skip


class TrainOptions(CountOptions, total=False):
    """The options of `train`, `train_sizes`, `train_from_iterator` and `train_from_counts`."""

    trainer: Annotated[str, one_of(
        tuple(TRAINERS), "tokenizers", "library whose merges and ids are reproduced", **_VOCABULARY
    )]  # fmt: skip
    min_frequency: Annotated[int, _limited(number(
        0, "minimum count of a pair that is merged", least=0, **_VOCABULARY
    ))]  # fmt: skip
    max_token_length: Annotated[int | None, _limited(number(
        None, "tokens have fewer than N bytes; for sentencepiece, at most N characters (default "
        "there: 16)", **_VOCABULARY,
    ), 1 << 31)]  # fmt: skip
    initial_alphabet: Annotated[str, one_of(
        ("bytes", "seen"), "bytes", "first tokens: all 256 bytes, or those seen in the inputs",
        **_VOCABULARY,
    )]  # fmt: skip
    character_coverage: Annotated[float | None, share(
        None, "share of the text that is covered by the characters that are tokens; only for "
        "sentencepiece (default: 0.9995)", **_VOCABULARY,
    )]  # fmt: skip
    extend: Annotated[Tokenizer | Path_ | None, anything(
        None, "tokenizer to extend; its ids do not change", metavar="TOKENIZER", **_VOCABULARY
    )]  # fmt: skip
    resume: Annotated[Path_ | None, _path(
        "folder for checkpoints, from which an interrupted run resumes", "DIR"
    )]  # fmt: skip
    trace: Annotated[Path_ | None, _path(
        "file to write: all merges with their counts, as JSON lines", "FILE"
    )]  # fmt: skip
    report: Annotated[Path_ | None, _path(
        "file to write: the use of the tokens by each input, as JSON", "FILE"
    )]  # fmt: skip


class TrainingWarning(UserWarning):
    """A fact about the input or the result of training that the caller should know."""


def note(text: str) -> None:
    """Warn the caller."""
    warnings.warn(text, TrainingWarning, stacklevel=2)


def resolve_options(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a table, checked one by one and against each other."""
    options = resolve(kind, given, TrainingError, **READ_DEFAULTS)
    trainer, separator = options.get("trainer"), options["separator"] or ""
    check_options(options)
    if separator != separator.encode(errors="replace").decode():
        raise TrainingError(f"separator must be valid Unicode text, got {separator!r}")
    if trainer == "sentencepiece":
        for name in ("pattern", "extend", "separator", "initial_alphabet"):
            if options[name] not in (None, "bytes"):
                raise TrainingError(
                    f"{name}={options[name]!r} is not supported by trainer='sentencepiece'; remove "
                    f"{name} or choose another trainer"
                )
    elif options.get("character_coverage") is not None:
        raise TrainingError(
            f"character_coverage={options['character_coverage']!r} requires "
            f"trainer='sentencepiece', got trainer={trainer!r}; remove character_coverage"
        )
    return options


def check_sizes(sizes: Any) -> list[int]:
    """Vocabulary sizes."""
    if isinstance(sizes, str | bytes) or not isinstance(sizes, Iterable):
        raise TypeError(f"sizes must be a list of int, got {sizes!r}")
    found = [arguments.whole_number(size, "vocab_size", 1) for size in sizes]
    if not found:
        raise TrainingError("sizes must contain at least one vocabulary size, got none")
    if max(found) > VOCAB_SIZE_MAX:
        raise TrainingError(f"vocab_size must be at most {VOCAB_SIZE_MAX:_}, got {max(found):_}")
    return found


def special_names(options: Mapping[str, Any], base: Tokenizer | None) -> tuple[str, ...]:
    """The special tokens of the extended tokenizer and of the options, each once."""
    given = [*(base.special_tokens if base else ()), *options["special_tokens"]]
    names = list(dict.fromkeys(given))
    added_of({name: index for index, name in enumerate(names)})
    return tuple(names)


def tokenizer_to_extend(given: Any, pattern: str | None) -> Tokenizer | None:
    """The tokenizer to extend. The pattern of a rank file is an option."""
    if given is None or isinstance(given, Tokenizer):
        return given
    if not isinstance(given, str | os.PathLike):
        raise TypeError(f"extend must be a Tokenizer, a name or a path, got {given!r}")
    path = Path(given)
    is_ranks = path.is_file() and path.suffix != tokenmill_file.SUFFIX
    return Tokenizer.load(path, pattern=pattern) if is_ranks else Tokenizer.load(given)


def choose_pattern(given: str | None, base: Tokenizer | None, sources: list[Source]) -> str:
    """The pattern of the options, of the extended tokenizer or of the counts, or the default."""
    wanted = None if given is None else pattern_of(given)
    if base is not None:
        if base.pattern is None or base._spec.ranks is None:
            has_bytes = base._spec.model.base == "bytes"
            kind = "file has a list of merges" if has_bytes else "tokens consist of characters"
            raise TrainingError(
                f"cannot extend {base.name}, whose {kind}; pass a name such as gpt2, a .tiktoken "
                "file, or a .tokenmill file of train (--output NAME.tokenmill)"
            )
        if wanted is not None and scheme_of(wanted) != scheme_of(base.pattern):
            raise TrainingError(
                f"pattern={given!r} is not the pattern of the extended tokenizer {base.name}; "
                "remove pattern"
            )
        return base.pattern
    if wanted is None:
        for source in sources:
            if source.kind == "counts":
                return str(_metadata_of(source)["pattern"])
    return pattern_of(_DEFAULT_PATTERN) if wanted is None else wanted


def check_sources(options: Mapping[str, Any], sources: list[Source]) -> None:
    """Reject combinations of options and inputs that are not possible."""
    trainer, resume = options.get("trainer"), options.get("resume")
    kinds = {source.kind for source in sources}
    if kinds & {"counts", "mapping"}:
        if options["sample"] is not None:
            raise TrainingError(
                f"sample={options['sample']} requires documents, but the inputs contain counts; "
                "remove sample, or sample the documents when you count them"
            )
        if trainer == "sentencepiece":
            raise TrainingError(
                "trainer='sentencepiece' requires lines, but the inputs contain counts; pass the "
                "documents"
            )
    if trainer is not None and TRAINERS[trainer].needs_order:
        lost = {
            "weights": any(source.weight != 1 for source in sources),
            "resume": resume is not None,
            "report": options["report"] is not None,
            "engine": options["engine"] == RAY,
        }
        for name in (name for name in lost if lost[name]):
            raise TrainingError(
                f"trainer={trainer!r} depends on document order and cannot be combined with "
                f"{name}; remove {name} or choose another trainer"
            )
        if "counts" in kinds or ("mapping" in kinds and len(kinds) > 1):
            raise TrainingError(
                f"trainer={trainer!r} depends on document order, which counts do not contain; pass "
                "the documents"
            )
    if resume is not None:
        for source in sources:
            if not source.is_file:
                raise TrainingError(
                    f"resume={str(resume)!r} requires files, but {source.name!r} cannot be read "
                    "again; pass files or remove resume"
                )


def check_counts_files(
    sources: list[Source], pattern: str, special_tokens: tuple[str, ...], cut_at: tuple[str, ...]
) -> None:
    """Reject counts with another pattern, and warn about other special tokens."""
    for source in sources:
        if source.kind != "counts":
            continue
        known = _metadata_of(source)
        if scheme_of(known["pattern"]) != scheme_of(pattern):
            raise TrainingError(
                f"{source.name} was counted with pattern {known['pattern']!r}, not with "
                f"{pattern!r}; count it again or remove pattern"
            )
        cut = set(known["specials"])
        if cut - set(special_tokens) or set(cut_at) - cut:
            note(
                f"{source.name} was counted with the special tokens {sorted(cut)}, not with "
                f"{sorted(special_tokens)}; it counts the other names as text"
            )


def _metadata_of(source: Source) -> dict[str, Any]:
    try:
        known: dict[str, Any] = json.loads(bytes(_native.CountsFile(source.name).metadata()))
        return {"pattern": str(known["pattern"]), "specials": list(known["specials"])}
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, TokenmillError):
            raise
        raise InputError(f"{source.name} is not a file of pretoken counts ({error})") from None
