"""`import tokenmill` imports modules when they are first used."""

import subprocess
import sys

FORBIDDEN = (
    *("rich", "argparse", "pyarrow", "fsspec", "tokenmill.corpus", "tokenmill.training"),
    *("tokenmill.tokenizing", "tokenmill.cli", "tokenmill.shards", "tokenmill.compat"),
)


def modules_after(code: str) -> set[str]:
    found = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(found.stdout.split())


def forbidden(modules: set[str]) -> list[str]:
    return [
        name for name in sorted(modules) if name.startswith(FORBIDDEN) and "richcomp" not in name
    ]


def test_import_loads_no_other_module_of_the_package():
    found = modules_after("import tokenmill")
    assert {name for name in found if name.startswith("tokenmill")} == {"tokenmill"}
    assert "numpy" not in found
    assert not forbidden(found)


def test_tokenizer_loads_no_corpus_modules():
    use = "t = tokenmill.Tokenizer.load('gpt2'); t.decode(t.encode('a'))"
    found = modules_after(f"import tokenmill; {use}")
    assert not forbidden(found)
    # These modules take as long as the vocabulary: they are imported for files only.
    slow = ("tokenmill.formats", "tokenmill.patterns", "pathlib", "dataclasses", "hashlib")
    assert not found & {*slow} - modules_after("import numpy")
