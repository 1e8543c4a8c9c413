"""What the encoding ladder has measured, together."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from tokenmill.ladder.encoding.instances import Weighed
from tokenmill.ladder.encoding.steps import Measured
from tokenmill.ladder.encoding.training import Trained


@dataclass(slots=True)
class Results:
    """Filled from the top to the bottom while the ladder is climbed."""

    encodes: int
    steps: list[Measured] = field(default_factory=list)
    training: list[Trained] = field(default_factory=list)
    instances: list[Weighed] = field(default_factory=list)

    def step(self, name: str) -> Measured | None:
        """What a step or a marker took; None if it was not run."""
        return next((row for row in self.steps if row.step.name == name), None)


def as_json(results: Results) -> dict[str, Any]:
    """The figures for programs; times in seconds."""
    rows = {row.step.name: _step_as_json(row) for row in results.steps}
    return {
        "encodes": results.encodes,
        "steps": [rows[row.step.name] for row in results.steps if row.step.number is not None],
        "markers": [rows[row.step.name] for row in results.steps if row.step.number is None],
        "training": [
            {"name": row.name, "peak_mb": row.peak_mb, **row.run.as_json()}
            for row in results.training
        ],
        "instances": [asdict(row) for row in results.instances],
    }


def _step_as_json(row: Measured) -> dict[str, Any]:
    number = {} if row.step.number is None else {"step": row.step.number}
    return number | {
        "name": row.step.name,
        "encodes": row.encodes,
        "seconds": row.each.mean,
        "run": row.run.as_json(),
        "long_seconds": row.long_seconds,
        "peak_mb": row.peak_mb,
        "ids_equal": row.ids_equal,
    }
