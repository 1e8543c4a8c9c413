"""Normalizers: they change a text before it is split."""

from __future__ import annotations

from tokenmill.compat.tokenizers import cutting
from tokenmill.compat.tokenizers.components import Component, Steps, check_text, refuse


class Normalizer(Component):
    """The base class of all normalizers."""

    def normalize_str(self, sequence: str) -> str:
        """Return the normalized text."""
        return cutting.normalize(self.to_json(), check_text(sequence))

    def normalize(self, normalized: object) -> None:
        """Not supported: `NormalizedString` is part of the real library only."""
        refuse("NormalizedString")

    @staticmethod
    def custom(obj: object) -> Normalizer:
        """Not supported: components written in Python need the real library."""
        refuse("a normalizer written in Python")


class Sequence(Normalizer, Steps):
    """Normalizers in order."""

    def __len__(self) -> int:
        return len(self._parts)


NFC = Normalizer.define("NFC")
NFD = Normalizer.define("NFD")
NFKC = Normalizer.define("NFKC")
NFKD = Normalizer.define("NFKD")
Lowercase = Normalizer.define("Lowercase")
Nmt = Normalizer.define("Nmt")
StripAccents = Normalizer.define("StripAccents")
ByteLevel = Normalizer.define("ByteLevel")
Strip = Normalizer.define("Strip")
Prepend = Normalizer.define("Prepend")
Replace = Normalizer.define("Replace")
BertNormalizer = Normalizer.define("BertNormalizer")
Precompiled = Normalizer.define("Precompiled")

NORMALIZERS = {"nfc": NFC, "nfd": NFD, "nfkc": NFKC, "nfkd": NFKD}


def unicode_normalizer_from_str(normalizer: str) -> Normalizer:
    """Return the normalizer with this name."""
    if normalizer not in NORMALIZERS:
        raise ValueError(f"normalizer must be one of {', '.join(NORMALIZERS)}, got {normalizer!r}")
    return NORMALIZERS[normalizer]()
