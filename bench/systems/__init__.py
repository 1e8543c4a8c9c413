"""System name → an adapter that loads a vocabulary and encodes. One small class a system."""

from systems.base import SIDE_FOLDER, System, UnsupportedError
from systems.peers import (
    Fastokens,
    Quicktok,
    Splintr,
    Tiktoken,
    Tokenizers,
    TokenizersNext,
    Toktok,
)
from systems.principals import Gigatoken, ReadOnly, Tokenmill

__all__ = ["SIDE_FOLDER", "SYSTEMS", "System", "UnsupportedError"]

SYSTEMS: dict[str, type[System]] = {
    s.name: s
    for s in (
        Tokenmill,
        Gigatoken,
        Fastokens,
        TokenizersNext,
        Quicktok,
        Toktok,
        Splintr,
        Tiktoken,
        Tokenizers,
        ReadOnly,
    )
}
