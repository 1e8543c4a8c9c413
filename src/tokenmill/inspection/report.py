"""A tokenizer → a report of its vocabulary, and of words and a text if they are given."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.inspection.describe import describe
from tokenmill.inspection.entries import Entries, entries_of
from tokenmill.inspection.odd import OddKind, find_odd
from tokenmill.inspection.reach import Reach, reach_of
from tokenmill.inspection.rules import Rules
from tokenmill.inspection.scripts import are_words
from tokenmill.inspection.texts import Pieces, pieces_of
from tokenmill.inspection.words import Word, word_of
from tokenmill.tokenizer import SpecialsChoice, Tokenizer

_LONGEST = 50
_GAPS_LISTED = 1000
_GAPS_NAMED = 3
# Lengths that have a row of a plot for themselves; then one for each power of two.
_LENGTHS_ALONE = 16


@dataclass(frozen=True)
class Report:
    """What is in a vocabulary, worked out when it is asked for. `as_json` has all of it, in the
    shape of docs/inspect.md."""

    entries: Entries
    words: list[Word]
    text: Pieces | None

    @property
    def tokenizer(self) -> Tokenizer:
        return self.entries.tokenizer

    @cached_property
    def rules(self) -> Rules:
        return Rules(self.entries)

    @cached_property
    def reach(self) -> Reach:
        return reach_of(self.entries, self.rules)

    @cached_property
    def odd(self) -> dict[OddKind, list[int]]:
        return find_odd(self.entries)

    @cached_property
    def parts(self) -> dict[str, list[str]]:
        """What is done with a text, in words."""
        return describe(self.tokenizer)

    def as_json(self) -> dict[str, Any]:
        """All figures, for programs."""
        figures: dict[str, Any] = {
            "tokenizer": self.tokenizer.name,
            "pattern": self.tokenizer.pattern,
            "parts": self.parts,
            "sizes": self.sizes(),
            "lengths": self.lengths(),
            "scripts": self.scripts(),
            "longest": self.longest(),
            "longest_words": self.longest(words=True),
            "unreachable": self.unreachable(),
            "odd": {
                kind: {"count": len(places), "tokens": [self.entries.row(p) for p in places]}
                for kind, places in self.odd.items()
            },
            "words": [word.as_json() for word in self.words],
        }
        if self.text is not None:
            figures["text"] = self.text.as_json()
        return figures

    def html(self) -> str:
        """The same as a page that stands alone."""
        from tokenmill.inspection.page import html

        return html(self)

    def sizes(self) -> dict[str, Any]:
        """How many of what there are."""
        entries = self.entries
        kinds = Counter(entries.kinds)
        gaps = self._gaps()
        blank = {token for token in entries.merged if token[:1] == b" " and len(token) > 1}
        return {
            "ids": self.tokenizer.vocab_size,
            "entries": len(entries.ids),
            "tokens": kinds["token"],
            "merges": self._merges(),
            "specials": kinds["special"],
            "added": kinds["added"],
            "byte_tokens": kinds["byte"],
            "decoded_only": kinds["decoded"],
            "gaps": sum(end - start for start, end in gaps),
            "gap_ranges": gaps[:_GAPS_LISTED],
            "ids_are_ranks": self._has_ranks(),
            "out_of_order": self._out_of_order(),
            "with_blank": len(blank),
            "with_and_without_blank": sum(token[1:] in entries.merged for token in blank),
        }

    def lengths(self) -> dict[str, Any]:
        """How long tokens are; specials, added ones and those for bytes are not counted."""
        entries = self.entries
        places = entries.places_of("token")
        sizes = entries.byte_counts[places]
        characters = entries.character_counts[places]
        characters = characters[characters >= 0]
        return {
            "bytes": _histogram(sizes),
            "characters": _histogram(characters),
            "mean_bytes": _mean(sizes),
            "mean_characters": _mean(characters),
        }

    def scripts(self) -> list[dict[str, Any]]:
        """What tokens are written in, the most frequent first."""
        entries = self.entries
        found = Counter(entries.scripts[place] for place in entries.places_of("token"))
        total = max(1, found.total())
        return [
            {"script": name, "tokens": count, "share": round(count / total, 6)}
            for name, count in found.most_common()
        ]

    def longest(self, *, words: bool = False) -> list[dict[str, Any]]:
        """The tokens of most bytes; with `words` those that are letters alone, but for a blank."""
        entries = self.entries
        places = entries.places_of("token")
        if words:
            whole = [(p, text) for p in places if (text := entries.texts[p])]
            has_letters = are_words(text for _, text in whole).tolist()
            places = [p for (p, _), is_word in zip(whole, has_letters, strict=True) if is_word]
        order = np.argsort(-entries.byte_counts[places], kind="stable")
        places = [places[index] for index in order[:_LONGEST].tolist()]
        return [
            entries.row(place)
            | {
                "bytes": len(entries.tokens[place]),
                "characters": None if (text := entries.texts[place]) is None else len(text),
            }
            for place in places
        ]

    def unreachable(self) -> dict[str, Any]:
        """Tokens that no text gives, and why."""
        rows = [
            self.entries.row(one.place)
            | {
                "reason": one.reason,
                "gives": [self.entries.row(self.entries.places[id_]) for id_ in one.gives],
            }
            for one in self.reach.unreached
        ]
        reasons = Counter(one.reason for one in self.reach.unreached)
        return {"count": len(rows), "reasons": dict(reasons.most_common()), "tokens": rows}

    def _gaps(self) -> list[tuple[int, int]]:
        """Stretches of ids that stand for nothing: the first, and the one behind the last."""
        bounds = [-1, *self.entries.ids.tolist(), self.tokenizer.vocab_size]
        return [(left + 1, right) for left, right in pairwise(bounds) if right > left + 1]

    def _has_ranks(self) -> bool:
        parts = self.tokenizer.parts
        return parts is None or (parts.model.merges is None and parts.model.order is None)

    def _merges(self) -> int:
        parts = self.tokenizer.parts
        if parts is not None and parts.model.merges is not None:
            return len(parts.model.merges)
        return self.reach.merged

    def _out_of_order(self) -> int:
        """Tokens whose id is below that of one which is merged earlier."""
        if self._has_ranks():
            return 0
        entries = self.entries
        ids: Iterable[int]
        if self.rules.listed is not None:
            ids = (entries.merged[token] for token in self.rules.results if token in entries.merged)
        else:
            model = self.tokenizer.parts.model  # type: ignore[union-attr]
            assert model.order is not None
            found = np.array(list(entries.merged.values()), np.int64)
            order = dict(zip(model.ids.tolist(), model.order.tolist(), strict=True))
            ids = sorted(found.tolist(), key=lambda id_: order[id_])
        listed = np.fromiter(ids, np.int64)
        return int(np.count_nonzero(listed < np.maximum.accumulate(listed))) if len(listed) else 0


def inspect(
    tokenizer: Tokenizer | str | os.PathLike[str],
    *,
    words: Iterable[str] = (),
    text: str | bytes | None = None,
    specials: SpecialsChoice = False,
) -> Report:
    """Looks at a vocabulary: sizes, lengths, scripts, tokens out of reach, odd ones.

    `tokenizer` is one, or what `Tokenizer.load` takes. Each of `words` is shown with the tree of
    its merges, and `text` as its pieces, with `specials` as in `encode`.
    """
    found = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer.load(tokenizer)
    entries = entries_of(found)
    report = Report(entries, [], None if text is None else pieces_of(found, text, specials))
    report.words.extend(word_of(entries, report.rules, word) for word in words)
    return report


def _histogram(lengths: NDArray[np.int64]) -> list[dict[str, int]]:
    found, counts = np.unique(lengths, return_counts=True)
    pairs = zip(found.tolist(), counts.tolist(), strict=True)
    return [{"length": length, "tokens": count} for length, count in pairs]


def _mean(lengths: NDArray[np.int64]) -> float:
    return round(float(lengths.mean()), 4) if len(lengths) else 0.0


def size_rows(report: Report) -> list[tuple[str, str]]:
    """Names of sizes and what there is to say about each."""
    sizes = report.sizes()
    kinds = [
        f"{sizes[kind]:,} {name if sizes[kind] > 1 else name.removesuffix('s')}"
        for kind, name in (
            ("tokens", "tokens"),
            ("byte_tokens", "byte tokens"),
            ("specials", "specials"),
            ("added", "added"),
            ("decoded_only", "only decoded"),
        )
        if sizes[kind]
    ]
    if sizes["ids_are_ranks"]:
        order = "are ranks"
    elif sizes["out_of_order"]:
        order = f"are no ranks; {sizes['out_of_order']:,} are not in the order of merges"
    else:
        order = "are no ranks, but in the order of merges"
    blank = f"{sizes['with_blank']:,} tokens, of which {sizes['with_and_without_blank']:,} are"
    return [
        ("tokenizer", report.tokenizer.name),
        ("entries", f"{sizes['entries']:,}: {', '.join(kinds)}"),
        ("merges", f"{sizes['merges']:,}"),
        ("ids", f"{sizes['ids']:,}, which {order}"),
        ("gaps", _gaps_in_words(sizes)),
        ("with a blank in front", f"{blank} there without it, too"),
    ]


def _gaps_in_words(sizes: dict[str, Any]) -> str:
    if not sizes["gaps"]:
        return "none"
    ranges = [f"{a}" if b == a + 1 else f"{a} to {b - 1}" for a, b in sizes["gap_ranges"]]
    more = f", … ({len(ranges)} stretches)" if len(ranges) > _GAPS_NAMED else ""
    return f"{sizes['gaps']:,} ids: {', '.join(ranges[:_GAPS_NAMED])}{more}"


def ranges_of_lengths(lengths: dict[str, Any]) -> list[dict[str, int]]:
    """The two histograms side by side, in few enough rows for a plot."""
    counts = {
        unit: {row["length"]: row["tokens"] for row in lengths[unit]}
        for unit in ("bytes", "characters")
    }
    longest = max((n for found in counts.values() for n in found), default=0)
    bounds = list(range(_LENGTHS_ALONE + 1))
    while bounds[-1] < longest:
        bounds.append(bounds[-1] * 2)
    rows = []
    for low, high in pairwise(bounds):
        row = {"from": low + 1, "to": high}
        for unit, found in counts.items():
            row[unit] = sum(n for length, n in found.items() if low < length <= high)
        if row["bytes"] or row["characters"]:
            rows.append(row)
    return rows
