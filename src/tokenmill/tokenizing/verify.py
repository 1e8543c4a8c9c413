"""A folder of shards → what is wrong with it: files, and documents compared with their sources.

Checksums say that the files are those that were written, and the layout's readers that they hold
what the manifest says (contents.py). Decoding says that what was written is the text: the sources
are read again, and each document is compared (comparison.py).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenmill.corpus import remote
from tokenmill.corpus.sources import STDIN
from tokenmill.errors import MissingExtraError, TokenizeError
from tokenmill.native import _native
from tokenmill.shards import checksum
from tokenmill.shards import open as open_shards
from tokenmill.tokenizing import contents, desk, manifest, plan
from tokenmill.tokenizing.comparison import Comparison, Written
from tokenmill.tokenizing.shuffle import Order
from tokenmill.tokenizing.worker import load_tokenizer

_FINDINGS_MAX = 100


@dataclass(slots=True)
class Verdict:
    """What `verify` looked at, and what it found: how much is wrong, and the first of it."""

    files: int = 0
    bytes: int = 0
    documents: int = 0
    wrong: int = 0
    files_wrong: int = 0
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not self.findings

    def find(self, text: str) -> None:
        self.wrong += 1
        if len(self.findings) < _FINDINGS_MAX:
            self.findings.append(text)


def verify(
    folder: str | Path,
    *,
    decode: float = 0.0,
    workers: int = 1,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Verdict:
    """Checks a folder. `decode` is the share of documents to compare with the sources; 1 is all.

    `progress` is told how many bytes of files are checked, and of how many.
    """
    with desk.fetched(desk.place(folder)) as path:
        return _verify(path, decode, workers, progress)


def _verify(
    path: Path, decode: float, workers: int, progress: Callable[[int, int], None]
) -> Verdict:
    if path.is_file():
        raise TokenizeError(f"{str(path)!r} is a file; give the folder of the shards")
    content = manifest.load(path)
    if content is None:
        has_plan = (path / plan.NAME).exists()
        raise TokenizeError(
            f"{str(path)!r} is not complete: run the same tokenize command again, which goes on"
            if has_plan
            else f"{str(path)!r} is no folder of shards: there is no {manifest.NAME} in it"
        )
    verdict = Verdict()
    with manifest.reading(path):
        _check_files(path, content, verdict, workers, progress)
        if verdict.is_good:
            _check_contents(path, content, verdict)
        if decode and verdict.is_good:
            _check_documents(path, content, verdict, decode)
    return verdict


# ── files ────────────────────────────────────────────────────────────────────────────────────


def _check_files(
    folder: Path,
    content: dict[str, Any],
    verdict: Verdict,
    workers: int,
    progress: Callable[[int, int], None],
) -> None:
    rows = [*content["units"], *content.get("mixes", [])]
    files = [
        (folder / (shard["stem"] + file["suffix"]), file)
        for row in rows
        for shard in row["shards"]
        for file in shard["files"]
    ]
    files += [(folder / file["suffix"], file) for file in content.get("files", [])]
    total = sum(file["bytes"] for _, file in files)
    with ThreadPoolExecutor(workers) as pool:
        for (path, file), found in zip(files, pool.map(_checksum, files), strict=True):
            verdict.files += 1
            verdict.bytes += file["bytes"]
            if found is not None:
                verdict.files_wrong += 1
                verdict.find(f"{path.name}: {found}")
            progress(verdict.bytes, total)


def _checksum(item: tuple[Path, dict[str, Any]]) -> str | None:
    path, expected = item
    try:
        size = path.stat().st_size
        if size != expected["bytes"]:
            return f"it has {size:,} bytes and should have {expected['bytes']:,}"
        found = checksum.of_file(path)
    except OSError as error:
        return error.strerror or str(error)
    if found != expected["checksum"]:
        return "its bytes are not those that were written (the checksum differs)"
    return None


def _check_contents(folder: Path, content: dict[str, Any], verdict: Verdict) -> None:
    try:
        for found in contents.findings(folder, content):
            verdict.find(found)
    except MissingExtraError as error:
        verdict.notes.append(f"its documents are not counted: {error}")


# ── documents ────────────────────────────────────────────────────────────────────────────────


def _check_documents(folder: Path, content: dict[str, Any], verdict: Verdict, share: float) -> None:
    planned = plan.load(folder)
    tokenizer = load_tokenizer(folder, planned)
    comparison = Comparison(tokenizer, planned.options, share, verdict.find)
    with open_shards(folder) as shards:
        order = Order.of(content)
        for unit, row in zip(planned.units, content["units"], strict=True):
            if "failed" in row:
                continue
            if any(segment.source.name == STDIN for segment in unit.segments):
                verdict.notes.append(
                    f"unit {unit.number} is not compared: it came from standard input"
                )
                continue
            # What could not be read then need not be there now.
            read = [
                segment
                for segment, said in zip(unit.segments, row["segments"], strict=True)
                if said["documents"] or "error" not in said or not _is_gone(segment.source.name)
            ]
            missing = next((s.source.name for s in read if _is_gone(s.source.name)), None)
            if missing is not None:
                verdict.find(
                    f"{missing}: it is not there, so unit {unit.number} is not compared; names "
                    "begin in the folder where tokenize ran"
                )
                continue
            checksum = _native.Checksum()
            written = Written(shards, order, unit.number)
            for segment in read:
                comparison.segment(segment, written, checksum, too_long="too_long" in row)
            if written.place != row["documents"]:
                verdict.find(
                    f"unit {unit.number}: its sources give {written.place:,} documents now, and "
                    f"{row['documents']:,} were written"
                )
            if f"{checksum.value():016x}" != row["input"]:
                names = ", ".join(segment.source.name for segment in unit.segments[:3])
                verdict.find(f"{names}: changed since it was read")
    verdict.documents = comparison.compared


def _is_gone(name: str) -> bool:
    return not remote.is_address(name) and not Path(name).exists()
