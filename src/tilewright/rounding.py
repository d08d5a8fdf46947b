"""Whole numbers rounded up."""


def ceil_div(value: int, by: int) -> int:
    """The number of pieces of size `by` that hold `value`."""
    return -(-value // by)


def round_up(value: int, multiple: int) -> int:
    """The smallest multiple that is not below value."""
    return ceil_div(value, multiple) * multiple
