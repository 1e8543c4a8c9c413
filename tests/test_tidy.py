"""The tree → its own rules: what CONTRIBUTING says about files holds for every one of them."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LINES_MAX = 500
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 100

# Each room may import the rooms on its left.
CORE_ROOMS = [
    *("unicode", "pretokens", "pages", "normal", "level", "vocabulary", "files", "added"),
    *("pool", "documents", "counts", "merges", "ids", "python"),
]
PYTHON_ROOMS = [
    ["errors", "files", "printable", "reference"],
    ["native", "patterns", "formats", "vocabularies", "corpus", "shards", "mirror"],
    ["schemes", "ragged", "arguments", "stream_decoder", "shown", "page"],
    ["file_blocks", "cache", "cluster", "loading", "decoding"],
    ["tokenizer", "session"],
    ["training", "tokenizing", "inspection"],
    ["ladder", "arrow"],
    ["compat"],
    ["cli", "__init__", "__main__"],
]
GENERATED = {f"core/unicode/{name}.zig" for name in ("tables", "forms", "lower", "graphemes")}


def tracked(*patterns: str) -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = [ROOT / name for name in names.splitlines() if name not in GENERATED]
    assert found, f"no files match {patterns}"
    return [path for path in found if path.exists()]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


ZIG = tracked("core/*.zig")
PYTHON = tracked("src/*.py", "tests/*.py", "bench/*.py", "core/*.py", "examples/*.py", "*.py")


@pytest.mark.parametrize("path", ZIG + PYTHON, ids=name)
def test_lines_fit_the_width(path: Path) -> None:
    lines = path.read_text().splitlines()
    wide = [number for number, line in enumerate(lines, 1) if len(line) > COLUMNS_MAX]
    assert not wide, f"{name(path)} is wider than {COLUMNS_MAX} columns at lines {wide}"


@pytest.mark.parametrize("path", ZIG + PYTHON, ids=name)
def test_files_can_be_held_in_mind(path: Path) -> None:
    code = re.split(r'^test "', path.read_text(), maxsplit=1, flags=re.MULTILINE)[0]
    assert code.count("\n") <= LINES_MAX, f"{name(path)} wants a folder"


@pytest.mark.parametrize("path", ZIG, ids=name)
def test_functions_can_be_held_in_mind(path: Path) -> None:
    lines = path.read_text().splitlines()
    for start, line in enumerate(lines):
        # A function that begins with a capital gives a type: its own functions are what counts.
        if match := re.match(r"( *)(pub |inline |export )*fn [a-z]\w*", line):
            end = next(i for i in range(start, len(lines)) if lines[i] == match[1] + "}")
            assert end - start <= FUNCTION_LINES_MAX, f"{name(path)}:{start + 1} is long"


@pytest.mark.parametrize("path", ZIG, ids=name)
def test_zig_files_begin_with_what_they_are(path: Path) -> None:
    assert path.read_text().startswith("//! ")


@pytest.mark.parametrize("path", tracked("src/*.py"), ids=name)
def test_python_files_begin_with_what_they_are(path: Path) -> None:
    assert path.read_text().startswith('"""')


@pytest.mark.parametrize("path", ZIG, ids=name)
def test_core_rooms_import_only_rooms_on_their_left(path: Path) -> None:
    room = path.relative_to(ROOT / "core").parts[0].removesuffix(".zig")
    if room == "root":
        return
    allowed = {"std", "builtin", *CORE_ROOMS[: CORE_ROOMS.index(room) + 1]}
    for imported in re.findall(r'@import\("([^"]+)"\)', path.read_text()):
        target = (path.parent / imported).resolve()
        inside = target.is_relative_to(ROOT / "core") and target.suffix == ".zig"
        other = target.relative_to(ROOT / "core").parts[0] if inside else imported
        assert other.removesuffix(".zig") in allowed, f"{name(path)} imports {imported}"


@pytest.mark.parametrize("path", tracked("src/*.py"), ids=name)
def test_python_rooms_import_only_rooms_on_their_left(path: Path) -> None:
    room = path.relative_to(ROOT / "src" / "tokenmill").parts[0].removesuffix(".py")
    place = next(index for index, rooms in enumerate(PYTHON_ROOMS) if room in rooms)
    allowed = {other for rooms in PYTHON_ROOMS[: place + 1] for other in rooms} | {"_native"}
    for imported in re.findall(r"^ *(?:from|import) tokenmill\.(\w+)", path.read_text(), re.M):
        assert imported in allowed, f"{name(path)} imports tokenmill.{imported}"


@pytest.mark.parametrize("path", tracked("*.py", "*.zig", "*.md", "Makefile", ".ci/run"), ids=name)
def test_nothing_is_left_over(path: Path) -> None:
    marks = "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3, "/" + "work/", "/" + "root/"))
    found = re.findall(rf"\b(?:{marks})", path.read_text())
    assert not found, f"{name(path)} holds {found}"
