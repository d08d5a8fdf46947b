"""The memory that this process may still take."""

import os
from contextlib import suppress
from math import inf
from pathlib import Path

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files with the container's limit in bytes, in cgroups of version 2 and 1; "max" means no limit."""


def available_memory() -> float:
    """Free memory of the machine in bytes, or a lower limit on the process or its container; inf if unknown."""
    bounds = [inf]
    with suppress(OSError, ValueError, AttributeError):  # Windows has no sysconf
        bounds.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(OSError):
        meminfo = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        bounds.append(int(meminfo["MemAvailable"].split()[0]) * 1024)
    for name in _CGROUP_LIMITS:
        with suppress(OSError, ValueError):
            bounds.append(int(Path(name).read_text()))
    with suppress(ImportError):  # nor this module
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        bounds.append(inf if limit == resource.RLIM_INFINITY else limit)
    return min(bounds)
