"""What the caller asks for → options that are checked: those that the output depends on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias, get_type_hints

import numpy as np

from tokenmill.errors import TokenizeError
from tokenmill.shards import layouts
from tokenmill.shards.spec import Spec
from tokenmill.tokenizer import Tokenizer

OnError: TypeAlias = Literal["fail", "skip", "quarantine"]
ON_ERROR = ("fail", "skip", "quarantine")
UTF8 = ("strict", "replace", "bytes")
DTYPES = ("uint16", "uint32")
FIELD = "text"
AUTO = "auto"
NONE = "none"

# Ids below this fit Megatron's uint16, which leaves some for padding a vocabulary.
NARROW_END = 65_500
UNIT_BYTES = 64 << 20
SHARD_TOKENS = 100_000_000
# A document that can be cut nowhere is held whole, as text and as ids.
WHOLE_BYTES = 16 << 20
WHOLE_BYTES_MIN = 4 << 20

# How tokenizers call what ends a document. Two of them in one vocabulary, and nobody knows.
_EOS_NAMES = (
    "<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>", "<|eos|>", "<EOS>", "[EOS]",
    "<｜end▁of▁sentence｜>", "<|END_OF_TURN_TOKEN|>", "<|endofdocument|>",
)  # fmt: skip
_BOS_NAMES = (
    "<|begin_of_text|>", "<s>", "<bos>", "<|bos|>", "<BOS>", "<BOS_TOKEN>", "[BOS]",
    "<｜begin▁of▁sentence｜>", "<|startoftext|>",
)  # fmt: skip
_NAMES_SHOWN = 8
_SEQUENCE_MAX = 1 << 24


@dataclass(frozen=True, slots=True)
class Options:
    """All that decides about the bytes of the output, beside the inputs and the tokenizer."""

    layout: str = "megatron"
    field: str = FIELD
    id_field: str | None = None
    separator: str | None = None
    utf8: str = "strict"
    specials: bool = False
    eos: int | None = None
    bos: int | None = None
    dtype: str = "uint32"
    shard_tokens: int = SHARD_TOKENS
    sequence: int | None = None
    pad: int | None = None
    shuffle: int | None = None
    unit_bytes: int = UNIT_BYTES
    whole_bytes: int = WHOLE_BYTES
    on_error: OnError = "quarantine"

    @property
    def before(self) -> tuple[int, ...]:
        """The ids in front of each document. Some layouts have what ends a text there."""
        eos = self.eos if _eos_is_first(self.layout) else None
        return tuple(id_ for id_ in (eos, self.bos) if id_ is not None)

    @property
    def after(self) -> tuple[int, ...]:
        """The ids behind each document."""
        return () if self.eos is None or _eos_is_first(self.layout) else (self.eos,)

    def spec(self, tokenizer: Tokenizer) -> Spec:
        """What a layout has to know."""
        return Spec(
            dtype=self.dtype,
            eos=self.eos,
            bos=self.bos,
            vocab_size=tokenizer.vocab_size,
            tokenizer=tokenizer.name,
            sequence=self.sequence,
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, values: dict[str, Any]) -> Options:
        """The options that a plan has; a ValueError if they are none."""
        found = cls(**values)
        allowed = {"layout": layouts.NAMES, "utf8": UTF8, "dtype": DTYPES, "on_error": ON_ERROR}
        for name, hint in get_type_hints(cls).items():
            value = getattr(found, name)
            if name in allowed:
                is_right = value in allowed[name]
            else:
                is_right = isinstance(value, hint) and not (
                    isinstance(value, bool) and hint is not bool
                )
            if not is_right:
                raise ValueError(f"its {name} is {value!r}")
        return found


def make_options(
    tokenizer: Tokenizer,
    *,
    layout: str,
    eos: int | str | None,
    bos: int | str | None,
    dtype: str | None,
    **more: Any,
) -> Options:
    """The options, with what is left to us decided and what cannot be refused."""
    if layout not in layouts.NAMES:
        raise TokenizeError(f"a layout is one of {', '.join(layouts.NAMES)}, not {layout!r}")
    for name in ("field", "id_field", "separator"):
        if not isinstance(more.get(name), str | None):
            raise TokenizeError(f"{name} must be a str, not {more[name]!r}")
    if dtype is not None and dtype not in DTYPES:
        raise TokenizeError(f"dtype is uint16 or uint32, not {dtype!r}")
    if (more.get("sequence") or 0) > _SEQUENCE_MAX:
        raise TokenizeError(
            f"a sequence has at most {_SEQUENCE_MAX:,} ids, not {more['sequence']:,}"
        )
    if more.get("pad") is not None and more.get("sequence") is None:
        raise TokenizeError("--pad is for the sequences of --pack, which is not given")
    _one_of("on_error", more["on_error"], ON_ERROR)
    _one_of("utf8", more["utf8"], UTF8)
    for name in ("shard_tokens", "sequence", "unit_bytes", "whole_bytes"):
        _at_least_one(name, more.get(name))
    if more.get("whole_bytes", WHOLE_BYTES) < WHOLE_BYTES_MIN:
        raise TokenizeError(f"whole_bytes must be {WHOLE_BYTES_MIN:,} or more")
    seed, pad = more.get("shuffle"), more.get("pad")
    if seed is not None and not (isinstance(seed, int) and 0 <= seed < 1 << 64):
        raise TokenizeError(f"a seed is a whole number from 0 to 2^64 - 1, not {seed!r}")
    if pad is not None and not (isinstance(pad, int) and 0 <= pad < tokenizer.vocab_size):
        raise TokenizeError(
            f"--pad {pad!r} is no id of {tokenizer.name}, which has {tokenizer.vocab_size:,}"
        )
    if more.get("separator") == "":
        raise TokenizeError("a separator must not be empty; without one a file is one document")
    options = Options(
        layout=layout,
        eos=boundary(tokenizer, eos, "eos"),
        bos=boundary(tokenizer, bos, "bos"),
        dtype=dtype or ("uint16" if tokenizer.vocab_size < NARROW_END else "uint32"),
        **more,
    )
    if np.dtype(options.dtype).itemsize == 2 and tokenizer.vocab_size > 1 << 16:
        raise TokenizeError(
            f"the ids of {tokenizer.name} go up to {tokenizer.vocab_size - 1:,} and do not fit "
            "uint16; leave dtype out"
        )
    if options.sequence is not None and options.pad is None:
        if options.eos is None:
            raise TokenizeError(
                "the last sequence of a shard is filled up, and there is no end of a document to "
                "do it with; give --pad ID"
            )
        options = replace(options, pad=options.eos)
    if refusal := layouts.layout(layout).refuse(options.spec(tokenizer)):
        raise TokenizeError(refusal)
    return options


# Kinds of inputs for which an option does something; others have no fields, or no text to cut.
RECORDS = ("jsonl", "parquet", "arrow", "csv", "tsv")
_CONCERNS = {"separator": ("text",), "field": RECORDS, "id_field": (*RECORDS, "warc")}


def refuse_without_effect(options: Options, kinds: Iterable[str]) -> None:
    """Raises if an option is given that does nothing for any of the inputs: it was meant to."""
    found = sorted(set(kinds))
    given = {"separator": options.separator, "id_field": options.id_field}
    if options.field != FIELD:  # which is what is there when none is given
        given["field"] = options.field
    for name, value in given.items():
        if value is not None and not set(found) & set(_CONCERNS[name]):
            raise TokenizeError(
                f"--{name.replace('_', '-')} {value!r} has no effect: it is for inputs of "
                f"{', '.join(_CONCERNS[name])}, and here all are {', '.join(found)}. Leave it out, "
                "or say with --input-format what they are"
            )
    if options.id_field is None:
        return
    keeping = [name for name in layouts.NAMES if _keeps_names(name)]
    if options.sequence is not None or not _keeps_names(options.layout):
        where = "packed sequences" if options.sequence is not None else options.layout
        raise TokenizeError(
            f"--id-field {options.id_field!r} has no effect: there is no room for ids in {where}. "
            f"Leave it out, or take one of {', '.join(keeping)} without --pack"
        )


def _keeps_names(layout: str) -> bool:
    return bool(getattr(layouts.layout(layout), "KEEPS_NAMES", False))


def _eos_is_first(layout: str) -> bool:
    return bool(getattr(layouts.layout(layout), "EOS_FIRST", False))


def _one_of(name: str, value: Any, values: tuple[str, ...]) -> None:
    if value not in values:
        raise TokenizeError(f"{name} is one of {', '.join(values)}, not {value!r}")


def _at_least_one(name: str, value: Any) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise TokenizeError(f"{name} must be a whole number of 1 or more, not {value!r}")


def boundary(
    tokenizer: Tokenizer, asked: int | str | None, option: Literal["eos", "bos"]
) -> int | None:
    """The id that ends (or begins) a document: given, named, or the only one that fits."""
    names, verb = (_EOS_NAMES, "ends") if option == "eos" else (_BOS_NAMES, "begins")
    if asked is None or asked == NONE:
        return None
    if asked == AUTO:
        found = [name for name in names if name in tokenizer.specials]
        if len(found) == 1:
            return tokenizer.specials[found[0]]
        named = f"one of {_shown(tokenizer)} or " if tokenizer.specials else ""
        which = f"has {' and '.join(found)}" if found else "has none of the usual names"
        raise TokenizeError(
            f"which token {verb} a document is not clear: {tokenizer.name} {which}. Give "
            f"--{option} with {named}an id, or --{option} none"
        )
    if isinstance(asked, str) and not asked.isdecimal():
        if asked not in tokenizer.specials:
            raise TokenizeError(
                f"{asked!r} is no special of {tokenizer.name}; there are {_shown(tokenizer)}"
            )
        return tokenizer.specials[asked]
    if isinstance(asked, bool) or not isinstance(asked, int | str):
        raise TokenizeError(f"{option} is an id, a name, auto or none, not {asked!r}")
    number = int(asked)
    if not 0 <= number < tokenizer.vocab_size:
        raise TokenizeError(
            f"--{option} {number} is no id of {tokenizer.name}, which has {tokenizer.vocab_size:,}"
        )
    return number


def _shown(tokenizer: Tokenizer) -> str:
    names = list(tokenizer.specials)
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return (", ".join(names[:_NAMES_SHOWN]) + more) or "no specials at all"
