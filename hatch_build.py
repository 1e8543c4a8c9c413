"""The build hook: compiles the core and puts it into the wheel."""

import os
import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Hook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        native = runpy.run_path(str(root / "core" / "build.py"))
        # A release sets TOKENMILL_TARGET to make the wheels of other machines on this one.
        target = os.environ.get("TOKENMILL_TARGET") or native["host_target"]()
        if version == "editable":
            target = native["host_target"]()
            native["build"](root / "src" / "tokenmill")
        else:
            library = native["build"](root / "build" / target, target)
            build_data["force_include"][str(library)] = f"tokenmill/{library.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{native['TAGS'][target]}"
