"""results/scaling.json → the tables of docs/scaling.md."""

from __future__ import annotations

from typing import Any

# isort: split
import machine
from markdown import number, table, write_block

PAGE = machine.ROOT / "docs" / "scaling.md"
Rows = list[dict[str, Any]]
GOAL = 0.15


def render(results: dict[str, Any]) -> None:
    for name, make in TABLES.items():
        if name in results:
            write_block(PAGE, f"scaling-{name}", table(make(results[name])))
    for row in results.get("workers", ()):
        if "ideal" in row:
            write_block(PAGE, "scaling-simulated", _simulated(row))
    for row in results.get("units", ()):
        if "tenth_mb" in row:
            write_block(PAGE, "scaling-driver", _driver(row))
    if "ray" in results:
        write_block(PAGE, "scaling-overhead", _overhead(*results["ray"]))


def _units(rows: Rows) -> list[list[str]]:
    heads = ["units", "of files", "peak of memory", "plan", "rows", "seal", "manifest"]
    return [heads] + [
        [
            f"{row['units']:,}",
            f"{row['files']:,}",
            f"{row['peak_mb']:.1f} MB",
            *(f"{row[f'{part}_seconds']:.1f} s" for part in ("plan", "rows", "seal")),
            f"{row['manifest_bytes'] / 1e6:.1f} MB",
        ]
        for row in rows
        if "files" in row
    ]


def _driver(row: dict[str, Any]) -> str:
    return (
        f"On Ray, {row['tasks']:,} tasks that have nothing to do: the driver has "
        f"{row['tenth_mb']:.0f} MB after a tenth of them and {row['mb']:.0f} MB at the end, and "
        f"hears {row['tasks_a_second']:,.0f} a second."
    )


def _overhead(local: dict[str, Any], ray: dict[str, Any]) -> str:
    more = ray["seconds"] / local["seconds"] - 1
    pairs = zip(ray["each_seconds"], local["each_seconds"], strict=True)
    each = sorted(ours / theirs - 1 for ours, theirs in pairs)
    return (
        f"Ray takes {more:.1%} more by the medians of {ray['rounds']} rounds; of the single pairs "
        f"the middle is {each[len(each) // 2]:.1%}, the least {each[0]:.1%} and the most "
        f"{each[-1]:.1%}; {sum(one > GOAL for one in each)} are above {GOAL:.0%}."
    )


def _runs(rows: Rows) -> list[list[str]]:
    """Runs of tokenize, each beside the first."""
    first = rows[0]["bytes"] / rows[0]["seconds"]
    lines = [["run", "text", "time", "MB/s", "beside the first", "processors", "memory"]]
    for row in rows:
        if "bytes" not in row:
            continue
        rate = row["bytes"] / row["seconds"]
        lines.append(
            [
                row["run"],
                f"{row['bytes'] / 1e6:,.0f} MB",
                f"{row['seconds']:.1f} s",
                number(rate / 1e6),
                f"{rate / first:.2f} ×",
                f"{row['cpu_seconds']:.1f} s",
                f"{row['mb']:,.0f} MB",
            ]
        )
    return lines


def _simulated(row: dict[str, Any]) -> str:
    share = row["units_a_second"] / row["ideal"]
    return (
        f"Simulated, {row['run'].split()[1]} workers: {row['units']:,} units that sleep for 1.5 s "
        "(64 MB at 43 MB/s) on a Ray cluster that believes in 64 processors and has two. One "
        f"driver gets {row['units_a_second']:.1f} units a second when all have started, of "
        f"{row['ideal']:.1f} that 64 workers could do: {share:.0%}. With {row['in_flight']:,} "
        f"tasks in flight a look at which are ready takes {row['look_seconds'] * 1e3:.0f} ms."
    )


def _pretokens(rows: Rows) -> list[list[str]]:
    return [["different pretokens", "time", "processors", "memory"]] + [
        [
            f"{row['pretokens']:,}",
            f"{row['seconds']:.2f} s",
            f"{row['cpu_seconds']:.2f} s",
            f"{row['mb']:,.0f} MB",
        ]
        for row in rows
    ]


TABLES = {
    "units": _units,
    "bytes": _runs,
    "files": _runs,
    "pretokens": _pretokens,
    "workers": _runs,
    "cores": _runs,
    "ray": _runs,
}
