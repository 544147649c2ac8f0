"""A real browser without a window, and what a test may ask of the page in it."""

from __future__ import annotations

import base64
import json
import pathlib
import shutil
from typing import Any

import pytest

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_PATIENCE_S = 60
_STEPS = 400  # of the Tab key, at most

# Elements whose text lies outside the window, what scrolls in its own box and what is meant for screen readers apart.
_OVERFLOWING = """
const found = [];
for (const each of document.querySelectorAll("body *")) {
  if (each.closest(".scroll, .hidden, .skip, thead, svg")) continue;
  const box = each.getBoundingClientRect();
  if (box.width && (box.right > WIDTH + 1 || box.left < -1)) found.push(each.outerHTML.slice(0, 120));
}
if (document.documentElement.scrollWidth > WIDTH) found.push("the page itself");
return found;
"""

# Contrast of every piece of text with the ground that it stands on: https://www.w3.org/TR/WCAG22/#contrast-minimum
_PALE = """
const parse = text => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
  .reduce((sum, v, place) => sum + v * [.2126, .7152, .0722][place], 0);
const ground = each => {
  for (let at = each; at; at = at.parentElement) {
    const colour = parse(getComputedStyle(at).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
  }
  return [255, 255, 255];
};
const found = [];
for (const each of document.querySelectorAll("body *")) {
  if (![...each.childNodes].some(node => node.nodeType === 3 && node.data.trim())) continue;
  if (["SCRIPT", "STYLE"].includes(each.tagName) || !each.getClientRects().length) continue;
  const style = getComputedStyle(each);
  const ink = parse(each instanceof SVGElement ? style.fill : style.color);
  const [low, high] = [light(ink), light(ground(each.closest("svg")?.parentElement ?? each))].sort((a, b) => a - b);
  const contrast = (high + .05) / (low + .05);
  if (contrast < 4.5) found.push(`${contrast.toFixed(2)}: ${each.outerHTML.slice(0, 120)}`);
}
return found;
"""

_REACHABLE = """
return [...document.querySelectorAll("a[href], button, summary, [tabindex='0']")]
  .filter(each => each.checkVisibility()).length;
"""

_FOCUSED = """
const each = document.activeElement;
if (each === document.body) return null;
window.visited ??= new Map();
if (!window.visited.has(each)) window.visited.set(each, window.visited.size);
const style = getComputedStyle(each);
const shown = each.checkVisibility() && (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2);
return [window.visited.get(each), shown, each.outerHTML.slice(0, 100)];
"""


class Browser:
    """Chromium, driven by its own driver; nothing is downloaded."""

    def __init__(self, folder: pathlib.Path) -> None:
        webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
        program = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
        driver = shutil.which("chromedriver")
        if not program or not driver:
            pytest.skip("no Chromium with its chromedriver here (Debian: apt install chromium chromium-driver)")
        options = webdriver.ChromeOptions()
        options.binary_location = program
        for argument in (
            "headless=new",
            "no-sandbox",
            "disable-gpu",
            "disable-dev-shm-usage",
            f"user-data-dir={folder}/profile",
        ):
            options.add_argument(f"--{argument}")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self._folder, self._pages, self._width, self._address = folder, 0, 0, ""
        self._driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))

    def close(self) -> None:
        """End the browser and its driver."""
        self._driver.quit()

    def show(self, page: str, *, width: int = 1200, scheme: str = "light", media: str = "") -> None:
        """Open a page in a window of that width, forgetting what went before."""
        self._pages += 1
        file = self._folder / f"{self._pages}.html"
        file.write_text(page, "utf-8")
        self.look(width=width, scheme=scheme, media=media)
        self._driver.get_log("browser")
        self._driver.get_log("performance")
        self._address = file.as_uri()
        self._driver.get(self._address)

    def look(self, *, width: int = 1200, scheme: str = "light", media: str = "") -> None:
        """Change the window's width, the colour scheme, or the medium, of the page that is open."""
        self._width = width  # a phone's browser makes its own wider, to hold what does not fit
        scheme_of_user = {"name": "prefers-color-scheme", "value": scheme}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self._command("Emulation.setEmulatedMedia", media=media, features=[scheme_of_user, still])
        self._command(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 500
        )

    def run(self, script: str) -> Any:
        """The value that a script gives."""
        return self._driver.execute_script(script)

    def wait(self, script: str) -> None:
        """Wait until a script gives something that is true."""
        from selenium.webdriver.support.wait import WebDriverWait

        WebDriverWait(self._driver, _PATIENCE_S).until(lambda _: self.run(script))

    def enter(self, selector: str) -> None:
        """Go into a frame of the page."""
        self._driver.switch_to.frame(self._driver.find_element("css selector", selector))

    def leave(self) -> None:
        """Go back from a frame to the page."""
        self._driver.switch_to.default_content()

    def click(self, selector: str) -> None:
        """Click the first such element."""
        self._driver.find_element("css selector", selector).click()

    @property
    def said(self) -> list[str]:
        """What stands in the console."""
        return [row["message"] for row in self._driver.get_log("browser")]

    @property
    def requested(self) -> list[str]:
        """The addresses that were asked for, the page itself apart."""
        rows = [json.loads(row["message"])["message"] for row in self._driver.get_log("performance")]
        urls = [row["params"]["request"]["url"] for row in rows if row["method"] == "Network.requestWillBeSent"]
        return [url for url in urls if url.partition("#")[0] != self._address]

    @property
    def overflowing(self) -> list[str]:
        """Elements that lie outside the window."""
        found: list[str] = self.run(_OVERFLOWING.replace("WIDTH", str(self._width)))
        return found

    @property
    def pale(self) -> list[str]:
        """Elements whose text is hard to read."""
        found: list[str] = self.run(_PALE)
        return found

    def walk(self) -> tuple[int, int, list[str]]:
        """Press Tab until it comes round: how many elements were reached, how many can be, and those without a mark."""
        steps, unmarked = set[int](), []
        for _ in range(_STEPS):
            self._driver.switch_to.active_element.send_keys("\ue004")
            focused = self.run(_FOCUSED)
            if focused is None or focused[0] in steps:
                break
            steps.add(focused[0])
            if not focused[1]:
                unmarked.append(focused[2])
        return len(steps), self.run(_REACHABLE), unmarked

    def print(self) -> bytes:
        """The page on paper, as a PDF."""
        return base64.b64decode(self._command("Page.printToPDF")["data"])

    def _command(self, name: str, **values: Any) -> Any:
        return self._driver.execute_cdp_cmd(name, values)
