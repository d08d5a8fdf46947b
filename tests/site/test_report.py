"""A report in headless Chromium: its controls, light and dark, wide and narrow. `make test-docs` writes it."""

import pytest

WIDTHS = (400, 1280)


@pytest.fixture(scope="module")
def report(pytestconfig):
    folder = pytestconfig.getoption("--site")
    path = folder.resolve().parent / "report.html" if folder else None
    if path is None or not path.exists():
        pytest.skip("there is no report beside --site: `make test-docs` writes one")
    return path.as_uri()


@pytest.fixture
def page(opened, report):
    made = opened(viewport={"width": 1280, "height": 900})
    made.goto(report)
    return made


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_pages_fit_and_have_their_colors(opened, report, width, scheme):
    page = opened(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.goto(report)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}[scheme]
    assert page.evaluate("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")


def test_the_slider_changes_the_layout_of_a_tile(page):
    slider, said = page.locator("#swizzle-mode"), page.locator("#swizzle-said")
    assert "1 pass for eight lanes" in said.text_content()
    slider.focus()
    page.keyboard.press("Home")
    assert "8 passes for eight lanes" in said.text_content()
    assert page.locator(".mode:visible").count() == 1


def test_a_lane_stands_out_by_slider_and_by_pointer(page):
    held, said = page.locator("td.held"), page.locator("#lane-said")
    at_first = held.count()
    assert at_first > 0
    page.locator(".matrix td").nth(37).hover()
    lane = page.locator(".matrix td").nth(37).get_attribute("data-lanes").split()[0]
    assert said.text_content().startswith(f"lane {lane} holds")
    page.locator("#lane").focus()
    page.keyboard.press("ArrowRight")
    assert said.text_content().startswith(f"lane {int(lane) + 1} holds")
    assert held.count() == at_first


def test_the_clock_steps_through_the_pipeline(page):
    clock, said, line = page.locator("#clock"), page.locator("#clock-said"), page.locator("#playhead")
    assert "clock 0: the tensor cores do nothing" in said.text_content()
    before = float(line.get_attribute("x1"))
    clock.focus()
    seen = set()
    for _ in range(10):
        page.keyboard.press("PageUp")
        seen.add("multiply" in said.text_content())
    assert float(line.get_attribute("x1")) > before
    assert True in seen
