"""The warnings that tilewright logs, as a process that has not configured logging shows them."""

import subprocess
import sys

ODD = "import numpy as np, tilewright as tw; a = np.ones((24, 7), np.float16)"
NOTICE = """
from tilewright.backends.absent import AbsentGpu
from tilewright.checking.product import Product
from tilewright.dtypes import bf16
from tilewright.planner.choose import choose
choose(Product(24, 24, 7, bf16, bf16).problem, AbsentGpu().hardware)
"""


def said(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr


def test_a_warning_says_whose_it_is():
    assert said(NOTICE).startswith("tilewright: mma runs in place of wgmma, since a has row stride 7 ")


def test_a_handler_gets_the_bare_message_and_the_module():
    configured = f"import logging; logging.basicConfig(format='%(name)s: %(message)s'){NOTICE}"
    assert said(configured).startswith("tilewright.planner.choose: mma runs in place of wgmma, since ")


def test_the_logger_of_the_package_silences_all():
    assert said(f"import logging; logging.getLogger('tilewright').setLevel('ERROR'){NOTICE}") == ""


def test_without_a_gpu_no_kernel_is_called_slower():
    no_gpu = "import tilewright.api; tilewright.api.gpu_count = lambda: 0"
    assert said(f"{ODD}; {no_gpu}; tw.matmul(a, a.T)") == ""
