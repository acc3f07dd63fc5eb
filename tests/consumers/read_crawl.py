#!/usr/bin/env python3
"""Reads a saved crawl with other programs' readers, and compares it with its export.

    read_crawl.py DIRECTORY

DIRECTORY holds a saved crawl, `crawl`, and its export, crawl.jsonl. Each reader that is installed reads the segments as they lie there;
each that is not is skipped, and says so: `skipped: <reader>: <reason>`. Exits with 1 at the first difference. CI installs what
requirements.txt lists.
"""

import base64
import glob
import hashlib
import importlib
import json
import os
import re
import subprocess
import shutil
import sys
from pathlib import Path


def same(ours, theirs, what):
    if ours != theirs:
        raise AssertionError(f"{what}: {ours!r} in crawl.jsonl, {theirs!r} as read")


def body(record):
    """Bytes of a body; of JSON, its value."""
    if record.get("body_encoding") == "base64":
        return base64.b64decode(record["body"])
    value = record.get("body")
    return value.encode() if isinstance(value, str) else value


def value_of(content, expected):
    """Bytes as read, as the kind of value that is expected."""
    if content is None or isinstance(expected, (bytes, type(None))):
        return content
    return json.loads(content)


def compare(records, rows, what):
    """Compare rows (id, outcome, status, attempts, bytes of the body) with the records."""
    same(len(records), len(rows), f"rows of {what}")
    for record, row in zip(records, sorted(rows, key=lambda row: row[0])):
        ours = (record["id"], record["outcome"], record.get("status"), record["attempts"])
        same(ours, tuple(row[:4]), f"record {record['id']} of {what}")
        if len(row) > 4:
            same(body(record), value_of(row[4], body(record)), f"body {record['id']} of {what}")


def zstandard(place, records):
    """The segments, by zstandard, frame by frame; digests by hashlib."""
    import zstandard

    found = []
    for path in sorted(glob.glob(str(place / "crawl/*.jsonl.zst"))):
        with open(path, "rb") as file:
            lines = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read()
        found += [json.loads(line) for line in lines.splitlines()]
    same(records, sorted(found, key=lambda record: record["id"]), "the segments")
    for record in found:
        saved = body(record)
        if isinstance(saved, bytes):
            same(record["digest"], hashlib.sha256(saved).hexdigest()[:32], f"digest {record['id']}")
    yield f"segments: {len(found)} records"


def zstdcat(place, records):
    """The segments, by zstdcat."""
    if not shutil.which("zstdcat"):
        yield "skipped: zstdcat is not installed"
        return
    paths = sorted(glob.glob(str(place / "crawl/*.jsonl.zst")))
    lines = subprocess.run(["zstdcat", *paths], check=True, capture_output=True).stdout.splitlines()
    same(records, sorted(map(json.loads, lines), key=lambda record: record["id"]), "zstdcat's lines")
    yield f"zstdcat: {len(lines)} lines"


def duckdb(place, records):
    """Segments, by DuckDB, with the statements of the documentation."""
    import duckdb

    columns = "id, outcome, status, attempts"
    segments = duckdb.sql(f"SELECT {columns} FROM read_json('{place}/crawl/*.jsonl.zst')").fetchall()
    compare(records, segments, "read_json")
    yield f"duckdb: {len(segments)} records in the segments"
    by_outcome = "SELECT outcome, count(*), avg(latency_us) FROM read_json('{}') GROUP BY outcome"
    counts = {row[0]: row[1] for row in duckdb.sql(by_outcome.format(f"{place}/crawl/*.jsonl.zst")).fetchall()}
    same(len(records), sum(counts.values()), "counts by outcome")


def recipes(place, records):
    """Parquet and CSV, by the statements of the book for DuckDB, read back."""
    import duckdb

    book = Path(__file__).parents[2] / "docs/src/crawl/saved-crawls.md"
    statements = re.findall(r'^duckdb -c "(COPY .*)"$', book.read_text(encoding="utf-8"), re.M)
    same(2, len(statements), "recipes in the book")
    os.chdir(place)
    shutil.copy("crawl.jsonl", "items.jsonl")
    for statement in statements:
        duckdb.sql(statement)
    for file in ("items.parquet", "items.csv"):
        rows = duckdb.sql(f"SELECT id, outcome, status, attempts FROM '{file}'").fetchall()
        compare(records, rows, file)
        yield f"recipes: {len(rows)} records in {file}"
    latencies = duckdb.sql("SELECT sum(latency_us) FROM 'items.csv'").fetchall()[0][0]
    same(sum(record.get("latency_us") or 0 for record in records), latencies, "latencies in items.csv")


def pandas(place, records):
    """Segments, by pandas."""
    import pandas

    paths = sorted(glob.glob(str(place / "crawl/*.jsonl.zst")))
    frame = pandas.concat(pandas.read_json(path, lines=True) for path in paths)
    same([record["id"] for record in records], sorted(int(n) for n in frame["id"]), "IDs by pandas")
    same(sum(record["attempts"] for record in records), int(frame["attempts"].sum()), "attempts by pandas")
    yield f"pandas: {len(frame)} records in the segments"


READERS = (
    ("zstdcat", "subprocess", zstdcat),
    ("zstandard", "zstandard", zstandard),
    ("duckdb", "duckdb", duckdb),
    ("pandas", "pandas", pandas),
    ("duckdb", "duckdb", recipes),
)


def main(place):
    records = [json.loads(line) for line in (place / "crawl.jsonl").read_text(encoding="utf-8").splitlines()]
    records.sort(key=lambda record: record["id"])
    for package, module, read in READERS:
        try:
            importlib.import_module(module)
        except ImportError as missing:
            print(f"skipped: {package}: {missing}")
            continue
        for said in read(place, records):
            print(said if said.startswith("skipped") else f"agrees: {said}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
