"""The site's HTML: every link leads somewhere, and nothing comes from elsewhere."""

from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest


@pytest.fixture(scope="module")
def pages(pytestconfig):
    """What each file of the site names and links to."""
    folder = pytestconfig.getoption("--site")
    if folder is None:
        pytest.skip("--site is not given: `make test-docs` builds the site and gives it")
    return {path.resolve(): parsed(path) for path in folder.rglob("*.html") if path.name != "404.html"}


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.names, self.links, self.loaded, self.terms = set(), set(), set(), 0

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.names.add(attributes.get("id"))
        self.terms += tag == "dt"
        if tag == "a":
            self.links.add(attributes.get("href"))
        elif tag in ("script", "img", "link"):
            self.loaded.add(attributes.get("src") or attributes.get("href"))


def parsed(path):
    parser = Links()
    parser.feed(path.read_text(encoding="utf-8"))
    return parser


def test_links_and_anchors_exist(pages):
    lost = []
    for path, page in pages.items():
        for link in page.links | page.loaded - {None}:
            url = urlsplit(link or "")
            if url.scheme or url.netloc or not (url.path or url.fragment):
                continue
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            anchor = unquote(url.fragment)
            if not target.exists() or (target in pages and anchor and anchor not in pages[target].names):
                lost.append(f"{path.name}: {link}")
    assert lost == []
    assert len(pages) > 100


def test_nothing_is_loaded_from_the_network(pages):
    assert {link for page in pages.values() for link in page.loaded if link and urlsplit(link).netloc} == set()


def test_arguments_of_docstrings_are_terms(pages):
    (page,) = (page for path, page in pages.items() if path.parts[-2:] == ("reference", "tilewright.html"))
    assert page.terms > 20
    assert {"tilewright.matmul", "tilewright.Plan.__call__"} <= page.names
