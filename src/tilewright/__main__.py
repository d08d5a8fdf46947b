"""`python -m tilewright`: the command line, even if no script was installed."""

import sys


def main() -> None:
    """Run the command line; if a package is missing, name it in one line and exit with code 2."""
    try:
        from tilewright.cli import main as command_line

        command_line()
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package == "tilewright":
            raise
        print(
            f"tilewright: the package {package!r} is not installed for {sys.executable}: run `make run`, or "
            f"pip install -e '.[cu13]' in tilewright's folder",
            file=sys.stderr,
        )
        sys.exit(2)


if __name__ == "__main__":
    main()
