"""Packages that readers import but do not need to read files → empty substitutes.

mosaicml-streaming imports transformers and torchvision for its data sets of text and pictures, and
OLMo-core cached_path for files of clouds. With their dependencies they are gigabytes,
and no shard of ours needs them.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Iterator
from typing import Any

ABSENT = ("cached_path", "torchvision", "transformers")


class Anything(type):
    """A class with any attribute, which is another of its kind, and without items."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name, (), {})

    def __iter__(cls) -> Iterator[Any]:
        return iter(())


class Module(types.ModuleType):
    """A module with anything in it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        # Other classes inherit from classes of torchvision, so these must be plain classes.
        kind = Anything if self.__name__.startswith("cached_path") else type
        return kind(name, (), {})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the absent packages and their submodules."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name.split(".")[0] in ABSENT:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Module:
        return Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


sys.meta_path.insert(0, Finder())
