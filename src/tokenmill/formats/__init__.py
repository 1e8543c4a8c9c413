"""Files ↔ vocabularies, one module a format."""
