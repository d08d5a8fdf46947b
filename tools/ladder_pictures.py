"""Draw docs/ladder/pictures/NAME.svg for every rung, from the kernels' constants and the emulator's requests.

python tools/ladder_pictures.py [--check] [NAME...]; --check only says which files differ
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from pictures import cuda_cores, hopper, other_fragments, warp_tensor_cores  # noqa: E402

from tilewright.plots.style import styled, svg  # noqa: E402

FOLDER = ROOT / "docs" / "ladder" / "pictures"
PICTURES = cuda_cores.PICTURES | warp_tensor_cores.PICTURES | other_fragments.PICTURES | hopper.PICTURES


def main() -> int:
    """Draw, or with --check compare; returns 1 if a file differs from what would be drawn."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="rungs; all by default")
    parser.add_argument("--check", action="store_true", help="write nothing, and say which files differ")
    options = parser.parse_args()
    different = []
    for name in options.names or PICTURES:
        text, path = drawn(name), FOLDER / f"{name}.svg"
        if options.check:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                different.append(name)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in different:
        print(f"docs/ladder/pictures/{name}.svg differs from what the code draws", file=sys.stderr)
    return int(bool(different))


def drawn(name: str) -> str:
    """A rung's picture."""
    with styled():
        return svg(PICTURES[name]())


if __name__ == "__main__":
    sys.exit(main())
