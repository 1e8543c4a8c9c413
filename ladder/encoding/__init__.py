"""Text → ids in eleven steps, in Python and then in Zig. Each step adds one idea.

A step has one function, `prepare(ranks, pattern)`, which returns a function from a text to its ids.
`compiled.py` has it for the steps in Zig.
All of them return the ids of `tokenmill.reference`.

Invariant: the vocabulary was trained, so merging the bytes of a token produces that token. For
other vocabularies, the reference and the native core also use tokens that no merge produces.
"""
