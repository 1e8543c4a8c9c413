"""Unicode 9.0.0, tokenizers 0.23.3 → core/unicode/tables/{forms,lower,graphemes}.*.bin

Run by hand, only when Hugging Face's versions change, from the root of the repository:

    pip install tokenizers==0.23.3 regex==2025.9.18
    python core/unicode/generate_forms.py PYTHON3.6

`tokenizers` has the normal forms of Unicode 9.0.0, and lower case and grapheme clusters of Unicode
17.0.0. CPython 3.6 is the last version whose `unicodedata` is Unicode 9.0.0, and it computes the
normal forms. No Python has Unicode 17.0.0, so the library itself computes the other tables; a map
makes its clusters visible. Hangul and flags, which never change, come from `regex`.
tests/core/test_normal.py compares the tables with the library for all code points.

**Invariant**: the output depends only on the pinned versions. A second run writes the same files.
"""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import regex  # type: ignore[import-untyped,unused-ignore]
import tokenizers
from tokenizers.normalizers import Lowercase, Precompiled

VERSION = "9.0.0"
LIBRARY = "0.23.3"
REGEX = "2025.9.18"
ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "helpers"))
from charsmaps import make_map  # noqa: E402
from tables import CODE_POINTS, write_array, write_staged  # noqa: E402

HANGUL = range(0xAC00, 0xAC00 + 11172)
# Jamo that join the character before them.
VOWELS, FINALS = range(0x1161, 0x1176), range(0x11A8, 0x11C3)

# How a form treats a character: never changed; unchanged if marks are in order; to be examined.
PLAIN, ORDERED, LOOK = range(3)
NAMES = ("NFC", "NFD", "NFKC", "NFKD")

# Run by CPython 3.6. Hangul is done by arithmetic, so it is left out.
QUESTION = """
import json, sys, unicodedata as u
if u.unidata_version != "9.0.0":
    sys.exit("this Python has Unicode " + u.unidata_version)
answer = []
for c in range(0x110000):
    if 0xD800 <= c < 0xE000 or 0xAC00 <= c < 0xD7A4:
        continue
    s = chr(c)
    forms = [u.normalize(name, s) for name in ("NFC", "NFD", "NFKC", "NFKD")]
    if u.combining(s) or any(form != s for form in forms):
        pair = u.decomposition(s)
        answer.append((c, u.combining(s), forms, "" if "<" in pair else pair))
json.dump(answer, sys.stdout)
"""


Answer = list[tuple[int, int, list[str], str]]


def compositions(answer: Answer) -> list[tuple[int, int, int]]:
    """(first, second, composite) of all that NFC composes."""
    found = []
    for code_point, _, forms, pair in answer:
        parts = [int(part, 16) for part in pair.split()]
        if len(parts) == 2 and forms[0] == chr(code_point):
            found.append((parts[0], parts[1], code_point))
    return sorted(found)


def flags_of(answer: Answer, joining: set[int]) -> bytearray:
    """Two bits a form: how it takes each code point."""
    table = bytearray(CODE_POINTS)
    for code_point, combining, forms, _ in answer:
        for index, form in enumerate(forms):
            changes = form != chr(code_point)
            looks = changes or (NAMES[index] in ("NFC", "NFKC") and code_point in joining)
            table[code_point] |= (LOOK if looks else ORDERED if combining else PLAIN) << 2 * index
    for code_point in (*VOWELS, *FINALS, *joining):
        table[code_point] |= LOOK | LOOK << 4
        for shift in (0, 4):  # ORDERED | LOOK is LOOK
            if table[code_point] >> shift & 3 == 3:
                table[code_point] &= ~(ORDERED << shift)
    for code_point in HANGUL:
        table[code_point] = LOOK << 2 | LOOK << 6
    return table


def write_decompositions(answer: Answer) -> None:
    """Write the entries of characters that change, and the texts of the entries."""
    data = b""
    entry_of = [0] * CODE_POINTS
    entries: list[int] = [0, 0]
    for code_point, _, forms, _ in answer:
        if forms[3] == chr(code_point):
            continue
        entry_of[code_point] = len(entries) // 2
        for form in (forms[1], forms[3]):
            text = form.encode()
            if text not in data:
                data += text
            entries.append(data.index(text) << 8 | len(text))
    assert len(data) < 1 << 16
    write_staged("forms.entry", "u16", entry_of)
    write_array("forms.entries", "u32", entries)
    write_array("forms.texts", "u8", data)


def write_forms(answer: Answer) -> None:
    pairs = compositions(answer)
    # Both in one two-stage table, since they are nearly always needed together.
    kinds = [*flags_of(answer, {second for _, second, _ in pairs})]
    for code_point, combining, _, _ in answer:
        kinds[code_point] |= combining << 8
    write_staged("forms.kinds", "u16", kinds)
    write_decompositions(answer)
    write_array("forms.pairs", "u64", [first << 21 | second for first, second, _ in pairs])
    write_array("forms.composites", "u32", [composite for _, _, composite in pairs])


def write_lower() -> None:
    if tokenizers.__version__ != LIBRARY:
        sys.exit(f"this is tokenizers {tokenizers.__version__}, not {LIBRARY}")
    lowercase = Lowercase()
    deltas: list[int] = [0]
    index_of = [0] * CODE_POINTS
    for code_point in range(CODE_POINTS):
        if 0xD800 <= code_point < 0xE000:
            continue
        lower = lowercase.normalize_str(chr(code_point))
        if lower == chr(code_point):
            continue
        if code_point == 0x130:  # the only one that becomes two
            assert lower == "i\u0307"
        delta = ord(lower[0]) - code_point
        if delta not in deltas:
            deltas.append(delta)
        index_of[code_point] = deltas.index(delta)
    write_staged("lower.index", "u8", index_of)
    write_array("lower.deltas", "i32", deltas)


# Of normalize/graphemes.zig: Grapheme_Cluster_Break, Indic_Conjunct_Break << 4, and one bit.
BREAKS = ("Other", "CR", "LF", "Control", "Extend", "ZWJ", "Regional_Indicator", "Prepend")
BREAKS += ("SpacingMark", "L", "V", "T", "LV", "LVT")
OTHER, CONTROL, EXTEND, ZWJ, PREPEND, SPACING_MARK = map(
    BREAKS.index, ("Other", "Control", "Extend", "ZWJ", "Prepend", "SpacingMark")
)
CONSONANT, LINKER, CONJUNCT_EXTEND = (number << 4 for number in (1, 2, 3))
PICTOGRAPH = 1 << 6

# Each shows one thing about the character in it: how many characters are left of the text when
# every rule turns one into Q, and a cluster of less than 6 bytes as a whole becomes one Q.
QUESTIONS = {
    "joins": ("a%s", 1),
    "prepend": ("%sa", 1),
    "control": ("%s\u0301\u0301", 2),
    "extend": ("©%s\u200d©\u0301", 5),
    "pictograph": ("a%s\u200d©\u0301", 5),
    "consonant": ("%s\u094d\u0915\u0301", 4),
    "linker": ("\u0915%s\u0915\u0301", 4),
    "conjunct_extend": ("\u0915%s\u094d\u0915\u0301", 5),
}


def ask_graphemes(plane: range) -> dict[str, set[int]]:
    """Return the properties of the code points of a plane, as the library's clusters show them."""
    chars = [chr(c) for c in plane if not 0xD800 <= c < 0xE000 and c not in (0, 0x0A, 0x0D)]
    rules = dict.fromkeys([*chars, *"a©\u0301\u200d\u0915\u094d"], "Q")
    normalizer = Precompiled(make_map(rules))
    answers = {}
    for name, (question, count) in QUESTIONS.items():
        text = normalizer.normalize_str("\n".join(question % char for char in chars))
        parts = zip(chars, text.split("\n"), strict=True)
        answers[name] = {ord(char) for char, part in parts if len(part) == count}
    return answers


def grapheme_of(code_point: int, known: int, answers: dict[str, set[int]]) -> int:
    """The kind of a code point; `known` is its break in Unicode 16.0.0."""

    def shows(name: str) -> bool:
        return code_point in answers[name]

    if code_point == 0x200D:
        kind = ZWJ
    elif shows("joins"):
        kind = EXTEND if shows("extend") else SPACING_MARK
    elif shows("control"):
        kind = CONTROL
    elif shows("prepend"):
        kind = PREPEND
    else:
        kind = OTHER if known in (CONTROL, EXTEND, ZWJ, PREPEND, SPACING_MARK) else known
    if shows("consonant"):
        kind |= CONSONANT
    elif shows("linker"):
        kind |= LINKER
    elif shows("conjunct_extend"):
        kind |= CONJUNCT_EXTEND
    return kind | (PICTOGRAPH if shows("pictograph") else 0)


def write_graphemes() -> None:
    if version("regex") != REGEX:
        sys.exit(f"this is regex {version('regex')}, not {REGEX}, the last with Unicode 16.0.0")
    table = bytearray(CODE_POINTS)
    every = "".join(map(chr, range(CODE_POINTS)))
    for number, value in enumerate(BREAKS[1:], 1):
        for match in regex.finditer(rf"\p{{GCB={value}}}", every):
            table[ord(match[0])] = number
    for plane in (range(0x10000), range(0x10000, 0x20000), range(0xE0000, 0xE1000)):
        answers = ask_graphemes(plane)
        for code_point in plane:
            if not 0xD800 <= code_point < 0xE000 and code_point not in (0, 0x0A, 0x0D):
                table[code_point] = grapheme_of(code_point, table[code_point], answers)
    write_staged("graphemes.kinds", "u8", table)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python core/unicode/generate_forms.py PYTHON3.6")
    command = [sys.argv[1], "-c", QUESTION]
    answer: Answer = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    write_forms(answer)
    write_lower()
    write_graphemes()


if __name__ == "__main__":
    main()
