"""The house: every import runs downwards, no modules import each other in a circle, and rooms stay small."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"

FLOORS = (
    ("tilewright.__main__",),
    ("tilewright.cli", "tilewright.pytest_plugin"),
    ("tilewright",),
    ("tilewright.ladder",),
    ("tilewright.explaining.report",),
    ("tilewright.bench", "tilewright.checking"),
    ("tilewright.plots",),
    ("tilewright.explaining",),
    ("tilewright.api",),
    ("tilewright.planner.tuning",),
    ("tilewright.planner",),
    ("tilewright.arrays", "tilewright.backends"),
    ("tilewright.emulator",),
    ("tilewright.emulator.device",),
    ("tilewright.emulator.launch",),
    ("tilewright.emulator.checks", "tilewright.emulator.counts"),
    ("tilewright.emulator.machine",),
    ("tilewright.emulator.program",),
    ("tilewright.emulator.ptx", "tilewright.emulator.semantics"),
    ("tilewright.emulator.memory",),
    ("tilewright.emulator.errors",),
    ("tilewright.emulator.lanes",),
    ("tilewright.kernels",),
    ("tilewright.jit", "tilewright.model"),
    ("tilewright.measure", "tilewright.reference"),
    ("tilewright.operand", "tilewright.problem"),
    ("tilewright.expression", "tilewright.hardware"),
    ("tilewright.dtypes",),
    ("tilewright.rounding",),
    ("tilewright.errors",),
)
"""The rooms, from the top down. A room may import itself and what lies below it, not its neighbors.

"tilewright" and "tilewright.emulator" stand for what is public there: the module itself.
"""

MOST_ENTRIES = {"emulator": 12, "tilewright": 28}
USUAL_ENTRIES = 25
"""What a folder may hold: files and folders, those of the ladder's rungs and of the CUDA sources apart."""


def modules():
    """The package's modules by name."""
    found = {}
    for path in sorted((SOURCE / "tilewright").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(module):
    """The modules of the package that one imports, wherever the statement stands, also for type checkers only."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module} imports relatively"
            package = node.module or ""
            names = {f"{package}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else package for name in names}
    return (found & set(MODULES)) - {module}


IMPORTS = {module: imports(module) for module in MODULES}


def room_of(module):
    """The longest name among the rooms that a module's name begins with."""
    rooms = [room for floor in FLOORS for room in floor if module == room or module.startswith(f"{room}.")]
    room = max(rooms, key=len)
    face = room in ("tilewright", "tilewright.emulator")
    assert module == room or not face, f"{module} has no room: write it into FLOORS and docs/design.md"
    return room


def floor_of(room):
    return next(number for number, floor in enumerate(FLOORS) if room in floor)


@pytest.mark.parametrize("module", MODULES)
def test_imports_run_downwards(module):
    room = room_of(module)
    for other in IMPORTS[module]:
        there = room_of(other)
        assert there == room or floor_of(there) > floor_of(room), f"{module} imports {other}, which is not below it"


def test_no_modules_import_each_other():
    try:
        TopologicalSorter(IMPORTS).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' <- '.join(error.args[1])}")


def test_every_room_is_there():
    rooms = {room for floor in FLOORS for room in floor}
    assert rooms == {room_of(module) for module in MODULES}


@pytest.mark.parametrize("folder", sorted({path.parent for path in MODULES.values()}), ids=str)
def test_rooms_stay_small(folder):
    entries = [path.name for path in folder.iterdir() if path.name != "__pycache__"]
    most = MOST_ENTRIES.get(folder.name, USUAL_ENTRIES)
    assert len(entries) <= most, f"{folder.name} has {len(entries)} entries, and {most} are enough: make rooms in it"
