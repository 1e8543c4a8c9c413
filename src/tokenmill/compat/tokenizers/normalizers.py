"""Normalizers: they change a text before it is split."""

from __future__ import annotations

import base64

from tokenmill.compat.tokenizers.components import (
    REPLACE,
    Component,
    Option,
    Steps,
    check,
    maybe,
    options_of,
    refused_call,
)
from tokenmill.formats.build import pack_steps
from tokenmill.formats.checks import Place
from tokenmill.formats.names import spell
from tokenmill.formats.tokenizer_json import read_normalizer
from tokenmill.native import _native


class Normalizer(Component):
    """The base class of all normalizers."""

    def normalize_str(self, sequence: str) -> str:
        """Return the normalized text."""
        steps, is_byte_level = read_normalizer(self.to_json(), Place("the normalizer"))
        found, _ = _native.normalize(pack_steps(steps), check(sequence, str))
        return spell(found.encode()) if is_byte_level else found

    normalize = refused_call("NormalizedString")
    custom = refused_call("a normalizer written in Python")


class Sequence(Normalizer, Steps, options=[Option("normalizers", list)]):
    """Normalizers in order."""

    def __len__(self) -> int:
        return len(self._parts)


NFC = Normalizer.define("NFC", "Unicode normalization form C.")
NFD = Normalizer.define("NFD", "Unicode normalization form D.")
NFKC = Normalizer.define("NFKC", "Unicode normalization form KC.")
NFKD = Normalizer.define("NFKD", "Unicode normalization form KD.")
Lowercase = Normalizer.define("Lowercase", "Lower case.")
Nmt = Normalizer.define("Nmt", "Control characters as in Google's NMT; cannot be run.")
StripAccents = Normalizer.define("StripAccents", "Removes combining marks; cannot be run.")
ByteLevel = Normalizer.define("ByteLevel", "Bytes as printable characters.")
Prepend = Normalizer.define("Prepend", "Adds a prefix.", *options_of(prepend="▁"))
Replace = Normalizer.define("Replace", "Replaces each match.", *REPLACE)
Strip = Normalizer.define(
    "Strip",
    "Removes whitespace at the ends.",
    Option("left", bool, True, "strip_left"),
    Option("right", bool, True, "strip_right"),
)
BertNormalizer = Normalizer.define(
    "BertNormalizer",
    "BERT's normalizer; cannot be run.",
    *options_of(clean_text=True, handle_chinese_chars=True),
    Option("strip_accents", maybe(bool), None),
    *options_of(lowercase=True),
)
Precompiled = Normalizer.define(
    "Precompiled",
    "SentencePiece's character map.",
    Option("precompiled_charsmap", lambda data: base64.b64encode(bytes(data)).decode()),
)

NORMALIZERS = {"nfc": NFC, "nfd": NFD, "nfkc": NFKC, "nfkd": NFKD}


def unicode_normalizer_from_str(normalizer: str) -> Normalizer:
    """Return the normalizer with this name."""
    if normalizer not in NORMALIZERS:
        raise ValueError(f"normalizer must be one of {', '.join(NORMALIZERS)}, got {normalizer!r}")
    return NORMALIZERS[normalizer]()
