"""Sentences → pieces, as SentencePiece learns them."""
