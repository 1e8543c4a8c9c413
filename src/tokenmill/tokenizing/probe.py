"""A plan → nothing, or an error before hours of work: the first inputs do not have the field."""

from __future__ import annotations

from itertools import islice

from tokenmill.corpus.documents import Segment, read
from tokenmill.corpus.reasons import is_missing, is_other_kind
from tokenmill.errors import TokenizeError
from tokenmill.tokenizing.plan import Plan, document_options

_SOURCES = 3
_BLOCK_BYTES = 1 << 18
_BLOCKS = 2


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
