"""The tree → its own rules, as in CONTRIBUTING.

Each test reads the whole tree and reports all faults together.
"""

import ast
import io
import re
import subprocess
import tokenize
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ZIG_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 100

# A module of the core imports only modules before it, and a package of Python too.
CORE_MODULES = [
    *("examples", "unicode", "pretokens", "pages", "normal", "level", "vocabulary", "files"),
    *("added", "pool", "documents", "counts", "merges", "ids", "python"),
]
PYTHON_PACKAGES = [
    ["cpus", "errors", "files", "object_store", "options", "progress", "reference"],
    ["native", "patterns", "formats", "vocabularies", "corpus", "shards"],
    ["ragged", "arguments", "display"],
    ["ray_cluster", "decoding"],
    ["tokenizer", "session"],
    ["training", "tokenizing", "inspection"],
    ["arrow"],
    ["compat"],
    ["cli", "__init__", "__main__"],
]
# The most lines of each package of src/tokenmill. A package that grows beyond its budget contains
# a second idea, or one idea twice.
LINES_MAX = {
    "arrow": 550,
    "cli": 3490,
    "compat": 4680,
    "corpus": 2640,
    "formats": 4700,
    "inspection": 1790,
    "patterns": 2340,
    "shards": 2280,
    "tokenizing": 3780,
    "training": 2640,
    "vocabularies": 150,
    ".": 3150,
}
FILES_MAX = 200
GENERATED = {f"core/unicode/{name}.zig" for name in ("tables", "forms", "lower", "graphemes")}
STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
TEXT_SUFFIXES = {".py", ".zig", ".md", ".toml", ".txt", ".ini", ".yml", ""}


@cache
def tree() -> dict[str, str]:
    """The text of every file that a person wrote, by its path."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = {}
    for name in names.splitlines():
        path = ROOT / name
        is_text = path.suffix in TEXT_SUFFIXES and not name.startswith("tests/data/")
        if is_text and name not in GENERATED and path.is_file():
            found[name] = path.read_text(encoding="utf-8")
    return found


def files(*suffixes: str, under: str = "") -> dict[str, str]:
    """The files below a folder whose names end in one of `suffixes`. There is at least one."""
    found = {
        name: text
        for name, text in tree().items()
        if name.startswith(under) and name.endswith(suffixes)
    }
    assert found, f"no file below {under!r} ends in {suffixes}"
    return found


def report(faults: list[str]) -> None:
    assert not faults, "\n" + "\n".join(faults)


def test_lines_fit_the_width():
    report(
        [
            f"{name}:{number} has {len(line)} columns, and {COLUMNS_MAX} is the limit"
            for name, text in files(".py", ".zig").items()
            for number, line in enumerate(text.splitlines(), 1)
            if len(line) > COLUMNS_MAX
        ]
    )


def test_files_of_the_core_have_one_idea():
    lengths = {
        name: re.split(r'^test "', text, maxsplit=1, flags=re.MULTILINE)[0].count("\n")
        for name, text in files(".zig").items()
    }
    report(
        [
            f"{name} has {length} lines before its tests, and {ZIG_LINES_MAX} is the limit"
            for name, length in lengths.items()
            if length > ZIG_LINES_MAX
        ]
    )


def test_python_packages_keep_their_budgets():
    found = files(".py", under="src/tokenmill/")
    lines = dict.fromkeys(LINES_MAX, 0)
    for name, text in found.items():
        inside = Path(name).relative_to("src/tokenmill").parts[:-1]
        package = inside[0] if inside else "."
        lines[package] = lines.get(package, 0) + text.count("\n")
    faults = [f"{package} needs a budget in LINES_MAX" for package in lines.keys() - LINES_MAX]
    faults += [
        f"{package} has {lines[package]} lines, and its budget is {most}"
        for package, most in LINES_MAX.items()
        if lines[package] > most
    ]
    if len(found) > FILES_MAX:
        faults.append(f"src/tokenmill has {len(found)} files, and its budget is {FILES_MAX}")
    report(faults)


# Folders of tests that are not named after a package. CONTRIBUTING.md describes them.
OTHER_TESTS = {"core", "golden", "helpers", "ladder", "parity", "peers", "project", "tokenizer"}
# Tests of this package are in the folder of another one.
TESTED_ELSEWHERE = {"vocabularies"}


def test_folders_of_tests_are_named_after_packages():
    packages = {Path(name).parts[2] for name in files("__init__.py", under="src/tokenmill/")}
    packages -= {"__init__.py", *TESTED_ELSEWHERE}
    tests = [Path(name).parts for name in files(".py", under="tests/")]
    tested = {parts[1] for parts in tests if parts[-1].startswith("test_") and len(parts) > 2}
    folders = {parts[1] for parts in tests if len(parts) > 2 and not parts[1].startswith("with_")}
    faults = [f"tests/{name} has no tests of src/tokenmill/{name}" for name in packages - tested]
    faults += [
        f"tests/{name} is neither a package nor in OTHER_TESTS"
        for name in folders - packages - OTHER_TESTS
    ]
    faults += [
        f"CONTRIBUTING.md does not describe tests/{name}"
        for name in OTHER_TESTS
        if f"`tests/{name}`" not in tree()["CONTRIBUTING.md"]
    ]
    faults += [
        f"{'/'.join(parts)} must be in a folder of tests"
        for parts in tests
        if len(parts) == 2 and parts[1] != "conftest.py"
    ]
    report(faults)


def long_functions(name: str, text: str) -> list[str]:
    lines = text.splitlines()
    faults = []
    for start, line in enumerate(lines):
        # A function whose name begins with a capital returns a type. Its own functions count.
        if match := re.match(r"( *)(pub |inline |noinline |export )*fn [a-z]\w*", line):
            end = next(i for i in range(start, len(lines)) if lines[i] == match[1] + "}")
            if end - start > FUNCTION_LINES_MAX:
                faults.append(f"{name}:{start + 1} is a function of {end - start} lines")
    return faults


def test_functions_of_the_core_are_short():
    found = files(".zig").items()
    report([fault for name, text in found for fault in long_functions(name, text)])


def test_files_begin_with_their_purpose():
    heads = [(name, text, "//! ") for name, text in files(".zig").items()]
    heads += [(name, text, '"""') for name, text in files(".py", under="src/").items()]
    heads += [(name, text, '"""') for name, text in files(".py", under="ladder/").items()]
    report(
        [
            f"{name} must begin with {head}"
            for name, text, head in heads
            if not text.startswith(head)
        ]
    )


def core_imports(name: str, text: str) -> list[str]:
    module = Path(name).relative_to("core").parts[0].removesuffix(".zig")
    if module == "root":
        return []
    if module not in CORE_MODULES:
        return [f"{module} is not in CORE_MODULES; add it after the modules that it imports"]
    allowed = {"std", "builtin", *CORE_MODULES[: CORE_MODULES.index(module) + 1]}
    faults = []
    for imported in re.findall(r'@import\("([^"]+)"\)', text):
        target = (ROOT / name).parent.joinpath(imported).resolve()
        inside = target.is_relative_to(ROOT / "core") and target.suffix == ".zig"
        other = target.relative_to(ROOT / "core").parts[0] if inside else imported
        if other.removesuffix(".zig") not in allowed:
            faults.append(f"{name} imports {imported}, which is not a module before it")
    return faults


def test_modules_of_the_core_import_only_modules_before_them():
    found = files(".zig", under="core/").items()
    report([fault for name, text in found for fault in core_imports(name, text)])


def python_imports(name: str, text: str) -> list[str]:
    package = Path(name).parts[2].removesuffix(".py")
    layers = [index for index, names in enumerate(PYTHON_PACKAGES) if package in names]
    if not layers:
        return [f"{package} is not in PYTHON_PACKAGES; add it after the packages that it imports"]
    layer = layers[0]
    allowed = {other for names in PYTHON_PACKAGES[: layer + 1] for other in names} | {"_native"}
    return [
        f"{name} imports tokenmill.{other}, which is not a package before it"
        for other in sorted(imported_packages(text))
        if other not in allowed
    ]


def imported_packages(text: str) -> set[str]:
    """The packages and modules of tokenmill that a file imports."""
    paths = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            paths += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "tokenmill":
            known = {name for names in PYTHON_PACKAGES for name in names}
            paths += [f"tokenmill.{one.name}" for one in node.names if one.name in known]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            paths.append(node.module)
    return {path.split(".")[1] for path in paths if path.startswith("tokenmill.")}


def test_all_forms_of_imports_are_found():
    forms = "import tokenmill.cli.main as m\nfrom tokenmill import (\n    arrow,\n    Tokenizer,\n)"
    assert imported_packages(forms + "\nfrom tokenmill.shards import open") == {
        *("cli", "arrow", "shards")
    }


def test_python_packages_import_only_packages_before_them():
    found = files(".py", under="src/tokenmill/").items()
    report([fault for name, text in found for fault in python_imports(name, text)])


def test_tree_has_no_leftovers():
    words, folders = "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)), "work|root"
    leftover = re.compile(rf"\b(?:{words})|(?<![\w.])/(?:{folders})/")
    assert leftover.search('see "/' + 'root/x"') and leftover.search("# TO" + "DO")
    report(
        [
            f"{name}:{number} contains {match[0]!r}"
            for name, text in tree().items()
            for number, line in enumerate(text.splitlines(), 1)
            if (match := leftover.search(line))
        ]
    )


# Packages whose messages, help texts, docstrings and comments are free of these phrases. Add a
# package when it is clean; never remove one.
CLEAN_PACKAGES = ["arrow", "compat", "corpus", "formats", "inspection", "patterns", "reference.py"]
UNWANTED = re.compile(
    r"(?i:\b(?:nobody|whoever|somebody|anew|as ever|goes on|is no|are no|beside)\b)"
    r"|(?<!look-)\bbehind\b"
    r"|(?:^|[.:;] )(?:What|Who|Where)(?:ever)?\b",
    re.MULTILINE,
)


def prose(text: str) -> list[tuple[int, str]]:
    """Return the line number and text of each comment, docstring and string of several words."""
    found = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_comment = token.type == tokenize.COMMENT
        is_sentence = token.type in STRINGS and len(token.string.split()) > 2
        if is_comment or is_sentence:
            words = re.sub(r"\{[^{}]*\}", "", token.string)
            found.append((token.start[0], words.lstrip("#\"'rf ")))
    return found


def test_clean_packages_stay_clean():
    report(
        [
            f"{name}:{number} contains {match[0].strip()!r}"
            for package in CLEAN_PACKAGES
            for name, text in files(".py", under=f"src/tokenmill/{package}").items()
            for number, sentence in prose(text)
            if (match := UNWANTED.search(sentence))
        ]
    )
