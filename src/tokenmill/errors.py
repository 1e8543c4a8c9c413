"""Mistakes → messages: every exception the package raises on purpose.

Each one is a `TokenmillError` and also the builtin that a caller would expect to catch. The text
says what happened, with which value, and the way out.
"""


class TokenmillError(Exception):
    """The base of every error that tokenmill raises on purpose."""


class PatternError(TokenmillError, ValueError):
    """A pattern that the general engine cannot represent exactly."""


class VocabularyError(TokenmillError, ValueError):
    """A vocabulary file or name that cannot be loaded as it is."""


class CountsError(TokenmillError, ValueError):
    """Counts that cannot be read, written or added up as they are."""


class CountsFileError(TokenmillError, OSError):
    """A file of counts that the system does not let us read or write."""


class UnknownIdError(TokenmillError, KeyError):
    """An id or token that the vocabulary does not hold."""

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return str(self.args[0]) if self.args else ""


class UnknownSpecialError(TokenmillError, ValueError):
    """A special that was asked for by name and does not exist."""


class MissingByteError(TokenmillError, ValueError):
    """Text holds a byte for which the vocabulary has no token."""


class MissingExtraError(TokenmillError, ImportError):
    """A feature whose optional package is not installed."""


class InputError(TokenmillError, ValueError):
    """An input whose documents cannot be read: binary, damaged, or without the field."""


class MissingInputError(TokenmillError, FileNotFoundError):
    """An input that is not there, or a glob that matches nothing."""


class TrainingError(TokenmillError, ValueError):
    """Options that training cannot meet, or that do not go together."""


class TokenizeError(TokenmillError, ValueError):
    """A corpus that cannot be turned into shards as asked, or a run that had to stop."""


class DecodingError(TokenmillError, ValueError):
    """Ids whose text changes when more of them come, so that it cannot be given step by step."""


class TokenizersError(TokenmillError, ValueError):
    """What Hugging Face's library answers with a bare Exception, said in its words."""


class ShardError(TokenmillError, ValueError):
    """Shards that cannot be written as asked, or whose files are not what their manifest says."""


class MissingShardError(TokenmillError, FileNotFoundError):
    """A folder of shards that is not there or not complete, or a file that is gone from it."""


class InspectError(TokenmillError, ValueError):
    """What cannot be shown of a tokenizer."""


class CommandError(TokenmillError, ValueError):
    """Options of a command that do not go together, or a stream that it needs and does not have."""


class LadderError(TokenmillError, RuntimeError):
    """A step of a ladder that ended without a result."""


class ClusterError(TokenmillError, RuntimeError):
    """A cluster that cannot be reached, or whose machines do not have what a task needs."""
