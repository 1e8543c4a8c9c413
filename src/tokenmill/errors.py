"""Mistakes → messages: every exception that the package raises on purpose.

Each class is a `TokenmillError` and also the builtin that a caller expects to catch. The message
gives the problem, the value and the solution. As everywhere in Python, an argument of a wrong type
is a `TypeError`, an index outside a sequence an `IndexError`, and an error of the operating system
an `OSError`. `tokenmill.compat` raises the exceptions of the libraries that it replaces.
"""

import importlib
import sys
import typing


class TokenmillError(Exception):
    """The base of all errors that tokenmill raises on purpose."""


class OptionError(TokenmillError, ValueError):
    """An argument with a wrong value, or options that exclude each other."""


class PatternError(TokenmillError, ValueError):
    """A pattern that the regex engine cannot represent exactly."""


class VocabularyError(TokenmillError, ValueError):
    """A tokenizer that cannot be loaded, saved or applied to a text."""


class UnknownTokenError(TokenmillError, KeyError):
    """An id, a token or a special token that the vocabulary does not contain."""

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return str(self.args[0]) if self.args else ""


class InputError(TokenmillError, ValueError):
    """An input that cannot be read: binary, damaged, or without the field."""


class InputWarning(UserWarning):
    """Files of a folder were skipped that may have documents. `skipped` are all skipped files."""

    def __init__(self, text: str, skipped: typing.Any = ()) -> None:
        super().__init__(text)
        self.skipped = skipped


class MissingInputError(TokenmillError, FileNotFoundError):
    """An input that does not exist, or a glob without a match."""


class TrainingError(TokenmillError, ValueError):
    """A training run that is not possible with these options or inputs."""


class TokenizeError(TokenmillError, ValueError):
    """A corpus run that is not possible with these options, or that stopped."""


class DiskFullError(TokenizeError, OSError):
    """A corpus run that stopped because the disk of its output is full."""


class ShardError(TokenmillError, ValueError):
    """Shards that are incomplete or damaged, or that cannot be written in this format."""


class MissingExtraError(TokenmillError, ImportError):
    """A feature whose optional package is not installed."""


def import_package(module: str, user: str) -> typing.Any:
    """Import a module of an optional package. `user` is the feature that needs the package."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"{user} needs the package {package}; run: {install_command(package)}"
        ) from error


def install_command(package: str) -> str:
    """The command that installs a package for this Python, also if tokenmill runs from a clone."""
    return f"{sys.executable} -m pip install {package}"


class ClusterError(TokenmillError, RuntimeError):
    """A cluster that cannot be reached, or that lacks a package a task needs."""


class TokenizersError(TokenmillError, ValueError):
    """An error of `compat.tokenizers` for which Hugging Face's library raises a bare Exception."""


def shown(value: object) -> str:
    """Return the repr of a value, shortened for a message."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
