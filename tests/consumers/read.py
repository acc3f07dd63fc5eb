#!/usr/bin/env python3
"""Reads a result directory and its exports with the formats' own readers, and compares with result.json.

    read.py RESULT

RESULT holds every export under its usual name. Each reader that is installed is asked; each that is not is skipped, and
says so: `skipped: <reader>: <reason>`. Exits with 1 at the first difference. CI installs what requirements.txt lists.
"""

import csv
import importlib
import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

# A histogram of three digits knows a value to a thousandth; it and its reader may round to different ends of a cell.
CLOSE = 0.002


def close(ours, theirs, what):
    if ours is None:
        return
    if not math.isclose(ours, theirs, rel_tol=CLOSE):
        raise AssertionError(f"{what}: {ours} in result.json, {theirs} by the reader")


def same(ours, theirs, what):
    if ours != theirs:
        raise AssertionError(f"{what}: {ours!r} in result.json, {theirs!r} by the reader")


def percentiles(latency):
    """The percentiles that are known for sure, in nanoseconds."""
    named = {50: "p50_us", 90: "p90_us", 99: "p99_us", 99.9: "p999_us"}
    known = {p: latency[key] for p, key in named.items() if latency[key] is not None and key not in latency["at_least"]}
    return {p: us * 1e3 for p, us in known.items()}


def hdr_log(result, report):
    """latency.hlog against the percentiles in result.json, by HdrHistogram's port to Python."""
    from hdrh.histogram import HdrHistogram
    from hdrh.log import HistogramLogReader

    highest = 2 * report["plan"]["timeout_us"] * 1000
    for series in ("service", "response"):
        latency = report["latency"].get(series)
        # The log has the warm-up, too, and the report has not; and of what was cut off the log says nothing.
        if latency is None or report["warmup"] or latency["censored"] > 0:
            continue
        whole = HdrHistogram(1, highest, 3)
        for shard in report["shards"]:
            part = HdrHistogram(1, highest, 3)
            reader = HistogramLogReader(str(result / "latency.hlog"), part)
            tag = f"shard-{shard['shard']}.{series}"
            while True:
                interval = reader.get_next_interval_histogram()
                if interval is None:
                    break
                if interval.get_tag() == tag:
                    whole.add(interval)
            reader.close()
        same(latency["count"] - latency["overflow"], whole.get_total_count(), f"{series}: values in latency.hlog")
        for percentile, ns in percentiles(latency).items():
            # The reader rounds a rank to the nearest, and a report up: the same rank is asked for.
            rank = math.ceil(percentile / 100 * latency["count"] - 1e-9)
            close(ns, whole.get_value_at_percentile(100 * rank / latency["count"]), f"{series} p{percentile} of latency.hlog")
        yield f"latency.hlog: {whole.get_total_count()} {series} times"


def openmetrics(result, report):
    """openmetrics.txt, by the strict parser of prometheus_client."""
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    families = {family.name: family for family in text_string_to_metric_families((result / "openmetrics.txt").read_text())}
    attempts = sum(sample.value for sample in families["crawlmark_attempts"].samples)
    same(report["totals"]["attempts"], attempts, "attempts")
    items = {sample.labels["state"]: sample.value for sample in families["crawlmark_items"].samples}
    same({state: report["ledger"][state] for state in items}, items, "items by state")
    verdicts = [s.labels["verdict"] for s in families["crawlmark_validity"].samples if s.value == 1]
    same([report["validity"]["verdict"]], verdicts, "verdict")
    for series, latency in report["latency"].items():
        if latency["count"] == 0:
            continue
        samples = families[f"crawlmark_{series}_seconds"].samples
        value = {s.name.rsplit("_", 1)[1]: s.value for s in samples if not s.name.endswith("_bucket")}
        same(latency["count"], value["count"], f"count of {series}")
        close(latency["mean_us"] * latency["count"] / 1e6, value["sum"], f"sum of {series}")
        buckets = [(float(s.labels["le"]), s.value) for s in samples if s.name.endswith("_bucket")]
        for percentile, ns in percentiles(latency).items():
            if latency["censored"] == 0:
                rank = percentile / 100 * latency["count"]
                bound = next(le for le, count in buckets if count >= math.ceil(rank - 1e-9))
                if ns / 1e9 > bound * (1 + CLOSE):
                    raise AssertionError(f"{series} p{percentile} is {ns / 1e9} s, and its bucket ends at {bound}")
    yield f"openmetrics.txt: {len(families)} families"


def tables(result, report):
    """intervals.csv and shards.csv, by Python's csv."""
    for name, rows, total in (("intervals.csv", report["intervals"], None), ("shards.csv", report["shards"], "attempts")):
        with open(result / name, newline="", encoding="utf-8") as file:
            read = list(csv.DictReader(file, strict=True))
        same(len(rows), len(read), f"rows of {name}")
        same({report["validity"]["verdict"]} if rows else set(), {row["validity"] for row in read}, f"verdict in {name}")
        if any(None in row or None in row.values() for row in read):
            raise AssertionError(f"{name}: a row has more or fewer fields than there are columns")
        for ours, theirs in zip(rows, read):
            ours = ours if total is None else ours["totals"]
            same(str(ours["attempts"]), theirs["attempts"], f"attempts in {name}")
        yield f"{name}: {len(read)} rows"


def junit(result, report):
    """junit.xml, by junitparser."""
    from junitparser import Error, Failure, JUnitXml

    read = JUnitXml.fromfile(str(result / "junit.xml"))
    cases = [case for suite in read for case in suite]
    same([gate["expression"] for gate in report["gates"]], [case.name for case in cases], "gates in junit.xml")
    for gate, case in zip(report["gates"], cases):
        kinds = [type(found) for found in case.result]
        same({True: [], False: [Failure], None: [Error]}[gate["ok"]], kinds, f"verdict on {gate['expression']}")
    same(read.failures, sum(suite.failures for suite in read), "failures in junit.xml")
    suite = next(iter(read))
    same(report["validity"]["verdict"], {p.name: p.value for p in suite.properties()}["validity"], "verdict in junit.xml")
    yield f"junit.xml: {len(cases)} cases"


def recipes(result, report):
    """The recipes of the book, by jq, in the shapes that github-action-benchmark and Bencher document."""
    if not shutil.which("jq"):
        yield "skipped: jq is not installed"
        return
    book = Path(__file__).parents[2] / "docs/src/compare/exports.md"
    blocks = [text for text in re.findall(r"^```sh\n(.*?)^```", book.read_text(encoding="utf-8"), re.M | re.S) if text.startswith("jq ")]
    same(2, len(blocks), "recipes in the book")
    for block in blocks:
        subprocess.run(["sh", "-ec", block], cwd=result.parent, check=True)
    bigger, smaller, bencher = (json.loads((result.parent / f"{name}.json").read_text()) for name in ("bigger", "smaller", "bencher"))
    for entry in bigger + smaller:
        same([str, str, True, report["validity"]["verdict"]],
             [type(entry["name"]), type(entry["unit"]), isinstance(entry["value"], (int, float)), entry["extra"]], "types of an entry")
    latency = report["latency"].get("response") or report["latency"]["service"]
    known = {f"p{p}": ns / 1e3 for p, ns in percentiles(latency).items() if p in (50, 99)}
    same({"good items": report["totals"]["ok_per_s"]}, {entry["name"]: entry["value"] for entry in bigger}, "bigger.json")
    same(known, {entry["name"]: entry["value"] for entry in smaller}, "smaller.json")
    metrics = {"throughput": {"value": report["totals"]["ok_per_s"]}}
    if "p50" in known:
        metrics["latency"] = {"value": latency["p50_us"] * 1000}
    same({report["name"]: metrics}, bencher, "bencher.json")
    yield f"recipes: {len(bigger) + len(smaller)} entries, {len(metrics)} metrics"


READERS = (
    ("jq", "json", recipes),
    ("hdrhistogram", "hdrh", hdr_log),
    ("csv", "csv", tables),
    ("prometheus_client", "prometheus_client", openmetrics),
    ("junitparser", "junitparser", junit),
)


def main(result):
    report = json.loads((result / "result.json").read_text(encoding="utf-8"))
    for package, module, read in READERS:
        try:
            importlib.import_module(module)
        except ImportError as missing:
            print(f"skipped: {package}: {missing}")
            continue
        for said in read(result, report):
            print(said if said.startswith("skipped") else f"agrees: {said}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
