"""Results → tables of words, for a terminal or for Markdown."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

from tokenmill.ladder.encoding import markers, texts
from tokenmill.ladder.encoding.claims import claims
from tokenmill.ladder.encoding.results import Results
from tokenmill.ladder.encoding.steps import Measured
from tokenmill.ladder.statistics import duration

# A process that has a processor for itself takes little more time than it spends there.
_BUSY = 1.2
_NAMES = {
    "native_batch": "native batch",
    "rustbpe_batch": "rustbpe batch",
    "tiktoken_ordinary": "tiktoken ordinary",
    "shared": "tokenmill, shared",
    "by_name": "tokenmill, by name",
    "apart": "tokenmill, apart",
}


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table: what it shows, its heads, its rows, and what is said below it."""

    title: str
    heads: list[str]
    rows: list[list[str]]
    note: str = ""


def sheets(results: Results) -> list[Sheet]:
    made = [_steps(results), _seed(results), _training(results), _instances(results)]
    return [sheet for sheet in [*made, _claims(results)] if sheet.rows]


def name_of(row: Measured) -> str:
    number = "" if row.step.number is None else f"{row.step.number} "
    return number + _NAMES.get(row.step.name, row.step.name)


def _steps(results: Results) -> Sheet:
    rows, before = [], None
    for row in results.steps:
        gain = ""
        if row.step.number is not None:
            gain = "" if before is None else _times(before.each.mean / row.each.mean)
            before = row
        first = results.steps[0].each.mean
        rows.append(
            [
                name_of(row), row.each.spread(), row.each.span(), duration(row.each.processor),
                f"{row.encodes:,}", gain, _times(first / row.each.mean), duration(row.long_seconds),
                f"{row.peak_mb:,.0f} MB", "equal",
            ]
        )  # fmt: skip
    heads = [
        "step", "one encode", "min … max", "processor", "encodes", "on the last", "on the first",
        "long one", "memory", "ids",
    ]  # fmt: skip
    run = results.steps[0].run
    note = (
        f"Mean ± σ of {run.runs} runs after {run.warmup} to warm up, each step in a process of its "
        f"own. A run is {results.encodes:,} encodes of {len(texts.TEXT.encode())} bytes; slow "
        "steps do fewer, as the column says. The long one is a pretoken of "
        f"{len(texts.LONG):,} bytes that was never seen before, the best of three in "
        "processor time. Memory is the peak. "
        "Ids are compared with the reference's before anything is timed."
    )
    if any(row.run.mean > _BUSY * row.run.processor for row in results.steps):
        note += " Other programs used the processors meanwhile: better compare their own time."
    return Sheet("Encoding one text", heads, rows, note)


def _seed(results: Results) -> Sheet:
    """The seed's last table: what it had, what it planned, and what is here."""
    base = results.step("rustbpe")
    memory = {row.name: row.bytes for row in results.instances}
    plan = [
        ("rustbpe", "rustbpe", "234 ms, 1.00 ×, 11 KB", "rustbpe", "the baseline"),
        ("rebuild", "naive", "5.3 s, 0.04 ×, 1 KB", "", "pure Python here, Zig there"),
        ("native", "optimized", "120 ms, 1.95 ×, 1 KB", "shared", "there a plan, here measured"),
    ]
    rows = []
    for name, shown, said, instance, remark in plan:
        row = results.step(name)
        if row is None:
            continue
        scaled = row.each * texts.ENCODES
        held = _bytes(memory[instance]) if instance in memory else "–"
        gain = "–" if base is None else _times(base.each.mean / row.each.mean)
        rows.append([shown, scaled.spread(), gain, held, said, remark])
    heads = ["implementation", f"{texts.ENCODES:,} encodes", "speed-up", "memory", "seed", "notes"]
    note = "Memory is that of one more tokenizer. Where a run had fewer encodes, time is scaled up."
    return Sheet("The seed's table", heads, rows, note)


def _training(results: Results) -> Sheet:
    rows = [
        [
            _versioned(row.name), row.run.spread(), row.run.span(), duration(row.run.processor),
            _times(row.run.mean / results.training[0].run.mean),
        ]
        for row in results.training
    ]  # fmt: skip
    title = f"Training: {texts.SHORT_TEXTS:,} short texts to {texts.VOCAB_SIZE:,} entries"
    return Sheet(
        title, ["trainer", "mean ± σ", "min … max", "processor", "time of the first"], rows
    )


def _instances(results: Results) -> Sheet:
    rows = [[_NAMES.get(r.name, r.name), _bytes(r.bytes), r.how] for r in results.instances]
    return Sheet("One more tokenizer", ["tokenizer", "memory", "made by"], rows)


def _claims(results: Results) -> Sheet:
    rows = [[claim.text, claim.measured, claim.verdict] for claim in claims(results)]
    return Sheet("The seed's claims", ["claim", "here", "verdict"], rows)


def environment() -> str:
    """What the figures were measured with."""
    known = [_versioned(name) for name in ("rustbpe", "tiktoken", "tokenizers")]
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return ", ".join([python, platform.machine(), _processor(), *known])


def markdown(results: Results) -> str:
    """The sheets for a document."""
    blocks = [f"Measured by `tokenmill ladder encoding` on {environment()}."]
    for sheet in sheets(results):
        under = ["---", *("---:" for _ in sheet.heads[1:])]
        lines = ["| " + " | ".join(line) + " |" for line in (sheet.heads, under, *sheet.rows)]
        blocks += [f"**{sheet.title}**", "\n".join(lines)]
        blocks += [sheet.note] if sheet.note else []
    return "\n\n".join(blocks)


def _versioned(package: str) -> str:
    if package == "tokenmill":
        return package
    return f"{package} {markers.version_of(package) or 'not installed'}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    found = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(found)} × {found[0]}" if found else "an unknown processor"


def _times(factor: float) -> str:
    return f"{factor:,.0f} ×" if factor >= 100 else f"{factor:.2f} ×"


def _bytes(count: float) -> str:
    return f"{count / 1000:,.0f} KB" if count >= 10_000 else f"{count:,.0f} B"
