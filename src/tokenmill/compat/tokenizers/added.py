"""Added tokens: those that are found in a text before anything else is done with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tokenmill.compat.tokenizers import values
from tokenmill.formats.parts import Added

_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


class AddedToken:
    """A token to be added, and how it is found."""

    def __init__(
        self,
        content: str | None = None,
        *,
        single_word: bool = False,
        lstrip: bool = False,
        rstrip: bool = False,
        normalized: bool | None = None,
        special: bool = False,
        **kwargs: object,
    ) -> None:
        values.ignore(kwargs)
        self.content = "" if content is None else values.text(content)
        self._single_word = values.flag(single_word)
        self._lstrip, self._rstrip = values.flag(lstrip), values.flag(rstrip)
        self._normalized = None if normalized is None else values.flag(normalized)
        self.special = values.flag(special)

    @classmethod
    def _of(cls, added: Added) -> AddedToken:
        """The token of a file."""
        flags = {name: getattr(added, name) for name in _FLAGS}
        return cls(added.content, **flags)

    single_word = property(lambda self: self._single_word, doc="Found only as a whole word.")
    lstrip = property(lambda self: self._lstrip, doc="Takes white space on its left.")
    rstrip = property(lambda self: self._rstrip, doc="Takes white space on its right.")

    @property
    def normalized(self) -> bool:
        """Unless it was said: specials are looked for in the text as it is given."""
        return not self.special if self._normalized is None else self._normalized

    def _flags(self) -> dict[str, bool]:
        return {name: getattr(self, name) for name in _FLAGS}

    def _key(self) -> tuple[object, ...]:
        return (self.content, *self._flags().values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AddedToken) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self.content)

    def __str__(self) -> str:
        return self.content

    def __repr__(self) -> str:
        names = ("rstrip", "lstrip", "single_word", "normalized", "special")
        shown = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        return f'AddedToken("{self.content}", {shown})'

    def __getstate__(self) -> dict[str, Any]:
        return {"content": self.content, **self._flags()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.content, self.special = state["content"], state["special"]
        self._single_word, self._normalized = state["single_word"], state["normalized"]
        self._lstrip, self._rstrip = state["lstrip"], state["rstrip"]


def tokens_of(given: object, special: bool | None, said: str) -> list[AddedToken]:
    """The tokens of a list of texts and tokens; with `special` they become special.

    That is so for the given objects, too, whose `normalized` may follow.
    """
    found = []
    for each in values.instance(given, list):
        if isinstance(each, str):
            found.append(AddedToken(each, special=bool(special)))
        elif isinstance(each, AddedToken):
            if special:
                each.special = True
            token = AddedToken.__new__(AddedToken)
            vars(token).update(vars(each))
            found.append(token)
        else:
            raise TypeError(said)
    return found


class AddedTokens:
    """All added tokens with their ids, in the ways of the real library.

    A content that is added again has the new flags, but what was special stays so.
    """

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self.by_id: dict[int, AddedToken] = {}
        self.specials: set[str] = set()

    def add(
        self,
        tokens: Iterable[AddedToken],
        find: Callable[[str], int | None],
        size: Callable[[], int],
    ) -> int:
        """Adds tokens, and says how many of them were new or other than before.

        `find` and `size` are those of the model, and asked only for what is not known here.
        """
        given = list(tokens)
        # Asked before the first is added, so an id of the model beyond its size is not counted.
        last = max(self.by_id, default=-1)
        next_id: int | None = None
        self.specials |= {token.content for token in given if token.special and token.content}
        count = 0
        for token in given:
            known = self.ids.get(token.content)
            if not token.content or (known is not None and self.by_id[known] == token):
                continue
            id_ = known if known is not None else find(token.content)
            if id_ is None:
                id_ = next_id = max(size(), last + 1) if next_id is None else next_id + 1
            self.ids[token.content] = id_
            self.by_id[id_] = token
            count += 1
        return count

    def parts(self) -> tuple[Added, ...]:
        """What is looked for in texts."""
        made = []
        for id_, token in sorted(self.by_id.items()):
            flags = {**token._flags(), "special": token.content in self.specials}
            made.append(Added(token.content, id_, **flags))
        return tuple(made)

    def to_json(self) -> list[dict[str, Any]]:
        return [
            {"id": id_, "content": token.content, **token._flags()}
            for id_, token in sorted(self.by_id.items())
        ]
