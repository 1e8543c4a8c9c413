"""Text → merges, fifteen times: byte-pair encoding's training, one idea more a step.

Each step is a file with one function `train(text, pattern, vocab_size)`, complete and made to be
read: first the header, then the difference from the step before it. All of them learn the same
merges: the most frequent pair first, of equals the pair with the smaller ids, as `reference.py`
has it. A merge is a pair of ids; the first 256 ids are the bytes, then each merge has the next.
"""
