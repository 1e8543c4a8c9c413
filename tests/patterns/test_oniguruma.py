"""Patterns in Oniguruma's dialect → matches: the compiler compared with Hugging Face tokenizers.

FACTS has one row per construct, checked against tokenizers 0.23.3. REFUSED has the constructs that
the engine does not support, with their messages.
"""

from __future__ import annotations

from random import Random

import hard_inputs
import pytest
import tokenizers
from conftest import SEED, examples, sample
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from test_patterns import REAL
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

from tokenmill import _native
from tokenmill.errors import PatternError
from tokenmill.patterns import compile_pattern, unicode
from tokenmill.patterns.schemes import PATTERNS


def matches(pattern: str, text: str) -> list[str]:
    data = text.encode()
    spans = _native.split(compile_pattern(pattern, "oniguruma"), data)
    return [data[start:end].decode() for start, end in spans]


def their_matches(pattern: str, text: str) -> list[str] | None:
    """Return the matches of Hugging Face's Split that are not empty, or None on an error."""
    try:
        split = Split(Regex(pattern), "removed", invert=True)
    except Exception:
        return None
    return [piece for piece, _ in split.pre_tokenize_str(text)]


FACTS = [
    (r"a{", "a{", ["a{"]),
    (r"{a}", "{a}", ["{a}"]),
    (r"a{,2}", "aaa", ["aa", "a"]),
    (r"a{,}", "aa{,}", ["a{,}"]),
    (r"a{2}?", "aaa", ["aa"]),
    (r"a{2}??b|.", "aab", ["aab"]),
    (r"a{1,2}?", "aaa", ["a", "a", "a"]),
    (r"a{1,2}+", "aaa", ["aaa"]),
    (r"a{1,2}+a", "aaa", ["aaa"]),
    (r"a{2}+", "aaaaa", ["aaaa"]),
    (r"a{1,2}++a|b", "aaab", ["b"]),
    (r"a{1}{2}", "aaaa", ["aa", "aa"]),
    (r"a++a|a", "aa", ["a", "a"]),
    (r"a*+a|a", "aa", ["a", "a"]),
    (r"a?+a|b", "ab", ["b"]),
    (r"a**", "aab", ["aa"]),
    (r"a+*b", "aab", ["aab"]),
    (r"a+??b", "aab", ["aab"]),
    (r"(?<n>b)(?'m'c)(d)", "bcd", ["bcd"]),
    (r"a(?#note)+", "aa", ["aa"]),
    (r"", "ab", []),
    (r"a|", "ba", ["a"]),
    (r"a*", "baab", ["aa"]),
    # Anchors
    (r"^.", "a\nb\n", ["a", "b"]),
    (r".$", "a\nb\n", ["a", "b"]),
    (r"\n^.|\n^", "a\nb\n", ["\nb"]),
    (r"\n$", "a\n", ["\n"]),
    (r".\Z|\n", "a\nb\n", ["\n", "b", "\n"]),
    (r".\Z", "b\n\n", []),
    (r".\z", "a\nb", ["b"]),
    (r"\A.", "a\nb", ["a"]),
    (r"\b.", "ab c½", ["a", " ", "c"]),
    (r"\B.", "abc", ["b", "c"]),
    # Characters
    (r".", "a\r\n\x85\u2028", ["a", "\r", "\x85", "\u2028"]),
    (r"(?m).", "a\n", ["a", "\n"]),
    (r"(?m:.)(?-m:.)", "\na\n", ["\na"]),
    (r"\N\O", "a\n", ["a\n"]),
    (r"\h\H", "fg", ["fg"]),
    (r"[\h][\H]", "fg", ["fg"]),
    (r"\R", "\r\n\n\x0b\x85\u2029", ["\r\n", "\n", "\x0b", "\x85", "\u2029"]),
    (r"\R\n", "\r\n", []),
    (r"\x41\u0042\x{43}", "ABC", ["ABC"]),
    (r"\r\n\t\f\v\a\e\0", "\r\n\t\f\v\a\x1b\0", ["\r\n\t\f\v\a\x1b\0"]),
    (r"\-\ \#\'\"\`\_\/\é\<\>", "- #'\"`_/é<>", ["- #'\"`_/é<>"]),
    (r"\s", " \x1c\u200b\u3000\x85", [" ", "\u3000", "\x85"]),
    (r"\d", "1²٣", ["1", "٣"]),
    (r"\w", "a_\u0301\u200d\u203f-²", ["a", "_", "\u0301", "\u203f", "²"]),
    (r"[\w]", "a\u200d²", ["a"]),
    (r"\W", "a\u200d²", ["\u200d"]),
    (r"[\W]", "a\u200d²", ["\u200d", "²"]),
    (r"\p{L}\p{^L}\P{^L}\P{L}", "a1b2", ["a1b2"]),
    (r"\p{ Han }\p{greek}\p{White_Space}", "漢α ", ["漢α "]),
    # Sets
    (r"[]a]+[^]a]", "]a^", ["]a^"]),
    (r"[a-c-e-]+", "a-ed", ["a-e"]),
    (r"[-a][\w-]", "-b", ["-b"]),
    (r"[a^$.|*\]\\]+", "a^$.|*]\\", ["a^$.|*]\\"]),
    (r"[\b\d\s\p{L}]+", "\b1 a", ["\b1 a"]),
    (r"[a[bc]][^a[bc]]", "cd", ["cd"]),
    (r"[\w&&[^\d]]+", "a1b", ["a", "b"]),
    (r"[^a&&b]", "abc", ["a", "b", "c"]),
    (r"[a-z&&b-d&&c]", "abcd", ["c"]),
    (r"[a&b~~c||]+", "a&b~c|", ["a&b~c|"]),
    (r"[[:alpha:]][[:^alpha:]]", "é1", ["é1"]),
    ("(?x) a b # no\n [ #]", "ab #", ["ab "]),
    # Letter case
    (r"(?i)sk", "SKſK", ["SK", "ſK"]),
    (r"(?i:'s|'t)", "'S'ſ'T", ["'S", "'ſ", "'T"]),
    (r"(?i)[k-l][^k]", "KkKa", ["Ka"]),
    (r"(?i)s\w*t", "SxT", ["SxT"]),
    # Look-arounds
    (r"(?<=a|bc)d", "adbcd", ["d", "d"]),
    (r"(?<!a{1,3})b", "abb", ["b"]),
    (r"(?<=^a)b", "abab\nab", ["b", "b"]),
    (r"a(?!b)(?=c)|.(?!)", "acab", ["a"]),
    # Loops over items that can match empty text
    (r"(?:a?b?)*c", "abbac", ["abbac"]),
    (r"(?:a*)*+b|.", "aab", ["aab"]),
    (r"(?:a?){2,3}b", "aaab", ["aaab"]),
]


@pytest.mark.parametrize(("pattern", "text", "expected"), FACTS, ids=lambda x: ascii(x)[:40])
def test_constructs_match_as_in_hugging_face(pattern, text, expected):
    assert their_matches(pattern, text) == expected
    assert matches(pattern, text) == expected


REFUSED = [
    ("(?s).", 0, "the group '(?s)'… is not supported"),
    ("(?u).", 0, "the group '(?u)'… is not supported"),
    ("(?W).", 0, "the group '(?W)'… is not supported"),
    ("(?P<n>b)", 0, "the group '(?P<'… is not supported"),
    ("(?~ab)", 0, "the group '(?~a'… is not supported"),
    ("a(?i)b|c", 1, "the flags (?i) after the start of the pattern"),
    (r"a(?#no\)te)", 1, "a backslash in a comment"),
    ("a??+", 3, "this quantifier repeats an item that prefers the empty match"),
    ("a{2,1}", 1, "the quantifier {2,1} has its bounds reversed"),
    (r"(a)\1", 3, r"the back-reference \1"),
    (r"\xe9", 0, r"the escape \x is incomplete, or a byte beyond ASCII"),
    (r"\u{41}", 0, r"the escape \u is incomplete, or a byte beyond ASCII"),
    (r"\101", 0, r"the back-reference \1"),
    (r"\pL", 0, "a property without braces"),
    (r"\p{gc=L}", 0, r"the property \p{gc=L} is unknown"),
    (r"\p{IsL}", 0, r"the property \p{IsL} is unknown"),
    (r"\p{Bidi_M}", 0, r"the property \p{Bidi_M} is unknown"),
    (r"\p{Word}", 0, r"the property \p{Word} is unknown"),
    ("[[:graph:]]", 1, "the POSIX class [:graph:]"),
    ("[a--b]", 2, "'--' in a set"),
    (r"[\w-a]", 3, "a '-' after a set or class"),
    ("(?i)ss", 5, "'ss' under (?i)"),
    ("(?i)(?:s)t", 9, "'st' under (?i)"),
    ("(?i)s+", 5, "'ss' under (?i)"),
    ("(?i)ß", 4, "'ß' under (?i)"),
    (r"(?i)[\w]", 4, r"'[\\w]' under (?i)"),
    ("(?i)[a[b]]", 6, "a set in a set under (?i)"),
    ("(?i)[a&&b]", 4, "'&&' in a set under (?i)"),
    (r"(?i)\p{Lu}", 4, r"the property \p{Lu} under (?i)"),
    ("(?<=a+)b", 0, "this look-behind can be arbitrarily long"),
    *((rf"\{escape}", 0, rf"the escape \{escape} is not supported") for escape in "KGXyYUMCocQEL"),
]


@pytest.mark.parametrize(("pattern", "position", "message"), REFUSED, ids=lambda x: ascii(x)[:40])
def test_errors_name_construct_position_and_replacement(pattern, position, message):
    with pytest.raises(PatternError) as caught:
        compile_pattern(pattern, "oniguruma")
    assert str(caught.value).startswith(f"pattern, position {position}: {message}")
    assert "; " in str(caught.value)


# ── Unicode ──────────────────────────────────────────────────────────────────────────────────

POSIX = "alnum alpha ascii cntrl digit lower punct space upper word xdigit"
SURROGATES = set(map(chr, range(0xD800, 0xE000)))
# All code points. By default these are all up to U+2FFF and a sample of the others.
OTHERS = [*range(0x3000, 0xD800), *range(0xE000, 0x110000)]
EVERY = "".join(map(chr, [*range(0x3000), *sample(OTHERS)]))


@pytest.mark.parametrize(
    "pattern",
    [r"\w+", r"\W+", r"[\w]+", r"[\W]+", r"[^\w]+", r"\d+", r"\s+", r"[^\s\p{L}\p{N}]+", r"\h+"]
    + [rf"\p{{{name}}}+" for name in ("L", "M", "N", "P", "S", "Lu", "Ll", "Lt", "Lm", "Lo")]
    + [f"[[:{name}:]]+" for name in POSIX.split()],
)
def test_classes_equal_hugging_face_for_all_code_points(pattern):
    assert matches(pattern, EVERY) == their_matches(pattern, EVERY), tokenizers.__version__


def test_properties_equal_hugging_face():
    names = [
        name
        for prop in ("category", "script", "binary")
        for *aliases, _ in unicode._data()[prop]
        for name in aliases
    ]
    sets = {name: unicode.named(name) for name in names}
    edges = {edge - back for each in sets.values() for edge in each.bounds for back in (0, 1)}
    edges -= {-1, 0x110000, *range(0xD800, 0xE000)}
    text = "".join(map(chr, sorted(edges)))
    for name, members in sample(list(sets.items())):
        theirs = their_matches(rf"\p{{{name}}}", text)
        if theirs is None:
            with pytest.raises(PatternError):
                compile_pattern(rf"\p{{{name}}}", "oniguruma")
        else:
            assert theirs == [char for char in text if ord(char) in members], name


def test_letter_case_equals_hugging_face_or_is_rejected():
    cased, _ = unicode._orbits()
    text = "".join(map(chr, cased))
    refused = 0
    for code_point in sample(cased):
        for pattern in (rf"(?i:\x{{{code_point:x}}})", rf"(?i:[\x{{{code_point:x}}}a])"):
            try:
                program = compile_pattern(pattern, "oniguruma")
            except PatternError:
                refused += 1
                continue
            data = text.encode()
            ours = [data[start:end].decode() for start, end in _native.split(program, data)]
            assert ours == their_matches(pattern, text), pattern
    assert refused < 300


def test_expansions_of_letter_case_are_rejected():
    for code_point in (*range(0xD800), *range(0xE000, 0x110000)):
        folded = chr(code_point).casefold()
        if len(folded) > 1:
            for pattern in (f"(?i){folded}", f"(?i){chr(code_point)}", f"(?i)[{chr(code_point)}]"):
                with pytest.raises(PatternError):
                    compile_pattern(pattern, "oniguruma")


# ── Random patterns ──────────────────────────────────────────────────────────────────────────

CLASSES = r". \s \S \w \W \d [ab] [^a] \p{L} \P{L} [a-cé] [\w&&[^a]] \p{Lu} \R \h \N \O"
chars = st.sampled_from([*"abcA1é", r"\ ", r"\n", *CLASSES.split()])
edges = st.sampled_from(["^", "$", r"\b", r"\B", r"\A", r"\z", r"\Z"])
counts = st.sampled_from(["?", "*", "+", "{2}", "{1,2}", "{,2}", "{2,}"])
words = st.lists(chars.filter(lambda char: char != r"\R"), min_size=1, max_size=3).map("".join)
bounded = st.lists(words, min_size=1, max_size=2)


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    modes = st.sampled_from(["", "", "?", "+", "{2}", "*"])
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
texts = st.text("aaabbc A1\n\né漢ſk½", max_size=9)


@settings(max_examples=examples(1000))
@given(patterns, st.lists(texts, min_size=5, max_size=5), st.sampled_from(["", "", "(?m)", "(?i)"]))
def test_random_patterns_match_as_in_hugging_face(pattern, texts, flags):
    try:
        compile_pattern(flags + pattern, "oniguruma")
    except PatternError:
        reject()
    for text in texts:
        theirs = their_matches(flags + pattern, text)
        assert theirs is None or matches(flags + pattern, text) == theirs, repr(text)


# ── Real patterns ────────────────────────────────────────────────────────────────────────────

SPELLINGS = {f"{name} {i}": each for name, of in PATTERNS.items() for i, each in enumerate(of)}


@pytest.mark.parametrize("name", [*REAL, *SPELLINGS])
def test_real_patterns_match_as_in_hugging_face(name):
    pattern = REAL.get(name) or SPELLINGS[name]
    random = Random(SEED)
    strings = [text for text in hard_inputs.STRINGS if not set(text) & SURROGATES]
    everything = "".join(random.sample(strings, examples(len(strings))))
    for text in (everything, EVERY, *random.sample(strings, examples(500))):
        assert matches(pattern, text) == their_matches(pattern, text), ascii(text[:80])
