"""Without transformers its patch says what to install; tests/with_transformers has the rest."""

import sys

import pytest

import tokenmill
from tokenmill.errors import MissingExtraError


@pytest.mark.parametrize("name", ["tokenizers", "transformers"])
def test_package_that_is_not_installed_is_named(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    said = rf'needs the package {name}: pip install "tokenmill\[transformers\]"'
    with pytest.raises(MissingExtraError, match=said):
        tokenmill.patch_transformers()
    tokenmill.unpatch_transformers()
