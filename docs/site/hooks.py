"""README, docs/ and the files that they link to → pages of the site. The hooks of mkdocs.yml.

The README is the home page. Links are written for GitHub, as paths from a page. A link to a file
outside docs/ leads to a page with its content: Markdown, a block of code, or all files of a folder.
So the site is complete. Pages of the API are lists of names, and mkdocstrings adds the docstrings.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
CODE = re.compile(r"`[^`]+`")
UNIT = re.compile(r"(?<=\d) (?=(?:ns|µs|ms|s|MB|×)(?!\w))")
LANGUAGES = {".py": "python", ".zig": "zig", ".toml": "toml", ".json": "json", ".sh": "sh"}

# Page → its title, a line about it, and the names that it documents.
API: dict[str, tuple[str, str, list[str]]] = {
    "api/tokenizer.md": (
        "Tokenizer",
        "Text to ids and back. [Encode text, batches and files](../encode.md) shows the calls.",
        [
            "tokenmill.Tokenizer",
            "tokenmill.session.Session",
            "tokenmill.session.StreamDecoder",
            "tokenmill.session.StreamEncoder",
            "tokenmill.segments.Drift",
            "tokenmill.PrefixStore",
            "tokenmill.Ragged",
            "tokenmill.cache_limit",
        ],
    ),
    "api/training.md": (
        "Training",
        "A corpus to a vocabulary. [Train a vocabulary](../train.md) shows the calls.",
        [
            "tokenmill.train",
            "tokenmill.train_sizes",
            "tokenmill.train_from_iterator",
            "tokenmill.train_from_counts",
            "tokenmill.count_pretokens",
            "tokenmill.training.train.Summary",
            "tokenmill.TrainingWarning",
        ],
    ),
    "api/shards.md": (
        "Shards",
        "Files to shards, and shards to arrays. [Tokenize a corpus](../corpus.md) shows the calls.",
        [
            "tokenmill.tokenize",
            "tokenmill.finalize",
            "tokenmill.repair",
            "tokenmill.merge_shards",
            "tokenmill.verify",
            "tokenmill.inspect",
            "tokenmill.tokenizing.run.Result",
            "tokenmill.progress.Progress",
            "tokenmill.shards.open",
            "tokenmill.shards.Shards",
            "tokenmill.shards.Spec",
            "tokenmill.shards.Shard",
            "tokenmill.shards.File",
            "tokenmill.shards.torch.ShardDataset",
            "tokenmill.shards.torch.ShardStream",
            "tokenmill.shards.samples.Stream",
        ],
    ),
    "api/arrow.md": (
        "Arrow",
        "Tables in, tables out. [Data engines](../engines.md) has examples.",
        ["tokenmill.arrow.Encode", "tokenmill.arrow.CountPretokens"],
    ),
    "api/compat.md": (
        "Drop-ins",
        "Interfaces of other libraries, for [tiktoken](../migrate-tiktoken.md) and others.",
        [
            "tokenmill.compat.transformers.patch",
            "tokenmill.compat.transformers.unpatch",
            "tokenmill.compat.transformers.is_patched",
            "tokenmill.compat.tiktoken.get_encoding",
            "tokenmill.compat.tiktoken.encoding_for_model",
            "tokenmill.compat.tiktoken.encoding_name_for_model",
            "tokenmill.compat.tiktoken.list_encoding_names",
            "tokenmill.compat.tiktoken.Encoding",
            "tokenmill.compat.tokenizers.Tokenizer",
            "tokenmill.compat.tokenizers.Encoding",
            "tokenmill.compat.tokenizers.AddedToken",
            "tokenmill.compat.rustbpe.Tokenizer",
        ],
    ),
    "api/errors.md": (
        "Errors",
        "All exceptions. [Errors and exit codes](../errors.md) has a table.",
        ["tokenmill.errors"],
    ),
}
# Classes that a caller makes. Only their pages show the arguments of the constructor.
CONSTRUCTED = {
    "tokenmill.compat.tiktoken.Encoding",
    "tokenmill.compat.rustbpe.Tokenizer",
    "tokenmill.compat.tokenizers.AddedToken",
    "tokenmill.compat.tokenizers.Tokenizer",
    "tokenmill.shards.torch.ShardDataset",
    "tokenmill.shards.torch.ShardStream",
}
# The home page is the only one of its section.
ALONE = "---\nhide: [navigation]\n---\n"


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the home page, the pages of the API, and a page per file that is linked to."""
    for uri, (title, about, names) in API.items():
        listed = "".join(f"\n::: {name}\n{_options(name)}" for name in names)
        files.append(File.generated(config, uri, content=f"# {title}\n\n{about}\n{listed}"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=ALONE + readme))
    waiting = ["README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        if not path.startswith("docs/") and path != "README.md":
            more = {"content": _content(path), "inclusion": InclusionLevel.NOT_IN_NAV}
            files.append(File.generated(config, _uri(path), **more))
        if path.endswith(".md"):
            text = (ROOT / path).read_text(encoding="utf-8")
            found = {_target(path, link) for link in _links(text)} - seen
            waiting += sorted(one for one in found if (ROOT / one).exists())
            seen |= found


def _options(name: str) -> str:
    return "    options:\n      merge_init_into_class: true\n" if name in CONSTRUCTED else ""


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let the links of a page lead to pages of the site instead of files of the repository."""
    here = page.file.src_uri
    path = _path(here)

    def lead(link: str) -> str:
        target = _target(path, link)
        if not (ROOT / target).exists() and target.removeprefix("docs/") not in API:
            return link  # mkdocs reports it
        return posixpath.relpath(_uri(target), posixpath.dirname(here) or ".")

    return "\n".join(map(_table_row, _rewritten(markdown, lead).split("\n")))


def _table_row(line: str) -> str:
    """Return a row of a table as the site needs it; other lines stay as they are.

    Code loses the backslashes that GitHub needs. A number and its unit stay on one line.
    """
    if not line.lstrip().startswith("| "):
        return line
    line = CODE.sub(lambda code: code[0].replace("\\|", "|"), line)
    return UNIT.sub("\N{NO-BREAK SPACE}", line)


# The names of files in the repository, and those of their pages in the site


def _uri(path: str) -> str:
    """Return the page of a file. Files of docs/ keep their names."""
    if path == "README.md":
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"repository/{path}" if path.endswith(".md") else f"repository/{path}.md"


def _path(uri: str) -> str:
    """Return the file of a page."""
    if uri == "index.md":
        return "README.md"
    if not uri.startswith("repository/"):
        return f"docs/{uri}"
    path = uri.removeprefix("repository/")
    return path if (ROOT / path).exists() else path.removesuffix(".md")


def _target(path: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), link))


# Links


def _rewritten(text: str, lead: Callable[[str], str]) -> str:
    """Return a text with other targets of its links, except in code and for other sites."""

    def change(match: re.Match[str]) -> str:
        link = match[2]
        return match[1] + (link if ":" in link else lead(link)) + match[3]

    lines, in_code = [], False
    for line in text.split("\n"):
        in_code ^= line.lstrip().startswith("```")
        lines.append(line if in_code else LINK.sub(change, line))
    return "\n".join(lines)


def _links(text: str) -> Iterator[str]:
    found: list[str] = []
    _rewritten(text, lambda link: found.append(link) or link)
    return iter(found)


def _content(path: str) -> str:
    """Return a page for a file of the repository, or for all files of a folder."""
    file = ROOT / path
    if path.endswith(".md"):
        return file.read_text(encoding="utf-8")
    if file.is_dir():
        parts = (
            f"## {one.name}\n\n{_code(one)}" for one in sorted(file.iterdir()) if one.is_file()
        )
        return f"# {path}\n\n" + "\n".join(parts)
    return f"# {path}\n\n{_code(file)}"


def _code(file: Path) -> str:
    language = LANGUAGES.get(file.suffix, "text")
    return f"`````{language}\n{file.read_text(encoding='utf-8')}`````\n"
