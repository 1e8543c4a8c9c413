"""Text → ids in five steps. Each step adds one idea to the previous one.

A step has one function, `prepare(ranks, pattern)`, which returns a function from a text to its ids.
All five return the ids of `tokenmill.reference`.

Invariant: the vocabulary was trained, so merging the bytes of a token produces that token. For
other vocabularies, the reference and the native core also use tokens that no merge produces.
"""
