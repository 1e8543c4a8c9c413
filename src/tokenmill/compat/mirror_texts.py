"""Nothing → texts on which two tokenizers are compared before one stands in for the other."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence

_COUNT = 160
_ADDED_MAX = 40
_FRAGMENTS = (
    *(
        "the",
        " quick",
        " Brown",
        " FOX",
        "jumps",
        "'s",
        "'LL",
        "’re",
        " don't",
        "naïve",
        "cafe\u0301",
    ),
    *(" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", " \n ", "\u00a0", "\u3000", "\u2028", "\u200b"),
    *("0", "7", "42", "123", "1234", "3.14", "1,000,000", "٣٤", "½", "²", "Ⅷ"),
    *(".", ",", "!", "?!", "...", "…", "-", "--", "—", "_", "(", ")", "[x]", "{}", "<", ">", "<s>"),
    *(
        "/",
        "\\",
        "#",
        "@",
        "&",
        "*",
        "+",
        "=",
        "==",
        "|",
        "~",
        "`",
        "^",
        "$",
        "%",
        '"',
        "'",
        ":",
        ";",
    ),
    *("def f(x):\n    return x", "https://example.org/a?b=c", "a_b-c", "camelCase", "HTTPServer2"),
    *(
        "中文",
        "日本語",
        "カタカナ",
        "한국어",
        "ไทย",
        "हिन्दी",
        "العربية",
        "עברית",
        "Ελληνικά",
        "Русский",
    ),
    *(
        "🙂",
        "👩‍👩‍👧",
        "🇩🇪",
        "❤️",
        "👍🏽",
        "\u0301",
        "\u0000",
        "\u007f",
        "\ufeff",
        "\ufffd",
        "𝒳",
        "ﬁ",
        "Å",
    ),
    *(
        "▁",
        "▁▁",
        "Ġ",
        "Ċ",
        "ß",
        "İ",
        "ı",
        "ſ",
        "Σς",
        "aaaaaaaa",
        "abababab",
        "zzz",
        "qx",
        "\U0010ffff",
    ),
)


@functools.cache
def general() -> tuple[str, ...]:
    """Texts of many scripts, signs and blanks, the same ones each time."""
    choose = random.Random(20)  # noqa: S311, nothing is secret here
    made = ["", " ", *_FRAGMENTS[:40:3]]
    while len(made) < _COUNT:
        made.append("".join(choose.choices(_FRAGMENTS, k=choose.randint(1, 9))))
    return tuple(made)


def around(tokens: Sequence[str]) -> list[str]:
    """Texts with added tokens in them; of very many, those at both ends."""
    half = _ADDED_MAX // 2
    some = tokens if len(tokens) <= _ADDED_MAX else [*tokens[:half], *tokens[-half:]]
    forms = ("{0}", "a {0} b", "x{0}{0}y  {0}\n {0}z")
    return [form.format(token) for token in some for form in forms]
