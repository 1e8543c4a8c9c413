"""The tables of the pattern compiler → core/unicode/tables/words.edges.u32.bin: the runs of \\w

Run by hand, after generate.py, from the root of the repository:

    python core/unicode/words.py

**Invariant**: the output depends only on src/tokenmill/patterns/unicode16.bin.
"""

from tables import write_array

from tokenmill.patterns import unicode

write_array("words.edges", "u32", [edge for run in unicode.word().ranges() for edge in run])
