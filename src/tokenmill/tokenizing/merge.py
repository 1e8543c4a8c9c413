"""A complete output of `tokenize` → another one with the same documents in shards of another size.

Each task ends its last shard, so many small tasks give many small shards. Merged shards have
documents of several tasks, in the same order. The manifest lists them in `shuffled`, like the
shards of the shuffle pass, so `verify` and the readers treat both alike.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import TokenizeError
from tokenmill.options import describe, resolve
from tokenmill.shards import Shards
from tokenmill.shards import open as open_shards
from tokenmill.shards.shard_format import Rows, get_format
from tokenmill.tokenizing import journal, plan
from tokenmill.tokenizing.options import SHARD_TOKENS
from tokenmill.tokenizing.output import LocalOutput, open_output
from tokenmill.tokenizing.shuffle import digest
from tokenmill.tokenizing.writer import ShardsWriter

_BLOCK_TOKENS = 1 << 22


class MergeOptions(TypedDict, total=False):
    """The size of the merged shards."""

    shard_tokens: Annotated[int, SHARD_TOKENS]


@describe(MergeOptions)
def merge_shards(
    folder: str | os.PathLike[str], output: str | os.PathLike[str], **options: Unpack[MergeOptions]
) -> dict[str, int]:
    """Write the documents of a complete output into another one, in shards of another size.

    The documents have the same order. Return the totals of the new manifest.

    Args:
        folder: The folder or URL of the output.
        output: An empty folder, which is made, or a URL.

    Options:

    Raises:
        TokenizeError: The output is not complete or is shuffled, or the new one has files.
    """
    values = resolve(MergeOptions, options, TokenizeError)
    target = open_output(output)
    with open_output(folder).copy() as path, open_shards(path) as shards:
        _check(shards)
        target.make()
        if names := target.sizes():
            raise TokenizeError(
                f"{target.name!r} has files, such as {min(names)!r}; pass an empty folder"
            )
        with target.hold(shared=False), target.staging() as staging:
            pad_id = shards.manifest["options"]["pad_id"]
            size = values["shard_tokens"]
            writer = ShardsWriter(staging, 0, shards.format, shards.spec, size, pad_id)
            try:
                for ids, ends, rows in _blocks(shards):
                    writer.append(ids, ends, rows)
                written = writer.finish_entry()
            except BaseException:
                writer.discard()
                raise
            # A merge that is killed until here leaves no file that the next one would refuse.
            for name, _ in journal.files_of_entry(written):
                target.commit(staging / name, name)
            source = LocalOutput(path)
            files = {file["suffix"] for file in shards.manifest["files"]}
            for name in sorted(files):
                target.write(name, source.read(name) or b"")
            planned = plan.require(source)
            planned = replace(planned, options=planned.options | {"shard_tokens": size})
            entries = _entries(shards.manifest, written)
            content = journal.finalize(target, planned, entries, shards.spec, staging)
    totals: dict[str, int] = content["totals"]
    return totals


def _check(shards: Shards) -> None:
    """Raise for an output that cannot be merged."""
    options = shards.manifest["options"]
    if options["shuffle"] is not None:
        raise TokenizeError(
            f"{str(shards.path)!r} is shuffled, so its shards have --shard-tokens already; run "
            "tokenize with another --shard-tokens"
        )
    if options["id_field"] is not None and get_format(shards.format).keeps_names:
        raise TokenizeError(
            f"{str(shards.path)!r} has ids of documents, which merge cannot read from "
            f"{shards.format}; run tokenize with a larger --task-bytes"
        )


def _blocks(shards: Shards) -> Iterator[tuple[NDArray[Any], NDArray[np.int64], Rows]]:
    """The ids of all documents, their ends, and the sources of the documents that end."""
    segments = [row for entry in shards.manifest["tasks"] for row in entry["segments"]]
    segment_ends = np.cumsum([row["documents"] for row in segments])
    names = [row["source"] for row in segments]
    done = 0
    for index, shard in enumerate(shards.shards):
        reader, all_ends = shards.reader(index), shards.document_ends(index)
        first = 0
        for start in range(0, max(shard.tokens, 1), _BLOCK_TOKENS):
            stop = min(start + _BLOCK_TOKENS, shard.tokens)
            last = int(np.searchsorted(all_ends, stop, "right"))
            places = np.searchsorted(segment_ends, np.arange(done + first, done + last), "right")
            rows = Rows(sources=[names[place] for place in places.tolist()])
            yield reader.stretch(start, stop), all_ends[first:last] - start, rows
            first = last
        done += len(all_ends)
        shards.close()


def _entries(manifest: dict[str, Any], written: dict[str, Any]) -> journal.Entries:
    """The entries of a complete output with other shards."""
    entries = journal.Entries(restarts=manifest["restarts"])
    for entry in manifest["tasks"]:
        entries.add(entry | {"shards": []})
    made_of = digest(entries.documents())
    entries.add({"shuffled": 0, "of": 1, "tasks": made_of} | written)
    return entries
