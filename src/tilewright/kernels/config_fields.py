"""The fields of Configs, whichever kernel they are of: their valid values, those of a Config, and these as a text."""

from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, NamedTuple, get_args, get_type_hints


class Field(NamedTuple):
    """The valid values of a Config's field: a type, and the listed `values` if there are any."""

    type: type
    values: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return " or ".join(map(repr, self.values)) or f"of type {self.type.__name__}"


@cache
def fields_of(config_type: type) -> dict[str, Field]:
    """The fields of a Config by name."""
    return {name: _field(hint) for name, hint in get_type_hints(config_type).items()}


def values_of(config: Any) -> dict[str, Any]:
    """The values of a Config's fields by name."""
    config_type: type = type(config)
    return {name: getattr(config, name) for name in fields_of(config_type)}


def brief(config: Any) -> str:
    """A Config by the fields that are not as usual: `WgmmaConfig(tile_m=256, stages=3)`; others by their repr."""
    if not is_dataclass(config):
        return repr(config)
    unusual = {each.name: value for each in fields(config) if (value := getattr(config, each.name)) != each.default}
    return f"{type(config).__name__}({', '.join(f'{name}={value!r}' for name, value in unusual.items())})"


def _field(hint: Any) -> Field:
    values = (False, True) if hint is bool else get_args(hint)
    return Field(type(values[0]) if values else hint, values)
