"""The files of core/unicode/tables are those that their generators wrote."""

import hashlib
from pathlib import Path

TABLES = Path(__file__).resolve().parents[2] / "core" / "unicode" / "tables"

# A new version of Unicode changes this digest. generate.py and generate_forms.py write the files.
DIGEST = "c0fbe7802ec8666cd795d649dd87c47bd185ac1f6a9899f4b678e2dc65f23af6"


def test_unicode_tables_have_their_digest():
    digests = [
        f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n"
        for path in sorted(TABLES.iterdir())
    ]
    assert hashlib.sha256("".join(digests).encode()).hexdigest() == DIGEST
