"""Pages in headless Chromium, without which these tests are skipped."""

import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="session")
def browser():
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser):
    """A function that opens a new page; in the end there must be no error and no request to elsewhere."""
    faults, contexts = [], []

    def open_page(**options):
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.set_default_timeout(60_000)  # milliseconds, for machines that do other things too
        page.on(
            "console", lambda said: said.type in ("error", "warning") and faults.append(f"{said.text} {said.location}")
        )
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: is_elsewhere(request.url) and faults.append(request.url))
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []


def is_elsewhere(url):
    return not url.startswith(("file:", "data:", "blob:", "about:", "http://127.0.0.1:"))
