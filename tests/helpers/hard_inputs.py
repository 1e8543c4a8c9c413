"""Hard inputs: text and bytes that break or slow tokenizers.

`files(size)` makes 37 files of about `size` bytes, the same on every machine. STRINGS and BYTES
are short and aim at the edges of the patterns and of UTF-8. FRAGMENTS are the pieces from which
such edges are made; `joined_fragments`, `random_code_points` and `random_bytes` make any amount
of text from a seed.

Invariant: the names and contents of `files` never change; results of benchmarks refer to them.
"""

from __future__ import annotations

import base64
import itertools
import random
from collections.abc import Iterator
from typing import AnyStr

import numpy as np


def files(size: int) -> Iterator[tuple[str, str | bytes]]:
    """Name and contents of each file. One random stream runs through all: keep the order."""
    r = random.Random(12345)

    def pick(alphabet: str | list[str], n: int) -> str:
        return "".join(r.choice(alphabet) for _ in range(n))

    def points(first: int, end: int, n: int) -> str:
        return "".join(chr(r.randrange(first, end)) for _ in range(n))

    def words(choices: tuple[str, ...], n: int) -> str:
        return "".join(r.choice(choices) for _ in range(n))

    fib = ["a", "ab"]
    while len(fib[-1]) < size:
        fib.append(fib[-1] + fib[-2])
    marks = [chr(c) for c in range(0x300, 0x370)]
    yield "a.txt", "a" * size
    yield "ab.txt", "ab" * (size // 2)
    yield "fibonacci_word.txt", fib[-1][:size]
    yield "spaces.txt", " " * size
    yield "newlines.txt", "\n" * size
    yield "crlf.txt", "\r\n" * (size // 2)
    yield "tabs_spaces.txt", pick(" \t", size)
    yield "whitespace_mixed.txt", pick(" \t\n\r\u00a0\u3000\u2003\u0085\u2028", size // 2)
    yield "letters_random.txt", pick("abcdefghijklmnopqrstuvwxyz", size)
    yield "letters_upper.txt", pick("ABCDEFGHIJKLMNOPQRSTUVWXYZ", size)
    camel = ("get", "Http", "XML", "Request", "iOS", "URL", "ID", "v2", "_")
    yield "camel_case.txt", words(camel, size // 4)
    yield "printable_random.txt", points(32, 127, size)
    # Both are drawn before one is chosen.
    yield (
        "unicode_random.txt",
        "".join(
            chr(r.choice((r.randrange(0x20, 0xD800), r.randrange(0xE000, 0x110000))))
            for _ in range(size // 3)
        ),
    )
    yield "base64.txt", base64.b64encode(r.randbytes(size * 3 // 4)).decode()
    yield "hex.txt", r.randbytes(size // 2).hex()
    yield "digits.txt", pick("0123456789", size)
    yield "digit_same.txt", "7" * size
    yield "digits_unicode.txt", pick("0٣४৫²½Ⅷ", size // 2)
    yield "punctuation.txt", pick("!?.,;:-_=+*/\\|<>[]{}()#@$%^&~`\"'", size)
    yield "dashes.txt", "-" * size
    contractions = "it's we're I'll they've he'd I'm can't 'S 'LL 'ſ don\u2019t "
    yield "contractions.txt", contractions * (size // 60)
    yield "pangram_no_spaces.txt", "thequickbrownfoxjumpsoverthelazydog" * (size // 35)
    yield "han_random.txt", points(0x4E00, 0x9FFF, size // 3)
    yield "han_astral.txt", points(0x20000, 0x2A6DF, size // 4)
    yield "hangul_random.txt", points(0xAC00, 0xD7A3, size // 3)
    yield "thai_random.txt", points(0x0E01, 0x0E3A, size // 3)
    hive = "the hive mind of chaos " * (size // 400)
    yield "zalgo.txt", "".join(c + pick(marks, r.randrange(0, 16)) for c in hive)
    yield "marks_only.txt", pick(marks, size // 2)
    yield "flags.txt", "".join(chr(0x1F1E6 + r.randrange(26)) for _ in range(size // 4))
    yield "emoji_zwj.txt", "\U0001f469\u200d\U0001f4bb\U0001f3fd" * (size // 15)
    yield "bidi.txt", words(("السلام", "שלום", "\u200f", "\u202e", " ", "abc"), size // 6)
    special_tokens = (
        "<|endoftext|>",
        "<|endof",
        "text|>",
        "<|",
        "|>",
        "<|fim_prefix|>",
        " a",
        "\n",
    )
    yield "specials.txt", words(special_tokens, size // 8)
    yield "invalid_utf8.bin", r.randbytes(size)
    yield "continuations.bin", bytes(r.randrange(0x80, 0xC0) for _ in range(size))
    truncated = (
        *(b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\xf0\x9f\x98"),
        "é 你🙂 ok".encode(),
    )
    yield "truncated_utf8.bin", b"".join(r.choice(truncated) for _ in range(size // 6))
    yield "nul.bin", bytes(size)
    yield "empty.txt", ""


# ── short strings ────────────────────────────────────────────────────────────────────────────

# Every code point with the property White_Space, then others that other definitions call space.
WHITESPACE = [
    *"\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a",
    *"\u2028\u2029\u202f\u205f\u3000",
]
NOT_WHITESPACE = [*"\x1c\x1d\x1e\x1f\u180e\u200b\u200c\u200d\u2060\ufeff\u2800\u3164\x00\x7f"]

# The digit zero of every script; the nine that follow it are digits too.
ZEROS = [
    *"0٠۰߀०০੦૦୦௦౦೦൦෦๐໐༠၀႐០᠐᥆᧐᪀᪐᭐᮰᱀᱐꘠꣐꤀꧐꧰꩐꯰０",
    *map(chr, (0x104A0, 0x10D30, 0x10D40, 0x11066, 0x110F0, 0x11136, 0x111D0, 0x112F0, 0x11450)),
    *map(chr, (0x114D0, 0x11650, 0x116C0, 0x116D0, 0x11730, 0x118E0, 0x11950, 0x11BF0, 0x11C50)),
    *map(chr, (0x11D50, 0x11DA0, 0x11F50, 0x16130, 0x16A60, 0x16AC0, 0x16B50, 0x16D70, 0x1CCF0)),
    *map(chr, (0x1D7CE, 0x1D7D8, 0x1E140, 0x1E2F0, 0x1E4F0, 0x1E5F1, 0x1E950, 0x1FBF0)),
]
# Letters used as numbers, and other numbers: \p{N} but not \p{Nd}.
NUMBERS = [*"Ⅰⅷↂ〇〡ꛦ²³¹¼½¾৴௧௰፩①⑴⒈㈠㊀㋀", "\U00010140", "\U00010107", "\U0001f100", "\U0001ec71"]

CONTRACTIONS = sorted(
    {
        "".join(letters)
        for suffix in ("s", "t", "re", "ve", "m", "ll", "d", "ſ", "l", "r", "v", "ree", "lll")
        for letters in itertools.product(*({c, c.upper()} for c in suffix))
    }
)

# Marks (not letters): combining, spacing, enclosing, variation selector, astral.
MARKS = [*"\u0301\u0345\u0488\u0903\u093f\u094d\u0e31\u20dd\u20e3\ufe0f", "\U000e0100"]
# A letter of each kind: Lu Ll Lt Lm Lo; with and without a partner in the other case; astral.
LETTERS = [*"aZéÉßẞſıİĸŉǅǈʰˇªºאبअกあア中한ꙮＡｚᏣꭰΣςσ", "𝐀", "𐐀", "𐐨", "𠀀"]
EMOJI = ["🙂", "👍🏽", "👩\u200d💻", "🏳️\u200d🌈", "🇩🇪", "1️⃣", "☺\ufe0f", "🏴\U000e0067\U000e007f"]
PUNCTUATION = [*"!/\\'\"-_.,…—“”‘’¿؟、。$€+<|>^`~©№∑\u00ad\u200e\u202e\ue000\ufffd\uffff"]
SPECIALS = ["<|endoftext|>", "<|fim_prefix|>", "<|endofprompt|>", "<|start|>", "<|call|>"]
NEAR_SPECIALS = [
    *("<|endoftext|", "|endoftext|>", "<|endoftext>", "<|ENDOFTEXT|>", "<|end oftext|>", "<||>"),
    *("<<|endoftext|>>", "<|endof<|endoftext|>text|>", "<|<|endoftext|>|>", "<|endoftext|>|>"),
    *("<|endoftext|><|endoftext|>", " <|endoftext|> ", "\n<|endoftext|>\n", "it<|endoftext|>'s"),
    *("a <|endoftext|>b", "a  <|endoftext|>  b", "1<|endoftext|>2", "\u0301<|endoftext|>\u0301"),
    *("<|endofprompt|><|endoftext|>", "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>", "<|end|>"),
]
SURROGATES = [
    *("\ud83d", "\ude00", "\ud83d\ude00", "\ude00\ud83d", "a\ud800", "\udfffa", "a\ud83d b"),
    *("\ud83d\ud83d\ude00", "\ud83d\ude00\ude00", " \udc00 ", "\n\ud800\n", "'\udc73"),
    *("\ufffd\ud800", "\ufeff\ud800", "🙂\ud83d", "\ud83d🙂", "\udc80\udcff"),
    "<|endoftext|>\ud83d<|endoftext|>",
]


def _fill(value: str, *templates: str) -> Iterator[str]:
    """Each template with `value` in the place of @."""
    return (template.replace("@", value) for template in templates)


def _strings() -> Iterator[str]:
    yield ""
    yield from map(chr, range(256))
    for white in WHITESPACE + NOT_WHITESPACE:
        # Alone; at the start, between and at the end of words; in runs; next to line breaks: where
        # \s+(?!\S), \s*[\r\n]+ and "one space before a word" meet.
        yield from _fill(white, "@", "@@", "@@@", "@a", "a@", "a@b", "a@@b", "a @b", "a@ b", "@1")
        yield from _fill(white, "@\n", "\n@", "a@\n@b", "\n@a", "@\r\n@", "a@\n", "!@\n", "!@!")
        yield from _fill(white, "1@2", "@!", "@'s", "a@'s", "@\u0301", "@中@", "@@'s", "!@@/")
    for breaks in itertools.product(("\r", "\n", "\r\n", " ", "\t", "\x85"), repeat=3):
        yield from _fill("".join(breaks), "@", "a@", "@a", "a@b", "!@!", "a.@/@b")
    for suffix in CONTRACTIONS:
        for quote in ("'", "\u2019", "''", "' "):
            yield from _fill(quote + suffix, "@", "a@", "A@a", "it@ it@s", "@@", "a@@a")
        yield from _fill("'" + suffix, " @", "1@", "!@", "\n@", "中@", "a@\u0301", "@1", "@中")
    for zero in ZEROS:
        yield "".join(chr(ord(zero) + i) for i in range(10))
        yield from _fill(zero, " @", "a@a", "@\u0301@", "@1@1", "@@@@", "@ @", "@'s", "@.@")
    for number in NUMBERS:
        yield from _fill(number, "@", "@@@@", " @", "a@", "1@2", "@ a", "@\n")
    for mark, base in itertools.product(MARKS, [*LETTERS, " ", "\n", "1", "!", "'s", *EMOJI[:3]]):
        yield from _fill(mark, f"@{base}", f"{base}@", f" @{base}", f"{base}@{base}", f"@@{base}@")
    for a, b in itertools.product(LETTERS, repeat=2):  # case: HTTPServer, iOS, ǅungla, ΣΑΣ
        yield from (a + b, a + a + b, a + b + b + a, a + " " + b, a + "'s" + b)
    for sign in PUNCTUATION:
        yield from _fill(sign, "@", "@@@", " @", "@a", " @a", "a@a", "@\n\n@", "@/\n/a", "@ @")
        yield from _fill(sign, "@1@", "@\r\n ", "  @'s", "@ \n", "\t@")
    yield from EMOJI
    yield from map("".join, itertools.product(EMOJI, repeat=2))
    for special in SPECIALS + NEAR_SPECIALS:
        yield special[:-1]
        yield from _fill(special, "@", "a@b", " @", "@ ", "@@", "@\n", "'@s")
    yield from SURROGATES
    yield from (
        *("\ufffd", "a\ufffd", "\ufffd\ufffd a", "\ufeffa", "\x00\x00a", "\x85a", "\x85\n"),
        *("   a", "a   ", "a   b", " \n ", "\n \n", "a\n\n\nb", "a \n\n b", "\t\ta", " \u3000a"),
        *("1234567890", "1,234.56", "-1e-10", "0x1F", "1st", "３.１４", "x2y", "2²", "½a", "1 234"),
        *("HTTPServer", "iOSApp", "XMLHttpRequest", "McDonald'S", "DON'T", "don't", "y'all'd've"),
        *("//comment\n", "a//b", "://", "!=\n==", "\\r\\n", "{\n\t}\n", "/*\n */", "#!/bin/sh\n"),
        *("e\u0301", "é", "ﬁ", "ǆ", "Å", "각", "\u1112\u1161\u11ab", "ก็", "क्ष", "நி", "مَرْحَبًا"),
        *("a" * 20, " " * 20 + "a", "\n" * 20, "ab" * 600, "中文" * 400, "-" * 300, "9" * 300),
    )


STRINGS = list(dict.fromkeys(_strings()))

# Each is invalid in its own way: https://www.unicode.org/versions/Unicode16.0.0, table 3-7.
_INVALID = [
    *(b"\x80", b"\xbf", b"\xc0", b"\xc1", b"\xc2", b"\xf5", b"\xff", b"\xfe\xff", b"\xff\xfe"),
    *(b"\xc0\x80", b"\xc1\xbf", b"\xe0\x80\x80", b"\xe0\x9f\xbf", b"\xf0\x80\x80\x80"),  # overlong
    *(b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xed\xa0\xbd\xed\xb8\x80"),  # surrogates
    *(b"\xf4\x90\x80\x80", b"\xf7\xbf\xbf\xbf", b"\xf8\x88\x80\x80\x80"),  # beyond U+10FFFF
    *(b"\xe2", b"\xe2\x82", b"\xf0", b"\xf0\x9f", b"\xf0\x9f\x98", b"\xe0\xa0", b"\xed\x9f"),  # cut
    *(b"\xe2\x82\xe2\x82\xac", b"\xf0\x9f\x98\xf0\x9f\x98\x80", b"\xe2\xe2\xe2", b"\xf0\x90\xff"),
    *(b"\xe2\x82\xac\xac", b"\xc3\xa9\xa9", b"\xef\xbf", b"\xef\xbf\xbd\xbd", b"\xf4\x8f\xbf"),
]
_AROUND = [b"", b"a", b" ", b"\n", b"1", b"!", b"'s", "é".encode(), "中".encode(), "🙂".encode()]
BYTES = [
    *(bytes([byte]) for byte in range(256)),
    *(a + bad + b for bad in _INVALID for a in _AROUND for b in _AROUND),
    *(a + b for a in _INVALID for b in _INVALID),
    *(text[:cut] for text in ("a é中 ".encode(), " 🙂🙂".encode()) for cut in range(len(text))),
    *(text[cut:] for text in ("é文 a".encode(), "🙂🙂 ".encode()) for cut in range(len(text))),
    *(b"\xe2<|endoftext|>\x82\xac", b"\xf0\x9f<|endoftext|>", b"<|endof\xfftext|>", b"it'\xffs"),
]

# ── text from a seed ─────────────────────────────────────────────────────────────────────────

FRAGMENTS = [
    *WHITESPACE,
    *NOT_WHITESPACE[:8],
    *(" ", "  ", "   ", "\n", "\n\n", "\r\n", " \n", "\t\t", " \r", "\n ", "    "),
    *("'" + c for c in CONTRACTIONS),
    *("'", "\u2019", "' ", " '", "''"),
    *("a", "b", "the", "The", "THE", "Ing", "ER", "iOS", "Http", "zZ", "straße", "éa", "aÉ"),
    *ZEROS,
    *("1", "12", "123", "1234", "1,000", "3.14"),
    *NUMBERS,
    *MARKS,
    *LETTERS,
    *EMOJI,
    *PUNCTUATION,
    *("...", "!!", "//", "/\n", "-->", "==", "{}", "();", "##", "__"),
    *("中文", "ひらがな", "カタカナ", "한국어", "ไทย", "हिन्दी"),
    *("العربية", "עברית", "русский", "ελλάδα"),
    *SPECIALS,
    *NEAR_SPECIALS[:6],
    *("<|", "|>", "<", ">", "endof", "text"),
]

# Classes of code points, [first, end), in groups of one kind.
_CLASSES: list[list[tuple[int, int]]] = [
    [(0x61, 0x7B)],
    [(0x41, 0x5B)],
    [(0x30, 0x3A)],
    [(0x20, 0x21)],
    [(0x0A, 0x0B), (0x0D, 0x0E)],
    [(ord(w), ord(w) + 1) for w in WHITESPACE],
    [(0x21, 0x30), (0x3A, 0x41), (0x5B, 0x61), (0x7B, 0x7F)],
    [(0x27, 0x28)],
    [(ord(c), ord(c) + 1) for c in "sdmtlrvSDMTLRVeEſ"],
    [(0x00, 0x20), (0x7F, 0xA0)],
    [(0xA0, 0x250)],
    [(0x250, 0x300), (0x1D00, 0x1E00)],
    [(0x300, 0x370), (0x483, 0x48A), (0x20D0, 0x20F1), (0xFE00, 0xFE30)],
    [(0x370, 0x590), (0x10A0, 0x1100), (0x13A0, 0x1400), (0x1C80, 0x1CC0), (0x1E00, 0x2000)],
    [(0x590, 0x900)],
    [(0x900, 0x1100), (0x1780, 0x17FA)],
    [(0x2000, 0x2070), (0xFFF0, 0x10000)],
    [(0x2070, 0x2C00)],
    [(0x3000, 0x3400)],
    [(0x4E00, 0x9FFF)],
    [(0xAC00, 0xD7A4)],
    [(0xA640, 0xAC00), (0xFB00, 0xFE00), (0xFF00, 0xFFF0)],
    [(0x1F1E6, 0x1F200), (0x1F300, 0x1FB00), (0x200D, 0x200E)],
    [(ord(zero), ord(zero) + 10) for zero in ZEROS],
    [(ord(number), ord(number) + 1) for number in NUMBERS],
    [(0x10000, 0x20000)],
    [(0x20000, 0x323B0)],
    [(0xE0000, 0xE01F0)],
    [(0x0, 0xD800), (0xE000, 0x110000)],
]


def random_code_points(seed: int, size: int) -> list[str]:
    """Documents of at least `size` bytes in all: code points of every class, whose mixture
    changes from one block of documents to the next."""
    rng = np.random.default_rng(seed)
    pools = [np.concatenate([np.arange(a, b) for a, b in ranges]) for ranges in _CLASSES]
    lengths = np.array([len(pool) for pool in pools])
    starts = np.cumsum(lengths) - lengths
    every = np.concatenate(pools).astype("<u4")
    documents: list[str] = []
    while size > 0:
        # A small concentration makes a few classes dominate: long runs, and all their borders.
        weights = rng.dirichlet(np.full(len(pools), 0.2))
        chosen = rng.choice(len(pools), size=20_000, p=weights)
        points = every[starts[chosen] + (rng.random(20_000) * lengths[chosen]).astype(np.int64)]
        text = points.tobytes().decode("utf-32-le")
        size -= len(text.encode())
        documents += _cut(rng, text)
    return documents


def random_bytes(seed: int, size: int) -> list[bytes]:
    """Documents of at least `size` bytes in all: uniform bytes, and bytes of which most are parts
    of characters of two, three and four bytes, so that sequences begin well and break late."""
    rng = np.random.default_rng(seed)
    parts = np.array(
        [*range(0x20, 0x7F, 6), *range(0x80, 0x100), *b"\xe2\xe4\xf0\xed\xf4" * 9],
        dtype=np.uint8,
    )
    documents: list[bytes] = []
    while size > 0:
        documents += _cut(rng, rng.bytes(20_000))
        documents += _cut(rng, rng.choice(parts, size=20_000).tobytes())
        size -= 40_000
    return documents


def joined_fragments(seed: int, size: int) -> list[str]:
    """Documents of at least `size` bytes in all, made of FRAGMENTS, some drawn far more often."""
    rng = np.random.default_rng(seed)
    documents: list[str] = []
    while size > 0:
        weights = rng.dirichlet(np.full(len(FRAGMENTS), 0.05))
        chosen = rng.choice(len(FRAGMENTS), size=10_000, p=weights)
        text = "".join(FRAGMENTS[i] for i in chosen)
        size -= len(text.encode())
        documents += _cut(rng, text)
    return documents


def _cut(rng: np.random.Generator, text: AnyStr) -> Iterator[AnyStr]:
    start = 0
    while start < len(text):
        end = start + int(rng.integers(1, 40) if rng.random() < 0.8 else rng.integers(40, 3000))
        yield text[start:end]
        start = end
