"""Documents → a vocabulary: counted, merged, laid out."""
