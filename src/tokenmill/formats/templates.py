"""post_processor of a tokenizer.json ↔ template: what is put around one text or two."""

from __future__ import annotations

from typing import Any

from tokenmill.formats.parts import Item, Template
from tokenmill.formats.places import Place, flatten

_PLAIN = Template()

# Real ones have a few; of each, all names and ids are kept.
ITEMS_MAX = 256


def read(post_processor: Any, place: Place) -> Template:
    """The template that a post_processor stands for."""
    found = _PLAIN
    has_items = False
    for name, part, at in flatten(post_processor, "processors", place.inside("post_processor")):
        single, pair = found.single, found.pair
        trims, trim_prefix = False, False
        match name:
            case "ByteLevel":
                trim_prefix = at.get(part, "add_prefix_space", bool)
                trims = at.get(part, "trim_offsets", bool)
            case "TemplateProcessing":
                single, pair = _read_template(part, at)
            case "BertProcessing":
                single, pair = _read_pair(part, at, is_roberta=False)
            case "RobertaProcessing":
                single, pair = _read_pair(part, at, is_roberta=True)
                trims = at.get(part, "trim_offsets", bool)
                trim_prefix = at.get(part, "add_prefix_space", bool)
            case _:
                at.refuse(f"is {name!r}, which is not known here; set post_processor to null")
        if name != "ByteLevel":
            if has_items:
                at.refuse("is a second template; leave one of them")
            has_items = True
        if trims and found.trims and trim_prefix != found.trim_prefix:
            at.refuse("trims offsets once more, in another way; leave one of them")
        found = Template(
            single,
            pair,
            trims or found.trims,
            (trim_prefix if trims else False) or found.trim_prefix,
        )
    return found


def _read_template(part: dict[str, Any], place: Place) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    specials = place.get(part, "special_tokens", dict)
    known = {name: _read_special(specials, name, place) for name in specials}
    single = _read_items(place.get(part, "single", list), known, place.inside("single"))
    return single, _read_items(place.get(part, "pair", list), known, place.inside("pair"))


def _read_special(
    specials: dict[str, Any], name: str, place: Place
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    place = place.inside("special_tokens")
    special = place.get(specials, name, dict)
    place = place.inside(name)
    place.get(special, "id", str)
    ids = tuple(_number(id_, place.inside("ids")) for id_ in place.get(special, "ids", list))
    tokens = tuple(place.inside("tokens").check(t, str) for t in place.get(special, "tokens", list))
    if len(ids) > ITEMS_MAX:
        place.refuse(f"has {len(ids):,} ids; up to {ITEMS_MAX:,} can be loaded")
    if len(ids) != len(tokens):
        place.refuse(f"has {len(ids)} ids and {len(tokens)} tokens; give one token for each id")
    return ids, tokens


def _number(value: Any, place: Place) -> int:
    number = place.check(value, int)
    if not 0 <= number < 1 << 32:
        place.refuse(f"holds {number}; an id is from 0 to 4,294,967,295")
    return number


def _read_items(
    items: list[Any], known: dict[str, tuple[tuple[int, ...], tuple[str, ...]]], place: Place
) -> tuple[Item, ...]:
    found = []
    if len(items) > ITEMS_MAX:
        place.refuse(f"has {len(items):,} items; up to {ITEMS_MAX:,} can be loaded")
    for index, item in enumerate(items):
        at = place.inside(f"[{index}]")
        part = at.check(item, dict)
        if len(part) != 1 or next(iter(part)) not in ("Sequence", "SpecialToken"):
            at.refuse("is neither a Sequence nor a SpecialToken; write one of them")
        kind = next(iter(part))
        value = at.get(part, kind, dict)
        name = at.get(value, "id", str)
        type_id = _number(at.get(value, "type_id", int), at)
        if kind == "Sequence":
            if name not in ("A", "B"):
                at.refuse(f"is sequence {name!r}; there are A and B")
            found.append(Item(name, type_id, None))
        elif name in known:
            found.append(Item(name, type_id, *known[name]))
        else:
            at.refuse(f"names {name!r}, which is not in special_tokens; add it there")
    return tuple(found)


def _read_pair(
    part: dict[str, Any], place: Place, *, is_roberta: bool
) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """Bert's `[CLS] A [SEP] B [SEP]`, and Roberta's `<s> A </s></s> B </s>`, where all type
    ids are 0."""
    named = {}
    for key in ("cls", "sep"):
        pair = place.get(part, key, list)
        at = place.inside(key)
        if len(pair) != 2:
            at.refuse("must be a token and its id")
        named[key] = (at.check(pair[0], str), _number(pair[1], at))

    def special(key: str, type_id: int = 0) -> Item:
        token, id_ = named[key]
        return Item(token, type_id, (id_,), (token,))

    single = (special("cls"), Item("A", 0, None), special("sep"))
    if is_roberta:
        return single, (*single, special("sep"), Item("B", 0, None), special("sep"))
    return single, (*single, Item("B", 1, None), special("sep", 1))


def write(template: Template) -> Any:
    """A post_processor that says the same; None for none."""
    parts: list[dict[str, Any]] = []
    if template.trims:
        level = {"type": "ByteLevel", "add_prefix_space": template.trim_prefix}
        parts.append({**level, "trim_offsets": True, "use_regex": True})
    if (template.single, template.pair) != (_PLAIN.single, _PLAIN.pair):
        specials = {
            item.name: {"id": item.name, "ids": list(item.ids), "tokens": list(item.tokens)}
            for item in (*template.single, *template.pair)
            if item.ids is not None
        }
        parts.append(
            {
                "type": "TemplateProcessing",
                "single": [_write_item(item) for item in template.single],
                "pair": [_write_item(item) for item in template.pair],
                "special_tokens": specials,
            }
        )
    if len(parts) > 1:
        return {"type": "Sequence", "processors": parts}
    return parts[0] if parts else None


def _write_item(item: Item) -> dict[str, Any]:
    kind = "Sequence" if item.ids is None else "SpecialToken"
    return {kind: {"id": item.name, "type_id": item.type_id}}
