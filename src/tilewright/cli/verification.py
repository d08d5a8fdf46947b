"""What the record of a GPU run holds, as far as it is shown."""

from tilewright.cli.schema import ABSENT, Extent, Part, Text


class Verification(Part):
    """A record of `make test-gpu`: generated products that came out right, and their element types, by kernel."""

    gpu: Text
    date: Text
    cases: dict[Text, Extent]
    dtypes: dict[Text, list[Text]] = ABSENT
