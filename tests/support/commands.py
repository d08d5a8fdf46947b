"""Running the command line in this process."""

import json

from typer.testing import CliRunner

from tilewright.cli import app


def invoke(*arguments, code=0):
    """The result of a command, which must end with this exit code."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
    return done


def in_json(*arguments, code=0):
    """The one object that a command prints with --json."""
    done = invoke(*arguments, "--json", code=code)
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


def error(*arguments):
    """The message of a command that cannot do what it was asked for."""
    done = invoke(*arguments, code=2)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr
