"""The build hook of tilewright's wheel: whole, or for a release without the emulator, which is then a wheel of its own.

TILEWRIGHT_RELEASE=1 asks for the latter (`make wheel`). Whoever installs from sources gets all in one.
"""

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

EMULATOR = "tilewright/emulator"


class Split(BuildHookInterface[Any]):
    """Adds the emulator, or the dependency on the wheel that has it, of the same version."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects files; an editable wheel only points at the sources."""
        if version == "editable":
            return
        if os.environ.get("TILEWRIGHT_RELEASE"):
            build_data["dependencies"].append(f"tilewright-emulator=={self.metadata.version}")
        else:
            build_data["force_include"][f"src/{EMULATOR}"] = EMULATOR
