"""The common parts of commands: declarations of options, and ends by errors."""

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from tilewright.cli.output import print_json
from tilewright.errors import ArgumentValueError, message_of

UsageError: Any = typer.BadParameter.__bases__[0]
"""The usage error of click, which typer has under different names."""

NOT_VERIFIED, BAD_REQUEST, INTERRUPTED, UNREAD = 1, 2, 130, 141
"""Exit codes besides 0: a wrong answer or a failure; a request that cannot be met; Ctrl-C; a reader that went away.

The last two are those of a shell for a process that a signal ended.
"""


class Gives:
    """In the annotation of an option: the names of the library's arguments that it sets, besides its own name.

    Those of an argument of several words are the names of its words, in capitals.
    """

    def __init__(self, *names: str) -> None:
        self.names = names


def command(function: Callable[..., None]) -> Callable[..., None]:
    """A command for typer, made from a function whose parameters may be dataclasses of options.

    The fields of such a dataclass are annotated as parameters are, and become options of the command. An error raised
    for the caller becomes its message on stderr, with --json an object on stdout, and exit code 2. Where a message
    begins with the argument, it then begins with the option, as it was typed if it has several names: `--smem=9` for
    `smem_bytes=9`. Ctrl-C becomes 130.
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
    words = {name: word for option in options for name, word in as_typed(option).items()}

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
            code = BAD_REQUEST
            message = re.sub(
                r"^[\w-]+(?==|: | is )", lambda name: _as_given(words.get(name[0], name[0]), options), said
            )
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


def as_typed(option: inspect.Parameter) -> dict[str, str]:
    """The names that errors may use for an option, each with how it is typed; an argument is in capitals."""
    names, flag = list[str](), option.name.upper()
    for about in getattr(option.annotation, "__metadata__", ()):
        if isinstance(about, Gives):
            names += about.names
        elif str(about.default).startswith("--"):  # typer takes an option's first word for its default
            flag = about.default.partition("/")[0]
        elif about.metavar:
            flag = about.metavar.strip("[]")
    return {option.name: flag} | {name: flag if flag.startswith("--") else name.upper() for name in names}


_given: list[str] = []
"""The words of the command that runs."""


def _as_given(flag: str, options: list[inspect.Parameter]) -> str:
    """Of an option's flags, that which was given; the one that stands for all if none was."""
    for option in options:
        flags = _flags(option)
        if flag in flags:
            return next((each for word in _given if (each := word.partition("=")[0]) in flags), flag)
    return flag


def _flags(option: inspect.Parameter) -> list[str]:
    """The long names of an option; none of an argument."""
    about = [each for each in getattr(option.annotation, "__metadata__", ()) if not isinstance(each, Gives)]
    flags = [flag for each in about for flag in (each.default, *(each.param_decls or ()))]
    return [flag for flag in flags if str(flag).startswith("--")]


def refuse(options: Any, purpose: str, remedy: str) -> None:
    """Raise an ArgumentValueError if a dataclass of options has one that is not as by default.

    purpose: what the options are for, and why not here.
    """
    given = []
    for option in _options_of(type(options)):
        if (value := getattr(options, option.name)) not in (option.default, []):
            flag = as_typed(option)[option.name]
            given.append(flag.replace("--", "--no-") if value is False else flag)
    if given:
        raise ArgumentValueError(f"{', '.join(given)} {'are' if len(given) > 1 else 'is'} for {purpose}: {remedy}")


class Ended(Exception):
    """Ctrl-C or a reader that went away, its cause: typer would exit with 1, the code of a wrong answer."""


class Commands(TyperGroup):
    """Commands by name; an unknown name is answered with all names, the closest one first."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that the first word names."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            known = sorted(self.commands, key=lambda name: -SequenceMatcher(None, args[0].lower(), name).ratio())
            raise UsageError(f"{args[0]!r} does not exist: use {', '.join(known)}", ctx)
        return super().resolve_command(ctx, args)


class CommandLine(Commands):
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


class Command(TyperCommand):
    """A command that takes -1 as a value, so the argument refuses it instead of an unknown option.

    Where another word with a hyphen is no option, the error says how to write it as a value.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words after the command's name."""
        ctx.ignore_unknown_options = any(re.fullmatch(r"-[\d.]+", word) for word in args)
        _given[:] = given = list(args)  # parsing takes words out
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            option = getattr(error, "option_name", "--")
            word = next((word for word in given if word.startswith(option) and len(word) > 2), None)
            if word is not None and not option.startswith("--"):
                error.message += f": if {word} is a value, write `-- '{word}'` at the end"
            if "extra argument" in error.message and any("--shape" in each.opts for each in self.params):
                error.message += ": a shape is one word, --shape M,N,K"
            raise
