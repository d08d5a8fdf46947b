"""The build hook of tilewright's wheel: whole, or for a release without the emulator, which is then a wheel of its own.

TILEWRIGHT_RELEASE=1 asks for the latter (`make wheel`). Whoever installs from sources gets all in one.
"""

import os
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

EMULATOR = ("tilewright/emulator", "tilewright/checking", "tilewright/ladder")
"""The emulator, what checks kernels in it, and what climbs the ladder there or on a GPU."""


class Split(BuildHookInterface[Any]):
    """Adds the emulator, or the dependency on the wheel that has it, of the same version."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects files; an editable wheel only points at the sources."""
        if version == "editable":
            return
        if os.environ.get("TILEWRIGHT_RELEASE"):
            build_data["dependencies"].append(f"tilewright-emulator=={self.metadata.version}")
        else:
            build_data["force_include"] |= {f"src/{folder}": folder for folder in EMULATOR}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called by hatchling with the wheel that it made, which is packed again as small as zlib can."""
        if version == "editable":
            return
        made, packed = Path(artifact_path), Path(f"{artifact_path}.packed")
        with ZipFile(made) as wheel, ZipFile(packed, "w") as smaller:
            for entry in wheel.infolist():
                smaller.writestr(entry, wheel.read(entry), ZIP_DEFLATED, 9)
        packed.replace(made)
