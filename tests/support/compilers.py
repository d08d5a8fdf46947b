"""Compilers in Python, for tests that are skipped where these are not installed."""

import os
from importlib import import_module
from importlib.util import find_spec

import pytest


def needing(package, module=None):
    """A module, by default the package itself; skips where the package is not installed, unless `make doors` runs.

    A package that is there and does not import is an error, and not skipped.
    """
    if find_spec(package) is None and os.environ.get("TILEWRIGHT_DOORS") != "required":
        pytest.skip(f"{package} is not installed", allow_module_level=True)
    return import_module(module or package)
