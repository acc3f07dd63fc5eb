#!/usr/bin/env python3
"""Show a run of 20 s in Chromium while it goes on, and print what does not hold: nothing when all does.

    tests/page/live.py CRAWLMARK

Each second has to be on the page within a second of its end, and the page has to become the report.
"""

import datetime
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from drive import Browser

LASTS = 20
RUN = f"run --target-latency lognormal:20ms,0.3 --rate 200 -s 1 -d {LASTS}s --page --no-progress --out out"

# Says when the time that the page shows changes.
WATCH = """(() => { let last; new MutationObserver(() => {
    const now = document.querySelector(".pills")?.textContent;
    if (now && now !== last) told(JSON.stringify([Date.now() / 1e3, (last = now)]));
}).observe(document, {childList: true, subtree: true}); })()"""


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    wrong, shown = [], {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        browser = Browser(f"{place}/profile")
        browser.call("Runtime.addBinding", name="told")
        browser.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        run = subprocess.Popen([program, *RUN.split()], cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        browser.open(next(line for line in run.stderr if line.startswith("Live: ")).split()[1])
        loads = 0
        while loads == 0:
            event = browser.receive()
            browser.events.append(event)
            loads += event.get("method") == "Page.loadEventFired"
        code = run.wait(LASTS)
        started = datetime.datetime.fromisoformat(json.loads(pathlib.Path(place, "out/result.json").read_text())["started_at"]).timestamp()
        for event in browser.events:
            if event.get("method") == "Runtime.bindingCalled":
                at, text = json.loads(event["params"]["payload"])
                seconds = re.search(r"Live\D*([\d.]+) s", text)
                if seconds:
                    shown.setdefault(round(float(seconds[1])), at)
        late = {second: round(shown.get(second, float("inf")) - started - second, 2) for second in range(2, LASTS)}
        print(f"shown after the end of each second, s: {late}", file=sys.stderr)
        if max(late.values()) > 1:
            wrong.append(f"seconds are late: {late}")
        if code != 0 or not browser.value("location.pathname.endsWith('/report')") or not browser.value("document.querySelectorAll('.uplot').length"):
            wrong.append(f"the page is no report: the run ended with {code}")
        for event in browser.events:
            if event.get("method") == "Runtime.exceptionThrown" or event.get("params", {}).get("entry", {}).get("level") == "error":
                wrong.append(str(event["params"]))
        browser.session = None
        browser.call("Browser.close")
        browser.process.wait(20)
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
