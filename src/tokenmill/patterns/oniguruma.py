"""pattern → an equivalent pattern in Oniguruma's dialect, for Hugging Face tokenizers.

The dialect is Ruby's: `$` is the end of a line, `{1,3}+` repeats a repetition, and `(?s)` is not
supported. The pattern is therefore parsed and written again from its tree. A set that contains a
whole general category is written with the category's name, so Oniguruma's version of Unicode
decides about newer characters.
"""

from __future__ import annotations

from functools import cache

from tokenmill.patterns import unicode
from tokenmill.patterns.parse import Atomic, Chars, Choice, Look, Node, Repeat, Sequence, parse
from tokenmill.patterns.unicode import ALL, NONE, CodePoints


def to_oniguruma(pattern: str) -> str:
    """Return the pattern in Oniguruma's dialect."""
    return _write(parse(pattern))


def _write(node: Node) -> str:
    match node:
        case Chars(members):
            return _set(members)
        case Sequence(items):
            return "".join(map(_inner, items))
        case Choice(items):
            return "|".join(map(_write, items))
        case Atomic(item):
            return f"(?>{_write(item)})"
        case Look(item, behind, negative, _):
            return f"(?{'<' * behind}{'!' if negative else '='}{_write(item)})"
        case Repeat():
            return _repeat(node)


def _inner(node: Node) -> str:
    """Return a node as one item of a sequence."""
    return f"(?:{_write(node)})" if isinstance(node, Choice) else _write(node)


def _repeat(node: Repeat) -> str:
    item = _write(node.item)
    if not isinstance(node.item, Chars | Atomic):
        item = f"(?:{item})"
    low, high = node.count_min, node.count_max
    signs = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    count = signs.get((low, high), f"{{{low},{'' if high is None else high}}}")
    if node.mode == "possessive":
        return f"(?>{item}{count})"
    # Equal bounds leave no choice, and {n}? means an optional {n} in Ruby.
    return f"{item}{count}{'?' if node.mode == 'lazy' and low != high else ''}"


@cache
def _set(members: CodePoints) -> str:
    if members == ALL:
        return "(?m:.)"
    if members == NONE:
        return "(?!)"
    inside = _items(members)
    if len(inside) == 1 and "-" not in inside[0]:
        return inside[0]
    outside = _items(~members)
    if len(outside) < len(inside):
        return f"[^{''.join(outside)}]"
    return f"[{''.join(inside)}]"


def _items(members: CodePoints) -> list[str]:
    """Return the categories that the set contains as a whole, then the remaining ranges."""
    items = []
    rest = members
    for major, minors in unicode.MAJOR_CATEGORIES.items():
        whole = [name for name in minors if unicode.known(name) - members == NONE]
        names = [major] if len(whole) == len(minors) else whole
        items += [rf"\p{{{name.capitalize()}}}" for name in names]
        rest = rest - CodePoints.union(map(unicode.known, whole))
    for low, high in rest.ranges():
        items.append(_character(low) + (f"-{_character(high - 1)}" if high - 1 > low else ""))
    return items


def _character(code_point: int) -> str:
    character = chr(code_point)
    if character.isascii() and character.isalnum():
        return character
    return rf"\x{{{code_point:X}}}"
