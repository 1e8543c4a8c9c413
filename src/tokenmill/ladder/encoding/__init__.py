"""Text → ids, five times: each step differs from the one before by one idea.

A step has one function, `prepare(ranks, pattern)`, which gives a function from a text to its ids.
All five give the ids of `tokenmill.reference`.

Invariant: the vocabulary was trained, so that merging the bytes of a token gives that token. (Of
one that was not, the reference and the native core also take tokens that no merge reaches.)
"""
