"""A real Chromium for the tests: signed-in pages of any size and colour, and what went wrong in them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for the tests of a module.

    Not the plugin's: that keeps its event loop to the end of the session, and asynchronous tests could not run after
    it. While the loop lives, Django would take this thread for a view that must not touch the database.
    """
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium on this machine")
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@dataclass
class Visit:
    """A browser window of one person. ``problems`` are the errors that the page itself reported."""

    page: Page
    url: str
    problems: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        self.page.goto(f"{self.url}{path}", wait_until="load")
        return self.page

    def note(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.problems.append(f"{self.page.url}: {message.text}")

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        width = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        return int(width)


@pytest.fixture
def visit(chromium: Browser, live_server: Any, valkey: str) -> Iterator[Callable[..., Visit]]:
    """``visit(user, theme="dark", size=(390, 844))``: a window signed in as ``user`` (None: signed out).

    ``url`` is another server than the tests' own; ``scripts=False`` is a browser that runs none; with ``proven`` the
    person has just given their password once more.
    """
    contexts = []

    def start(
        user: Any,
        *,
        theme: str = "light",
        size: tuple[int, int] = (1440, 900),
        url: str = "",
        scripts: bool = True,
        proven: bool = False,
    ) -> Visit:
        url = url or live_server.url
        context = chromium.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if theme == "dark" else "light",
            reduced_motion="reduce",
            java_script_enabled=scripts,
        )
        contexts.append(context)
        if user is not None:
            client = Client()
            client.force_login(user)
            if proven:
                from proven import just_proven

                just_proven(client, user)
            cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
            context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": url}])
        page = context.new_page()
        page.set_default_timeout(10_000)
        window = Visit(page, url)
        page.on("console", window.note)
        page.on("pageerror", lambda error: window.problems.append(f"{page.url}: {error}"))
        return window

    yield start
    for context in contexts:
        context.close()
