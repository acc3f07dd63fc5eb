#!/usr/bin/env python3
"""Drive a page in Chromium, and print what does not hold, a line each: nothing when all does.

    tests/page/drive.py REPORT_HTML RESULT_JSON

Speaks the DevTools protocol through a pipe, with the standard library alone.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

WIDTHS = [320, 390, 768, 1280, 1920]
SECOND = 3


class Browser:
    """A headless Chromium with one page."""

    def __init__(self, profile):
        to_browser, ours = os.pipe()
        theirs, from_browser = os.pipe()[::-1]
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        words = ["sh", "-c", f'exec chromium "$@" 3<&{to_browser} 4>&{theirs}', "chromium", *flags, "about:blank"]
        self.process = subprocess.Popen(words, pass_fds=[to_browser, theirs], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(theirs)
        self.to, self.replies = os.fdopen(ours, "wb"), os.fdopen(from_browser, "rb")
        self.number, self.session, self.events, self.rest = 0, None, [], b""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Network", "Log"]:
            self.call(f"{domain}.enable")

    def receive(self):
        while b"\0" not in self.rest:
            read = self.replies.read1(1 << 16)
            if not read:
                sys.exit("Chromium ended")
            self.rest += read
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.to.write(json.dumps(message).encode() + b"\0")
        self.to.flush()
        while True:
            reply = self.receive()
            if reply.get("id") == self.number:
                if "error" in reply:
                    sys.exit(f"{method}: {reply['error']}")
                return reply["result"]
            self.events.append(reply)

    def open(self, url):
        self.events = [event for event in self.events if event.get("method") != "Page.loadEventFired"]
        self.call("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())

    def settle(self):
        """Wait until the page has drawn twice."""
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def value(self, expression):
        reply = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in reply:
            sys.exit(f"{expression}: {reply['exceptionDetails']['exception'].get('description')}")
        return reply["result"].get("value")

    def resize(self, width, height=900):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.settle()

    def mouse(self, kind, x, y, clicks=0):
        buttons = {"mousePressed": 1, "mouseReleased": 0}.get(kind, 1 if clicks else 0)
        button = "left" if clicks else "none"
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=buttons, clickCount=clicks)

    def click(self, x, y, count=1):
        for clicks in range(1, count + 1):
            self.mouse("mousePressed", x, y, clicks)
            self.mouse("mouseReleased", x, y, clicks)
        self.settle()

    def place(self, selector):
        """Scroll to an element, and return its left, top, width and height."""
        found = f"document.querySelector({json.dumps(selector)})"
        rect = f"(e => (e.scrollIntoView({{block: 'center'}}), e = e.getBoundingClientRect(), [e.left, e.top, e.width, e.height]))({found})"
        return self.value(rect)

    def click_on(self, selector):
        left, top, width, height = self.place(selector)
        self.click(left + width / 2, top + height / 2)

    def hover(self, plot, across, down=0.5):
        """Move the pointer to a place in the first field of a plot, and return the field's edges."""
        field = f"document.querySelector('#plot-{plot} .field')"
        left, top, width, _ = self.place(f"#plot-{plot} svg")
        side = "f => ['x', 'y', 'width', 'height'].map(side => f[side].baseVal.value)"
        scale = width / 720
        x, y, width, height = [scale * value for value in self.value(f"({side})({field})")]
        self.mouse("mouseMoved", left + x + across * width, top + y + down * height)
        self.settle()
        return left + x, top + y, width, height

    def values(self, plot):
        """What a plot says of the place under the pointer: the place, and its values by their names."""
        first, *others = self.value(f"document.querySelector('#plot-{plot} .at').textContent").split(" · ")
        split = lambda text: (text.rsplit(" ", 2)[0], " ".join(text.rsplit(" ", 2)[1:])) if text.endswith(("s", "%")) else tuple(text.rsplit(" ", 1))
        return first, dict(split(text) for text in others if " " in text), others


def micros(us):
    """A time to three digits, written anew from the rule and not from the program."""
    for unit, factor in [("µs", 1), ("ms", 1e3), ("s", 1e6)]:
        for decimals in (2, 1, 0):
            text = f"{us / factor:.{decimals}f}"
            if len(text.replace(".", "")) <= 3:
                return f"{text} {unit}"
    return f"{us / 1e6:.0f} s"


def main():
    page, result = pathlib.Path(sys.argv[1]).resolve(), json.loads(pathlib.Path(sys.argv[2]).read_text())
    wrong = []

    def holds(claim, is_so):
        if not is_so:
            wrong.append(claim)

    row, end = result["intervals"][SECOND], result["totals"]["duration_s"]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        browser.resize(1280)
        browser.open(page.as_uri())
        browser.settle()
        browser.hover("throughput", (SECOND + 0.55) / end)
        second, values, _ = browser.values("throughput")
        holds(f"the pointer names its time: {second}", second.startswith(f"{SECOND}.5"))
        holds(f"values under the pointer are those of result.json: {values}", values["good"] == f"{row['ok']:,}")
        at, values, _ = browser.values("latency")
        holds(f"the crosshair is in all plots: {at}", at == second)
        for name, us in [("p50", row["response_p50_us"]), ("p99", row["response_p99_us"]), ("maximum", row["max_us"])]:
            holds(f"{name} is {micros(us)}: {values}", values.get(name) == micros(us))
        browser.hover("spectrum", 0.5)
        at, values, _ = browser.values("spectrum")
        holds(f"the percentile curve has values: {at} {values}", "% percentile" in at and values["response time"].endswith("s"))
        browser.hover("heat", (SECOND + 0.5) / end)
        holds("the heat map has times", browser.values("heat")[2][0].endswith("s"))
        browser.hover("shards", (SECOND + 0.5) / end, 0.1)
        holds("a row has its name", browser.values("shards")[2][0] in ("0", "\u25b8 0"))

        left, top, width, height = browser.hover("throughput", 0.25)
        middle = top + height / 2
        browser.mouse("mousePressed", left + 0.25 * width, middle, 1)
        for part in (0.4, 0.6, 0.75):
            browser.mouse("mouseMoved", left + part * width, middle, 1)
        browser.mouse("mouseReleased", left + 0.75 * width, middle, 1)
        browser.settle()
        begins = []
        for plot in ("throughput", "latency", "heat"):
            browser.hover(plot, 0.02)
            begins.append(float(browser.values(plot)[0].split()[0]))
        holds(f"a drag zooms all plots over time: from {begins}", all(abs(begin - end / 4) < 2 for begin in begins))
        left, top, width, height = browser.hover("throughput", 0.5)
        browser.click(left + width / 2, top + height / 2, 2)
        browser.hover("latency", 0.02)
        holds(f"a double click resets: {browser.values('latency')[0]}", browser.values("latency")[0].startswith("0."))

        browser.value("[...document.querySelectorAll('#plot-throughput .key')].find(k => k.textContent.trim() === 'good').onclick()")
        hidden = browser.value("[...document.querySelectorAll('#plot-throughput .field .off')].map(g => g.getClientRects().length)")
        holds(f"a key hides its area: {hidden}", hidden == [0])

        browser.value("document.querySelectorAll('details').forEach(d => d.open = true)")
        column = "[...document.querySelectorAll('#times tbody tr')].map(r => r.cells[3].textContent)"
        seen = [browser.value(column)]
        for _ in range(2):
            browser.click_on("#times thead th:nth-child(4) button")
            seen.append(browser.value(column))
        known = sorted(times["mean_us"] for times in result["latency"].values() if times["count"] > 0)
        rising = [micros(us) for us in known]
        holds(f"a table is sorted by its values: {seen[1]}", seen[1] == rising and len({cell.split()[1] for cell in rising}) > 1)
        holds("a second click sorts the other way round", seen[2] == rising[::-1])
        holds("sorting changes something", seen[0] != seen[1])

        links = browser.value("[...document.querySelectorAll('nav a')].map(a => document.getElementById(a.hash.slice(1)) !== null)")
        holds(f"contents link to sections: {links}", len(links) > 3 and all(links))
        for width in WIDTHS:
            browser.resize(width)
            wide = browser.value("document.documentElement.scrollWidth")
            holds(f"a page of {width} px is {wide} px wide", wide <= width)
        browser.resize(1280)
        browser.call("Emulation.setEmulatedMedia", media="print")
        svg = "[...document.querySelectorAll('figure')].every(f => [...f.querySelectorAll('svg.crawlmark-plot')].some(s => s.getBoundingClientRect().height > 50))"
        holds("paper has the pictures", browser.value(svg))
        browser.call("Emulation.setEmulatedMedia", media="")
        browser.call("Emulation.setScriptExecutionDisabled", value=True)
        browser.open(page.as_uri())
        holds("a page without scripts has the pictures", browser.value(svg))

        for event in browser.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Network.requestWillBeSent":
                holds(f"requested {params['request']['url']}", params["request"]["url"] == page.as_uri())
            if method == "Runtime.exceptionThrown":
                holds(f"exception: {params['exceptionDetails']}", False)
            if method == "Runtime.consoleAPICalled" and params["type"] == "error":
                holds(f"console: {params['args']}", False)
            if method == "Log.entryAdded" and params["entry"]["level"] == "error":
                holds(f"log: {params['entry']['text']}", False)
        browser.session = None
        browser.call("Browser.close")
        browser.process.wait(20)
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
