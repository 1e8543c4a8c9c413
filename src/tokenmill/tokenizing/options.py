"""The options of `tokenize`, each defined once → checked values, and those that a plan contains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypedDict

import numpy as np

from tokenmill.corpus.documents import DOCUMENT_BYTES
from tokenmill.corpus.options import RECORDS, ReadOptions
from tokenmill.errors import ClusterError, TokenizeError
from tokenmill.options import amount, anything, number, one_of, resolve, switch, table, text
from tokenmill.ray_cluster import ENGINES, LOCAL, RAY
from tokenmill.shards import layouts
from tokenmill.shards.spec import Spec
from tokenmill.tokenizer import Tokenizer

DTYPES = ("uint16", "uint32")
AUTO = "auto"
NONE = "none"
# Ids below this fit Megatron's uint16, with room for padding a vocabulary.
NARROW_END = 65_500
MAX_UNSPLIT_BYTES = 16 << 20
MAX_UNSPLIT_BYTES_MIN = 4 << 20
MEMORY_MIN = 64 << 20
_SEQUENCE_MAX = 1 << 24

# Usual token texts. A vocabulary with two of them needs a decision of the user.
_EOS_TOKENS = (
    "<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>", "<|eos|>", "<EOS>", "[EOS]",
    "<｜end▁of▁sentence｜>", "<|END_OF_TURN_TOKEN|>", "<|endofdocument|>",
)  # fmt: skip
_BOS_TOKENS = (
    "<|begin_of_text|>", "<s>", "<bos>", "<|bos|>", "<BOS>", "<BOS_TOKEN>", "[BOS]",
    "<｜begin▁of▁sentence｜>", "<|startoftext|>",
)  # fmt: skip
_TOKENS_SHOWN = 8
# Formats of inputs for which an option has an effect.
_CONCERNS = {"separator": ("text",), "field": RECORDS, "id_field": (*RECORDS, "warc")}


class RunOptions(TypedDict, total=False):
    """How a run is done. They do not change the output."""

    threads: Annotated[
        int | None,
        number(None, "number of threads (default: all cores)", group="run", shapes_output=False),
    ]
    memory: Annotated[
        int,
        amount(
            2 << 30, "memory limit for input buffers", MEMORY_MIN, group="run", shapes_output=False
        ),
    ]
    engine: Annotated[
        str,
        one_of(
            ENGINES,
            LOCAL,
            "execution engine: this machine or a Ray cluster",
            group="several machines",
            shapes_output=False,
        ),
    ]
    ray_address: Annotated[
        str | None,
        text(
            None, "address of a running Ray cluster, such as auto; without it, one is started",
            metavar="ADDRESS", group="several machines", shapes_output=False,
        ),
    ]  # fmt: skip


class TokenizeOptions(ReadOptions, RunOptions, total=False):
    """All options of `tokenize`."""

    id_field: Annotated[
        str | None,
        text(None, "field with the id of a document, for shard formats with ids", group="inputs"),
    ]
    max_document_bytes: Annotated[
        int,
        amount(DOCUMENT_BYTES, "largest record; longer ones are rejected", group="inputs"),
    ]
    max_unsplit_bytes: Annotated[
        int,
        amount(MAX_UNSPLIT_BYTES, "largest text without a safe split point", group="inputs"),
    ]
    allowed_special: Annotated[
        bool,
        switch("encode special tokens in the text as such", flag="--allow-special", group="inputs"),
    ]
    format: Annotated[str, one_of(layouts.NAMES, "megatron", "shard format", group="shards")]
    eos: Annotated[
        int | str | None,
        anything(
            AUTO,
            "token after each document: its text, its id, auto or none",
            metavar="TOKEN",
            group="shards",
        ),
    ]
    bos: Annotated[
        int | str | None,
        anything(
            NONE,
            "token before each document: its text, its id, auto or none",
            metavar="TOKEN",
            group="shards",
        ),
    ]
    dtype: Annotated[
        str | None,
        one_of(DTYPES, None, "type of ids; without it, the vocabulary decides", group="shards"),
    ]
    shard_tokens: Annotated[
        int,
        number(
            100_000_000,
            "tokens per shard; the document that reaches it is the last",
            group="shards",
        ),
    ]
    sequence_length: Annotated[
        int | None,
        number(
            None,
            "length of packed sequences; without it, documents are not packed",
            most=_SEQUENCE_MAX,
            group="shards",
        ),
    ]
    pad_id: Annotated[
        int | None,
        number(
            None,
            "token id that pads the last sequence of a shard (default: eos)",
            0,
            metavar="ID",
            group="shards",
        ),
    ]
    shuffle: Annotated[
        int | None,
        number(
            None,
            "seed of a random order of all documents",
            0,
            (1 << 64) - 1,
            metavar="SEED",
            group="shards",
        ),
    ]
    task_bytes: Annotated[
        int,
        amount(64 << 20, "input bytes per task; each task starts a new shard", group="run"),
    ]
    rank: Annotated[
        int | None,
        number(
            None, "index of this process, from 0", 0, group="several machines", shapes_output=False
        ),
    ]
    world_size: Annotated[
        int | None,
        number(None, "number of processes", group="several machines", shapes_output=False),
    ]  # fmt: skip


# The formats of the inputs are in the plan's sources.
PLANNED = [
    name
    for name, option in table(TokenizeOptions).items()
    if option.shapes_output and name != "input_format"
]


def resolve_options(given: Mapping[str, Any], tokenizer: Tokenizer) -> dict[str, Any]:
    """All options, checked, with the values that depend on the tokenizer."""
    # None means "none" for these, and not the default.
    given = dict(given)
    for name in ("eos", "bos"):
        if name in given and given[name] is None:
            given[name] = NONE
    options = resolve(TokenizeOptions, given, TokenizeError)
    check_run(options)
    if options["max_unsplit_bytes"] < MAX_UNSPLIT_BYTES_MIN:
        raise TokenizeError(
            f"max_unsplit_bytes must be at least {MAX_UNSPLIT_BYTES_MIN:,}, got "
            f"{options['max_unsplit_bytes']:,}"
        )
    _check_rank(options["rank"], options["world_size"])
    for name in ("eos", "bos"):
        options[name] = find_token(tokenizer, options[name], name)
    size = tokenizer.vocab_size
    options["dtype"] = options["dtype"] or ("uint16" if size < NARROW_END else "uint32")
    if np.dtype(options["dtype"]).itemsize == 2 and size > 1 << 16:
        raise TokenizeError(
            f"dtype 'uint16' cannot represent the {size:,} ids of {tokenizer.name}; leave dtype out"
        )
    _check_sequences(options, tokenizer)
    if options["max_errors"] is not None and options["on_error"] == "fail":
        raise TokenizeError(
            "--max-errors has no effect with --on-error fail; leave out one of them"
        )
    if reason := layouts.layout(options["format"]).refuse(spec_of(options, tokenizer)):
        raise TokenizeError(reason)
    return options


def check_run(options: Mapping[str, Any]) -> None:
    """Raise if the address of a cluster is given for another engine."""
    if options["ray_address"] is not None and options["engine"] != RAY:
        raise ClusterError(f"--ray-address needs --engine ray, got engine {options['engine']!r}")


def _check_rank(rank: int | None, world_size: int | None) -> None:
    if (rank is None) != (world_size is None):
        raise TokenizeError("rank and world_size need each other, as in --rank 0 --world-size 8")
    if rank is not None and world_size is not None and rank >= world_size:
        raise TokenizeError(f"rank must be below world_size {world_size}, got {rank}")


def _check_sequences(options: dict[str, Any], tokenizer: Tokenizer) -> None:
    pad_id, size = options["pad_id"], tokenizer.vocab_size
    if options["sequence_length"] is None:
        if pad_id is not None:
            raise TokenizeError("--pad-id needs --sequence-length")
        return
    if pad_id is not None and pad_id >= size:
        raise TokenizeError(
            f"pad_id must be an id of {tokenizer.name} below {size:,}, got {pad_id}"
        )
    if pad_id is None:
        if options["eos"] is None:
            raise TokenizeError(
                "the last sequence of a shard needs padding and there is no eos; pass --pad-id ID"
            )
        options["pad_id"] = options["eos"]


def check_planned(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a plan; a ValueError if they are not valid."""
    if sorted(options) != sorted(PLANNED):
        raise ValueError(f"its options are {', '.join(sorted(options))}")
    kinds = {"eos": (int, type(None)), "bos": (int, type(None))}
    for name, option in table(TokenizeOptions).items():
        if name not in PLANNED:
            continue
        value = options[name]
        if name in kinds:
            if not isinstance(value, kinds[name]) or isinstance(value, bool):
                raise ValueError(f"its {name} is {value!r}")
        elif value is not None:
            option.value(name, value)
        elif option.default is not None and name not in ("pad_id",):
            raise ValueError(f"its {name} is {value!r}")
    return options


def ids_before(options: Mapping[str, Any]) -> tuple[int, ...]:
    """The ids before each document. Some shard formats have eos there."""
    eos = options["eos"] if _eos_is_first(options["format"]) else None
    return tuple(id_ for id_ in (eos, options["bos"]) if id_ is not None)


def ids_after(options: Mapping[str, Any]) -> tuple[int, ...]:
    """The ids after each document."""
    eos = options["eos"]
    return () if eos is None or _eos_is_first(options["format"]) else (eos,)


def spec_of(options: Mapping[str, Any], tokenizer: Tokenizer) -> Spec:
    """The properties of all shards of a run."""
    return Spec(
        dtype=options["dtype"],
        eos=options["eos"],
        bos=options["bos"],
        vocab_size=tokenizer.vocab_size,
        tokenizer=tokenizer.name,
        sequence_length=options["sequence_length"],
    )


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
    keeping = [name for name in layouts.NAMES if _keeps_names(name)]
    is_packed = options["sequence_length"] is not None
    if is_packed or not _keeps_names(options["format"]):
        where = "packed sequences have" if is_packed else f"{options['format']} has"
        raise TokenizeError(
            f"--id-field {options['id_field']!r} has no effect: {where} no ids of documents. Leave "
            f"it out, or use one of {', '.join(keeping)} without --sequence-length"
        )


def _keeps_names(layout: str) -> bool:
    return bool(getattr(layouts.layout(layout), "KEEPS_NAMES", False))


def _eos_is_first(layout: str) -> bool:
    return bool(getattr(layouts.layout(layout), "EOS_FIRST", False))


def find_token(tokenizer: Tokenizer, asked: Any, option: str) -> int | None:
    """The id of a token before or after documents: given, named, or the only one that fits."""
    texts = _EOS_TOKENS if option == "eos" else _BOS_TOKENS
    if asked is None or asked == NONE:
        return None
    if asked == AUTO:
        found = [name for name in texts if name in tokenizer.special_tokens]
        if len(found) == 1:
            return tokenizer.special_tokens[found[0]]
        named = f"one of {_shown(tokenizer)}, " if tokenizer.special_tokens else ""
        which = f"has {' and '.join(found)}" if found else "has none of the usual special tokens"
        raise TokenizeError(
            f"cannot choose {option}: {tokenizer.name} {which}; pass --{option} with {named}an id "
            "or none"
        )
    if isinstance(asked, str) and not asked.isdecimal():
        if asked not in tokenizer.special_tokens:
            raise TokenizeError(
                f"{option} {asked!r} is not a special token of {tokenizer.name}, which has "
                f"{_shown(tokenizer)}"
            )
        return tokenizer.special_tokens[asked]
    if isinstance(asked, bool) or not isinstance(asked, int | str):
        raise TokenizeError(f"{option} must be an id, a token, auto or none, got {asked!r}")
    id_ = int(asked)
    if not 0 <= id_ < tokenizer.vocab_size:
        raise TokenizeError(
            f"{option} must be an id of {tokenizer.name} below {tokenizer.vocab_size:,}, got {id_}"
        )
    return id_


def _shown(tokenizer: Tokenizer) -> str:
    names = list(tokenizer.special_tokens)
    more = f" and {len(names) - _TOKENS_SHOWN} more" if len(names) > _TOKENS_SHOWN else ""
    return (", ".join(names[:_TOKENS_SHOWN]) + more) or "no special tokens"


Boundary = Literal["eos", "bos"]
