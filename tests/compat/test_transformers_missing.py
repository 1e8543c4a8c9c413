"""`patch` without transformers raises an error that names the package."""

import sys

import pytest

from tokenmill.compat.transformers import patch, unpatch
from tokenmill.errors import MissingExtraError


@pytest.mark.parametrize("name", ["tokenizers", "transformers"])
def test_missing_package_is_named(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    text = f"needs the package {name}; run: .* -m pip install {name}"
    with pytest.raises(MissingExtraError, match=text):
        patch()
    unpatch()
