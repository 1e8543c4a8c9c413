"""Option tables → checks, signatures and flags.

Tests of tokenmill/options.py and cli/options.py.
"""

import argparse
import inspect
import re
from typing import Annotated, TypedDict

import numpy as np
import pytest

from tokenmill import options
from tokenmill.cli.options import add_options, options_of
from tokenmill.errors import OptionError, TrainingError
from tokenmill.tokenizing.options import TokenizeOptions


class Table(TypedDict, total=False):
    threads: Annotated[int | None, options.number(None, "number of threads")]
    memory: Annotated[int, options.amount(2 << 30, "memory limit", least=1 << 20)]
    mode: Annotated[str, options.one_of(("fast", "slow"), "fast", "how to work")]
    verbose: Annotated[bool, options.switch("print more")]
    sample: Annotated[float | None, options.share(None, "share of the documents, such as 5%")]
    separator: Annotated[
        str | None, options.text(None, "end of a document", parse=options.parse_escaped)
    ]
    names: Annotated[list[str], options.anything((), "a name", repeats=True, group="names")]


def test_resolve_fills_defaults_and_converts_values():
    found = options.resolve(Table, {"threads": np.int32(3), "memory": "1.5MB", "sample": "5%"})
    assert found == {
        "threads": 3,
        "memory": 1_500_000,
        "mode": "fast",
        "verbose": False,
        "sample": 0.05,
        "separator": None,
        "names": (),
    }
    assert options.resolve(Table, {}, mode="slow")["mode"] == "slow"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("threads", 0, "threads must be a whole number of at least 1, got 0"),
        ("threads", True, "got True"),
        ("threads", "two", "threads must be a whole number of at least 1, got 'two'"),
        ("memory", "lots", "memory must be a number of bytes such as 512MB"),
        ("memory", 5, "memory must be a number of bytes of at least 1,048,576, got 5"),
        ("mode", "quick", "mode must be one of fast, slow, got 'quick'"),
        ("verbose", 1, "verbose must be True or False, got 1"),
        ("sample", 1.5, "sample must be a share above 0 and at most 1"),
        ("sample", float("nan"), "sample must be a share"),
        ("separator", "", "separator must be a non-empty str, got ''"),
        ("separator", 5, "separator must be a non-empty str, got 5"),
    ],
)
def test_wrong_value_is_named_with_its_option(name, value, expected):
    with pytest.raises(OptionError, match=re.escape(expected)):
        options.resolve(Table, {name: value})
    with pytest.raises(TrainingError):
        options.resolve(Table, {name: value}, TrainingError)


def test_unknown_option_names_the_nearest():
    for given, near in {"text_field": "field", "max_memory": "memory"}.items():
        with pytest.raises(TypeError, match=rf"option '{given}'; did you mean {near}\?"):
            options.resolve(TokenizeOptions, {given: "x"})
    with pytest.raises(TypeError, match=r"unknown option 'thread'; did you mean threads\?"):
        options.resolve(Table, {"thread": 1})
    with pytest.raises(TypeError, match=r"unknown option 'x'; expected one of threads, memory"):
        options.resolve(Table, {"x": 1})


def test_describe_gives_signature_and_docstring():
    @options.describe(Table)
    def work(inputs: str, **given: object) -> None:
        """Work on the inputs.

        Options:

        Examples:
            none
        """

    parameters = inspect.signature(work).parameters
    assert list(parameters) == ["inputs", *options.table(Table)]
    assert parameters["memory"].default == 2 << 30
    assert parameters["mode"].kind is inspect.Parameter.KEYWORD_ONLY
    assert "Options:\n    threads: number of threads.\n" in work.__doc__
    assert work.__doc__.index("names: a name.") < work.__doc__.index("Examples:")


def test_flags_give_the_options_that_were_given():
    parser = argparse.ArgumentParser()
    add_options(parser, Table)
    assert options_of(parser.parse_args([]), Table) == {}
    words = "--threads 1,000 --memory 2MB --verbose --names a --names b --separator \\n"
    found = options_of(parser.parse_args(words.split()), Table)
    assert options.resolve(Table, found)["separator"] == "\n"
    assert found == {
        "threads": 1000,
        "memory": 2_000_000,
        "verbose": True,
        "names": ["a", "b"],
        "separator": "\n",
    }
    text = re.sub(r"\s+", " ", parser.format_help())
    assert "memory limit (default: 2GiB)" in text
    assert "number of threads" in text
    assert "such as 5%" in text


@pytest.mark.parametrize("words", ["--threads -1", "--memory 1XB", "--mode x", "--separator \\q"])
def test_wrong_flag_value_is_an_error_of_the_parser(words, capsys):
    parser = argparse.ArgumentParser(prog="x")
    add_options(parser, Table)
    with pytest.raises(SystemExit):
        parser.parse_args(words.split())
    assert words.split()[0] in capsys.readouterr().err
