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
    *("platform", "examples", "failure", "heap", "json", "unicode", "pattern", "normalize"),
    *("pretokens", "level", "added", "vocabulary", "model_files", "documents", "merge", "cache"),
    *("units", "preprocess", "encode", "bundle", "offsets", "session", "count", "train", "fuzz"),
    "python",
]
# Files of the core that read bytes which may be damaged or forged.
READERS = [
    *("bundle.zig", "vocabulary/image.zig", "vocabulary.zig", "vocabulary/model.zig"),
    *("pattern/program.zig", "pretokens/serialized.zig", "normalize.zig", "normalize/charsmap.zig"),
    *("json.zig", "model_files.zig", "model_files/byte_level.zig", "count/reader.zig"),
]
PYTHON_PACKAGES = [
    ["errors", "files", "object_store", "options", "progress", "reference"],
    ["native", "patterns", "formats", "vocabularies", "corpus", "shards"],
    ["arguments", "display"],
    ["ray_cluster", "decoding"],
    ["tokenizer", "session", "segments", "prefix_store"],
    ["training", "tokenizing", "inspection"],
    ["arrow"],
    ["compat"],
    ["cli", "__init__", "__main__"],
]
# The most lines of each package of src/tokenmill. A package that grows beyond its budget contains
# a second idea, or one idea twice.
LINES_MAX = {
    "arrow": 510,
    "cli": 2650,
    "compat": 4950,
    "corpus": 2720,
    "formats": 4410,
    "inspection": 1580,
    "patterns": 2130,
    "shards": 1950,
    "tokenizing": 4280,
    "training": 2230,
    "vocabularies": 150,
    ".": 3960,
}
FILES_MAX = 130
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
        if is_text and path.is_file():
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


def test_no_conflict_of_a_merge_is_left():
    report(
        [
            f"{name}:{number} has a mark of a conflict"
            for name, text in files("").items()
            for number, line in enumerate(text.splitlines(), 1)
            if line.startswith(("<" * 7 + " ", ">" * 7 + " "))
        ]
    )


def test_readers_of_foreign_bytes_keep_runtime_checks():
    """Each file that reads bytes of an entry of core/fuzz.zig, except the scanner of JSON Lines."""
    found = files(".zig", under="core/")
    without = [name for name in READERS if "@setRuntimeSafety(true);" not in found[f"core/{name}"]]
    report([f"core/{name} reads foreign bytes without runtime checks" for name in without])


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


def test_files_of_tests_have_different_names():
    """pytest imports a test file by its name alone, so a second one cannot be collected."""
    places: dict[str, list[str]] = {}
    for name in files(".py", under="tests/"):
        if Path(name).name.startswith("test_") and "/with_" not in name:
            places.setdefault(Path(name).name, []).append(name)
    report([f"{' and '.join(names)} have one name" for names in places.values() if len(names) > 1])


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


def module_test_faults(modules: set[str], tests: dict[str, str]) -> list[str]:
    """Return modules without tests, and modules that a docstring lists but that do not exist.

    `modules` are paths below src/tokenmill. The tests of `cli/app.py` are in `tests/cli`, in files
    whose names begin with `test_app`, or in a file whose docstring contains the sentence
    `Tests of cli/app.py.` A module at the top is `tokenmill/NAME.py` there, and its folder is
    `tests/tokenizer`. The name of `compat/tiktoken/core.py` is `tiktoken_core`.
    """
    faults, listed = [], set()
    for name, text in tests.items():
        for sentence in re.findall(r"Tests of (.+?\.py)\.(?!\w)", docstring(text), re.DOTALL):
            for found in re.findall(r"[\w/]+\.py", sentence):
                module = found.removeprefix("tokenmill/")
                listed.add(module)
                if module not in modules or "/" not in found:
                    faults.append(
                        f"{name} lists {found}, which is not a module; correct its docstring"
                    )
    for module in modules - listed:
        folder, _, inside = module.rpartition("/")
        folder, *packages = (folder or "tokenizer").split("/")
        stem = "_".join([*packages, inside.removesuffix(".py")])
        place = re.compile(rf"tests/{folder}/test_{stem}\w*\.py")
        if not any(place.fullmatch(name) for name in tests):
            listing = module if "/" in module else f"tokenmill/{module}"
            faults.append(
                f"{module} has no test; write tests/{folder}/test_{stem}.py, or add it to the "
                f"sentence `Tests of {listing}.` in the docstring of the file that tests it"
            )
    return sorted(faults)


def docstring(text: str) -> str:
    return ast.get_docstring(ast.parse(text)) or ""


def test_each_module_has_tests_that_its_name_finds():
    modules = {
        name.removeprefix("src/tokenmill/")
        for name in files(".py", under="src/tokenmill/")
        if not name.endswith("__.py")
    }
    tests = files(".py", under="tests/").items()
    report(
        module_test_faults(
            modules, {name: text for name, text in tests if Path(name).name.startswith("test_")}
        )
    )


def test_modules_without_tests_are_found():
    modules = {"files.py", "native.py", "cli/app.py", "cli/values.py", "compat/tiktoken/core.py"}
    tests = {
        "tests/cli/test_app_help.py": '"""Tests of cli/values.py,\ncli/gone.py and files.py."""',
        "tests/compat/test_tiktoken_core.py": "",
        "tests/cli/test_native.py": "",
    }
    faults = [fault.split("; ")[0] for fault in module_test_faults(modules, tests)]
    assert faults == [
        "native.py has no test",
        "tests/cli/test_app_help.py lists cli/gone.py, which is not a module",
        "tests/cli/test_app_help.py lists files.py, which is not a module",
    ]


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
    if module in ("root", "portable"):
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


# Names of the operating system, the CPU and threads.
SYSTEM = re.compile(r"\bstd\.(?:os|posix|Thread|Io|c|process)\b|\bbuiltin\.(?:os|cpu)\b|\basm\b")
# The declarations of CPython differ on Windows.
SYSTEM_FILES = ("core/platform", "core/python/api.zig")


def test_only_the_platform_module_of_the_core_uses_the_system():
    report(
        [
            f"{name}:{number} uses {match[0]}, which belongs to core/platform"
            for name, text in files(".zig", under="core/").items()
            if not name.startswith(SYSTEM_FILES)
            for number, line in enumerate(text.splitlines(), 1)
            if (match := SYSTEM.search(line.split("//")[0]))
        ]
    )


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


# Phrases that messages, help texts, docstrings, comments and documents avoid.
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


def prose_of_page(text: str) -> list[tuple[int, str]]:
    """Return the lines of a Markdown page, without blocks of code, code and headings."""
    found, in_code = [], False
    for number, line in enumerate(text.splitlines(), 1):
        in_code ^= line.lstrip().startswith("```")
        if not in_code and not line.startswith("#"):
            found.append((number, re.sub(r"`[^`]*`", "", line)))
    return found


def unplain(found: dict[str, list[tuple[int, str]]]) -> list[str]:
    """Return the unwanted phrases in the sentences of files."""
    return [
        f"{name}:{number} contains {match[0].strip()!r}"
        for name, sentences in found.items()
        for number, sentence in sentences
        if (match := UNWANTED.search(sentence))
    ]


def test_prose_of_the_package_is_plain():
    sources = files(".py", under="src/tokenmill/")
    report(unplain({name: prose(text) for name, text in sources.items()}))


def test_prose_of_the_documents_is_plain():
    assert unplain({"a.md": prose_of_page("# Who\n```text\nnobody\n```\nA line lies beside it.")})
    pages = files(".md", under="docs/") | files("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
    report(unplain({name: prose_of_page(text) for name, text in pages.items()}))
