"""A real browser for tests of pages: one process per test session, one connection per module.

Chromium takes seconds to start, so it is started once. A connection of playwright keeps an event loop in the test's
thread, which would be in the way of other tests' loops, so each module has its own and closes it.
"""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-port=0",
)
PATIENCE = 60.0  # seconds for chromium to start on a busy machine
AXE = Path(__file__).parent / "axe" / "axe.min.js"


@contextmanager
def running_chromium(home: Path) -> Iterator[str]:
    """The address to connect to; skips the test where there is no chromium or no playwright."""
    pytest.importorskip("playwright", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no chromium to open pages in")
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([program, *ARGUMENTS, f"--user-data-dir={home}"], stdout=quiet, stderr=quiet)
    try:
        yield _address(home / "DevToolsActivePort", process)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(file: Path, process: "subprocess.Popen[bytes]") -> str:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if process.poll() is not None:
            pytest.skip(f"chromium does not start here (it ended with {process.returncode})")
        if file.exists() and (lines := file.read_text().splitlines()):
            return f"http://127.0.0.1:{lines[0]}"
        time.sleep(0.05)
    pytest.skip(f"chromium did not start within {PATIENCE:.0f} s")


@dataclass
class Visit:
    """A page that was opened, and everything it complained about or asked for."""

    page: "Page"
    complaints: list[str] = field(default_factory=list)  # console errors and warnings, uncaught exceptions
    requests: list[str] = field(default_factory=list)  # addresses other than the opened file's and data:


@contextmanager
def visit(
    browser: "Browser", address: str, *, dark: bool = False, width: int = 1200, offline: bool = False
) -> Iterator[Visit]:
    """Opens a page in a context of its own; ``offline``: with the network cut."""
    context: BrowserContext = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", accept_downloads=True
    )
    try:
        context.set_offline(offline)
        seen = Visit(context.new_page())
        seen.page.on("console", lambda said: seen.complaints.append(said.text) if said.type in COMPLAINTS else None)
        seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        seen.page.on("request", lambda request: _note(seen, request.url, address))
        seen.page.goto(address)
        yield seen
    finally:
        context.close()


COMPLAINTS = ("error", "warning")


def _note(seen: Visit, url: str, opened: str) -> None:
    if url.split("#")[0] != opened and not url.startswith(("data:", "blob:")):
        seen.requests.append(url)


def serious_violations(page: "Page") -> list[str]:
    """What axe-core finds serious or critical, one line each."""
    page.evaluate(AXE.read_text(encoding="utf-8"))  # not a script element, which the page's policy would forbid
    found = page.evaluate("async () => (await axe.run()).violations")
    return [
        f"{one['id']}: {one['help']} ({node['target']}: {node['html'][:120]})"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]
