"""The GPU that the tests run on, with the variants' kernels compiled."""

import importlib
from random import sample

import pytest

from support.cases import unit_of
from support.rungs import LADDER_VARIANTS, RUNGS
from support.variants import VARIANTS
from tilewright.jit.cache import build


@pytest.fixture(scope="session")
def gpu():
    """The backend of GPU 0."""
    from tilewright.backends import gpu

    return gpu.backend(0)


def library(name, config):
    """A module that a test needs; with --require-gpu its absence is a failure."""
    try:
        return importlib.import_module(name)
    except ImportError:
        (pytest.fail if config.getoption("--require-gpu") else pytest.skip)(f"{name} is not installed")


@pytest.fixture(scope="session")
def torch(gpu, pytestconfig):
    """torch, which owns the memory that most tests use."""
    return library("torch", pytestconfig)


@pytest.fixture(scope="session")
def cupy(gpu, pytestconfig):
    """CuPy, the other array library."""
    return library("cupy", pytestconfig)


@pytest.fixture(scope="session")
def compiled_variants(gpu):
    """The variants of the generated cases that the GPU takes, compiled.

    Each process takes them in an order of its own. NVRTC compiles one unit at a time in a process, and processes that
    run side by side wait for each other where both want the same one.
    """
    variants = [variant for variant in VARIANTS if not variant.by_tma or gpu.hardware.capability == 90]
    variants += [each for each in LADDER_VARIANTS if RUNGS[each.kernel].runs_on(gpu.hardware)]
    for variant in sample(variants, len(variants)):
        build(unit_of(variant, gpu.hardware), gpu.hardware.arch)
    return variants
