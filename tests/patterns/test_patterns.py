"""Patterns → matches: the compiler and the general engine against tiktoken and Python's `regex`.

FACTS has a row per construct, checked against both libraries. ERRORS has every message.

Tests of patterns/parse.py, patterns/program.py and patterns/unicode.py.
"""

from __future__ import annotations

import contextlib
from random import Random

import hard_inputs
import pytest
import regex
import tiktoken
from conftest import SEED, examples, sample
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tokenmill import _native
from tokenmill.errors import PatternError, TokenmillError
from tokenmill.patterns import compile_pattern, unicode


def matches(pattern: str, text: str) -> list[str]:
    """Ours; no text at all is lost or matched twice."""
    data = text.encode()
    spans = _native.split(compile_pattern(pattern), data)
    ends = [0, *(end for _, end in spans)]
    assert all(end <= start < stop for end, (start, stop) in zip(ends, spans, strict=False))
    return [data[start:end].decode() for start, end in spans]


def tiktoken_matches(pattern: str, text: str) -> list[str] | None:
    """Return tiktoken's matches that are not empty, or None if it rejects the pattern.

    Every part of the text is a token of its own, so the ids of a text are its matches.
    """
    data = text.encode()
    parts = {data[i:j] for i in range(len(data)) for j in range(i, len(data) + 1)}
    parts |= {bytes([byte]) for byte in range(256)} | {b""}
    ids = {part: index for index, part in enumerate(sorted(parts))}
    try:
        encoding = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=ids, special_tokens={})
    except ValueError:
        return None
    found = sorted(parts)
    return [found[i].decode() for i in encoding.encode_ordinary(text) if found[i]]


def regex_matches(pattern: str, text: str) -> list[str] | None:
    """Return the matches of `regex`. After an empty match, advance one character."""
    try:
        compiled = regex.compile(pattern, regex.V1)
    except regex.error:
        return None
    found, at = [], 0
    while at < len(text):
        match = compiled.match(text, at, timeout=2)
        if match is None or match.end() == at:
            at += 1
        else:
            found.append(match.group())
            at = match.end()
    return found


# Pattern, text, matches, and which of the two say so.
FACTS = [
    (r"a{", "a{", ["a{"], "tr"),
    (r"{a}", "{a}", ["{a}"], "tr"),
    (r"a{,2}", "aaa", ["aa", "a"], "tr"),
    (r"a{2,}", "aaab", ["aaa"], "tr"),
    (r"a{1,2}+a|a", "aab", ["a", "a"], "tr"),
    (r"a{2}+a|a", "aaa", ["aaa"], "tr"),
    (r"a{2}?", "aaa", ["aa"], "tr"),
    (r"a++a|a", "aa", ["a", "a"], "tr"),
    (r"a*?b", "aab", ["aab"], "tr"),
    (r"]}", "]}", ["]}"], "tr"),
    (r"(?>a|ab)c", "abcac", ["ac"], "tr"),
    (r"(a)(?P<n>b)(?<m>c)", "abc", ["abc"], "tr"),
    (r"(?'n'a)", "a", ["a"], "t"),
    (r"a(?#note)+", "aa", ["aa"], "tr"),
    (r"", "ab", [], "tr"),
    (r"a|", "ba", ["a"], "tr"),
    (r"a*|b", "baac", ["aa"], "tr"),
    (r"x*(?=b)|.", "abxxb", ["a", "xx"], "tr"),
    # Anchors: $ is the very end in tiktoken, and also before a last newline in regex.
    (r"a$|\n$", "a\na\n", ["\n"], "t"),
    (r"a\z", "a\na", ["a"], "t"),
    (r"a\Z", "a\n\n", ["a"], "t"),
    (r"a\Z", "a\r\n", [], "tr"),
    (r"\A.", "ab", ["a"], "tr"),
    (r"^.", "a\nb", ["a"], "tr"),
    (r"(?m)^.", "a\nb", ["a", "b"], "tr"),
    (r"(?m).$", "a\r\nb", ["\r", "b"], "tr"),
    (r"\b.", "ab c", ["a", " ", "c"], "tr"),
    (r"\B.", "abc", ["b", "c"], "tr"),
    # Characters
    (r".", "a\r\n\x85\u2028", ["a", "\r", "\x85", "\u2028"], "tr"),
    (r"(?s).", "a\n", ["a", "\n"], "tr"),
    (r"\r\n\t\f\v\a", "\r\n\t\f\v\a", ["\r\n\t\f\v\a"], "tr"),
    (r"\e\x{41}\u{42}\U{43}", "\x1bABC", ["\x1bABC"], "t"),
    (r"\x41\u0042\U00000043", "ABC", ["ABC"], "tr"),
    (r"\0", "\0", ["\0"], "r"),
    (r"\-\ \#\'\"\`\_\/\é", "- #'\"`_/é", ["- #'\"`_/é"], "tr"),
    (r"\R", "\r\n\n\x0b\x85\u2029", ["\r\n", "\n", "\x0b", "\x85", "\u2029"], "tr"),
    (r"\R\n", "\r\n", [], "tr"),
    (r"\s", " \x1c\u200b\u3000\x85", [" ", "\u3000", "\x85"], "tr"),
    (r"\d", "1²٣", ["1", "٣"], "tr"),
    (r"\w", "a_\u0301\u200d\u203f-", ["a", "_", "\u0301", "\u200d", "\u203f"], "tr"),
    (r"\p{L}\PL\p{^L}\P{^L}", "a12b", ["a12b"], "tr"),
    (r"\p{gc=Lu}\p{gc:Ll}\p{isL}", "Aaa", ["Aaa"], "t"),
    (r"\p{Script=Han}\p{Greek}\p{scx=Hira}", "漢αー", ["漢αー"], "tr"),
    (r"\p{White_Space}\p{ Alphabetic }\p{emoji}", " a😀", [" a😀"], "tr"),
    (r"\p{Any}\p{ASCII}\p{Assigned}", "\n\na", ["\n\na"], "tr"),
    (r"\p{LC}", "aʰ", ["a"], "tr"),
    # Sets
    (r"[]a]+[^]a]", "]a^", ["]a^"], "tr"),
    (r"[a-c-e-]+", "a-ed", ["a-e"], "tr"),
    (r"[-a][\w-]", "-b", ["-b"], "tr"),
    (r"[a^$.|*\]\\]+", "a^$.|*]\\", ["a^$.|*]\\"], "tr"),
    (r"[\b\d\s\p{L}]+", "\b1 a", ["\b1 a"], "tr"),
    (r"[\<\>]", "<", ["<"], "tr"),
    (r"[a[bc]][^a[bc]]", "cd", ["cd"], "tr"),
    (r"[\w&&[^\d]]+", "a1b", ["a", "b"], "tr"),
    (r"[a-z--bc]+", "abcd", ["a", "d"], "tr"),
    (r"[a-c~~b-d]+", "abcd", ["a", "d"], "tr"),
    (r"[^a&&b]", "abc", ["a", "b", "c"], "tr"),
    (r"[a&b~c|]+", "a&b~c|", ["a&b~c|"], "tr"),
    (r"[[:digit:][:^ascii:]]+", "1é²a", ["1é²"], "tr"),
    ("(?x) a b # no\n [ #]", "ab #", ["ab "], "tr"),
    # Letter case: simple folding, also in sets. Turkish letters differ in regex.
    (r"(?i)sk", "SKſK", ["SK", "ſK"], "tr"),
    (r"(?i)[k-l][^k]", "KkKa", ["Ka"], "tr"),
    (r"(?i:å)σ", "Åσ\u212bσÅΣ", ["Åσ", "\u212bσ"], "tr"),
    (r"(?i)ß", "ẞss", ["ẞ"], "t"),
    (r"(?i)i", "Iİı", ["I"], "t"),
    (r"b(?i)a|c(?-i)d", "bABAcDCd", ["bA", "Cd"], "tr"),
    (r"(?i)\w\s\d(?-i:\p{L})", "a 1a", ["a 1a"], "tr"),
    # Look-arounds
    (r"(?<=a|bc)d", "adbcd", ["d", "d"], "tr"),
    (r"(?<!a{1,3})b", "abb", ["b"], "tr"),
    (r"(?<=^a)b", "abab", ["b"], "tr"),
    (r"(?<=(?<!b)a)c", "bacac", ["c"], "tr"),
    (r"a(?!b)(?=c)|.(?!)", "acab", ["a"], "tr"),
    # Loops over items that can match empty text
    (r"(?:a?b?)*c", "abbac", ["abbac"], "tr"),
    (r"(?:a|\b)+", "aab", ["aa"], "tr"),
    (r"(?:a*)*+b|.", "aab", ["aab"], "tr"),
    (r"(?:a?){2,3}b", "aaab", ["aaab"], "tr"),
]


@pytest.mark.parametrize(
    ("pattern", "text", "expected", "peers"), FACTS, ids=lambda x: ascii(x)[:40]
)
def test_constructs_match_as_in_both_dialects(pattern, text, expected, peers):
    assert matches(pattern, text) == expected
    assert (tiktoken_matches(pattern, text) == expected) == ("t" in peers)
    assert (regex_matches(pattern, text) == expected) == ("r" in peers)


ERRORS = [
    ("a)", 1, "this ')' does not close a group"),
    ("(a", 0, "this group is not closed"),
    ("(?#a", 0, "this comment is not closed"),
    ("(?x)\u2003", 4, "whitespace beyond ASCII under (?x)"),
    ("a|*", 2, "the quantifier '*' does not follow an item"),
    ("{2}", 0, "the quantifier '{' does not follow an item"),
    ("(?x)a{ 2}", 5, "a '{' that is not a quantifier under (?x)"),
    ("(" * 33 + ")" * 33, 32, "groups are nested more than 32 deep"),
    ("(*FAIL)", 0, "backtracking verbs are not supported"),
    ("a(?P=n)", 1, "the group '(?P='… is not supported"),
    ("(?(1)a)", 0, "the group '(?(1'… is not supported"),
    ("(?R)", 0, "the group '(?R)'… is not supported"),
    ("(?|a)", 0, "the group '(?|a'… is not supported"),
    ("(?a)b", 0, "the group '(?a)'… is not supported"),
    ("(?i-i:a)", 0, "the flags 'i-i:' are set and cleared"),
    ("(a(?i)b)", 2, "the flags (?i) inside of a group"),
    (r"\b+", 2, "the quantifier follows '\\\\b', which is always empty"),
    ("^*", 1, "the quantifier follows '^', which is always empty"),
    ("a**", 2, "a quantifier follows a quantifier"),
    ("a{2}{3}", 4, "a quantifier follows a quantifier"),
    ("a{1001}", 1, "the quantifier {1001} exceeds the limit of 1,000"),
    ("a{2,1}", 1, "the quantifier {2,1} has its bounds reversed"),
    (r"(a)\1", 3, r"the back-reference \1"),
    (r"\b{start}", 0, r"\b{…} is not supported"),
    ("\ud800", 0, "U+D800 is not a character"),
    (r"\x{110000}", 0, "U+110000 is not a character"),
    ("a\\", 1, "the pattern ends in a backslash"),
    (r"\01", 0, "octal escapes are not supported"),
    (r"\xA", 0, r"the escape \x is incomplete"),
    (r"\p", 0, "a property without a name"),
    (r"\p{InGreek}", 0, r"the property \p{InGreek} is unknown"),
    (r"\p{L&}", 0, r"the property \p{L&} is unknown"),
    (r"\p{VS}", 0, r"the property \p{VS} is unknown"),
    (r"\p{sc=Lu}", 0, r"the property \p{sc=Lu} is unknown"),
    (r"(?i)\p{L}", 4, r"the property \p{L} under (?i)"),
    ("[" * 33 + "a", 32, "sets are nested more than 32 deep"),
    ("[a", 0, "this set is not closed"),
    ("[a-", 3, "this set is not closed"),
    ("[a&&b--c]", 5, "the operators && and -- in one set"),
    ("[a&&-b]", 4, "a '-' after ']' or an operator"),
    ("[]-^]", 1, "a '-' after ']' or an operator"),
    ("[--a]", 1, "a set operator without an operand"),
    ("[a||b]", 2, "'||' in a set"),
    (r"[\w-a]", 3, "a '-' after a set or class"),
    ("[a-[b]]", 1, "a '-' before a nested set"),
    (r"[a-\w]", 1, "a range that ends in a class"),
    ("[b-a]", 1, "the range b-a is reversed"),
    (r"[\z]", 1, r"the escape \z in a set"),
    ("[[:alpha:]]", 1, "the POSIX class [:alpha:]"),
    ("(?i)[[:ascii:]]", 5, "the POSIX class [:ascii:] under (?i)"),
    ("a" * 20_001, 20_000, "the pattern has 20,001 characters"),
    (r"\w" * 999, 502, "the sets up to here need more than 200,000 ranges"),
    ("(?:ab){900}" * 9, 0, "the pattern needs more than 500 instructions"),
    ("(?:(?:){1000}){1000}", 0, "the pattern needs more than 500 instructions"),
    ("".join(map(chr, range(0x4E00, 0x5300))), 0, "the pattern needs more than 300 different"),
    ("(?:|a)*", 6, "this quantifier repeats an item that prefers the empty match"),
    ("(?:" + "a?" * 101 + ")*", 0, "a loop over more than 100 items that can all match empty text"),
    ("(?<=a+)b", 0, "this look-behind can be arbitrarily long"),
    ("(?<=a{256})b", 0, "this look-behind can be 256 characters long"),
    ("(?<=(?>a))b", 0, "this look-behind contains an atomic group"),
    (r"(?<=\ba?)b", 0, "this look-behind contains an atomic group"),
    *(
        (rf"\{escape}", 0, rf"the escape \{escape} is not supported")
        for escape in "KGXhHNOkgQEcL<>y"
    ),
]


@pytest.mark.parametrize(("pattern", "position", "message"), ERRORS, ids=lambda x: ascii(x)[:40])
def test_errors_name_construct_position_and_replacement(pattern, position, message):
    with pytest.raises(PatternError) as caught:
        compile_pattern(pattern)
    text = str(caught.value)
    assert text.startswith(f"pattern, position {position}: {message}")
    assert "; " in text
    assert isinstance(caught.value, TokenmillError)
    assert isinstance(caught.value, ValueError)


def test_deep_call_stack_compiles_or_raises_an_error():
    def descend(depth: int) -> bytes:
        return descend(depth - 1) if depth else compile_pattern("(?:" * 31 + "a" + ")?b" * 31)

    for depth in range(500, 960, 20):
        try:
            descend(depth)
        except PatternError as error:
            assert "nested too deep" in str(error)
        except RecursionError:
            break  # the call stack of the test itself


# ── Unicode ──────────────────────────────────────────────────────────────────────────────────


def test_properties_equal_regex():
    data = unicode._data()
    names = {
        rf"\p{{{prefix}{name}}}": unicode.valued(prefix[:-1], name)
        if prefix
        else unicode.named(name)
        for prop, prefix in (
            ("category", ""),
            ("script", ""),
            ("script", "sc="),
            ("script_extensions", "scx="),
            ("binary", ""),
        )
        for *aliases, _ in data[prop]
        for name in aliases
    }
    names |= {rf"\p{{{name}}}": unicode.named(name) for name in ("L", "M", "N", "P", "S", "Z", "C")}
    names |= {r"\d": unicode.known("digit"), r"\s": unicode.known("space"), r"\w": unicode.word()}
    # Where any of them begins or ends is where a mistake would be.
    edges = {
        edge - back for members in names.values() for edge in members.bounds for back in (0, 1)
    }
    edges -= {-1, 0x110000, *range(0xD800, 0xE000)}
    text = "".join(map(chr, sorted(edges)))
    assert len(names) > 700
    for name, members in sample(list(names.items())):
        ours = [char for char in text if ord(char) in members]
        assert regex.findall(name, text) == ours, name


def test_letter_case_equals_tiktoken():
    cased, orbits = unicode._orbits()
    text = "".join(map(chr, cased))
    ranks = {bytes([byte]): byte for byte in range(256)}
    for code_point in [*sample(cased[::5]), *map(ord, "SKÅßς\u0345İı")]:
        orbit = orbits.get(code_point, [code_point])
        members = unicode.CodePoints((code_point, code_point + 1)).folded()
        assert members == unicode.CodePoints.of((each, each) for each in orbit)
        pattern = rf"(?i:\x{{{code_point:x}}})"
        theirs = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
        found = bytes(theirs.encode_ordinary(text)).decode()
        assert found == "".join(char for char in text if ord(char) in members)


# ── Random patterns ──────────────────────────────────────────────────────────────────────────

CLASSES = r". \s \S \w \W \d [ab] [^a] \p{L} \P{L} [a-cé] [\w--b] [\w&&[^a]] \p{Lu} \R"
chars = st.sampled_from([*"abcA1é", r"\ ", r"\n", *CLASSES.split()])
edges = st.sampled_from(["^", "$", r"\b", r"\B", r"\A", r"\z"])
counts = st.sampled_from(["?", "*", "+", "{2}", "{1,2}", "{0,2}", "{2,}"])
words = st.lists(chars.filter(lambda char: char != r"\R"), min_size=1, max_size=3).map("".join)
bounded = st.lists(words, min_size=1, max_size=2)


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    modes = st.sampled_from(["", "", "?", "+"])
    return st.one_of(
        st.lists(inner, min_size=2, max_size=3).map("".join),
        st.lists(inner | st.just(""), min_size=2, max_size=3).map("|".join).map("(?:{})".format),
        st.builds("(?:{}){}{}".format, inner, counts, modes),
        st.builds("{}{}{}".format, chars, counts, modes),
        st.builds("(?{}{})".format, st.sampled_from(["=", "!", ">"]), inner),
        st.builds("(?<{}{})".format, st.sampled_from("=!"), bounded.map("|".join)),
        edges,
    )


trees = st.recursive(chars, larger, max_leaves=8)
patterns = st.lists(trees, min_size=1, max_size=3).map("|".join)
texts = st.text("aaabbc A1\n\né漢ſk", max_size=9)


def compiles(pattern: str) -> None:
    try:
        compile_pattern(pattern)
    except PatternError:
        reject()


def regex_form(pattern: str) -> str:
    return pattern.replace("$", r"\Z").replace(r"\z", r"\Z")


@settings(max_examples=examples(400))
@given(patterns, texts, st.sampled_from(["", "", "", "(?s)", "(?m)", "(?i)"]))
def test_random_patterns_match_as_in_tiktoken_and_regex(pattern, text, flags):
    if flags == "(?i)" and ("--" in pattern or "&&" in pattern or "p{L" in pattern):
        flags = ""  # regex 2025.9.18 forgets set operators under (?i) inside of a choice
    compiles(flags + pattern)
    ours = matches(flags + pattern, text)
    theirs = tiktoken_matches(flags + pattern, text)
    assert theirs is None or ours == theirs
    if flags != "(?m)" or "$" not in pattern:
        theirs = regex_matches(flags + regex_form(pattern), text)
        assert theirs is None or ours == theirs


@settings(max_examples=examples(150))
@given(patterns, st.text("ab A1\né", min_size=1, max_size=4), st.integers(50, 120), texts)
def test_long_attempts_match_as_in_regex(pattern, unit, count, end):
    compiles(pattern)
    text = unit * count + end
    ours = matches(pattern, text)
    try:
        assert ours == regex_matches(regex_form(pattern), text)
    except TimeoutError:
        reject()


@settings(max_examples=examples(200))
@given(
    patterns,
    st.lists(
        st.sampled_from(
            [
                b"a",
                b"b",
                b" ",
                b"\n",
                b"\xe6\xbc\xa2",
                b"\xe6\xbc",
                b"\xff",
                b"\xf0\x9f",
                b"\x80",
                b"\xed\xa0",
            ]
        )
    ),
)
def test_invalid_sequences_are_one_character_each(pattern, parts):
    compiles(pattern)
    data = b"".join(parts)
    text = data.decode("utf-8", "replace")
    # Offsets of the characters of both: an invalid sequence has the length that is left over.
    offsets = [len(data) - len(data[i:]) for i in range(len(data) + 1)]
    starts, at = [0], 0
    for index in range(len(text)):
        rest = text[index + 1 :]
        at = next(i for i in offsets if i > at and data[i:].decode("utf-8", "replace") == rest)
        starts.append(at)
    places = [len(text[:index].encode()) for index in range(len(text) + 1)]
    program = compile_pattern(pattern)
    ours = [(starts.index(i), starts.index(j)) for i, j in _native.split(program, data)]
    assert ours == [(places.index(i), places.index(j)) for i, j in _native.split(program, text)]


# ── Real patterns ────────────────────────────────────────────────────────────────────────────

GPT_2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CASED = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K_ENDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K_WORD = r"[^\r\n\p{L}\p{N}]?" + f"{CASED[0]}*{CASED[1]}+", f"{CASED[0]}+{CASED[1]}*"
O200K_REST = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
REAL = {
    "gpt-2": GPT_2,
    "r50k": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
    "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    "llama-3": LLAMA_3,
    "qwen-2": LLAMA_3.replace(r"\p{N}{1,3}", r"\p{N}"),
    "o200k": f"{O200K_WORD[0]}{O200K_ENDS}|[^\\r\\n\\p{{L}}\\p{{N}}]?{O200K_WORD[1]}{O200K_ENDS}"
    r"|\p{N}{1,3}|" + O200K_REST,
    "tekken": f"{O200K_WORD[0]}|[^\\r\\n\\p{{L}}\\p{{N}}]?{O200K_WORD[1]}"
    + r"|\p{N}|"
    + O200K_REST,
    "digits": r"\p{N}",
    "deepseek-v3 numbers": r"\p{N}{1,3}",
    "deepseek-v3 kanji": r"[一-龥぀-ゟ゠-ヿ]+",
    "deepseek-v3 words": r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "falcon punctuation": r"[\p{P}\$\+<=>\^~\|`]+",
    "falcon digits": r"[0-9][0-9][0-9]",
    "bloom": r" ?[^(\s|[.,!?…。，、।۔،])]+",
    "words": r"\w+|[^\w\s]+",
    "thousands": r"\d{1,3}(?=(?:\d{3})*\b)|\D+",
}


@pytest.mark.parametrize("name", REAL)
def test_real_patterns_match_as_in_tiktoken_and_regex(name):
    random = Random(SEED)
    strings = [text for text in hard_inputs.STRINGS if text.isprintable() or text.isascii()]
    everything = "".join(random.sample(strings, examples(len(strings))))
    for text in (everything, *random.sample(strings, examples(200))):
        theirs = regex_matches(REAL[name].replace("$|", r"\Z|"), text)
        assert matches(REAL[name], text) == theirs, ascii(text[:80])
    short = [text for text in strings if len(text) <= 40]
    for text in random.sample(short, max(5, examples(30))):
        assert matches(REAL[name], text) == tiktoken_matches(REAL[name], text), ascii(text)


# ── Time ─────────────────────────────────────────────────────────────────────────────────────

# Each of these takes an ordinary backtracking engine quadratic or exponential time. The step
# counts are tested in core/pattern/matcher.zig; here, anything but linear would not come back.
SLOW = [
    (r"a*b|a", "a"),
    (r"(?:a|b)*c|a", "ab"),
    (r"(a|aa)+$|.", "a"),
    (r"(?:a|aa)+b|.", "a"),
    (r"(?:a+)+b|a", "a"),
    (r"(?:a*)*b|a", "a"),
    (r"a*a*a*a*a*b|a", "a"),
    (r"\s+$|\s", " x"),
    (r".*?x|.", "ab"),
    (r"a(?=a*b)|a", "a"),
    (r"(?=(?=(?=a*b)a*b)a*b)a|a", "a"),
    (r"(?:(?=a*b)a)*c|a", "a"),
    (r"(?>(?:ab|c)*d)e|.", "ab"),
    (r"(?:[ab]*c|.)*d|.", "ab"),
    (r"(?:a*x)*b|.", "a" * 99 + "x"),
    (r"(?:a(?<=a{1,9}))*b|a", "a"),
]


@pytest.mark.parametrize(("pattern", "unit"), SLOW)
def test_time_is_linear_in_the_text(pattern, unit):
    text = unit * (100_000 // len(unit))
    spans = _native.split(compile_pattern(pattern), text)
    assert len(spans) in (
        1,
        len(text.rstrip()),
        len(text.replace("x", "")),
        len(text) // 2,
        len(text),
    )


@pytest.mark.parametrize("pattern", [
    "(?:" * 30 + "a" + "b?)*" * 30,
    "(?:" * 28 + "a" + "b?+)?+" * 28 + "(?:c?)*",
    "(?:(?:(?:(?:a{999}){999}){999}){999}){999}",
    "(?i)[" + "&&".join(["!-\U0001ffff"] * 3000) + "]",
    "[" + "&&".join([r"\w"] * 4000) + "]",
    "|".join(f"{number:04}" for number in range(3900)),
    "a*" * 9_000 + "b",
])  # fmt: skip
def test_hostile_patterns_compile_or_fail_quickly(pattern):
    with contextlib.suppress(PatternError):
        _native.split(compile_pattern(pattern), b"aaab")
