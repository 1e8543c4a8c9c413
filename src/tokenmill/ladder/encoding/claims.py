"""Results → what the seeds claimed, and whether it holds here.

The seed documents (a Zig tokenizer's benchmarks and its plan to beat rustbpe) say what each idea
would bring. A claim whose figures were not measured neither holds nor fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tokenmill.ladder.encoding import texts
from tokenmill.ladder.encoding.results import Results
from tokenmill.ladder.statistics import duration

TARGET = 1.95
TARGET_SECONDS = 0.120
TRAINING_SECONDS = 0.010
INSTANCE_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence, the figure that was measured, and whether the one bears out the other."""

    text: str
    measured: str
    holds: bool | None

    @property
    def verdict(self) -> str:
        return {True: "holds", False: "does not hold here", None: "not measured"}[self.holds]


def claims(results: Results) -> list[Claim]:
    return [
        *_idea(results, "merging in place is 5 × as fast as a new list", "rebuild", "scan", 5),
        *_idea(results, "a heap is 2 × as fast as a scan", "scan", "heap", 2),
        _faster(results, "native", "rustbpe", "one call for each text"),
        _faster(results, "native_batch", "rustbpe_batch", "texts in batches"),
        _all_encodes(results),
        _training(results),
        _instance(results),
    ]


def _idea(results: Results, text: str, before: str, after: str, wanted: float) -> Iterator[Claim]:
    """One claim for words, which the text is made of, and one for a long pretoken."""
    first, second = results.step(before), results.step(after)
    if first is None or second is None:
        yield Claim(text, "", None)
        return
    gain = first.each.mean / second.each.mean
    yield Claim(f"{text}, on words", f"{gain:.2f} ×", gain >= wanted)
    gain = first.long_seconds / second.long_seconds
    place = f"on a pretoken of {len(texts.LONG):,} bytes"
    yield Claim(f"{text}, {place}", f"{gain:.2f} ×", gain >= wanted)


def _faster(results: Results, ours: str, theirs: str, how: str) -> Claim:
    text = f"the native core encodes {TARGET} × as fast as rustbpe, {how}"
    first, second = results.step(theirs), results.step(ours)
    if first is None or second is None:
        return Claim(text, "", None)
    gain = first.each.mean / second.each.mean
    each = f"{duration(second.each.mean)} and {duration(first.each.mean)}"
    return Claim(text, f"{gain:.1f} × ({each})", gain >= TARGET)


def _all_encodes(results: Results) -> Claim:
    text = f"{texts.ENCODES:,} encodes take less than {duration(TARGET_SECONDS)}"
    native = results.step("native")
    if native is None:
        return Claim(text, "", None)
    whole = native.each * texts.ENCODES
    measured = f"{whole.spread()} ({duration(whole.processor)} of processor time)"
    return Claim(text, measured, whole.mean < TARGET_SECONDS)


def _training(results: Results) -> Claim:
    text = (
        f"training on {texts.SHORT_TEXTS:,} short texts to {texts.VOCAB_SIZE:,} entries takes less "
        f"than {duration(TRAINING_SECONDS)}"
    )
    row = next((row for row in results.training if row.name == "tokenmill"), None)
    if row is None:
        return Claim(text, "", None)
    measured = f"{row.run.spread()} ({duration(row.run.processor)} of processor time)"
    return Claim(text, measured, row.run.mean < TRAINING_SECONDS)


def _instance(results: Results) -> Claim:
    text = "a second tokenizer that shares its vocabulary takes 1 KB at most"
    shared = [row for row in results.instances if row.name in ("shared", "by_name")]
    if not shared:
        return Claim(text, "", None)
    most = max(row.bytes for row in shared)
    return Claim(text, f"{most:,.0f} bytes", most <= INSTANCE_BYTES)
