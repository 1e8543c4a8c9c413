"""The trainers: the libraries whose merges and ids are learned, one row each.

A trainer with a known tie-breaking rule is a row of this table. A new rule is a value of `Ties`
in core/train/queue.zig.
"""

from __future__ import annotations

from typing import NamedTuple


class Trainer(NamedTuple):
    """The rules of a library.

    `ties` is the core's rule between two pairs with the same count. The ids of special tokens are
    before those of the bytes with `special_tokens_first`, else after the merges. `needs_order` is
    for a rule that depends on the order of the documents.
    """

    ties: str
    special_tokens_first: bool = False
    cuts_at_special_tokens: bool = False
    needs_order: bool = False


TRAINERS = {
    "tokenizers": Trainer("ids", special_tokens_first=True),
    "rustbpe": Trainer("ids"),
    "cs336": Trainer("bytes", cuts_at_special_tokens=True),
    "minbpe": Trainer("order", needs_order=True),
    # Its tokens are characters, not bytes: training/sentencepiece.py assigns the ids.
    "sentencepiece": Trainer("pieces"),
}
