"""A headless Chromium, as Debian packages it, for tests, screenshots and times."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service


__all__ = ["browser", "look_as", "missing"]


def missing() -> str:
    """Say what is not installed; empty where everything is."""
    wanted = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"not installed: {', '.join(wanted)} (apt-get install chromium chromium-driver)" if wanted else ""


@contextmanager
def browser(*, width: int = 1280, height: int = 900) -> Iterator[Chrome]:
    """Open a window; it has no network."""
    options = Options()
    options.binary_location = shutil.which("chromium") or ""
    for argument in (
        "--headless=new",
        "--no-sandbox",  # It runs as root in containers.
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--hide-scrollbars",
        "--no-first-run",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--window-size={width},{height}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # It leaves folders where temporary files are.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as own:
        service = Service(shutil.which("chromedriver") or "", env=os.environ | {"TMPDIR": own})
        driver = Chrome(options=options, service=service)
        try:
            look_as(driver, width=width, height=height)
            yield driver
        finally:
            driver.quit()


def look_as(driver: Chrome, *, width: int, height: int, scheme: str = "light", medium: str = "") -> None:
    """Have the window show pages as on another screen, on paper, or by night."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}  # noqa: PLR2004 - a phone
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": medium, "features": features})
