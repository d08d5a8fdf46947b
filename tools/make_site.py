"""Makes the documents a site: `make docs` builds it in a folder, and `site/index.html` there opens without a server.

It needs Zensical and mkdocstrings, which the extra `docs` installs. The build fails for links and anchors that lead
nowhere.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from website import pages

WORKER = "https://unpkg.com/iframe-worker/shim"
"""What Zensical's offline search would load from the network; website/worker.js does the same."""


def main() -> int:
    """Write the pages and have Zensical build them; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a folder for pages and site, which is emptied first")
    folder = parser.parse_args().folder
    shutil.rmtree(folder, ignore_errors=True)
    pages.write(folder)
    done = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=folder, check=False)
    for path in (folder / "site").rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        up = "../" * (len(path.relative_to(folder / "site").parts) - 1)
        path.write_text(text.replace(WORKER, f"{up}worker.js"), encoding="utf-8")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
