"""The outputs of tokenmill → the outputs that were recorded in expected.json."""

import json

import outputs
import pytest

EXPECTED = json.loads(outputs.EXPECTED.read_text(encoding="utf-8"))


@pytest.mark.parametrize("group", outputs.GROUPS)
def test_outputs_are_those_that_were_recorded(group):
    made = outputs.make(group)
    assert made.keys() == EXPECTED[group].keys()
    changed = [name for name in made if made[name] != EXPECTED[group][name]]
    for name in changed[:3]:
        print(f"{name}\n  expected {EXPECTED[group][name]}\n  got      {made[name]}")
    assert not changed, (
        f"{len(changed)} outputs changed: {changed[:9]}. If the change is meant, record them with: "
        f"python tests/golden/outputs.py '{group}'"
    )
