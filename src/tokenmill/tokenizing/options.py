"""The options of `tokenize`, each defined once → checked values, and those that a plan contains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypedDict

import numpy as np

from tokenmill.arguments import cpu_count
from tokenmill.corpus.documents import DOCUMENT_BYTES
from tokenmill.corpus.options import RECORDS, ReadOptions
from tokenmill.errors import TokenizeError
from tokenmill.options import (
    Option,
    amount,
    anything,
    limit,
    number,
    one_of,
    resolve,
    switch,
    table,
    text,
)
from tokenmill.ray_cluster import LOCAL, RAY, check_options
from tokenmill.shards.shard_format import FORMATS, Spec, get_format
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing.split import TRAIN, check_split, parse_split

# A new engine is a module of this package with `make_executor`, and a row in this table.
EXECUTORS = {LOCAL: "executors", RAY: "ray_executor"}
DTYPES = ("uint16", "uint32")
AUTO = "auto"
NONE = "none"
# Vocabularies below this size get uint16, as in Megatron, which pads vocabularies.
NARROW_END = 65_500
MAX_UNSPLIT_BYTES = 16 << 20
MAX_UNSPLIT_BYTES_MIN = 4 << 20
# Python, numpy, the vocabulary and its cache; and the smallest blocks of a thread.
MEMORY_MIN = 192 << 20
MEMORY_PER_THREAD = 1 << 20
_SEQUENCE_MAX = 1 << 24

# For a vocabulary with two of these token texts, the user must choose.
_USUAL_TOKENS = {
    "eos": (
        "<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>", "<|eos|>", "<EOS>", "[EOS]",
        "<｜end▁of▁sentence｜>", "<|END_OF_TURN_TOKEN|>", "<|endofdocument|>",
    ),
    "bos": (
        "<|begin_of_text|>", "<s>", "<bos>", "<|bos|>", "<BOS>", "<BOS_TOKEN>", "[BOS]",
        "<｜begin▁of▁sentence｜>", "<|startoftext|>",
    ),
}  # fmt: skip
_TOKENS_SHOWN = 8
# Formats of inputs for which an option has an effect.
_CONCERNS = {"separator": ("text",), "field": RECORDS, "id_field": (*RECORDS, "warc")}


_INPUTS = {"group": "inputs"}
_SHARDS = {"group": "shards"}
_RUN = {"group": "run", "shapes_output": False}
_MACHINES = {"group": "several machines", "shapes_output": False}


SHARD_TOKENS = number(100_000_000, "tokens after which a shard ends", group="shards")


class RunOptions(TypedDict, total=False):
    """How a run is done. They do not change the output."""

    threads: Annotated[int | None, number(
        None, "number of threads (default: all cores, or fewer if the files are small)", **_RUN
    )]  # fmt: skip
    memory: Annotated[int, amount(
        2 << 30, "memory limit, at least 192MiB and 1MiB per thread", MEMORY_MIN, **_RUN
    )]  # fmt: skip
    engine: Annotated[str, one_of(
        tuple(EXECUTORS), LOCAL, "execution engine: this machine or a Ray cluster", **_MACHINES
    )]  # fmt: skip
    ray_address: Annotated[str | None, text(
        None, "address of a running Ray cluster, such as auto; without it, one is started",
        metavar="ADDRESS", **_MACHINES,
    )]  # fmt: skip


class TokenizeOptions(ReadOptions, RunOptions, total=False):
    """All options of `tokenize`."""

    on_error: Annotated[str, one_of(
        ("fail", "skip", "quarantine"), "quarantine", "records without a text: fail stops the "
        "run, skip lists them in errors.jsonl, quarantine also keeps the records", **_INPUTS
    )]  # fmt: skip
    max_errors: Annotated[float | None, limit(
        None, "number of rejected records that are allowed, or share of all, such as 1% "
        "(default: any)", shapes_output=False, **_INPUTS
    )]  # fmt: skip
    id_field: Annotated[str | None, text(
        None, "field with the id of a document, for shard formats with ids", **_INPUTS
    )]  # fmt: skip
    max_document_bytes: Annotated[int, amount(
        DOCUMENT_BYTES, "size of the largest record; longer ones are rejected", **_INPUTS
    )]  # fmt: skip
    max_unsplit_bytes: Annotated[int, amount(
        MAX_UNSPLIT_BYTES, "maximum bytes without a safe split point", **_INPUTS
    )]  # fmt: skip
    allowed_special: Annotated[bool, switch(
        "recognize special tokens such as <|endoftext|>", flag="--allow-special", **_INPUTS
    )]  # fmt: skip
    format: Annotated[str, one_of(tuple(FORMATS), "megatron", "shard format", **_SHARDS)]
    eos: Annotated[int | str | None, anything(
        AUTO, "token after each document: text, id, auto or none", metavar="TOKEN", **_SHARDS
    )]  # fmt: skip
    bos: Annotated[int | str | None, anything(
        NONE, "token before each document: text, id, auto or none", metavar="TOKEN", **_SHARDS
    )]  # fmt: skip
    dtype: Annotated[str | None, one_of(
        DTYPES, None, "type of ids (default: uint16 for vocabularies of fewer than 65,500 tokens, "
        "else uint32)", **_SHARDS,
    )]  # fmt: skip
    shard_tokens: Annotated[int, SHARD_TOKENS]
    sequence_length: Annotated[int | None, number(
        None, "tokens of each sequence into which documents are packed; without it, they are not",
        most=_SEQUENCE_MAX, **_SHARDS,
    )]  # fmt: skip
    pad_id: Annotated[int | None, number(
        None, "id to fill the last sequence of a shard (default: eos)", 0, metavar="ID", **_SHARDS
    )]  # fmt: skip
    shuffle: Annotated[int | None, number(
        None, "seed of a random order of documents", 0, (1 << 64) - 1, metavar="SEED", **_SHARDS
    )]  # fmt: skip
    split: Annotated[Mapping[str, float] | None, Option(
        None, "name and share of a set, chosen by the hash of each document; "
        "all other documents are in train", check_split, parse_split, metavar="NAME=SHARE",
        repeats=True, **_SHARDS,
    )]  # fmt: skip
    task_bytes: Annotated[int, amount(
        64 << 20, "input bytes per task; each task starts a new shard", group="run"
    )]  # fmt: skip
    rank: Annotated[int | None, number(
        None, "number of this process, from 0; several processes write one output", 0, **_MACHINES
    )]  # fmt: skip
    world_size: Annotated[int | None, number(None, "number of all these processes", **_MACHINES)]


# The formats of the inputs are in the plan's sources.
PLANNED = [
    name
    for name, option in table(TokenizeOptions).items()
    if option.shapes_output and name != "input_format"
]


def planned_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that a plan contains. A run without sets has no `split`."""
    return {name: options[name] for name in PLANNED if name != "split" or options[name]}


def resolve_options(given: Mapping[str, Any], tokenizer: Tokenizer) -> dict[str, Any]:
    """All options, checked, with the values that depend on the tokenizer."""
    # For these, None means "none" instead of the default.
    tokens = {name: NONE for name in ("eos", "bos") if name in given and given[name] is None}
    options = resolve(TokenizeOptions, dict(given) | tokens, TokenizeError)
    check_options(options)
    if options["max_unsplit_bytes"] < MAX_UNSPLIT_BYTES_MIN:
        raise TokenizeError(
            f"max_unsplit_bytes must be at least {MAX_UNSPLIT_BYTES_MIN:,}, got "
            f"{options['max_unsplit_bytes']:,}"
        )
    check_memory(options)
    _check_rank(options["rank"], options["world_size"])
    for name in ("eos", "bos"):
        options[name] = find_token(tokenizer, options[name], name)
    size = tokenizer.vocab_size
    options["dtype"] = options["dtype"] or ("uint16" if size < NARROW_END else "uint32")
    if np.dtype(options["dtype"]).itemsize == 2 and size > 1 << 16:
        raise TokenizeError(
            f"dtype 'uint16' cannot represent the {size:,} ids of {tokenizer.name}; leave dtype out"
        )
    _resolve_padding(options, tokenizer)
    if options["max_errors"] is not None and options["on_error"] == "fail":
        raise TokenizeError(
            "--max-errors has no effect with --on-error fail; leave out one of them"
        )
    if reason := get_format(options["format"]).refuse(spec_of(options, tokenizer)):
        raise TokenizeError(reason)
    return options


def check_memory(options: Mapping[str, Any]) -> None:
    """Raise if the threads of this machine cannot stay below the memory limit."""
    threads = options["threads"] or cpu_count()
    least = MEMORY_MIN + threads * MEMORY_PER_THREAD
    if options["engine"] == LOCAL and options["memory"] < least:
        raise TokenizeError(
            f"memory must be at least {least >> 20}MiB for {threads} thread{'s'[: threads != 1]}, "
            f"got {options['memory']:,}"
        )


def _check_rank(rank: int | None, world_size: int | None) -> None:
    if (rank is None) != (world_size is None):
        raise TokenizeError("rank and world_size need each other, as in --rank 0 --world-size 8")
    if rank is not None and world_size is not None and rank >= world_size:
        raise TokenizeError(f"rank must be below world_size {world_size}, got {rank}")


def _resolve_padding(options: dict[str, Any], tokenizer: Tokenizer) -> None:
    pad_id = options["pad_id"]
    if options["sequence_length"] is None:
        if pad_id is not None:
            raise TokenizeError("--pad-id needs --sequence-length")
        return
    if pad_id is None and options["eos"] is None:
        raise TokenizeError("packing without eos needs a token for padding; pass --pad-id ID")
    options["pad_id"] = options["eos"] if pad_id is None else _check_id(tokenizer, pad_id, "pad_id")


def check_planned(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a plan; a ValueError if they are not valid."""
    if not set(PLANNED) - {"split"} <= options.keys() <= {*PLANNED, "set"}:
        raise ValueError(f"its options are {', '.join(sorted(options))}")
    if "set" in options and options["set"] not in (TRAIN, *options["split"]):
        raise ValueError(f"its set is {options['set']!r}")
    known = table(TokenizeOptions)
    for name, value in options.items():
        if name == "set":
            continue
        if name in ("eos", "bos"):
            is_valid = value is None or type(value) is int
        else:
            is_valid = value is not None or known[name].default is None
        if not is_valid:
            raise ValueError(f"its {name} is {value!r}")
        known[name].value(name, value)
    return options


def ids_before(options: Mapping[str, Any]) -> tuple[int, ...]:
    """The ids before each document. Some shard formats have eos there."""
    eos = options["eos"] if get_format(options["format"]).eos_first else None
    return tuple(id_ for id_ in (eos, options["bos"]) if id_ is not None)


def ids_after(options: Mapping[str, Any]) -> tuple[int, ...]:
    """The ids after each document."""
    eos = options["eos"]
    return () if eos is None or get_format(options["format"]).eos_first else (eos,)


def spec_of(options: Mapping[str, Any], tokenizer: Tokenizer) -> Spec:
    """The properties of all shards of a run."""
    same = {name: options[name] for name in ("dtype", "eos", "bos", "sequence_length")}
    return Spec(**same, vocab_size=tokenizer.vocab_size, tokenizer=tokenizer.name)


def check_effect(options: Mapping[str, Any], kinds: Iterable[str]) -> None:
    """Raise if an option is given that has no effect on any input."""
    found = sorted(set(kinds))
    defaults = table(TokenizeOptions)
    for name, concerned in _CONCERNS.items():
        value = options[name]
        if value != defaults[name].default and not set(found) & set(concerned):
            raise TokenizeError(
                f"--{name.replace('_', '-')} {value!r} has no effect: it is for inputs of "
                f"{', '.join(concerned)}, and all inputs are {', '.join(found)}. Leave it out, or "
                "pass --input-format"
            )
    if options["id_field"] is None:
        return
    keeping = [name for name in FORMATS if get_format(name).keeps_names]
    is_packed = options["sequence_length"] is not None
    if is_packed or options["format"] not in keeping:
        where = "packed sequences have" if is_packed else f"{options['format']} has"
        raise TokenizeError(
            f"--id-field {options['id_field']!r} has no effect: {where} no ids of documents. Leave "
            f"it out, or use one of {', '.join(keeping)} without --sequence-length"
        )


def find_token(tokenizer: Tokenizer, value: Any, option: str) -> int | None:
    """The id of eos or bos, for an id, a token text, `auto` or `none`.

    `auto` is the only usual special token of the vocabulary.
    """
    known = tokenizer.special_tokens
    if value is None or value == NONE:
        return None
    if value == AUTO:
        found = [name for name in _USUAL_TOKENS[option] if name in known]
        if len(found) == 1:
            return known[found[0]]
        named = f"one of {_shown(known)}, " if known else ""
        which = f"has {' and '.join(found)}" if found else "does not have a usual special token"
        raise TokenizeError(
            f"cannot choose {option}: {tokenizer.name} {which}; pass --{option} with {named}an id "
            "or none"
        )
    if isinstance(value, str) and not value.isdecimal():
        if value not in known:
            raise TokenizeError(
                f"{option} {value!r} is not a special token of {tokenizer.name}, which has "
                f"{_shown(known)}"
            )
        return known[value]
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TokenizeError(f"{option} must be an id, a token, auto or none, got {value!r}")
    return _check_id(tokenizer, int(value), option)


def _check_id(tokenizer: Tokenizer, value: int, option: str) -> int:
    if not 0 <= value < tokenizer.vocab_size:
        raise TokenizeError(
            f"{option} must be an id of {tokenizer.name} below {tokenizer.vocab_size:,}, "
            f"got {value}"
        )
    return value


def _shown(tokens: Iterable[str]) -> str:
    names = list(tokens)
    more = f" and {len(names) - _TOKENS_SHOWN} more" if len(names) > _TOKENS_SHOWN else ""
    return (", ".join(names[:_TOKENS_SHOWN]) + more) or "no special tokens"
