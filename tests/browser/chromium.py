# SPDX-License-Identifier: MIT
"""Chromium without a window, and what the page shows in it, as a reader sees it."""

import json
import time

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import harness

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--no-default-browser-check", "--disable-default-apps", "--hide-scrollbars"]

# What a look at the table gives: a row's texts by the columns' keys, in the order in which they are seen.
TABLE = """
const keys = [...document.querySelectorAll('.head button')].map((button) => button.dataset.key);
return [...document.querySelectorAll('#rows .row:not([hidden])')]
	.sort((a, b) => a.getAttribute('aria-rowindex') - b.getAttribute('aria-rowindex'))
	.map((row) => {
		const cells = [row.children[0], ...[...row.children].slice(2)];
		const made = { level: row.getAttribute('aria-level'), expanded: row.getAttribute('aria-expanded'),
			cursor: row.getAttribute('aria-selected') === 'true',
			tag: cells[0].querySelector('.tag').textContent,
			kind: cells[0].querySelector('.kind').textContent,
			tip: cells[0].dataset.tip, top: row.getBoundingClientRect().top };
		keys.forEach((key, i) => {
			made[key] = i ? cells[i].children[2].textContent + cells[i].children[3].textContent
				: cells[i].querySelector('.name').textContent;
			made[key + ' quality'] = [cells[i].querySelector('.mark')?.textContent, cells[i].dataset.tip,
				cells[i].querySelector('.unseen')?.textContent];
		});
		return made;
	});
"""

PREFIXES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


def number(text):
    """What "12.3k" says; None for what is not known."""
    if text in ("", "–"):
        return None
    if text.startswith("<"):
        return 0.0
    return float(text.rstrip("kMGTP")) * PREFIXES.get(text[-1], 1)


class Browser:
    """One Chromium with a profile of its own."""

    def __init__(self, folder, size=(1280, 800)):
        folder.mkdir()
        options = webdriver.ChromeOptions()
        for flag in (*FLAGS, f"--user-data-dir={folder}", f"--window-size={size[0]},{size[1]}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        # On a port that the kernel gives to nobody else before chromedriver has it.
        service = webdriver.chrome.service.Service("/usr/bin/chromedriver", port=harness.free_port(),
                                                   log_path=str(folder / "driver.log"))
        self.driver = webdriver.Chrome(service=service, options=options)
        self.driver.set_script_timeout(2 * harness.PATIENCE)
        self.console, self.requests = [], []

    def run(self, script, *args):
        return self.driver.execute_script(script, *args)

    def size(self, width, height):
        """Of what the page has, whatever frame a window would have around it."""
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})

    def prefer(self, **features):
        """What the system is set to, as prefer(color_scheme="dark")."""
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-" + name.replace("_", "-"), "value": value} for name, value in features.items()]})

    def open(self, url):
        self.driver.get(url)
        self.until_live()

    def until_live(self, timeout=None):
        harness.until(lambda: self.text("#state").startswith("live"), "the page is live", timeout)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector):
        """What is in it, seen or not."""
        return self.run("return document.querySelector(arguments[0])?.textContent", selector)

    def style(self, selector, name):
        return self.run("return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]", selector, name)

    def keys(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def table(self):
        return self.run(TABLE)

    def names(self):
        return [row["name"] for row in self.table()]

    def row(self, name):
        found = [row for row in self.table() if row["name"] == name]
        return found[0] if found else None

    def point_at(self, name):
        """Puts the table's cursor on a row, by keys. Rows may change places meanwhile; then the cursor stays on its."""
        self.run("document.querySelector('#grid').focus()")

        def there():
            self.keys(Keys.HOME, *[Keys.ARROW_DOWN] * self.names().index(name))
            return self.row(name)["cursor"]
        harness.until(there, f"the cursor is on {name}")

    def filter(self, text):
        field = self.one("#filter")
        field.clear()
        field.send_keys(text or Keys.BACKSPACE)

    def refreshes(self, nr):
        """Waits for so many refreshes; the milliseconds that each took."""
        self.run("performance.clearMeasures('refresh')")
        times = "return performance.getEntriesByName('refresh').map((entry) => entry.duration)"
        return harness.until(lambda: (got := self.run(times)) and len(got) >= nr and got, "refreshes",
                             harness.PATIENCE + 3 * nr)

    def take_logs(self):
        """Empties Chromium's logs into console and requests."""
        self.console += [entry["message"] for entry in self.driver.get_log("browser")]
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])

    def complaints(self):
        """All that Chromium had to say: errors, violations of the policy, warnings."""
        self.take_logs()
        return self.console

    def asked(self):
        """The URLs that were asked for."""
        self.take_logs()
        return self.requests

    def picture(self, path):
        # Fonts and a frame drawn with what has just changed.
        time.sleep(0.3)
        assert self.driver.save_screenshot(str(path))

    def stop(self):
        self.driver.quit()
