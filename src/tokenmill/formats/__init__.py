"""Files ↔ tokenizers, one module a format.

`detect` finds the reader of a file, `save` the writer. Both are imported when they are needed: an
embedded vocabulary is loaded without them.
"""
