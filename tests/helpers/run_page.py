"""A page → its code blocks, run in order in the current folder and compared with their output.

    python run_page.py PAGE.md [NUMBER …]          # the numbers of blocks that are left out

python   One namespace per page. `# → VALUE` after a line is the value of its expression, or its
         output; lines `# → …` below a line are its lines of output. Other comments are prose.
console  `$ COMMAND` in bash, continued by lines `> `; its standard output is below it. A block is
         one shell. `$ echo $?` follows a command that fails, and its errors are shown.
sh, bash One script, which must succeed.
json     It is JSON.
text     Layouts and pictures: not run.

Shown output may be shortened: `…` matches any text in a line, and alone on a line any lines.
Figures of the machine are not compared: a number before a unit of time, rate, ratio or memory.
"""

import ast
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

LANGUAGES = ("python", "console", "sh", "bash", "json", "text", "diff")
FENCE = re.compile(r"^( *)```(.*)$")
MARK = "# →"
FIGURE = re.compile(r"\d[\d,.]*(?=(?: ?(?:ns|µs|us|ms|s|min|[kMG]B/s|[MG]B|×)| times)(?!\w))")
HOME = "home-of-the-page"
COMMAND_END = "\x01"
# A command, its errors if it failed, and its exit code, which the next command can read.
COMMAND = """{{
{}
}} 2>errors-of-the-page; __code=$?; (( __code == 0 )) || cat errors-of-the-page
printf '\x01%d\x01' $__code; (exit $__code)
"""
SHELL_SECONDS = 100


class MismatchError(AssertionError):
    """The output of a page is wrong."""


@dataclass(frozen=True)
class Block:
    """A fenced block: its place in the page from 0 on, its first line, its language, its lines."""

    number: int
    line: int
    language: str
    text: str


def blocks_of(page: str) -> list[Block]:
    """The fenced blocks of a page, also those in lists."""
    found: list[Block] = []
    inside: list[str] | None = None
    indent, language, start = "", "", 0
    for number, line in enumerate(page.splitlines(), 1):
        fence = FENCE.match(line)
        if inside is None and fence:
            indent, language, start, inside = fence[1], fence[2].strip(), number + 1, []
        elif inside is not None and fence and not fence[2]:
            found.append(Block(len(found), start, language, "".join(inside)))
            inside = None
        elif inside is not None:
            inside.append(line.removeprefix(indent) + "\n")
    if inside is not None:
        raise MismatchError(f"the block at line {start - 1} does not end")
    return found


def compare(shown: str, said: str, where: str) -> None:
    """Raise an error unless `said` equals the documented output, without figures."""
    lines = [line.rstrip() for line in shown.strip("\n").splitlines()]
    parts = []
    for line in lines:
        if line.strip() == "…":
            parts.append(r"(?:.*\n)*?")
        else:
            pieces = FIGURE.sub("0", line).split("…")
            parts.append(".*".join(map(re.escape, pieces)) + r"\n")
    got = [line.rstrip() for line in said.strip("\n").splitlines()]
    text = "".join(FIGURE.sub("0", line) + "\n" for line in got)
    if not re.fullmatch("".join(parts), text):
        raise MismatchError(f"{where} shows\n{shown.rstrip()}\nand it is\n{said.rstrip()}")


# Python


def run_python(block: Block, page: Path, names: dict[str, object]) -> None:
    """Run a block statement by statement, and compare the marked values."""
    lines = block.text.splitlines()
    for statement in ast.parse(block.text, str(page)).body:
        shown = _marked(lines, (statement.end_lineno or statement.lineno) - 1)
        ast.increment_lineno(statement, block.line - 1)  # as the page has it, for a traceback
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            value = _run(statement, page, names)
        if shown is not None:
            said = printed.getvalue()
            said = said if said or value is None else repr(value)
            compare(shown, said, f"{page.name}:{statement.lineno}")


def _run(statement: ast.stmt, page: Path, names: dict[str, object]) -> object:
    """The value of an expression; of another statement None."""
    if isinstance(statement, ast.Expr):
        return eval(compile(ast.Expression(statement.value), str(page), "eval"), names)
    exec(compile(ast.Module([statement], []), str(page), "exec"), names)
    return None


def _marked(lines: list[str], last: int) -> str | None:
    """Return the documented value of a statement: after it, or below it."""
    if MARK in lines[last]:
        return lines[last].split(MARK, 1)[1].strip()
    below = []
    for line in lines[last + 1 :]:
        if not line.startswith(MARK):
            break
        below.append(line.removeprefix(MARK).removeprefix(" "))
    return "\n".join(below) if below else None


# The shell


def run_console(block: Block, page: Path) -> None:
    """Runs the commands of a block in one shell, and compares what each prints."""
    commands = _commands(block, page)
    done = _bash("".join(COMMAND.format(command) for _, command, _ in commands))
    said = done.split(COMMAND_END)
    if len(said) != 2 * len(commands) + 1:
        raise MismatchError(f"{page.name}:{block.line} is not a complete bash script:\n{done}")
    for index, (line, command, shown) in enumerate(commands):
        where = f"{page.name}:{line} $ {command}"
        text, code = said[2 * index], int(said[2 * index + 1])
        tells = index + 1 < len(commands) and commands[index + 1][1].startswith("echo $?")
        if code and not tells:
            raise MismatchError(f"{where}\nended with {code}; show `echo $?` if it should\n{text}")
        compare(shown, text, where)


def _commands(block: Block, page: Path) -> list[tuple[int, str, str]]:
    """Return the line, the command and the documented output of each command."""
    found: list[tuple[int, str, str]] = []
    is_open = False
    for number, line in enumerate(block.text.splitlines(), block.line):
        if line.startswith("$ "):
            found.append((number, line[2:], ""))
            is_open = True
        elif not found:
            raise MismatchError(f"{page.name}:{number}: a console block begins with `$ COMMAND`")
        else:
            at, command, shown = found[-1]
            if is_open and (line.startswith("> ") or command.endswith("\\")):
                found[-1] = (at, f"{command}\n{line.removeprefix('> ')}", shown)
            else:
                found[-1] = (at, command, f"{shown}{line}\n")
                is_open = False
    return found


def run_script(block: Block, page: Path) -> None:
    """Runs a block as a script, which stops at the first command that fails."""
    done = _bash(f"set -euo pipefail\n{block.text}\nprintf '{COMMAND_END}'")
    if not done.endswith(COMMAND_END):
        raise MismatchError(f"{page.name}:{block.line}: the script failed\n{done}")


def _bash(script: str) -> str:
    """Return the output of a script and the messages of bash."""
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", script],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=_environment(), text=True, encoding="utf-8", check=False, timeout=SHELL_SECONDS,
    )  # fmt: skip
    return done.stdout


def _environment() -> dict[str, str]:
    """Where `tokenmill` and `python` are those of the tests, and home is a folder here."""
    bin_, home = Path("bin-of-the-page").resolve(), Path(HOME).resolve()
    home.mkdir(exist_ok=True)
    if not bin_.exists():
        bin_.mkdir()
        python = f'#!/bin/sh\nexec "{sys.executable}" '
        for name, rest in (("tokenmill", '-m tokenmill "$@"'), ("python", '"$@"')):
            (bin_ / name).write_text(f"{python}{rest}\n")
            (bin_ / name).chmod(0o755)
    return {
        **os.environ, "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}", "HOME": str(home),
        "NO_COLOR": "1", "COLUMNS": "80", "LC_ALL": "C.UTF-8",
    }  # fmt: skip


def run_page(page: Path, left_out: frozenset[int] = frozenset()) -> None:
    """Run a page, and raise an error at the first wrong output."""
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(page.read_text(encoding="utf-8")):
        if block.language not in LANGUAGES:
            raise MismatchError(
                f"{page.name}:{block.line}: a block is one of {', '.join(LANGUAGES)}, not "
                f"{block.language!r}; one that shows only how something looks is text"
            )
        if block.number in left_out:
            continue
        if block.language == "python":
            run_python(block, page, names)
        elif block.language == "console":
            run_console(block, page)
        elif block.language in ("sh", "bash"):
            run_script(block, page)
        elif block.language == "json":
            json.loads(block.text)


if __name__ == "__main__":
    warnings.simplefilter("error")
    run_page(Path(sys.argv[1]), frozenset(map(int, sys.argv[2:])))
