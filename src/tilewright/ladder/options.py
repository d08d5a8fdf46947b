"""The options of the ladder besides a shape: an element type and fields of Configs, for the rungs that have them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tilewright import dtypes
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.kernels.config_fields import fields_of

if TYPE_CHECKING:
    from tilewright.dtypes import DType
    from tilewright.hardware import Hardware
    from tilewright.kernels.ladder import Rung
    from tilewright.problem import Problem


DTYPE_FORMAT, OPTION_FORMAT = "dtype={!r}", "options={{{!r}: {!r}}}"
"""The forms of a dtype, and of a field with its value, in Python."""


@dataclass(frozen=True, slots=True)
class Option:
    """A value for a field of Configs; `written` is how the caller gave it."""

    written: str
    field: str
    text: str

    def value(self, rung: "Rung") -> Any:
        """The value; raises an ArgumentValueError that lists the rung's values."""
        wanted = fields_of(rung.kernel.config_type)[self.field]
        for value in wanted.values:
            if str(value).lower() == self.text.lower():
                return value
        if wanted.type is int and re.fullmatch(r"-?\d+", self.text):
            return int(self.text)
        raise ArgumentValueError(f"{self.written}: {self.field} of {rung.name} is {wanted}, and {self.text!r} is not")


@dataclass(frozen=True, slots=True)
class LadderOptions:
    """An element type and fields of Configs; a rung uses those that it has.

    dtype_format, option_format: the forms in which the caller writes a dtype, and a field with its value.
    """

    dtype: "DType | None" = None
    options: Sequence[Option] = field(default=())
    dtype_format: str = DTYPE_FORMAT
    option_format: str = OPTION_FORMAT

    def __post_init__(self) -> None:
        """Raise an ArgumentValueError if a field gets two values."""
        for number, option in enumerate(self.options):
            for other in self.options[:number]:
                if other.field == option.field:
                    raise ArgumentValueError(
                        f"{other.written} and {option.written} are two values of a field: leave one out"
                    )

    @classmethod
    def of(cls, dtype: object = None, options: Mapping[str, object] | None = None) -> "LadderOptions":
        """A dtype and values by the names of fields."""
        if options is not None and not isinstance(options, Mapping):
            raise ArgumentTypeError(f"options={options!r} is not a mapping: give one, such as {{'stages': 3}}")
        found = [Option(OPTION_FORMAT.format(name, value), name, str(value)) for name, value in (options or {}).items()]
        return cls(None if dtype is None else dtypes.parse(dtype, "dtype"), found)

    @classmethod
    def parse(cls, dtype: str | None, schedule: str | None, options: Sequence[str]) -> "LadderOptions":
        """The values of --dtype, --schedule and --option; raises an ArgumentValueError if one is not NAME=VALUE."""
        found = [] if schedule is None else [Option(f"--schedule {schedule}", "schedule", schedule)]
        for text in options:
            name, equals, value = map(str.strip, text.partition("="))
            if not (name and equals and value):
                raise ArgumentValueError(
                    f"--option {text!r} is not a field with a value: write NAME=VALUE, such as stages=3"
                )
            found.append(Option(f"--option {text}", name, value))
        return cls(dtypes.parse(dtype, "--dtype") if dtype else None, found, "--dtype {}", "--option {}={}")

    def ignored_by(self, rung: "Rung") -> list[str]:
        """The options that the rung does not have, as they were written."""
        without = [self.dtype_format.format(str(self.dtype))] if self.dtype and self.dtype not in rung.inputs else []
        fields = fields_of(rung.kernel.config_type)
        return without + [option.written for option in self.options if option.field not in fields]

    def require(self, rungs: "Sequence[Rung]", named: bool) -> None:
        """Raise an ArgumentValueError for a value that a rung does not take, or an option that none of the rungs has.

        Rungs that were `named` must each have every option.
        """
        ignored = [(rung.name, written) for rung in rungs for written in self.ignored_by(rung)]
        for written in dict.fromkeys(written for _, written in ignored):
            without = [name for name, each in ignored if each == written]
            if named or len(without) == len(rungs):
                names = ", ".join(without) if named else "any rung"
                raise ArgumentValueError(
                    f"{written} is nothing for {names}: leave it out. What there is:{self._choices(rungs)}"
                )
        for rung in rungs:
            for option in self.options:
                if option.field in fields_of(rung.kernel.config_type):
                    option.value(rung)

    def dtype_of(self, rung: "Rung") -> "DType":
        """The element type of A and B."""
        return self.dtype if self.dtype and self.dtype in rung.inputs else rung.inputs[0]

    def config(self, rung: "Rung", problem: "Problem", hardware: "Hardware") -> Any:
        """The rung's usual Config with the given values; raises a ConfigError if these break a rule."""
        fields = fields_of(rung.kernel.config_type)
        wanted = {option.field: option.value(rung) for option in self.options if option.field in fields}
        config = replace(rung.kernel.configs(problem, hardware)[0], **wanted)
        rung.kernel.check(config, problem, hardware)
        return config

    def _choices(self, rungs: "Sequence[Rung]") -> str:
        """The options of rungs, one line for rungs with the same options."""
        found: dict[str, list[str]] = {}
        for rung in rungs:
            options = [self.dtype_format.replace("!r", "").format("|".join(map(str, rung.inputs)))]
            for name, wanted in fields_of(rung.kernel.config_type).items():
                values = "|".join(map(str, wanted.values)) or wanted.type.__name__
                options.append(self.option_format.replace("!r", "").format(name, values))
            found.setdefault(" ".join(options), []).append(rung.name)
        return "".join(f"\n  {', '.join(names)}: {options}" for options, names in found.items())
