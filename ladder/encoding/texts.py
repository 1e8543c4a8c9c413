"""The workloads of the encoding ladder: one text of 286 bytes, and 15,000 short ones.

The short texts are all different, so a trainer can learn 2,048 tokens from them.
"""

from __future__ import annotations

import random

TEXT = (
    "A mill takes grain and gives flour; a tokenizer takes text and gives numbers. "
    "It cuts a sentence into words, and joins the bytes of each word, pair by pair, in the order "
    "that it learned. Frequent words become one token, and rare ones take several. "
    "That's all there is to it, since 1994."
)
ENCODES = 60_000
SHORT_TEXTS = 15_000
VOCAB_SIZE = 2048
# One pretoken of letters, like Chinese text, base64 or a file without spaces.
LONG = "".join(filter(str.isalpha, TEXT)) * 11

_THINGS = """
mill grain stone wheel river harvest flour miller bread oven village market wagon horse farmer
field summer winter morning evening bridge valley mountain forest garden kitchen window chimney
letter sentence paragraph chapter book library reader writer printer paper language grammar word
number table column machine engine program function variable compiler memory processor network
signal message channel student teacher question answer lesson problem solution experiment result
measure science history painting music instrument concert theatre audience journey station railway
captain harbour island ocean weather thunder lightning rainbow shadow candle lantern mirror carpet
blanket hammer needle basket bottle copper silver crystal diamond treasure kingdom soldier castle
merchant traveller stranger neighbour daughter brother sister parent doctor hospital medicine
building architect drawing corridor staircase cellar orchard apple cherry potato pepper cinnamon
"""
_QUALITIES = """
small large old young quick slow bright dark quiet loud warm cold heavy light narrow wide simple
complex ancient modern frequent rare golden wooden broken perfect gentle careful patient curious
honest famous foreign distant hidden empty crowded peaceful dangerous beautiful wonderful ordinary
remarkable comfortable impossible independent mathematical geographical electrical scientific
"""
_ACTIONS = """
grind carry follow repair measure describe discover remember forget translate explain answer gather
collect deliver protect surround improve transform calculate compare construct demonstrate develop
examine imagine introduce investigate observe organise produce recognise recommend represent
separate support understand visit welcome whisper illuminate exaggerate congratulate
"""
_FRAMES = (
    "The {q} {t} will {a} the {u}.",
    "Why does a {t} {a} {n} {u}s?",
    "{n} {q} {t}s {a} each {u} before the {v}.",
    "Nobody could {a} the {t} of the {q} {u}!",
    "If the {t} is {q}, we {a} it; if not, the {u} waits.",
    "She asked the {t} to {a} a {u} near the {q} {v}.",
)


def short_texts(count: int = SHORT_TEXTS) -> list[str]:
    """Return sentences of about fifty bytes, the same on every machine."""
    # Only random() is guaranteed to be the same in every version of Python.
    chance = random.Random(2048).random  # noqa: S311
    things, qualities, actions = _THINGS.split(), _QUALITIES.split(), _ACTIONS.split()

    def one_of(words: tuple[str, ...] | list[str]) -> str:
        return words[int(len(words) * chance() ** 2)]  # the first words are the most frequent

    return [
        one_of(_FRAMES).format(
            t=one_of(things),
            u=one_of(things),
            v=one_of(things),
            q=one_of(qualities),
            a=one_of(actions),
            n=int(1000 * chance()),
        )
        for _ in range(count)
    ]
