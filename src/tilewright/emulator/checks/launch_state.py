"""The state that the checks keep from one wave of a launch to the next."""

from tilewright.emulator.checks.carried import Published
from tilewright.emulator.checks.history import History
from tilewright.emulator.checks.reporting.reports import Reports
from tilewright.emulator.checks.shadow import GlobalShadow


class LaunchState:
    """The state of the checks that outlives a batch: time and global memory.

    most_bytes: what the clocks and mbarriers of a wave may take.
    dependent: whether the grid may start before the grids that it depends on have ended.
    """

    def __init__(self, reports: Reports, most_bytes: int, dependent: bool) -> None:
        self.reports, self.most_bytes, self.dependent = reports, most_bytes, dependent
        self.now = 0
        self.global_proxies = False  # whether threads have written global memory, and bulk copies may read it
        self.allocations: dict[int, GlobalShadow] = {}
        self.published: Published = {}  # in global memory
        self.histories: dict[int, History] = {}  # by cluster
