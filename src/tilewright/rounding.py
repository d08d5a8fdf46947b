"""Whole numbers rounded up."""


def ceil_div(value: int, by: int) -> int:
    """How many pieces of size `by` hold `value`."""
    return -(-value // by)


def round_up(value: int, multiple: int) -> int:
    """The smallest multiple that is not below value."""
    return ceil_div(value, multiple) * multiple
