"""The site in headless Chromium, opened as a file and through a server. `make test-docs` builds it and runs this."""

import base64
import functools
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

SHOWN = ("index", "ladder/wgmma", "machine/swizzle", "reference/tilewright", "commands/check", "support", "performance")
WIDTHS = (400, 1280)
SCHEMES = {"light": "default", "dark": "slate"}
PARTS = 8
"""Of all pages, so that processes may share them."""


@pytest.fixture(scope="module")
def site(pytestconfig):
    folder = pytestconfig.getoption("--site")
    if folder is None:
        pytest.skip("--site is not given: `make test-docs` builds the site and gives it")
    return folder.resolve()


@pytest.fixture(scope="module")
def served(site):
    """The site's address on a server of this machine."""
    handler = functools.partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def scrolls_sideways(page):
    return page.evaluate("document.documentElement.scrollWidth > window.innerWidth")


@pytest.mark.parametrize("part", range(PARTS))
def test_no_page_is_wider_than_a_small_screen(site, opened, part):
    page = opened(viewport={"width": WIDTHS[0], "height": 800})
    wide, blank = [], []
    besides = {site / "404.html", *(site / "source").rglob("*.html")}  # one is for servers, the others are listings
    paths = sorted(set(site.rglob("*.html")) - besides)
    for path in paths[part::PARTS]:
        page.goto(path.as_uri())
        name = str(path.relative_to(site))
        if scrolls_sideways(page):
            wide.append(name)
        blank += [name] * page.evaluate("[...document.images].filter(each => !each.naturalWidth).length")
    assert (wide, blank) == ([], [])
    assert len(paths) > 80


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", SHOWN)
def test_a_page_follows_the_system_and_fits(site, opened, name, scheme, width):
    page = opened(color_scheme=scheme, viewport={"width": width, "height": 1000})
    page.goto((site / f"{name}.html").as_uri())
    assert page.locator("body").get_attribute("data-md-color-scheme") == SCHEMES[scheme]
    assert page.locator("article h1").is_visible()
    assert not scrolls_sideways(page)


def test_pictures_follow_the_switch(site, opened):
    page = opened(color_scheme="light", viewport={"width": WIDTHS[1], "height": 1000})
    page.goto((site / "machine/swizzle.html").as_uri())
    seen = []
    for _ in range(3):  # as the system, light, dark
        picture = page.locator("article img").first
        brightness = corner(opened(), picture.screenshot())
        seen.append((page.locator("body").get_attribute("data-md-color-scheme"), brightness > 128))
        page.locator("form[data-md-component=palette] label:visible").click()
    assert seen == [("default", True), ("default", True), ("slate", False)]


def corner(page, png):
    """The brightness of a picture's first pixel, by a canvas of an empty page."""
    return page.evaluate(
        """async png => {
          const picture = new Image();
          picture.src = "data:image/png;base64," + png;
          await picture.decode();
          const canvas = document.createElement("canvas").getContext("2d");
          canvas.drawImage(picture, 0, 0);
          return canvas.getImageData(2, 2, 1, 1).data[0];
        }""",
        base64.b64encode(png).decode(),
    )


@pytest.mark.parametrize("word", ["swizzle", "wgmma"])
@pytest.mark.parametrize("door", ["file", "server"])
def test_the_search_finds(site, served, opened, door, word):
    page = opened(viewport={"width": WIDTHS[1], "height": 1000})
    page.goto((site / "index.html").as_uri() if door == "file" else f"{served}/index.html")
    search = page.get_by_placeholder("Search")
    search.wait_for(state="attached")  # from then on the key is known
    page.keyboard.press("Control+k")
    search.fill(word)
    page.locator("a:visible", has=page.locator("mark", has_text=word)).first.click()
    page.wait_for_url("**/*h=*")
    assert word in page.locator("article").inner_text().lower()


def test_one_can_walk_through_the_site(site, opened):
    page = opened(viewport={"width": WIDTHS[1], "height": 1000})
    page.goto((site / "index.html").as_uri())
    page.locator(".md-tabs").get_by_text("Ladder").click()
    assert page.locator("article h1").inner_text().strip().startswith("The ladder")
    page.locator(".md-footer__link--next").click()
    page.wait_for_url("**/ladder/uncoalesced.html")
    page.locator("article").get_by_role("link", name="uncoalesced.cuh").first.click()
    page.wait_for_url("**/source/**/uncoalesced.cuh.html")


def test_a_small_screen_has_a_menu(site, opened):
    page = opened(viewport={"width": WIDTHS[0], "height": 800})
    page.goto((site / "index.html").as_uri())
    page.locator("label[for=__drawer]:visible").first.click()
    assert page.locator(".md-nav").get_by_text("Machine").first.is_visible()
