"""The benchmarks stay alive: a tiny sweep runs, checks ids before speeds, and renders."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_quick_sweep_checks_ids_and_renders_a_table(tmp_path):
    results = tmp_path / "quick.json"
    sweep = [sys.executable, str(ROOT / "bench" / "sweep.py"), "--quick", "--out", str(results)]
    sweep += ["--jobs", "load,array,latency", "--systems", "tokenmill,tiktoken,read_only"]
    subprocess.run(sweep, check=True, capture_output=True, timeout=300)
    found = json.loads(results.read_text())
    assert found["complete"]
    assert {check["system"]: check["verdict"] for check in found["checks"]} == {
        "tokenmill": "ok",
        "tiktoken": "ok",
    }
    speeds = [row["metrics"] for row in found["rows"] if row["status"] == "ok"]
    assert len(speeds) == len(found["rows"]) == 9
    assert all(metric["median"] >= 0 for row in speeds for metric in row.values())
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- bench:start -->\nold\n<!-- bench:end -->\nafter\n")
    render = [sys.executable, str(ROOT / "bench" / "render.py"), "--results", str(results)]
    subprocess.run([*render, "--readme", str(readme)], check=True, capture_output=True)
    rendered = readme.read_text()
    assert "tiktoken" in rendered
    assert "old" not in rendered
    assert rendered.startswith("before\n")
    assert rendered.endswith("after\n")
