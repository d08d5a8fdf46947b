"""docs/inspect.md: what it shows is what the commands print."""

import re
import shlex
from pathlib import Path

import pytest

from compile.test_inspection import needs_nvdisasm
from support.commands import invoke
from tilewright.explaining import remarks
from tilewright.jit.compile import nvrtc_version

PAGE = (Path(__file__).parents[2] / "docs/inspect.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(bash|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def shown():
    """Each block of output, with the command before it."""
    command = ""
    for language, body in BLOCK.findall(PAGE):
        if language == "bash":
            command = body.splitlines()[-1]
        else:
            yield pytest.param(command, body, id=f"{command}: {body.split()[0]}")


@needs_nvdisasm
@pytest.mark.skipif(not nvrtc_version().startswith("13.5"), reason="the page shows what NVRTC 13.5 makes")
@pytest.mark.parametrize(("command", "body"), shown())
def test_the_page_shows_what_the_command_prints(command, body):
    """The numbers of lines in headers aside, and the blanks behind them."""
    printed = invoke(*shlex.split(command)[1:]).stdout
    body, printed = (re.sub(r"(\.cuh):\d+ *", r"\1 ", text) for text in (body, printed))
    assert body in printed


def test_the_page_names_every_remark():
    made = set(re.findall(r'Remark\(\s*"(\w+)"', Path(remarks.__file__).read_text(encoding="utf-8")))
    assert len(made) == 7
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == made
