"""Documents: every block of every page, the examples, the links and the site."""

import doctest
import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import page_inputs
import pytest
from rich.cells import cell_len
from run_page import LANGUAGES, Block, MismatchError, blocks_of, compare, run_page
from test_tidy import CORE_MODULES

import tokenmill
from tokenmill.compat import tiktoken, tokenizers
from tools import reference_tables

ROOT = Path(__file__).resolve().parents[2]
# Run by the tests that have datatrove, in tests/with_readers.
ELSEWHERE = {ROOT / "examples" / "datatrove_tokenizer.py"}
EXAMPLES = sorted({*(ROOT / "examples").glob("*.py")} - ELSEWHERE)
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "bench").glob("*.md")]
README = (ROOT / "README.md").read_text()
# A page whose blocks are run by the tests that have the engines, in tests/with_engines.
GUIDE = ROOT / "docs" / "engines.md"
# Pages that need torch and training programs: tests/with_readers runs them.
IN_READERS = [
    ROOT / "docs" / f"{name}.md"
    for name in ("pytorch", "pytorch-resume", "training-megatron", "training-programs")
]
# A page that needs transformers: tests/with_transformers runs it.
IN_TRANSFORMERS = [ROOT / "docs" / "serving.md"]
# A page that needs the libraries of tests/with_servers, which runs it.
IN_SERVERS = [ROOT / "docs" / "serving-programs.md"]
# The pages of the site.
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]

# Blocks that cannot be run here: the page, a text of that block alone, and the reason.
LEFT_OUT = [
    (
        "docs/migrate-transformers.md",
        "from transformers import",
        "needs transformers, which has an environment of its own: tests/with_transformers runs it",
    ),
    (
        "docs/ladder.md",
        "python -m ladder training ",
        "takes minutes on purpose; the ladder's own tests run it on little text",
    ),
]

# Blocks of text with commands: the page, a text of that block alone, and the reason.
NOT_RUN = [
    ("docs/clusters.md", "sbatch", "needs Slurm; tests/tokenizing runs the ranks"),
    ("docs/clusters.md", "tokenize data/*.jsonl.zst", "needs Ray; tests/with_engines runs it"),
    ("docs/train-large.md", "--engine ray", "needs Ray; tests/with_engines runs it"),
    ("docs/object-storage.md", "s3://", "needs a store; tests/with_stores runs one"),
    ("docs/serving.md", "vllm serve", "needs a GPU; tests/with_servers tests the plugin"),
    ("docs/serving.md", "sglang", "needs a GPU; tests/with_servers tests the variable"),
    ("docs/tutorial-corpus.md", "pip install", "needs a clone in a folder of the reader"),
    ("docs/ladder-corpus.md", "python -m ladder", "takes minutes; tests of the ladder run it"),
    ("docs/ladder-encoding.md", "python -m ladder", "takes minutes; tests of the ladder run it"),
]
COMMAND_LINE = re.compile(
    r"^(?:\$ )?(?:tokenmill|python3?|make|pip|vllm|sbatch|[A-Z_]+=\S+) ", re.MULTILINE
)


def run(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=folder, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def left_out(page: str, blocks: list[Block]) -> list[str]:
    """The numbers of the blocks of a page that are left out; each exception means one block."""
    numbers = []
    for where, part, reason in LEFT_OUT:
        if where == page:
            meant = [str(block.number) for block in blocks if part in block.text]
            assert len(meant) == 1, f"{page}: {part!r} means {len(meant)} blocks ({reason})"
            numbers += meant
    return numbers


@pytest.mark.parametrize(
    "page",
    [
        page
        for page in PAGES
        if ROOT / page not in (GUIDE, *IN_READERS, *IN_TRANSFORMERS, *IN_SERVERS)
    ],
)
def test_every_block_runs_with_its_documented_output(page, tmp_path, monkeypatch):
    blocks = blocks_of((ROOT / page).read_text())
    monkeypatch.chdir(tmp_path)
    page_inputs.make(page)
    runner = ROOT / "tests" / "helpers" / "run_page.py"
    done = subprocess.run(
        [sys.executable, runner, ROOT / page, *left_out(page, blocks)],
        capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_exceptions_are_few_and_have_reasons():
    assert len(LEFT_OUT) <= 3
    assert all(reason for _, _, reason in LEFT_OUT)


def test_commands_in_text_blocks_are_few_and_have_reasons():
    found = {
        (page, block.text)
        for page in PAGES
        for block in blocks_of((ROOT / page).read_text())
        if block.language == "text" and COMMAND_LINE.search(block.text)
    }
    listed = {
        (page, text)
        for page, text in found
        for where, part, reason in NOT_RUN
        if page == where and part in text and reason
    }
    assert found == listed
    assert len(NOT_RUN) == len(found) <= 9


# The runner itself.

WRONG = {
    "a value": "```python\n1 + 1  # → 3\n```",
    "a value that is none": "```python\nx = 1  # → 1\n```",
    "what is printed": "```python\nprint(1)\nprint(2)\n# → 1\n```",
    "an error": "```python\nnothing_of_that_name\n```",
    "output of a command": "```console\n$ echo one\ntwo\n```",
    "output that is not shown": "```console\n$ echo one\n```",
    "a command that fails": "```console\n$ false\n```",
    "another exit code": "```console\n$ (exit 3)\n$ echo $?\n4\n```",
    "no prompt": "```console\necho one\n```",
    "a script that fails": "```sh\nfalse\ntrue\n```",
    "what is no JSON": '```json\n{"a": }\n```',
    "no language": "```\nanything\n```",
    "an unknown language": "```toml\na = 1\n```",
    "no end": "```python\n1\n",
}
RIGHT = [
    "no blocks at all",
    "```python\nx = 1\nx + 1  # → 2\n```\ntext\n```python\nx + 2  # → 3\n```",
    "```python\nfor i in range(3):\n    print(i)\n# → 0\n# → …\n# → 2\n1 / 4  # a comment\n```",
    "- in a list\n  ```python\n  [1,\n   2]  # → [1, 2]\n  ```",
    "```console\n$ printf 'a\\nb\\nc\\n'\na\n…\n$ echo 0.31 s, 20 MB/s\n9.2 s, 1 MB/s\n```",
    "```console\n$ x=1\n$ echo $x \\\n  two\n1 two\n```",
    "```console\n$ ls /nothing-there\n…nothing-there…\n$ echo $?\n2\n```",
    "```sh\ntrue  # a script\n```\n```text\nanything\n```",
]


@pytest.mark.parametrize("what", WRONG)
def test_runner_finds_wrong_output(what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.md").write_text(WRONG[what])
    with pytest.raises((MismatchError, NameError, ValueError)):
        run_page(tmp_path / "page.md")


@pytest.mark.parametrize("page", RIGHT)
def test_runner_accepts_correct_output(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.md").write_text(page)
    run_page(tmp_path / "page.md")


@pytest.mark.parametrize("said", ["3 shards", "12 bytes", "2 sources", "1,024 ids"])
def test_only_figures_of_the_machine_are_ignored(said):
    with pytest.raises(MismatchError):
        compare(f"7{said}", said, "here")


# The site and its reference of the interface

# The names that the pages of the API list. torch is not installed here; its readers' tests have it.
HOOKS = (ROOT / "docs" / "site" / "hooks.py").read_text()
LISTED = sorted(set(re.findall(r'^ +(?:\[)?"(tokenmill\.[\w.]+)"', HOOKS, re.MULTILINE)))
NAMES = [name for name in LISTED if not name.startswith("tokenmill.shards.torch")]
PUBLIC = [
    *NAMES,
    *(f"tokenmill.{name}" for name in tokenmill.__all__ if name != "__version__"),
    *(f"tokenmill.compat.tiktoken.{name}" for name in tiktoken.__all__),
    *(f"tokenmill.shards.{name}" for name in tokenmill.shards.__all__ if name != "FORMATS"),
]


def find(name: str) -> Any:
    """The module, class or function of a name."""
    try:
        return importlib.import_module(name)
    except ImportError:
        holder, _, last = name.rpartition(".")
        return getattr(find(holder), last)


def members(thing: Any) -> dict[str, Any]:
    """Return the public members of a class or module that can have a docstring."""
    if inspect.ismodule(thing):
        own = inspect.getmembers(thing, inspect.isclass)
        return {name: one for name, one in own if one.__module__ == thing.__name__}
    if not inspect.isclass(thing):
        return {}
    found = {name: one for name, one in vars(thing).items() if not name.startswith("_")}
    return {
        name: one
        for name, one in found.items()
        if inspect.isroutine(one) or isinstance(one, property | classmethod | staticmethod)
    }


def test_pages_of_the_api_have_every_public_name():
    public = {f"tokenmill.{name}" for name in tokenmill.__all__} - {"tokenmill.__version__"}
    # The modules of shards and of Arrow are pages, and errors are one by one below their module.
    assert public - set(NAMES) == {
        *("tokenmill.arrow", "tokenmill.shards", "tokenmill.TokenmillError")
    }


@pytest.mark.parametrize("name", sorted(set(PUBLIC)))
def test_public_names_have_docstrings(name):
    thing = find(name)
    assert inspect.getdoc(thing), name
    for member, one in members(thing).items():
        assert inspect.getdoc(one), f"{name}.{member} has no docstring"


def test_drop_in_of_tokenizers_has_docstrings():
    for name in tokenizers.__all__:
        thing = getattr(tokenizers, name)
        assert not inspect.isclass(thing) or inspect.getdoc(thing), name


def modules() -> list[str]:
    """The modules in which the public names are written."""
    things = [find(name) for name in NAMES]
    return sorted({one.__name__ if inspect.ismodule(one) else one.__module__ for one in things})


@pytest.mark.parametrize("module", ["tokenmill", *modules()])
def test_examples_of_docstrings_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_generated_tables_are_those_of_the_package():
    for name, make in reference_tables.PAGES.items():
        page = (ROOT / "docs" / name).read_text()
        assert reference_tables.with_blocks(page, make()) == page, (
            "run: python tools/reference_tables.py"
        )


def test_page_names_every_variable_of_the_environment():
    page = (ROOT / "docs" / "environment.md").read_text()
    for path in (ROOT / "src").rglob("*.py"):
        for name in re.findall(r'environ(?:\.get\(|\[)"([A-Z_]+)"', path.read_text()):
            assert name == "PYTHONPATH" or f"`{name}`" in page, f"{path.name} reads {name}"


def test_architecture_lists_the_modules_of_the_core_in_order():
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| (`.+?`) \|", page.split("## Modules of the core")[1], re.MULTILINE)
    assert re.findall(r"\w+", " ".join(rows)) == [*CORE_MODULES, "portable"]


def test_architecture_is_short_and_has_one_diagram():
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert page.count("\n") <= 100
    assert page.count("```") == 2


def test_how_to_guides_are_short():
    guides = (ROOT / "mkdocs.yml").read_text().split("How-to guides:")[1].split("Reference:")[0]
    pages = re.findall(r": ([\w-]+\.md)$", guides, re.MULTILINE)
    lines = {page: (ROOT / "docs" / page).read_text().count("\n") for page in pages}
    assert len(lines) > 20
    assert not {page: count for page, count in lines.items() if count > 80}
    assert (ROOT / "docs" / "performance.md").read_text().count("\n") <= 100


def test_navigation_has_every_page():
    listed = re.findall(r": ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert {Path(page).name for page in PAGES} - {"README.md"} <= set(listed)


# The README and the examples


def test_guide_to_engines_begins_without_an_engine(tmp_path):
    first, *_ = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert "large_list<item: uint32>" in run(first, tmp_path)


def test_every_other_block_of_that_guide_is_run_where_the_engines_are():
    begin, *sections = re.split(r"^## ", GUIDE.read_text(), flags=re.MULTILINE)
    shown = [section.split("\n")[0] for section in sections for _ in blocks_of(section)]
    tests = [path.read_text() for path in (ROOT / "tests" / "with_engines").glob("*.py")]
    run_there = re.findall(r"(?:run_guide|snippet)\(\"(.+?)\"\)", "".join(tests))
    assert sorted(shown) == sorted(run_there)
    assert len(blocks_of(begin)) == 1


def test_readme_is_short_and_shows_code_early():
    lines = README.splitlines()
    assert len(lines) <= 120
    assert lines.index("```python") < 12


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_runs_and_is_short(path, tmp_path):
    code = path.read_text()
    assert code.count("\n") <= (120 if path.name == "tour.py" else 40)
    assert run(f"__file__ = {str(path)!r}\n{code}", tmp_path).strip()


def test_tour_fits_60_columns_and_shows_each_subject():
    variables = {"COLUMNS": "60", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / "tour.py"],
        env=os.environ | variables, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert max(map(cell_len, done.stdout.splitlines())) <= 60
    for part in ("A│·mill│·takes", "32 3215 6948", "o200k_base", "MB/s", "sources: equal"):
        assert part in done.stdout


# Names in the documents


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)", path.read_text()):
        if not target.startswith("http"):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_documents_name_commands_that_exist():
    makefile = (ROOT / "Makefile").read_text()
    for path in DOCUMENTS:
        for target in re.findall(
            r"(?:`|^ *(?:\$ )?)make ([a-z-]+)", path.read_text(), re.MULTILINE
        ):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{path.name}: make {target}"


def test_help_of_make_lists_every_target():
    makefile = (ROOT / "Makefile").read_text()
    lines = re.findall(r"^\.PHONY: (.+)", makefile, re.MULTILINE)
    targets = {name for line in lines for name in line.split()}
    make = ["make", "--no-print-directory", "help"]
    listed = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    # `python` only checks the version of Python.
    assert set(re.findall(r"^  make (\S+)  ", listed, re.MULTILINE)) == targets - {"python"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_blocks_have_a_language(path):
    for block in blocks_of(path.read_text()):
        assert block.language in LANGUAGES, f"{path.name}:{block.line} is {block.language!r}"
