"""Files of a folder that are not read → a list in the result, the manifest and the summary."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from in_process import run_main
from in_process import threaded_runs as threaded_runs

import tokenmill
from tokenmill import tokenize
from tokenmill.errors import InputError, InputWarning


@pytest.fixture
def folder(tmp_path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"text": "grain in"}\n')
    (folder / "README").write_text("A text.\n")
    (folder / "logo.png").write_bytes(b"\x89PNG\0")
    return folder


def rows(folder: Path) -> list[dict]:
    return [
        {"path": str(folder / "README"), "reason": "its format is unknown", "may_be_data": True},
        {"path": str(folder / "logo.png"), "reason": "is an image", "may_be_data": False},
    ]


def test_a_run_lists_skipped_files_also_when_it_is_repeated(tmp_path, folder):
    for _ in range(2):
        with pytest.warns(InputWarning, match=r"1 file was skipped: .*README"):
            result = tokenize(folder, tmp_path / "out", "gpt2", threads=1)
        assert result.skipped == result.manifest["skipped"] == rows(folder)
        assert result.is_complete and result.documents == 1


def test_ranks_keep_the_skipped_files_for_the_manifest(tmp_path, folder):
    with pytest.warns(InputWarning):
        tokenize(folder, tmp_path / "out", "gpt2", threads=1, rank=0, world_size=1)
    assert tokenmill.finalize(tmp_path / "out").skipped == rows(folder)


def test_a_run_with_strict_stops_before_it_writes(tmp_path, folder):
    with pytest.raises(InputError, match=r"1 file was skipped: .*README"):
        tokenize(folder, tmp_path / "out", "gpt2", strict=True)
    assert not (tmp_path / "out").exists()
    (folder / "README").unlink()
    assert tokenize(folder, tmp_path / "out", "gpt2", threads=1, strict=True).is_complete


def test_an_output_in_the_input_folder_is_not_listed(folder):
    for _ in range(2):
        with pytest.warns(InputWarning, match="1 file was skipped"):
            result = tokenize(folder, folder / "out", "gpt2", threads=1)
        assert result.skipped == rows(folder)


def test_the_command_names_skipped_files(tmp_path, folder):
    command = ["tokenize", str(folder), "--tokenizer", "gpt2", "--output", str(tmp_path / "out")]
    done = run_main(*command, "--threads", "1")
    assert done.returncode == 0
    assert f"1 file was skipped: {folder}/README (its format is unknown)\n" in done.stdout
    assert f"1 file was skipped: {folder}/logo.png (is an image)\n" in done.stdout
    assert "note: 1 file was skipped" in done.errors.decode()
    assert run_main(*command, "--strict").returncode == 2


@pytest.mark.parametrize(
    "command",
    [
        ("tokenize", "--tokenizer", "gpt2", "--threads", "1", "--output", "{}/out"),
        ("train", "--vocab-size", "260", "--output", "{}/a.json"),
        ("count-pretokens", "--output", "{}/a.tmc"),
        ("count", "--tokenizer", "gpt2"),
    ],
)
def test_json_of_commands_has_the_skipped_files(tmp_path, folder, command):
    name, *options = (word.replace("{}", str(tmp_path)) for word in command)
    done = run_main(name, str(folder), *options, "--json")
    assert done.returncode == 0, done.errors
    assert json.loads(done.stdout)["skipped"] == rows(folder)
    (folder / "README").unlink()
    (folder / "logo.png").unlink()
    done = run_main(name, str(folder), *(word.replace("/out", "/2") for word in options), "--json")
    assert "skipped" not in json.loads(done.stdout)
