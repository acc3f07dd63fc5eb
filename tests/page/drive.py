#!/usr/bin/env python3
"""Drive a page in Chromium, and print what does not hold, a line each: nothing when all does.

    tests/page/drive.py REPORT_HTML RESULT_JSON

Speaks the DevTools protocol through a pipe, with the standard library alone.
"""

import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

WIDTHS = [320, 390, 768, 1280, 1920]
SECOND = 3

# Keeps the texts that are drawn on canvases.
DRAWN = """{
  const draw = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...at) { (window.drawn ??= []).push(text); return draw.call(this, text, ...at); };
}"""


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

    def hover(self, plot, across):
        """Move the pointer to a part of the width of a chart, and return the edges of its field."""
        left, top, width, height = self.place(f"[data-plot='{plot}'] .u-over")
        x, y = left + across * width, top + height / 2
        # uPlot takes a pointer for resting that has not moved since its last event.
        self.mouse("mouseMoved", x - 3, y)
        self.mouse("mouseMoved", x, y)
        self.settle()
        return left, top, width, height

    def drag(self, plot, start, end):
        """Drag from one part of the width of a chart to another."""
        left, top, width, height = self.hover(plot, start)
        y = top + height / 2
        self.mouse("mousePressed", left + start * width, y, 1)
        for part in (0.3, 0.6, 1):
            self.mouse("mouseMoved", left + (start + (end - start) * part) * width, y, 1)
        self.mouse("mouseReleased", left + end * width, y, 1)
        self.settle()

    def key(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)
        self.settle()

    def rail(self):
        """The values beside the charts, by panel and name."""
        return self.value(
            """Object.fromEntries([...document.querySelectorAll('.panel')].map(panel => [panel.querySelector('[data-plot]').dataset.plot,
            Object.fromEntries([...panel.querySelectorAll('.rail li')].map(row => [row.querySelector('i+span').textContent, row.querySelector('b').textContent]))]))"""
        )

    def text(self, selector):
        return self.value(f"document.querySelector({json.dumps(selector)}).textContent")

    def download(self, selector, folder):
        """Click on an element that saves a file, and return the file."""
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=folder, eventsEnabled=True)
        self.click_on(selector)
        while not any(event.get("params", {}).get("state") == "completed" for event in self.events):
            self.events.append(self.receive())
        return next(pathlib.Path(folder).iterdir())


def micros(us):
    """A time to three digits, written anew from the rule and not from the program."""
    for unit, factor in [("µs", 1), ("ms", 1e3), ("s", 1e6)]:
        for decimals in (2, 1, 0):
            text = f"{us / factor:.{decimals}f}"
            if len(text.replace(".", "")) <= 3:
                return f"{text} {unit}"
    return f"{us / 1e6:.0f} s"


def check_charts(browser, page, result, holds):
    """Crosshair, zoom, marks, keys and names that hide a series."""
    end, panel = result["totals"]["duration_s"], "throughput"
    row = result["intervals"][SECOND]
    browser.resize(1280)
    browser.open(page.as_uri())
    browser.settle()
    panels = browser.value("[...document.querySelectorAll('.panel [data-plot]')].map(plot => plot.dataset.plot)")
    holds(f"the panels are there: {panels}", panels[:2] == ["throughput", "latency"] and "limits" in panels)
    whole = browser.rail()
    left, _, width, _ = browser.hover(panel, (SECOND + 0.55) / end)
    at, tag = browser.rail(), browser.text(".lane .at")
    holds(f"the pointer names its time: {tag}", tag.startswith(f"{SECOND}.5"))
    lines = browser.value("[...document.querySelectorAll('.panel .u-cursor-x')].map(line => Math.round(new DOMMatrix(getComputedStyle(line).transform).m41))")
    holds(f"the crosshair is in all panels: {lines}", len(lines) == len(panels) and len(set(lines)) == 1 and lines[0] > 0)
    p99 = row["response_p99_us"] or row["p99_us"]
    holds(f"a value at the crosshair is that of result.json: {at['latency']}", at["latency"]["p99"] == micros(p99))
    holds("values of the run come back", at != whole)
    browser.mouse("mouseMoved", 5, 5)
    browser.settle()
    holds(f"without a pointer, the values are those of the run: {browser.rail()}", browser.rail() == whole)

    browser.drag(panel, 0.25, 0.75)
    low, high = (float(text.split()[0]) for text in browser.text("#range").split(" to "))
    holds(f"a drag zooms: {low} to {high}", abs(low - end / 4) < 1 and abs(high - end * 3 / 4) < 1)
    edges = []
    for plot in panels[:3]:
        browser.hover(plot, 0.02)
        edges.append(browser.text(".lane .at"))
    holds(f"all panels zoom: {edges}", len(set(edges)) == 1)
    browser.click_on("#whole")
    holds("a button shows the whole run", browser.value("document.querySelector('#whole').hidden"))
    browser.drag(panel, 0.25, 0.75)
    left, top, width, height = browser.hover(panel, 0.5)
    browser.click(left + width / 2, top + height / 2, 2)
    holds("so does a double click", browser.value("document.querySelector('#whole').hidden"))

    marks = browser.value("[...document.querySelectorAll('.mark:not([hidden])')].map(mark => mark.getBoundingClientRect().left)")
    holds(f"marks stand where their events are: {marks}", len(set(marks)) == len(marks) and all(left < at < left + width for at in marks))
    if browser.value("document.querySelectorAll('.acts [data-event]').length"):
        browser.click_on(".acts [data-event]")
        low, high = (float(text.split()[0]) for text in browser.text("#range").split(" to "))
        mark = browser.value("JSON.parse(document.querySelector('#data').textContent).events[0]")
        holds(f"a finding shows its time: {low} to {high}", low <= mark["from"] and mark["to"] <= high and high - low < end)

    browser.value("document.querySelector('#stack').focus()")
    browser.key("Escape")
    browser.key("Home")
    for _ in range(3):
        browser.key("ArrowRight")
    said = browser.text("#said")
    holds(f"keys read values: {said}", said.startswith(f"{0.03 * end:.2f} s: ") and "good " in said and "p99 " in said)
    browser.key("+")
    holds("a key zooms", not browser.value("document.querySelector('#whole').hidden"))
    browser.key("Escape")
    holds("Escape shows the whole run", browser.value("document.querySelector('#whole').hidden"))
    browser.mouse("mouseMoved", 5, 5)

    toggle = "document.querySelector('[data-plot=throughput]').closest('.panel').querySelector('[data-at=\"0.0\"]').parentElement"
    blue = """(c => { const {width, height} = c, d = c.getContext('2d').getImageData(0, 0, width, height).data; let n = 0;
        for (let i = 0; i < d.length; i += 4) n += d[i + 2] > d[i] + 60; return n / (width * height); })(document.querySelector('[data-plot=throughput] canvas'))"""
    before = browser.value(blue)
    browser.value(f"{toggle}.click()")
    browser.settle()
    after = browser.value(blue)
    holds(f"a name hides its series: {before:.2f}, then {after:.2f} of the panel is blue", before > 0.2 and after < 0.05)
    browser.value(f"{toggle}.click()")
    browser.settle()
    holds("and shows it again", browser.value(blue) == before)
    hint = browser.text("#percentile")
    browser.hover("percentiles", 0.5)
    at = browser.text("#percentile")
    holds(f"the curve has values: {at}", at != hint and "% took" in at)

    # What a run that goes on has more of is drawn, and the zoom stays.
    browser.value("""crawlmark.add({from: 0, to: 99, at: 98, totals: JSON.parse(document.querySelector('#data').textContent).panels.map(({series}) => series.map(() => "1")),
        panels: JSON.parse(document.querySelector('#data').textContent).panels.map(({heat, series}) => [...(heat ? [heat] : []), ...series].map(() => []))})""")
    browser.settle()
    browser.hover(panel, 0.99)
    tag = browser.text(".lane .at")
    holds(f"more seconds can be shown: {tag}", 95 < float(tag.split()[0]) <= 99)


def check_peaks(browser, page, result, holds):
    """A peak beyond the axis says its own height, and not that of the column before it."""
    script = browser.call("Page.addScriptToEvaluateOnNewDocument", source=DRAWN)["identifier"]
    browser.open(page.as_uri())
    browser.settle()
    drawn = browser.value("window.drawn")
    browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
    course = result["course"]
    outcomes = zip(*(course[name] for name in ["good", "not_found", "throttled", "failed"]))
    rates = [sum(counts) * 1e3 / course["step_ms"] for counts in outcomes]
    usual = sorted(rates)[len(rates) // 2]
    around = zip([0, *rates], rates, [*rates[1:], 0])
    peaks = {f"▲ {rate:,.0f}" for before, rate, after in around if rate > 2.5 * usual and before < rate >= after}
    said = {text for text in drawn if text.startswith("▲")}
    holds(f"peaks of {peaks} say {said}", said == peaks and len(peaks) > 0)


def check_taking_away(browser, page, result, holds):
    """Copies, the slide, and the dark scheme."""
    browser.open(page.as_uri())
    browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    browser.click_on("#copy")
    copied = browser.value("navigator.clipboard.readText()")
    headline = browser.text("h1")
    holds(f"the summary is copied: {copied}", headline[:20] in copied and "| p99 |" in copied)
    browser.click_on("[data-copies]")
    copied = browser.value("navigator.clipboard.readText()")
    holds(f"a command is copied: {copied}", copied.startswith("crawlmark run "))
    with tempfile.TemporaryDirectory() as folder:
        png = browser.download("#save", folder).read_bytes()
    size = struct.unpack(">II", png[16:24])
    holds(f"a slide is saved: {size}, {len(png)} bytes", png[:8] == b"\x89PNG\r\n\x1a\n" and size == (1600, 900) and len(png) > 20_000)
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    light = browser.value(ground)
    pixels = "document.querySelector('[data-plot=latency] canvas').toDataURL()"
    drawn = browser.value(pixels)
    browser.click_on("#theme")
    holds("a button makes it dark", browser.value(ground) != light and browser.value(pixels) != drawn)
    browser.click_on("#theme")
    holds("and light again", browser.value(ground) == light and browser.value(pixels) == drawn)
    browser.open(page.as_uri())
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    browser.settle()
    holds("the system's choice holds", browser.value(ground) != light and browser.value(pixels) != drawn)
    browser.call("Emulation.setEmulatedMedia", features=[])
    browser.settle()


def check_tables(browser, result, holds):
    """Tables are sorted by their headings."""
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


def check_layout(browser, page, holds):
    """Links, widths and paper."""
    links = browser.value("[...document.querySelectorAll('a[href^=\"#\"]')].map(a => document.getElementById(a.hash.slice(1)) !== null)")
    holds(f"links lead to sections: {links}", len(links) > 0 and all(links))
    for width in WIDTHS:
        browser.resize(width)
        # The page draws anew a moment after.
        browser.value("new Promise(done => setTimeout(done, 200))")
        wide = browser.value("document.documentElement.scrollWidth")
        holds(f"a page of {width} px is {wide} px wide", wide <= width)
        charts = browser.value("[...document.querySelectorAll('.uplot')].map(u => u.getBoundingClientRect().right)")
        holds(f"charts of a page of {width} px end at {charts}", len(charts) > 2 and all(right <= width for right in charts))
    browser.resize(1280)
    browser.open(page.as_uri())
    paper = browser.call("Page.printToPDF", printBackground=True)["data"]
    holds(f"paper has {len(paper)} characters", len(paper) > 100_000)
    folded = browser.value("document.querySelectorAll('details:not([open])').length")
    holds("after printing, the page is as it was", folded > 3 and not browser.value("document.documentElement.dataset.theme"))


def check_accessibility(browser, page, holds):
    """What axe-core, of npm, finds serious."""
    axe = pathlib.Path("target/axe/axe.min.js")
    if not axe.exists():
        print("axe-core is not there: accessibility is not checked", file=sys.stderr)
        return
    for scheme in ("light", "dark"):
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        browser.open(page.as_uri())
        browser.value("document.querySelectorAll('details').forEach(d => d.open = true)")
        browser.value(axe.read_text())
        rules, found = browser.value("axe.run().then(({passes, violations}) => [passes.length, violations.filter(({impact}) => impact === 'serious' || impact === 'critical').map(({id, nodes}) => [id, nodes.slice(0, 3).map(({html}) => html)])])")
        print(f"axe-core, {scheme}: {rules} rules hold, {len(found)} serious findings", file=sys.stderr)
        holds(f"{scheme}: axe finds {found}", found == [])
    browser.call("Emulation.setEmulatedMedia", features=[])


def check_without_scripts(browser, page, result, holds):
    """Verdict, figures, findings, tables and two pictures never need a script."""
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(page.as_uri())
    pictures = "[...document.querySelectorAll('noscript svg.crawlmark-plot')].filter(s => s.getBoundingClientRect().height > 50).length"
    holds("a page without scripts has the pictures", browser.value(pictures) == 2)
    useless = browser.value("[...document.querySelectorAll('button')].filter(b => b.getBoundingClientRect().height > 0).length")
    holds(f"and no button that does nothing: {useless}", useless == 0)
    rows = browser.value("[document.querySelectorAll('.figs > div').length, document.querySelectorAll('#times tbody tr').length, document.querySelectorAll('.findings > li').length]")
    holds(f"and figures, tables and findings: {rows}", rows[0] == 5 and rows[1] > 3 and rows[2] > 0)
    browser.call("Emulation.setScriptExecutionDisabled", value=False)


def check_log(browser, page, holds):
    """The page asks for nothing, breaks no policy and fails nowhere."""
    for event in browser.events:
        method, params = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            holds(f"requested {url}", url == page.as_uri() or url.startswith(("data:", "blob:")))
        if method == "Runtime.exceptionThrown":
            holds(f"exception: {params['exceptionDetails']}", False)
        if method == "Runtime.consoleAPICalled" and params["type"] == "error":
            holds(f"console: {params['args']}", False)
        if method == "Log.entryAdded" and params["entry"]["level"] == "error":
            holds(f"log: {params['entry']['text']}", False)
    holds(f"the page has {page.stat().st_size} bytes", page.stat().st_size <= 250_000)


def main():
    page, result = pathlib.Path(sys.argv[1]).resolve(), json.loads(pathlib.Path(sys.argv[2]).read_text())
    wrong = []

    def holds(claim, is_so):
        if not is_so:
            wrong.append(claim)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        check_charts(browser, page, result, holds)
        check_peaks(browser, page, result, holds)
        check_taking_away(browser, page, result, holds)
        check_tables(browser, result, holds)
        check_layout(browser, page, holds)
        check_accessibility(browser, page, holds)
        check_without_scripts(browser, page, result, holds)
        check_log(browser, page, holds)
        browser.session = None
        browser.call("Browser.close")
        browser.process.wait(20)
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
