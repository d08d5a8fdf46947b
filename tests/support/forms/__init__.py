"""The instruction forms that the emulator is compared with hardware in."""

from support.forms.barriers import BARRIERS
from support.forms.conversions import CONVERSIONS
from support.forms.floats import FLOATS
from support.forms.fragments import FRAGMENTS
from support.forms.halves import HALVES
from support.forms.integers import INTEGERS
from support.forms.memory import MEMORY
from support.forms.products import PRODUCTS
from support.forms.warpgroups import WARPGROUPS
from support.forms.warps import WARPS

FORMS = {
    "integer": INTEGERS,
    "float": FLOATS,
    "half": HALVES,
    "conversion": CONVERSIONS,
    "warp": WARPS,
    "memory": MEMORY,
    "barrier": BARRIERS,
    "mma": PRODUCTS,
    "wmma": FRAGMENTS,
    "wgmma": WARPGROUPS,
}
"""By kind."""
