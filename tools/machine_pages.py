"""Run the commands that docs/machine/ shows, and write what they print and draw into its pages and pictures.

python tools/machine_pages.py [--check] [PAGE...]; --check only says which files differ

A block that begins with ```console shows a command after `$ ` and what it prints. If the command has `--plot NAME.svg`,
that picture goes into docs/machine/pictures/. Commands find the records of results/. A ```text block right behind a
```python one has what that program prints.
"""

import argparse
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from typer.testing import CliRunner  # noqa: E402

from tilewright.cli import app  # noqa: E402

FOLDER = ROOT / "docs" / "machine"
_SHOWN = re.compile(r"(?<=^```console\n)\$ tilewright (.*)\n((?:.*\n)*?)(?=^```$)", re.MULTILINE)
_PROGRAM = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main() -> int:
    """Write, or with --check compare; returns 1 if a file differs from what the commands say."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="PAGE", help="pages, such as waves; all by default")
    parser.add_argument("--check", action="store_true", help="write nothing, and say which files differ")
    options = parser.parse_args()
    different = []
    for path in sorted(FOLDER.glob("*.md")):
        if options.names and path.stem not in options.names:
            continue
        for file, text in made_by(path):
            if file.exists() and file.read_text(encoding="utf-8") == text:
                continue
            different.append((path.stem, file.relative_to(ROOT)))
            if not options.check:
                file.parent.mkdir(exist_ok=True)
                file.write_text(text, encoding="utf-8")
    for page, name in different if options.check else ():
        remedy = f"python tools/machine_pages.py {page}"
        print(f"{name} differs from what its command says: look at the change of `{remedy}`", file=sys.stderr)
    return int(options.check and bool(different))


def made_by(page: Path) -> Iterator[tuple[Path, str]]:
    """The page and its pictures, as its commands say."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "results").symlink_to(ROOT / "results")
        text = _SHOWN.sub(lambda found: f"$ tilewright {found[1]}\n{output(found[1], folder)}", read(page))
        text = _PROGRAM.sub(lambda found: f"```python\n{found[1]}```\n\n```text\n{printed(found[1], page)}```", text)
        for picture in sorted(path for path in folder.iterdir() if path.is_file()):
            yield FOLDER / "pictures" / picture.name, read(picture)
    yield page, text


def output(words: str, folder: Path) -> str:
    """What `tilewright WORDS` prints, run in a folder; raises what it raises."""
    with chdir(folder):
        done = CliRunner(env=dict(os.environ)).invoke(app, shlex.split(words), catch_exceptions=False)
    if done.exit_code:
        raise SystemExit(f"`tilewright {words}` ends with {done.exit_code}: {done.stderr}")
    return done.stdout


def printed(program: str, page: Path) -> str:
    """What a program prints; raises what it raises."""
    with redirect_stdout(io.StringIO()) as stdout:
        exec(compile(program, str(page), "exec"), {})
    return stdout.getvalue()


def read(path: Path) -> str:
    """A file's text."""
    return path.read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
