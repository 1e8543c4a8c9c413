"""Characters → their scripts, as SentencePiece's trainer sees them.

Its table is that of Unicode 9.0: characters that are newer count as Common. Hiragana and Katakana
are Han, and so is the sign of a long vowel.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from tokenmill.patterns.unicode import CODE_POINTS, scripts

_HAN = ("Han", "Hiragana", "Katakana")
_LONG_VOWEL = 0x30FC
_SPACE = 0x2581  # "▁", which any script may follow

# All that Unicode 16.0 gives a script and 9.0 does not, found by asking the trainer for each.
_NEWER = """
    560 588-589 5ef 61c-61d 7fd-7ff 860-89f 8b5 8be-8d3 953-954 9fc-9fe a76 afa-aff b55 c04
    c3c c5d c77 c84 cdd cf3-d00 d04 d3b-d3c d81 e86 e89 e8c e8e-e93 e98 ea0 ea8-ea9 eac eba
    ece 170d 1715-171f 180f 1878 1abf-1ace 1b4c-1b4f 1b7d-1b7f 1c89-1cbf 1df6-1dfa 2c2f 2c5f
    312e-312f 31bb-31bf 4db6-4dbf 9fd6-9fff a7af a7b8-a7f6 a82c a8fe-a8ff ab66-ab69 fbc2
    fd40-fd4f fdcf fdfe-fdff 1032d-1032f 10570-105f3 10780-107ba 10a34-10a35 10a48
    10d00-10d8f 10e80-10ff6 11070-11075 110c2-110cd 11144-11147 111ce-111cf 1123f-11241
    1133b 11380-113e2 1145a 1145e-11461 116b8-116b9 116d0-116e3 1171a 11740-1183b
    11900-11abf 11b00-11bf9 11d00-11fff 12f90-12ff2 1342f-143fa 16100-16139 16a70-16ac9
    16d40-16e9a 16f45-16f4f 16f7f-16f87 16fe1-16ff1 187ed-187f7 18af3-1affe 1b002-1b2fb
    1cf00-1cf46 1df00-1df2a 1e030-1e7fe 1e94b 2a6d7-2a6df 2b735-2b739 2ceb0-2ee5d
    30000-323af
"""

NONE, COMMON, HAN = range(3)


@cache
def script_table() -> NDArray[np.uint8]:
    """A number for the script of each code point; NONE for those that take on any other."""
    table = np.full(CODE_POINTS, COMMON, np.uint8)
    number = HAN
    for name, code_points in scripts():
        if name == "Common":
            continue
        number += name not in (*_HAN, "Inherited")
        value = HAN if name in _HAN else NONE if name == "Inherited" else number
        for low, high in code_points.ranges():
            table[low:high] = value
    for part in _NEWER.split():
        first, _, last = part.partition("-")
        table[int(first, 16) : int(last or first, 16) + 1] = COMMON
    table[_LONG_VOWEL] = HAN
    table[_SPACE] = NONE
    return table
