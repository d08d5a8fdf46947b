"""Write the tables of tuned Configs that come with the package from records of `tilewright bench`.

Of each product, what the tuner chose is shipped if the record shows it to be quicker than the planner's choice, by more
than GAIN and with its whole interval. Tables of other kernels than the present ones are removed.

python tools/shipped_tables.py RECORD...
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from tilewright.bench.contenders import OURS, TilewrightTuned  # noqa: E402
from tilewright.bench.inputs import Shape  # noqa: E402
from tilewright.bench.standing import timed  # noqa: E402
from tilewright.cli.products import problem_of  # noqa: E402
from tilewright.hardware import Hardware, recognize  # noqa: E402
from tilewright.measure.statistics import paired_ratio  # noqa: E402
from tilewright.planner.tuned import label  # noqa: E402
from tilewright.planner.tuned_table import Entry, Key, Table, decode, encode, kernels_digest  # noqa: E402

TABLES = ROOT / "src" / "tilewright" / "planner" / "tables"
GAIN = 0.005
PROTOCOL = "settled"


def entries(record: dict[str, Any], hardware: Hardware) -> Iterator[Entry]:
    """The tuned choices that are clearly quicker than the untuned ones."""
    for product in record["products"]:
        found = timed(product, PROTOCOL)
        if product["interrupted"] or not {OURS, TilewrightTuned.name} <= found.keys():
            continue
        tuned, untuned = (found[name]["samples_us"] for name in (TilewrightTuned.name, OURS))
        if paired_ratio(tuned, untuned).low < 1 + GAIN:
            continue
        shape = Shape(*(product[name] for name in ("m", "n", "k", "dtype", "layout")))
        problem = problem_of(shape, bias=False, activation=None)
        (choice,) = (each for each in product["contenders"] if each["contender"] == TilewrightTuned.name)
        yield Entry(
            Key.of(problem),
            problem.m,
            choice["kernel"],
            choice["config"],
            float(found[TilewrightTuned.name]["time_us"]),
            record["sessions"][product["session"]]["date"],
            record["versions"]["nvrtc"],
        )


def main() -> None:
    """Read the records and write a table for each GPU."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path, nargs="+", metavar="RECORD")
    tables: dict[str, Table] = defaultdict(Table)
    for path in parser.parse_args().records:
        record = json.loads(path.read_text(encoding="utf-8"))
        hardware = recognize(record["gpu"])
        if hardware is None or record.get("kernels") != kernels_digest():
            sys.exit(f"{path} is a record of another GPU or of other kernels: measure again")
        for entry in entries(record, hardware):
            tables[label(hardware)].add(entry)
    TABLES.mkdir(exist_ok=True)
    for path in TABLES.glob("*.json"):
        try:
            decode(path.read_text(encoding="utf-8"), current=True)
        except ValueError:
            path.unlink()
    for gpu, table in tables.items():
        (TABLES / f"{gpu}.json").write_text(encode(table, gpu), encoding="utf-8")
        print(f"{gpu}: {len(table)} products")


if __name__ == "__main__":
    main()
