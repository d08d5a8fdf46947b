"""docs/check-your-kernel.md: each kernel has its bug, its command prints what the page shows, and the mend mends it.

What needs a package that is not installed is skipped; `make doors` installs all of them.
"""

import re
import shlex
from pathlib import Path

import pytest

from support.commands import invoke
from support.compilers import needing

pytestmark = pytest.mark.planted_fault

TEXT = (Path(__file__).parents[2] / "docs/check-your-kernel.md").read_text(encoding="utf-8")
NEEDS = {
    "softmax.cu": (),
    "transpose.cu": ("cutlass_library",),
    "reverse.py": ("cutlass",),
    "column_sums.py": ("triton",),
}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def part(name):
    """The kernel, the command, what it prints, the mend, and what it prints then."""
    (section,) = (
        text for text in re.split(r"^## ", TEXT, flags=re.MULTILINE) if f"{name}\n" in text or f" {name}:" in text
    )
    blocks = [(language, text) for language, text in BLOCK.findall(section) if not text.startswith("pip ")]
    (_, kernel), (_, command), (_, shown), (_, mend), (_, mended) = blocks
    return kernel, shlex.split(command)[1:], shown, mend, mended


def without_counts(text):
    """Words and source lines of the user: instructions, and with them PTX lines and counts, are those of a version."""
    text = re.sub(r"`[^`]*`|copy\w*\.hpp:\d+,", "#", text)
    return re.sub(r"(?<!cu:)(?<!py:)(?<!cu:1)(?<!py:1)(?<!cu:2)\b\d[\w,.]*", "#", text).split()


def mend_of(name, kernel, mend):
    """The kernel with the mend where the page says that it belongs."""
    before = {
        "softmax.cu": "  return value;\n",
        "transpose.cu": "\n  __syncthreads();\n",
        "reverse.py": "    out[block",
    }
    if name == "column_sums.py":
        return re.sub(r"^    tl\.store\(.*\n", mend, kernel, flags=re.MULTILINE)
    assert kernel.count(before[name]) == 1
    return kernel.replace(before[name], mend + before[name])


@pytest.mark.parametrize("name", NEEDS)
def test_the_bug_is_found_as_shown_and_the_mend_mends_it(name, tmp_path, monkeypatch):
    for package in NEEDS[name]:
        needing(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kernel, command, shown, mend, mended = part(name)
    Path(name).write_text(kernel)
    assert without_counts(invoke(*command, code=1).stdout) == without_counts(shown)
    (tmp_path / "mended").mkdir()
    monkeypatch.chdir(tmp_path / "mended")
    Path(name).write_text(mend_of(name, kernel, mend))
    assert without_counts(invoke(*command, code=0).stdout) == without_counts(mended)


def python_block(name):
    """The one block of Python that defines a function."""
    (text,) = (text for language, text in BLOCK.findall(TEXT) if language == "python" and f"def {name}(" in text)
    namespace = {}
    exec(compile(text, "page.md", "exec"), namespace)
    return namespace[name]


def test_the_test_with_check_fails_for_the_bug_and_passes_without_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kernel, _, _, mend, _ = part("softmax.cu")
    test = python_block("test_softmax")
    Path("softmax.cu").write_text(kernel)
    with pytest.raises(AssertionError, match=r"softmax\.cu:19: error: race"):
        test()
    Path("softmax.cu").write_text(mend_of("softmax.cu", kernel, mend))
    test()


def test_the_test_with_a_structure_fails_for_the_bug_and_passes_without_it(tmp_path, monkeypatch):
    needing("cutlass_library")
    monkeypatch.chdir(tmp_path)
    (section,) = (text for text in re.split(r"^## ", TEXT, flags=re.MULTILINE) if "Save this as scale_rows.cu" in text)
    (_, kernel), _, (_, shown), (_, mend) = BLOCK.findall(section)
    test = python_block("test_scale_rows")
    Path("scale_rows.cu").write_text(kernel)
    with pytest.raises(AssertionError) as failed:
        test()
    assert " ".join(without_counts(shown)) in " ".join(without_counts(str(failed.value)))
    lines = kernel.splitlines(keepends=True)
    assert (lines[11].startswith("static_assert"), lines[25]) == (True, "\n")
    Path("scale_rows.cu").write_text("".join([*lines[:25], mend, *lines[25:]]))
    test()


def test_the_test_with_a_device(tmp_path, monkeypatch):
    from tilewright.emulator import Device
    from tilewright.jit.user_source import UserSource

    monkeypatch.chdir(tmp_path)
    Path("softmax.ptx").write_text(UserSource("softmax.cu", part("softmax.cu")[0]).compiled().ptx)
    device = Device()
    python_block("test_on_a_device")(device)
    assert device.reports
