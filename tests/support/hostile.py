"""Records with changed values."""

import copy

VALUES = (
    None, True, 0, -1, 1.5, -0.0, 1e-300, 1e300, 10**30, 10**400, "", "word", "[/red] [bold]", "$\\frac{", "\ud800",
    "a\0b\nc", [], {}, [[]], {"": None}, [1, 2, 3],
)  # fmt: skip


def places(value, found=()):
    """Every place in a record, as the keys that lead to it."""
    if found:
        yield found
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[key], (*found, key))


def mutant(original, chosen):
    """A copy of a record with one or three changes, which the random generator `chosen` chooses."""
    record = copy.deepcopy(original)
    for _ in range(chosen.choice((1, 1, 1, 3))):
        *way, last = chosen.choice(list(places(record)))
        parent = record
        for key in way:
            parent = parent[key]
        match chosen.choice(("replace", "replace", "replace", "remove", "repeat")):
            case "replace":
                parent[last] = copy.deepcopy(chosen.choice(VALUES))
            case "remove":
                del parent[last]
            case "repeat":
                parent[last] = [copy.deepcopy(parent[last]) for _ in range(chosen.choice((2, 400)))]
    return record
