"""A step of a ladder that ended without a result → its error."""

from tokenmill.errors import TokenmillError


class LadderError(TokenmillError, RuntimeError):
    """A step of a ladder that ended without a result."""
