"""The common parts of commands: declarations of options, and ends by errors."""

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from tilewright.cli.output import print_json
from tilewright.errors import message_of

UsageError: Any = typer.BadParameter.__bases__[0]
"""The usage error of click, which typer has under different names."""

NOT_VERIFIED, BAD_REQUEST, INTERRUPTED, UNREAD = 1, 2, 130, 141
"""Exit codes besides 0: a wrong answer or a failure; a request that cannot be met; Ctrl-C; a reader that went away.

The last two are those of a shell for a process that a signal ended.
"""


def command(function: Callable[..., None]) -> Callable[..., None]:
    """A command for typer, made from a function whose parameters may be dataclasses of options.

    The fields of such a dataclass are annotated as parameters are, and become options of the command. An error raised
    for the caller becomes its message on stderr, with --json an object on stdout, and exit code 2. Ctrl-C becomes 130.
    """
    groups: dict[str, Any] = {}
    options: list[inspect.Parameter] = []
    hints = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        kind = hints[parameter.name]
        if dataclasses.is_dataclass(kind):
            groups[parameter.name] = kind
            options += _options_of(kind)
        else:
            options.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=kind))

    @functools.wraps(function)
    def run(**values: Any) -> None:
        as_json = values.get("as_json") or values.get("format") == "json"
        for name, kind in groups.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in dataclasses.fields(kind)})
        try:
            function(**values)
        except KeyboardInterrupt:
            code, message = INTERRUPTED, "interrupted"
        except Exception as error:
            if (said := message_of(error)) is None:
                raise
            code, message = BAD_REQUEST, said
        else:
            return
        typer.echo(f"tilewright: {message}", err=True)
        if as_json:
            print_json({"error": message})
        raise typer.Exit(code)

    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run


def _options_of(kind: Any) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
        yield inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[field.name]
        )


class Ended(Exception):
    """Ctrl-C or a reader that went away, its cause: typer would exit with 1, the code of a wrong answer."""


class CommandLine(TyperGroup):
    """All commands. With --json, faults of the options are also printed as JSON, so stdout holds one object."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the words of the command line up to the command's name."""
        self._in_json = "--json" in args or "--format=json" in args or ("--format", "json") in pairwise(args)
        with self._usage_errors():
            return super().make_context(info_name, args, parent, **extra)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that the first words name: two, as in `bench micro`, or one."""
        if (name := " ".join(args[:2])) in self.commands:
            return name, self.commands[name], args[2:]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Parse the rest and run the command."""
        with self._usage_errors():
            return super().invoke(ctx)

    @contextmanager
    def _usage_errors(self) -> Iterator[None]:
        try:
            yield
        except (KeyboardInterrupt, BrokenPipeError) as error:
            raise Ended from error
        except SystemExit as error:
            if isinstance(error.__context__, BrokenPipeError):  # rich's answer to one
                raise Ended from error.__context__
            raise
        except UsageError as error:
            if type(error).__name__ == "NoArgsIsHelpError":  # the help is printed already
                raise
            message = error.format_message().replace("Value error, ", "")  # pydantic's words
            typer.echo(f"tilewright: {message}", err=True)
            if (context := getattr(error, "ctx", None)) is not None:
                typer.echo(f"`{context.command_path} --help` says what it takes", err=True)
            if self._in_json:
                print_json({"error": message})
            raise typer.Exit(BAD_REQUEST) from None


class WithNegativeNumbers(TyperCommand):
    """A command that takes -1 as a value, so the argument refuses it instead of an unknown option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words after the command's name."""
        ctx.ignore_unknown_options = any(re.fullmatch(r"-\d+", word) for word in args)
        return super().parse_args(ctx, args)
