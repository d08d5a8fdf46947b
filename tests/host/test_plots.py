"""The style of pictures: the same bytes each time, light and dark, and text that can be read on every color."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from tilewright.errors import ArgumentValueError, UnavailableError
from tilewright.model.fragments.instructions import fragments_of
from tilewright.model.memory.coalescing import coalescing
from tilewright.model.memory.layouts import linear, transposition, volta
from tilewright.model.memory.pattern import addresses_of
from tilewright.plots import style

pytest.importorskip("matplotlib")

from tilewright.plots.fragments import held_by_lanes
from tilewright.plots.memory import sectors_of_lines, tiles_in_banks
from tilewright.plots.panels import blank, box, note, text_on


def relative_luminance(color):
    """As WCAG 2 defines it."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((relative_luminance(one), relative_luminance(other)))
    return (high + 0.05) / (low + 0.05)


@style.styled()
def drawn():
    picture, (axes,) = style.figure(2, 1)
    blank(axes, 4, 1, "a $title$")
    for column, color in enumerate((style.BLUE, style.ORANGE)):
        box(axes, (0, column, 1, 1), color, "x")
        box(axes, (0, column + 2, 1, 1), color, "y", pale=True)
    return picture


def test_a_picture_has_the_same_bytes_each_time():
    """Also where names are hashes of places, and places differ in the last bits."""
    text = style.svg(drawn())
    assert text == style.svg(drawn())
    names = set(re.findall(r'(?:id="|url\(#|href="#)(\w+)', text))
    assert {f"id{number}" for number in range(3)} & names
    assert not {name for name in names if re.fullmatch("[mp][0-9a-f]{10}", name)}


def test_an_svg_is_well_formed_keeps_text_and_has_rules_for_dark_pages(tmp_path):
    style.save(drawn(), tmp_path / "picture.svg")
    text = (tmp_path / "picture.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(text)
    assert ">a $title$</text>" in text
    rules = dict(re.findall(r'\[style\*="fill: (#\w{6})"\]\{fill:(#\w{6})!important\}', text))
    used = set(re.findall(r"fill: (#\w{6})[;\"]", text.partition("</style>")[2].partition("</style>")[2]))
    assert {style.INK, style.GROUND, style.PALE[style.BLUE]} <= used & rules.keys()
    assert style.BLUE in used - rules.keys()


def test_a_dark_bitmap_has_no_light_ground_below_its_notes(tmp_path):
    import matplotlib.image

    with style.styled():
        picture, (axes,) = style.figure(2, 1)
        blank(axes, 4, 1)
        note(axes, 0.5, 2, "a note", side="center")
    style.save(picture, tmp_path / "picture.png", dark=True)
    pixels = matplotlib.image.imread(tmp_path / "picture.png")[..., :3]
    assert (pixels.min(axis=2) > 0.99).sum() == 0


@pytest.mark.parametrize("dark", [False, True])
def test_a_bitmap_is_light_or_dark(tmp_path, dark):
    import matplotlib.image

    path = tmp_path / "picture.png"
    style.save(drawn(), path, dark=dark)
    pixels = matplotlib.image.imread(path)
    corner = pixels[0, 0, :3]
    assert (corner < 0.2).all() if dark else (corner == 1).all()
    assert len(pixels.reshape(-1, pixels.shape[-1])) > 10_000


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("color", [*style.SERIES, *style.PALE.values()])
def test_text_can_be_read_on_every_color(color, dark):
    shown = {each: style._DARK.get(each, each) if dark else each for each in (color, text_on(color))}
    assert contrast(*shown.values()) > 3.4


@pytest.mark.parametrize("color", style.SERIES)
def test_colors_can_be_told_from_both_grounds(color):
    for ground in (style.GROUND, style._DARK[style.GROUND]):
        assert contrast(color, ground) > 2


def test_what_is_missing_is_said(tmp_path, monkeypatch):
    with pytest.raises(ArgumentValueError, match=r"a\.txt has a suffix that is not drawn"):
        style.require_matplotlib(tmp_path / "a.txt")
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(UnavailableError, match="pip install matplotlib"):
        style.require_matplotlib(tmp_path / "a.png")


def texts(picture):
    """What a picture says, in any order."""
    import matplotlib.text

    return {each.get_text() for each in picture.findobj(matplotlib.text.Text)}


def test_many_lines_of_gmem_are_not_all_drawn():
    for lines, said in ((16, set()), (17, {"and 9 lines more"}), (32, {"and 24 lines more"})):
        addresses = addresses_of("lane*8192", lines)
        found = texts(sectors_of_lines(addresses, 4, coalescing(addresses, 4), "lines"))
        assert {each for each in found if "more" in each} == said
        assert f"the rest of the {lines} sectors of 32 bytes" in found  # of all, drawn or not


@pytest.mark.parametrize(("name", "panels"), [("ldmatrix.x4", 4), ("ldmatrix.x1", 1), ("wmma.volta.m16n16k16", 3)])
def test_every_lane_is_in_the_picture_of_a_fragment(name, panels):
    fragments = fragments_of(name)
    picture = held_by_lanes(fragments, None)
    inside, left, above = set(), set(), set()
    for text in (each for axes in picture.axes for each in axes.texts):
        x, y = text.get_position()
        numbers = {int(number) for number in re.findall(r"^\d+|(?<=[,\n])\d+$", text.get_text())}
        (left if x < 0 else above if y < 0 else inside).update(numbers)
    assert len(picture.axes) == panels
    assert inside == set(range(32))
    assert left == set(range(max(each.rows for each in fragments.fragments)))
    assert above == set(range(max(each.columns for each in fragments.fragments)))
    assert "register 0" in {each.get_text() for each in picture.legends[0].get_texts()}
    assert picture.get_size_inches()[0] < 9.5


def test_a_column_of_four_rows_is_read_with_the_next_one():
    shown = [transposition(each) for each in (linear(), volta())]
    found = "\n".join(texts(tiles_in_banks(shown, "tiles")))
    assert "a column: 8 passes for 8 lanes" in found
    assert "2 columns: 1 pass for 8 lanes" in found
