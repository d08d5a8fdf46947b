"""What people read: columns that nothing cuts, whatever the width, and text that is shown as it is."""

import json
import re
from functools import partialmethod

import pytest
from rich.progress import Progress
from rich.table import Table

from support.commands import invoke
from tilewright.cli import output
from tilewright.rounding import three_digits


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.4291, "0.429"), (84.06, "84.1"), (803.2, "803"), (999.4, "999"), (999.6, "1000"), (1489.7, "1490")],
)
def test_rates_have_three_digits_and_no_powers_of_ten(value, text):
    assert three_digits(value) == text


ROWS = [("name", "us", "TFLOP/s"), ("short", "1.5", "800"), ("a.name::that.is:longer_than_others", "213.25", "7")]


@pytest.fixture
def terminal(monkeypatch):
    """Sets the width of the terminal."""
    return lambda width: monkeypatch.setattr(output, "terminal_width", lambda: width)


def printed(capsys, rows, **options):
    output.console.cache_clear()
    output.columns(rows, **options)
    output.console.cache_clear()
    return capsys.readouterr().out.splitlines()


def test_columns_are_as_wide_as_they_need(capsys):
    assert printed(capsys, ROWS, indent=2, gap=3) == [
        "  name                                     us   TFLOP/s",
        "  short                                   1.5       800",
        "  a.name::that.is:longer_than_others   213.25         7",
    ]


@pytest.mark.parametrize("title", ["", "of [red]"])
def test_a_grid_has_borders_on_a_terminal_and_is_plain_elsewhere(capsys, monkeypatch, title):
    output.console.cache_clear()
    output.grid(title, ROWS[0], ROWS[1:], numbers=("us", "TFLOP/s"))
    plain = ["name\tus\tTFLOP/s", "short\t1.5\t800", "a.name::that.is:longer_than_others\t213.25\t7"]
    assert capsys.readouterr().out.splitlines() == [*filter(None, [title]), *plain]
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    output.console.cache_clear()
    output.grid(title, ROWS[0], ROWS[1:], numbers=("us", "TFLOP/s"))
    output.console.cache_clear()
    text = re.sub("\x1b.*?m", "", capsys.readouterr().out)
    assert max(map(len, text.splitlines())) <= 40
    assert text.startswith(title)
    assert re.search(r"short +│ +1\.5 │ +800 │\n", text)


def test_a_name_that_does_not_fit_has_a_line_of_its_own(capsys, terminal):
    terminal(40)
    assert printed(capsys, ROWS) == [
        "name      us TFLOP/s",
        "short    1.5     800",
        "a.name::that.is:longer_than_others",
        "      213.25       7",
    ]


@pytest.mark.parametrize("width", [1, 20, 30, 49, 50, 51, 10**6])
def test_nothing_is_cut_at_any_width(capsys, terminal, width):
    terminal(width)
    words = " ".join(printed(capsys, ROWS, headings=1)).split()
    assert words == [cell for row in ROWS for cell in row]


def test_no_rows_print_nothing(capsys):
    assert printed(capsys, []) == []


@pytest.mark.parametrize("width", [60, 80, 120])
def test_inspect_keeps_opcodes_whole(terminal, width):
    terminal(width)
    lines = invoke("inspect", "wgmma").stdout.splitlines()
    opcode = "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
    assert any(line.split()[:1] == [opcode] for line in lines)
    assert all(len(line) <= width for line in lines if not re.search("::|Config:", line))


def test_facts_are_whole_in_the_narrowest_terminal(capsys, terminal):
    terminal(20)
    output.console.cache_clear()
    output.facts({"predicted": "WgmmaConfig(tile_m=128,epilogue='direct')", "kernel": "wgmma"})
    output.console.cache_clear()
    printed = capsys.readouterr().out
    assert "…" not in printed
    first, *rest, last = printed.splitlines()
    assert "".join(line.removeprefix("predicted").strip() for line in (first, *rest)) == (
        "WgmmaConfig(tile_m=128,epilogue='direct')"
    )
    assert last.split() == ["kernel", "wgmma"]


@pytest.mark.parametrize("show", ["facts", "table"])
def test_outside_a_terminal_lines_are_neither_wrapped_nor_padded(capsys, show):
    long, short = "a word " * 40, "short"
    output.console.cache_clear()
    if show == "facts":
        output.facts({"why": long.strip(), "who": short})
    else:
        rows = Table.grid()
        for word in (long, short):
            rows.add_row("x", word)
        output.print_table(rows)
    output.console.cache_clear()
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith(long.strip())
    assert second.endswith(short)


@pytest.mark.parametrize("width", [60, 80, 120, 10**6])
def test_bench_shows_a_record_whole(tmp_path, terminal, width):
    terminal(width)
    figures = {"time_us": 1591.0, "tflops": 690.9, "speed_of_light_share": 0.7, "watts": 692, "joules_per_tflop": 1.02,
               "sm_clock_mhz": 1455, "celsius": 52, "samples_us": [1591.0],
               "ratio": {"median": 1.04, "low": 1.03, "high": 1.05, "confidence": 0.97},
               "tflops_interval": {"median": 690.9, "low": 690, "high": 691}}  # fmt: skip
    name = "tilewright:tile_m=256,tile_n=200,stages=3,epilogue=direct"
    entries = [
        {"contender": name, "status": "timed", "settled": figures},
        {"contender": "quack", "status": "failed", "why": "TypeError: [bold] is no dtype"},
    ]
    product = {"m": 1, "n": 2, "k": 3, "dtype": "bf16", "layout": "nt", "data": "randn", "baseline": "cublas",
               "contenders": entries, "interrupted": False}  # fmt: skip
    products = [{**product, "label": "7B [QKV]"}, product]
    record = {"gpu": "a GPU", "date": "today", "data": "randn", "command": "tilewright bench [x]",
              "protocols": {"settled": {}}, "products": products}  # fmt: skip
    path = tmp_path / "record.json"
    path.write_text(json.dumps(record))
    lines = invoke("bench", path).stdout.splitlines()
    assert [line for line in lines if line.startswith("1x2x3")] == [
        "1x2x3 bf16 nt, randn  7B [QKV]",
        "1x2x3 bf16 nt, randn",
    ]
    assert sum(line.split()[:1] == [name] for line in lines) == 2
    shown = " ".join(lines).split()
    for text in ("1591", "690.9", "70%", "1.020", "52"):
        assert shown.count(text) == 2
    for text in ("692", "1455"):  # also as what the board did
        assert shown.count(text) == 4
    assert " ".join(shown).count("failed quack: TypeError: [bold] is no dtype") == 2


def shown_bar(capfd, monkeypatch, start, *shares):
    """What a terminal of 80 columns shows of a bar, without colors and movements."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(Progress, "update", partialmethod(Progress.update, refresh=True))
    with output.progress("emulating 1024x1024x1024 fp32 nt with bias and gelu", start) as bar:
        for share in shares:
            bar(share)
    return re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", capfd.readouterr().err)


def test_a_bar_fits_a_terminal(capfd, monkeypatch):
    shown = shown_bar(capfd, monkeypatch, 0.25, 0.5)
    assert re.search(r"25% elapsed \d:\d\d:\d\d left (\d|-):(\d|-){2}:(\d|-){2}", shown)
    assert " 50% " in shown
    frames = [line for line in re.split(r"[\r\n]+", shown) if line.strip()]
    assert all(line.startswith("emulating 1024x1024x1024") and "left" in line for line in frames)
    assert max(map(len, frames)) <= 80


def test_a_bar_goes_on_after_a_launch_that_is_not_the_last(capfd, monkeypatch):
    shown = shown_bar(capfd, monkeypatch, None, 1.0, 0.25)
    assert "100%" in shown
    assert "left 0:00:00" not in shown.rpartition("25%")[2]


def test_a_bar_without_a_share_claims_no_percentage(capfd, monkeypatch):
    assert "%" not in shown_bar(capfd, monkeypatch, None, 0.0)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (16384, 4, "16,384"), (16384.0, 3, "16,384"), (3.238, 3, "3.24"), (3.2381, 4, "3.238"), (4.8, 3, "4.8"),
        (999.96, 4, "1,000"), (0.99951, 3, "1"), (65504, 3, "65,504"), (123.456, 2, "123"), (-1234.5, 3, "-1,234"),
        (0, 4, "0"), (0.0, 2, "0"), (100.0, 2, "100"), (0.0009765625, 3, "0.000977"), (5.96e-8, 3, "5.96e-8"),
        (6e-05, 3, "6e-5"), (3.4028e38, 3, "3.4e38"), (2e12, 2, "2e12"), (float("inf"), 3, "inf"),
        (float("nan"), 3, "nan"),
    ],
)  # fmt: skip
def test_numbers_are_printed_as_people_read_them(value, digits, text):
    assert output.number(value, digits) == text
