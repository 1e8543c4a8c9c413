"""A tokenizer.json of a real model → a smaller one, which loads quickly."""

from __future__ import annotations

import itertools
from typing import Any

from conftest import FUZZ, examples


def beginning(document: dict[str, Any]) -> dict[str, Any]:
    """The tokenizer.json in `make test-all`. By default it has the first merged tokens alone."""
    if FUZZ >= 100:
        return document
    vocab, merges = document["model"]["vocab"], document["model"]["merges"]
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in merges]
    made = dict.fromkeys(map("".join, pairs))
    kept = {*vocab} - {*made} | {*itertools.islice(made, examples(len(made)))}
    names = sorted(kept & {*vocab}, key=vocab.__getitem__)
    ids = {vocab[name]: place for place, name in enumerate(names)}
    merges = [
        merge
        for merge, (left, right) in zip(merges, pairs, strict=True)
        if left + right in kept and left in kept and right in kept
    ]
    added = [
        {**one, "id": ids.get(one["id"], one["id"] - len(vocab) + len(ids))}
        for one in document["added_tokens"]
    ]
    model = {**document["model"], "vocab": {name: ids[vocab[name]] for name in names}}
    return {**document, "model": {**model, "merges": merges}, "added_tokens": added}
