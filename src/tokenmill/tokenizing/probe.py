"""A plan → nothing, or an error before hours of work: the first inputs do not have the field."""

from __future__ import annotations

from itertools import islice

from tokenmill.corpus.documents import Segment, read
from tokenmill.corpus.reasons import is_missing, is_other_kind
from tokenmill.errors import TokenizeError
from tokenmill.tokenizing.options import RECORDS
from tokenmill.tokenizing.plan import Plan, document_options

_SOURCES = 3
_BLOCK_BYTES = 1 << 18
_BLOCKS = 2
_ID_SOURCES = 32


def refuse_wrong_id_field(plan: Plan) -> None:
    """Raises if no record at the start of some inputs, of all parts of the list, has an id."""
    name = plan.options.id_field
    if name is None:
        return
    sources = [source for source in plan.sources if source.kind in RECORDS]
    if not sources:
        return
    options = document_options(plan.options, _BLOCK_BYTES)
    seen = 0
    for source in sources[:: -(-len(sources) // _ID_SOURCES)]:
        for documents in islice(read(Segment(source), options), _BLOCKS):
            seen += len(documents.spans)
            if any(documents.names or ()):
                return
    if seen:
        raise TokenizeError(
            f"no record has an id in the field {name!r}, of {seen:,} that were looked at, "
            f"first in {sources[0].name!r}; name the right one with --id-field, or leave it out"
        )


def refuse_wrong_field(plan: Plan) -> None:
    """Raises if no record at the start of the first inputs has the field, and names what they have.

    A few records without it are put aside when their turn comes; all of them are a wrong --field.
    """
    reasons = []
    for source in plan.sources[:_SOURCES]:
        options = document_options(plan.options, _BLOCK_BYTES)
        for documents in islice(read(Segment(source), options), _BLOCKS):
            if len(documents.spans):
                return
            missing = [
                problem
                for problem in documents.problems
                if is_missing(problem.reason) or is_other_kind(problem.reason)
            ]
            if len(missing) < len(documents.problems):
                return
            reasons += [f"{problem.source} {problem.reason}" for problem in missing[:1]]
    if reasons:
        raise TokenizeError(reasons[0])
