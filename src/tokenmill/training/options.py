"""Options as they were given → options as they are used, or an error that names them."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tokenmill import arguments
from tokenmill.corpus import Source
from tokenmill.errors import InputError, TokenmillError, TrainingError
from tokenmill.formats import own
from tokenmill.native import _native
from tokenmill.schemes import pattern_of, scheme_of
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.merging import TIES
from tokenmill.training.pieces.vocabulary import META, PieceOptions

_DEFAULT_PATTERN = "o200k"
_ALPHABETS = ("bytes", "seen")
_MEMORY_MIN = 64 << 20
_VOCAB_MAX = 1 << 24
_NUMBER_MAX = (1 << 62) - 1


class TrainingWarning(UserWarning):
    """Something about the input or the result of training that the caller should know."""


def note(text: str) -> None:
    warnings.warn(text, TrainingWarning, stacklevel=2)


def vocab_sizes(vocab_size: Any) -> list[int]:
    listed = [vocab_size] if hasattr(vocab_size, "__index__") else vocab_size
    if isinstance(listed, str | bytes) or not isinstance(listed, Iterable):
        raise TypeError(f"vocab_size must be an int or several, not {vocab_size!r}")
    sizes = [arguments.whole_number(size, "vocab_size", 1) for size in listed]
    if not sizes:
        raise TrainingError("vocab_size names no size")
    if max(sizes) > _VOCAB_MAX:
        raise TrainingError(f"vocab_size must be at most {_VOCAB_MAX:_}, not {max(sizes):_}")
    return sizes


def check_choices(
    ties: str, alphabet: str, sources: list[Source], resume: object, report: object
) -> None:
    """Refuses what does not exist, and what does not go together."""
    if ties not in TIES:
        raise TrainingError(f"ties must be one of {', '.join(TIES)}, not {ties!r}")
    if alphabet not in _ALPHABETS:
        raise TrainingError(
            f'initial_alphabet must be "bytes" for all 256 or "seen" for those that occur, '
            f"not {alphabet!r}"
        )
    if ties == "minbpe":
        if any(source.weight != 1 for source in sources) or resume is not None:
            what = "resume" if resume is not None else "weights"
            raise TrainingError(
                f"minbpe's ties go by the order of the corpus, which {what} would lose; "
                "use other ties"
            )
        if (
            any(s.kind == "counts" for s in sources)
            or len({s.kind == "mapping" for s in sources}) > 1
        ):
            raise TrainingError(
                "minbpe's ties go by the order of the corpus, which counts have lost; "
                "give the documents"
            )
        if report is not None:
            raise TrainingError(
                "minbpe's ties need all documents in order, and a report each source alone; "
                "use other ties, or no report"
            )
    if ties == "sentencepiece" and any(s.kind in ("counts", "mapping") for s in sources):
        raise TrainingError(
            "sentencepiece's ties need lines, which counts have lost; give the documents"
        )
    if resume is not None:
        for source in sources:
            if not source.is_file:
                raise TrainingError(
                    f"a run over {source.name!r} cannot go on where it was killed, since it cannot "
                    "be read again; give files, or leave out resume"
                )


def piece_options(
    ties: str, specials: Any, length_max: int | None, coverage: Any, others: Mapping[str, object]
) -> PieceOptions | None:
    """The options of SentencePiece's trainer, if its ties are wanted; `others` are not its own."""
    if ties != "sentencepiece":
        if coverage is not None:
            raise TrainingError(
                f"character_coverage={coverage!r} is for the ties of sentencepiece, whose tokens "
                f"are characters; with {ties!r} they are bytes: leave it out"
            )
        return None
    for name, value in others.items():
        if value not in (None, "bytes"):
            raise TrainingError(
                f"sentencepiece's ties have words and characters of their own, and no {name}; "
                "leave it out (character_coverage says which characters), or use other ties"
            )
    usual = PieceOptions()
    names = special_names(specials, None)
    for name in names:
        if name in META or any(sign in name for sign in " \t\n▁▅"):
            raise TrainingError(
                f"special {name!r} cannot be a symbol of sentencepiece: {', '.join(META)} are "
                "there already, and spaces, tabs, newlines, ▁ and ▅ are not allowed; rename it"
            )
    share = usual.coverage if coverage is None else coverage
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise TrainingError(
            f"character_coverage must be a share above 0 and at most 1, not {share!r}"
        )
    return PieceOptions(names, float(share), length_max or usual.length_max)


def choose_pattern(given: str | None, base: Tokenizer | None, sources: list[Source]) -> str:
    """The pattern: the given one, or the one that the counts or the other tokenizer have."""
    if given is not None and not isinstance(given, str):
        raise TypeError(f"pattern must be a str, a regular expression or a name: {given!r}")
    wanted = None if given is None else pattern_of(given)
    if base is not None:
        if base.pattern is None or base.parts is not None:
            raise TrainingError(
                f"{base.name} is not made of ranks and one pattern, so it cannot be extended; "
                "extend an embedded vocabulary, a rank file or one that was trained here"
            )
        if wanted is not None and scheme_of(wanted) != scheme_of(base.pattern):
            raise TrainingError(
                f"{base.name} has another pattern than the given one, and keeps it; leave out "
                "pattern"
            )
        return base.pattern
    if wanted is None:
        for source in sources:
            if source.kind == "counts":
                return str(_metadata_of(source)["pattern"])
    return pattern_of(_DEFAULT_PATTERN) if wanted is None else wanted


def tokenizer_to_extend(given: Any, pattern: str | None) -> Tokenizer | None:
    """The tokenizer that is extended; a rank file takes its pattern from the options."""
    if given is None or isinstance(given, Tokenizer):
        return given
    if not isinstance(given, str | os.PathLike):
        raise TypeError(f"extend must be a Tokenizer, a name or a path, not {given!r}")
    path = Path(given)
    is_ranks = path.is_file() and not own.is_own(path)
    return Tokenizer.load(path, pattern=pattern) if is_ranks else Tokenizer.load(given)


def refuse_other_counts(
    sources: list[Source], pattern: str, specials: tuple[str, ...], cut_at: tuple[str, ...]
) -> None:
    """Counts were made with a pattern and specials, and only those give the same pretokens."""
    for source in sources:
        if source.kind != "counts":
            continue
        known = _metadata_of(source)
        if scheme_of(known["pattern"]) != scheme_of(pattern):
            raise TrainingError(
                f"{source.name} was counted with pattern {known['pattern']!r}, not with "
                f"{pattern!r}; count it again, or leave out pattern"
            )
        cut = set(known["specials"])
        if cut - set(specials) or set(cut_at) - cut:
            note(
                f"{source.name} was counted with the specials {sorted(cut)}, and these are "
                f"{sorted(specials)}; a name that was no special there counts as text"
            )


def _metadata_of(source: Source) -> dict[str, Any]:
    try:
        known: dict[str, Any] = json.loads(bytes(_native.CountsFile(source.name).metadata()))
        return {"pattern": str(known["pattern"]), "specials": list(known["specials"])}
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, TokenmillError):
            raise
        raise InputError(f"{source.name} is not a file of counts ({error})") from None


def separator_text(given: Any) -> str | None:
    if given is not None and not isinstance(given, str):
        raise TypeError(f"separator must be a str or None, not {given!r}")
    if given == "":
        raise TrainingError("separator must not be empty; None leaves documents as they are")
    try:
        (given or "").encode()
    except UnicodeEncodeError:
        raise TrainingError(
            f"separator {given!r} is not Unicode text, and stands nowhere"
        ) from None
    return given


def special_names(specials: Any, base: Tokenizer | None) -> tuple[str, ...]:
    if isinstance(specials, str | Mapping) or not isinstance(specials, Iterable):
        raise TypeError(f"specials must be a list of names, which get ids here: {specials!r}")
    names = list(dict.fromkeys([*(base.specials if base else ()), *specials]))
    arguments.pack_specials({name: index for index, name in enumerate(names)})
    return tuple(names)


def memory_bytes(memory: Any) -> int | None:
    if memory is None:
        return None
    return bounded(arguments.whole_number(memory, "memory", _MEMORY_MIN, " bytes"))


def bounded(number: int) -> int:
    """The same, as far as the core can count."""
    return min(number, _NUMBER_MAX)


def sample_share(sample: Any, sources: list[Source]) -> float | None:
    if sample is None:
        return None
    if isinstance(sample, bool) or not isinstance(sample, int | float) or not 0 < sample <= 1:
        raise TrainingError(f"sample must be a share above 0 and at most 1, not {sample!r}")
    if any(source.kind in ("counts", "mapping") for source in sources):
        raise TrainingError("a sample takes documents, and counts have none; sample the documents")
    return float(sample)
