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
    for row in results.get("tasks", ()):
        if "tenth_mb" in row:
            write_block(PAGE, "scaling-driver", _driver(row))
    if "ray" in results:
        write_block(PAGE, "scaling-overhead", _overhead(*results["ray"]))


def _tasks(rows: Rows) -> list[list[str]]:
    heads = ["tasks", "files", "peak memory", "plan", "journal", "finalize", "manifest"]
    return [heads] + [
        [
            f"{row['tasks']:,}",
            f"{row['files']:,}",
            f"{row['peak_mb']:.1f} MB",
            *(f"{row[f'{part}_seconds']:.1f} s" for part in ("plan", "journal", "finalize")),
            f"{row['manifest_bytes'] / 1e6:.1f} MB",
        ]
        for row in rows
        if "files" in row
    ]


def _driver(row: dict[str, Any]) -> str:
    return (
        f"With {row['tasks']:,} empty tasks on Ray, the driver has {row['tenth_mb']:.0f} MB after "
        f"a tenth of them and {row['mb']:.0f} MB at the end. It receives "
        f"{row['tasks_per_second']:,.0f} tasks per second."
    )


def _overhead(local: dict[str, Any], ray: dict[str, Any]) -> str:
    more = ray["seconds"] / local["seconds"] - 1
    pairs = zip(ray["each_seconds"], local["each_seconds"], strict=True)
    each = sorted(ours / theirs - 1 for ours, theirs in pairs)
    return (
        f"Ray takes {more:.1%} longer by the medians of {ray['rounds']} rounds. The rounds differ: "
        f"median {each[len(each) // 2]:.1%}, smallest {each[0]:.1%}, largest {each[-1]:.1%}, and "
        f"{sum(one > GOAL for one in each)} of them above {GOAL:.0%}."
    )


def _runs(rows: Rows) -> list[list[str]]:
    """Return a line per run, with its rate relative to the first."""
    first = rows[0]["bytes"] / rows[0]["seconds"]
    lines = [["run", "text", "time", "MB/s", "relative to first", "CPU time", "memory"]]
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
    share = row["tasks_per_second"] / row["ideal"]
    return (
        f"Simulation of {row['run'].split()[1]} workers: {row['tasks']:,} tasks sleep for 1.5 s "
        "(64 MB at 43 MB/s) on a Ray cluster that is configured for 64 cores and has two. After "
        f"the start, one driver receives {row['tasks_per_second']:.1f} of at most "
        f"{row['ideal']:.1f} tasks per second: {share:.0%}. With {row['in_flight']:,} tasks in "
        f"flight, one `ray.wait` takes {row['wait_seconds'] * 1e3:.0f} ms."
    )


def _pretokens(rows: Rows) -> list[list[str]]:
    return [["unique pretokens", "time", "CPU time", "memory"]] + [
        [
            f"{row['pretokens']:,}",
            f"{row['seconds']:.2f} s",
            f"{row['cpu_seconds']:.2f} s",
            f"{row['mb']:,.0f} MB",
        ]
        for row in rows
    ]


TABLES = {
    "tasks": _tasks,
    "bytes": _runs,
    "files": _runs,
    "pretokens": _pretokens,
    "workers": _runs,
    "cores": _runs,
    "ray": _runs,
}
