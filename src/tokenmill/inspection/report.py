"""A tokenizer → a report of its vocabulary, with trees of words and the tokens of a text."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill import arguments
from tokenmill.display import token_text
from tokenmill.formats import spec as specs
from tokenmill.inspection.merges import MergeRules, Word, merge_word
from tokenmill.inspection.page import PAGE_ROWS, Cell, Table, page
from tokenmill.inspection.reach import REASONS, Reach, find_unreachable
from tokenmill.inspection.token_table import (
    ODD,
    OddKind,
    TokenTable,
    are_words,
    find_odd,
    make_table,
)
from tokenmill.patterns.schemes import Literally, Pattern, Stage, name_of
from tokenmill.tokenizer import SpecialsChoice, Tokenizer

_LONGEST = 50
_GAPS_LISTED = 1000
_GAPS_NAMED = 3
# Lengths with a row of their own in a plot. Longer ones share a row per power of two.
_LENGTHS_ALONE = 16
_UNITS = ("bytes", "characters")
_KINDS = {
    "ordinary_tokens": "token",
    "byte_tokens": "byte",
    "special_tokens": "special",
    "added_tokens": "added",
    "decode_only_tokens": "decoded",
}


@dataclass(frozen=True, slots=True)
class EncodedText:
    """A text and its tokens. `tokens` are the bytes of the ids, after any normalizer."""

    text: str | bytes
    ids: list[int]
    tokens: list[bytes]
    pretokens: int

    def figures(self) -> dict[str, Any]:
        """Return counts and the compression of the text."""
        text, count = self.text, len(self.ids)
        size = len(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
        characters = len(text if isinstance(text, str) else text.decode("utf-8", "replace"))
        return {
            "bytes": size,
            "characters": characters,
            "tokens": count,
            "distinct_tokens": len(set(self.ids)),
            "pretokens": self.pretokens,
            "bytes_per_token": round(size / count, 4) if count else 0.0,
            "characters_per_token": round(characters / count, 4) if count else 0.0,
        }

    def facts(self) -> list[tuple[str, list[str]]]:
        """Return the figures as names and lines of text."""
        found = self.figures()
        order = ("tokens", "distinct_tokens", "pretokens", "characters", "bytes")
        rows = {name: f"{found[name]:,}" for name in order}
        rows |= {name: f"{found[name]:.2f}" for name in ("bytes_per_token", "characters_per_token")}
        return [(name.replace("_", " "), [value]) for name, value in rows.items()]

    def as_json(self) -> dict[str, Any]:
        texts = [token_text(token) for token in self.tokens]
        return self.figures() | {"ids": self.ids, "token_texts": texts}


@dataclass(frozen=True)
class TokenizerReport:
    """A report of a vocabulary. Each figure is computed when first used.

    `as_json` returns all figures as documented in docs/inspect-report.md.
    """

    table: TokenTable
    words: list[Word]
    text: EncodedText | None

    @property
    def tokenizer(self) -> Tokenizer:
        return self.table.tokenizer

    @cached_property
    def rules(self) -> MergeRules:
        return MergeRules(self.table)

    @cached_property
    def reach(self) -> Reach:
        return find_unreachable(self.table, self.rules)

    @cached_property
    def odd(self) -> dict[OddKind, list[int]]:
        return find_odd(self.table)

    @cached_property
    def components(self) -> dict[str, list[str]]:
        """The components of the tokenizer in words."""
        return describe(self.table.spec)

    def as_json(self) -> dict[str, Any]:
        """Return all figures as JSON values."""
        return {
            "tokenizer": self.tokenizer.name,
            "pattern": self.tokenizer.pattern,
            "components": self.components,
            "sizes": self.sizes(),
            "lengths": self.lengths(),
            "scripts": self.scripts(),
            "longest": self.longest(),
            "longest_words": self.longest(words=True),
            "unreachable": self.unreachable(),
            "odd": {
                kind: {"count": len(indexes), "tokens": [self.table.row(i) for i in indexes]}
                for kind, indexes in self.odd.items()
            },
            "words": [word.as_json() for word in self.words],
            **({} if self.text is None else {"text": self.text.as_json()}),
        }

    def html(self) -> str:
        """Return the report as an HTML page without external files."""
        tables = self.tables(PAGE_ROWS)
        return page(self.tokenizer.name, self.facts()[1:], tables, self.words, self.text)

    def sizes(self) -> dict[str, Any]:
        """Return the numbers of ids, tokens and merges."""
        table = self.table
        kinds = Counter(table.kinds)
        model = table.spec.model
        gaps = self._gaps()
        spaced = {token for token in table.mergeable if token[:1] == b" " and len(token) > 1}
        merges = self.reach.merge_count if model.merges is None else len(model.merges)
        return {
            "ids": self.tokenizer.vocab_size,
            "tokens": len(table.ids),
            **{name: kinds[kind] for name, kind in _KINDS.items()},  # type: ignore[index]
            "merges": merges,
            "gaps": sum(end - start for start, end in gaps),
            "gap_ranges": gaps[:_GAPS_LISTED],
            "ids_are_ranks": model.merges is None and model.order is None,
            "out_of_order": self._out_of_order(),
            "with_space": len(spaced),
            "with_and_without_space": sum(token[1:] in table.mergeable for token in spaced),
        }

    def lengths(self) -> dict[str, Any]:
        """Return the lengths of the ordinary tokens in bytes and characters."""
        indexes = self.table.select("token")
        sizes = self.table.byte_counts[indexes]
        characters = self.table.character_counts[indexes]
        characters = characters[characters >= 0]
        return {
            "bytes": _histogram(sizes), "characters": _histogram(characters),
            "mean_bytes": _mean(sizes), "mean_characters": _mean(characters),
        }  # fmt: skip

    def scripts(self) -> list[dict[str, Any]]:
        """Return the scripts of the ordinary tokens, the most frequent first."""
        found = Counter(self.table.scripts[index] for index in self.table.select("token"))
        total = max(1, found.total())
        return [
            {"script": name, "tokens": count, "share": round(count / total, 6)}
            for name, count in found.most_common()
        ]

    def longest(self, *, words: bool = False) -> list[dict[str, Any]]:
        """Return the longest tokens by bytes, with `words` only those made of letters."""
        table = self.table
        indexes = table.select("token")
        if words:
            whole = [(index, text) for index in indexes if (text := table.texts[index])]
            has_letters = are_words(text for _, text in whole).tolist()
            indexes = [i for (i, _), is_word in zip(whole, has_letters, strict=True) if is_word]
        order = np.argsort(-table.byte_counts[indexes], kind="stable")
        rows = []
        for index in (indexes[at] for at in order[:_LONGEST].tolist()):
            count = int(table.character_counts[index])
            sizes = {"bytes": len(table.tokens[index]), "characters": None if count < 0 else count}
            rows.append(table.row(index) | sizes)
        return rows

    def unreachable(self) -> dict[str, Any]:
        """Return the tokens that no text produces, with reasons."""
        table = self.table
        rows = []
        for one in self.reach.unreachable:
            others = [table.row(table.index_of[id_]) for id_ in one.ids]
            rows.append(table.row(one.index) | {"reason": one.reason, "encoded_as": others})
        reasons = Counter(one.reason for one in self.reach.unreachable)
        return {"count": len(rows), "reasons": dict(reasons.most_common()), "tokens": rows}

    def facts(self) -> list[tuple[str, list[str]]]:
        """Return the sizes and the components as names and lines of text."""
        sizes = self.sizes()
        kinds = [_count_kind(name, sizes[name]) for name in _KINDS if sizes[name]]
        order = "ranks" if sizes["ids_are_ranks"] else "not ranks, but in the order of merges"
        if sizes["out_of_order"]:
            order = f"not ranks, {sizes['out_of_order']:,} not in the order of merges"
        both = f"{sizes['with_and_without_space']:,} also exist without it"
        rows = {
            "tokenizer": self.tokenizer.name,
            "tokens": f"{sizes['tokens']:,}: {', '.join(kinds)}",
            "merges": f"{sizes['merges']:,}",
            "ids": f"{sizes['ids']:,} ({order})",
            "unused ids": _describe_gaps(sizes),
            "with a first space": f"{sizes['with_space']:,} tokens, {both}",
        }
        return [*((name, [row]) for name, row in rows.items()), *self.components.items()]

    def tables(self, rows_max: int) -> Iterator[Table]:
        """Yield tables of at most `rows_max` rows."""
        yield self._length_table()
        scripts = self.scripts()
        rows: list[list[Cell]] = [
            [row["script"], row["tokens"], f"{row['share']:.1%}", row["tokens"]]
            for row in scripts[:rows_max]
        ]
        yield Table("scripts", ("script", "tokens", "share", ""), rows, len(scripts))
        rows = []
        for pair in zip_longest(self.longest()[:rows_max], self.longest(words=True)[:rows_max]):
            cells = [([row], str(row["id"]), row["bytes"]) for row in pair if row]
            rows.append([cell for part in cells for cell in part])
        heads = ("token", "id", "bytes", "word", "id", "bytes")
        yield Table("longest tokens and words", heads, rows)
        yield self._unreachable_table(rows_max)
        rows = []
        for kind, indexes in self.odd.items():
            examples = [self.table.row(index) for index in indexes[: max(3, rows_max // 3)]]
            rows.append([ODD[kind], len(indexes), examples])
        if rows:
            yield Table("odd tokens", ("kind", "count", "examples"), rows)

    def _length_table(self) -> Table:
        lengths = self.lengths()
        counts = [{row["length"]: row["tokens"] for row in lengths[unit]} for unit in _UNITS]
        bounds = list(range(_LENGTHS_ALONE + 1))
        while bounds[-1] < max((length for found in counts for length in found), default=0):
            bounds.append(bounds[-1] * 2)
        rows = []
        for low, high in pairwise(bounds):
            some = [sum(n for at, n in found.items() if low < at <= high) for found in counts]
            if any(some):
                rows.append([low + 1, high, some[0], some[0], some[1], some[1]])
        heads = ("from", "to", "bytes", "", "characters", "")
        means = " and ".join(f"{lengths[f'mean_{unit}']:.2f} {unit}" for unit in _UNITS)
        return Table("tokens by length", heads, rows, remark=f"{means} on average")

    def _unreachable_table(self, rows_max: int) -> Table:
        found = self.unreachable()
        rows: list[list[Cell]] = [
            [[row], str(row["id"]), REASONS[row["reason"]], row["encoded_as"]]
            for row in found["tokens"][:rows_max]
        ]
        reasons = [f"{n:,} {REASONS[name]}" for name, n in found["reasons"].items()]
        return Table(
            f"unreachable tokens: {found['count']:,}",
            ("token", "id", "reason", "encoded as"),
            rows,
            found["count"],
            note=f"in all: {'; '.join(reasons)}" if len(reasons) > 1 else "",
            remark="The text of such a token is encoded as other tokens, alone and inside the "
            "texts that were tried.",
        )

    def _gaps(self) -> list[tuple[int, int]]:
        """Return the ranges of unused ids: the first one, and the one after the last."""
        bounds = [-1, *self.table.ids.tolist(), self.tokenizer.vocab_size]
        return [(left + 1, right) for left, right in pairwise(bounds) if right > left + 1]

    def _out_of_order(self) -> int:
        """Return the number of tokens with a smaller id than a token that merges earlier."""
        model, mergeable = self.table.spec.model, self.table.mergeable
        ids: Iterable[int] = ()
        if self.rules.pairs is not None:
            ids = (mergeable[token] for token in self.rules.results if token in mergeable)
        elif model.order is not None:
            order = dict(zip(model.ids.tolist(), model.order.tolist(), strict=True))
            ids = sorted(mergeable.values(), key=order.__getitem__)
        listed = np.fromiter(ids, np.int64)
        return int(np.count_nonzero(listed < np.maximum.accumulate(listed))) if len(listed) else 0


def inspect_tokenizer(
    tokenizer: Tokenizer | str | os.PathLike[str],
    *,
    words: Iterable[str] = (),
    text: str | bytes | None = None,
    allowed_special: SpecialsChoice = False,
) -> TokenizerReport:
    """Return a report of a tokenizer. See `tokenmill.inspect`."""
    if not isinstance(tokenizer, Tokenizer):
        tokenizer = Tokenizer.load(tokenizer)
    encoded = None if text is None else _encode_text(tokenizer, text, allowed_special)
    report = TokenizerReport(make_table(tokenizer), [], encoded)
    report.words.extend(merge_word(report.table, report.rules, word) for word in words)
    return report


def _encode_text(
    tokenizer: Tokenizer, text: str | bytes, allowed_special: SpecialsChoice
) -> EncodedText:
    allowed = tokenizer._allowed(allowed_special)
    ids, _, numbers = arguments.read(tokenizer._core.encode_words, text, allowed)
    tokens = {id_: tokenizer.id_to_token(id_) for id_ in set(ids)}
    return EncodedText(text, ids, [tokens[id_] for id_ in ids], len(set(numbers)))


def _histogram(lengths: NDArray[np.int64]) -> list[dict[str, int]]:
    found, counts = np.unique(lengths, return_counts=True)
    pairs = zip(found.tolist(), counts.tolist(), strict=True)
    return [{"length": length, "tokens": count} for length, count in pairs]


def _mean(lengths: NDArray[np.int64]) -> float:
    return round(float(lengths.mean()), 4) if len(lengths) else 0.0


def _count_kind(name: str, count: int) -> str:
    name = name.replace("_", " ").replace("decode only", "decode-only")
    return f"{count:,} {name if count > 1 else name.removesuffix('s')}"


def _describe_gaps(sizes: dict[str, Any]) -> str:
    if not sizes["gaps"]:
        return "none"
    ranges = [f"{a}" if b == a + 1 else f"{a} to {b - 1}" for a, b in sizes["gap_ranges"]]
    more = f", … ({len(ranges)} ranges)" if len(ranges) > _GAPS_NAMED else ""
    return f"{sizes['gaps']:,}: {', '.join(ranges[:_GAPS_NAMED])}{more}"


# The components of a tokenizer in words, in the order in which they run

_MISSING = {
    "fail": "raise an error",
    "drop": "are dropped",
    "unk": "become the unknown token",
    "bytes": "become byte tokens",
}
_NO_STAGE = "none: text is not split"
_PREFIX = {
    "always": "a space is added before every text",
    "missing": "a space is added before every text that starts without one",
    "missing_first": "a space is added at the start of a text that starts without one",
}


def describe(spec: specs.TokenizerSpec) -> dict[str, list[str]]:
    """Return the steps of each component. A component without steps is left out."""
    components = {
        "model": _model(spec.model),
        "normalizer": [_step(step) for step in spec.steps],
        "prefix": [] if spec.prefix == "never" else [_PREFIX[spec.prefix]],
        "spaces": ['are written "▁" in tokens'] if spec.blank else [],
        "pre-tokenizer": [_stage(stage, spec) for stage in spec.stages] or [_NO_STAGE],
        "post-processor": _template(spec.template.single),
        "decoder": [] if spec.ranks is not None else _types(spec.decoder),
    }
    return {name: lines for name, lines in components.items() if lines}


def _model(model: specs.Model) -> list[str]:
    lines = ["byte-level BPE"] if model.base == "bytes" else ["BPE of characters"]
    if model.merges is not None:
        lines.append(f"a list of {len(model.merges):,} merges")
        if model.whole:
            lines.append("a pretoken that is a token is not merged (ignore_merges)")
    elif model.order is not None:
        lines.append("the pair with the best score merges first")
    else:
        lines.append("ids are ranks, and the lowest pair merges first")
    if model.base == "characters":
        lines.append(f"characters without a token {_MISSING[model.missing]}")
    if model.dropout:
        lines.append(f"merges are dropped at random ({model.dropout:g})")
    return lines


def _step(step: specs.Step) -> str:
    match step:
        case specs.Form(name):
            return name
        case specs.Lower():
            return "lower case"
        case specs.Prepend(text):
            return f"prepend {text!r}"
        case specs.Replace(match, content):
            return f"replace {match.text!r} by {content!r}"
        case specs.Strip(left, right):
            sides = [name for name, is_cut in (("left", left), ("right", right)) if is_cut]
            return f"strip whitespace on the {' and '.join(sides)}" if sides else "strip no side"
        case specs.Charsmap(data, _):
            return f"SentencePiece character map ({len(data):,} bytes)"
        case specs.Squeeze():
            return "collapse spaces to one, and remove them at both ends"


def _stage(stage: Stage, spec: specs.TokenizerSpec) -> str:
    behaviour = stage.behaviour.replace("_", " ") + (", inverted" if stage.invert else "")
    # With ranks it is a tiktoken pattern, whose matches are the pretokens.
    is_plain = spec.ranks is not None or behaviour == "isolated"
    return _match(stage) + ("" if is_plain else f" ({behaviour})")


def _match(stage: Stage) -> str:
    match stage.match:
        case Pattern(text, dialect):
            known = name_of(text, dialect)
            return text if known is None else f"{known}: {text}"
        case Literally(text):
            return f"the text {text!r}"
        case name:
            return name.replace("_", " ")


def _template(items: Sequence[specs.Item]) -> list[str]:
    names = ["TEXT" if item.ids is None else " ".join(item.tokens) or item.name for item in items]
    return [" ".join(names)] if len(names) > 1 else []


def _types(decoder: Any) -> list[str]:
    if decoder is None:
        return []
    if decoder.get("type") == "Sequence":
        return [name for one in decoder.get("decoders", ()) for name in _types(one)]
    return [str(decoder.get("type"))]
