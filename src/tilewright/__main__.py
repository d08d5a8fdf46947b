"""`python -m tilewright`: the command line, even if no script was installed."""

import sys


def main() -> None:
    """Run the command line; where a package is missing that says which, in a line, with exit code 2."""
    if sys.stdout is None or sys.stderr is None:  # closed, as by >&-
        if sys.stderr is not None:
            print("tilewright: stdout is closed: leave it open, or send it to a file", file=sys.stderr)
        sys.exit(2)
    try:
        from tilewright.cli import main as command_line

        command_line()
    except KeyboardInterrupt:  # before a command has begun, which would say more
        print("tilewright: interrupted", file=sys.stderr)
        if "--json" in sys.argv:
            print('{"error": "interrupted"}')
        sys.exit(130)
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
