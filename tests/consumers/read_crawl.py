#!/usr/bin/env python3
"""Reads a saved crawl and its exports with other programs' readers, and compares them.

    read_crawl.py DIRECTORY

DIRECTORY holds a saved crawl, `crawl`, and its exports: crawl.jsonl, crawl.csv, crawl.warc.gz and, where crawlmark was built with
it, crawl.parquet. Each reader that is installed reads the segments as they lie there, and the exports; each that is not is skipped, and
says so: `skipped: <reader>: <reason>`. Exits with 1 at the first difference. CI installs what requirements.txt lists.
"""

import base64
import csv
import glob
import hashlib
import importlib
import json
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
    """Segments, Parquet and CSV, by DuckDB, with the statements of the documentation."""
    import duckdb

    columns = "id, outcome, status, attempts"
    segments = duckdb.sql(f"SELECT {columns} FROM read_json('{place}/crawl/*.jsonl.zst')").fetchall()
    compare(records, segments, "read_json")
    yield f"duckdb: {len(segments)} records in the segments"
    by_outcome = "SELECT outcome, count(*), avg(latency_us) FROM read_json('{}') GROUP BY outcome"
    counts = {row[0]: row[1] for row in duckdb.sql(by_outcome.format(f"{place}/crawl/*.jsonl.zst")).fetchall()}
    same(len(records), sum(counts.values()), "counts by outcome")
    if (place / "crawl.parquet").exists():
        parquet = f"'{place}/crawl.parquet'"
        rows = duckdb.sql(f"SELECT {columns}, body FROM {parquet}").fetchall()
        compare(records, rows, "crawl.parquet by DuckDB")
        wrong = duckdb.sql(f"SELECT count(*) FROM {parquet} WHERE NOT starts_with(sha256(body), digest)").fetchall()
        same([(0,)], wrong, "wrong digests in crawl.parquet")
        names = f"SELECT id, decode(body)::JSON->>'name' FROM {parquet} WHERE content_type = 'application/json' AND body_bytes IS NULL"
        same(
            [(record["id"], body(record)["name"]) for record in records if isinstance(body(record), dict)],
            duckdb.sql(names + " ORDER BY id").fetchall(),
            "names in bodies",
        )
        yield f"duckdb: {len(rows)} records in crawl.parquet"
    rows = duckdb.sql(f"SELECT {columns} FROM read_csv('{place}/crawl.csv')").fetchall()
    compare(records, rows, "crawl.csv by DuckDB")
    yield f"duckdb: {len(rows)} records in crawl.csv"


def pandas(place, records):
    """Segments and Parquet, by pandas."""
    import pandas

    paths = sorted(glob.glob(str(place / "crawl/*.jsonl.zst")))
    frame = pandas.concat(pandas.read_json(path, lines=True) for path in paths)
    same([record["id"] for record in records], sorted(int(n) for n in frame["id"]), "IDs by pandas")
    same(sum(record["attempts"] for record in records), int(frame["attempts"].sum()), "attempts by pandas")
    yield f"pandas: {len(frame)} records in the segments"
    if (place / "crawl.parquet").exists():
        frame = pandas.read_parquet(place / "crawl.parquet")
        same(sum(record["attempts"] for record in records), int(frame["attempts"].sum()), "attempts in crawl.parquet")
        yield f"pandas: {len(frame)} records in crawl.parquet"


def pyarrow(place, records):
    """Parquet, by pyarrow: types and values of each column."""
    if not (place / "crawl.parquet").exists():
        yield "skipped: crawlmark was built without Parquet"
        return
    from pyarrow import parquet

    table = parquet.read_table(place / "crawl.parquet")
    types = {
        "id": "uint64",
        "url": "string",
        "status": "uint16",
        "outcome": "string",
        "attempts": "uint32",
        "at": "timestamp[us, tz=UTC]",
        "latency_us": "uint64",
        "content_type": "string",
        "digest": "string",
        "body": "binary",
        "body_bytes": "uint64",
    }
    same(types, {field.name: str(field.type) for field in table.schema}, "types in crawl.parquet")
    for record, row in zip(records, sorted(table.to_pylist(), key=lambda row: row["id"]), strict=True):
        for name in set(types) - {"at", "body"}:
            same(record.get(name), row[name], f"{name} of record {record['id']}")
        same(record["at"], row["at"].strftime("%Y-%m-%dT%H:%M:%S.%fZ"), f"time of record {record['id']}")
        same(body(record), value_of(row["body"], body(record)), f"body of record {record['id']}")
    yield f"pyarrow: {table.num_rows} rows"


def table(place, records):
    """CSV, by Python's own reader."""
    with open(place / "crawl.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, strict=True))
    same(len(records), len(rows), "rows of crawl.csv")
    for record, row in zip(records, sorted(rows, key=lambda row: int(row["id"]))):
        for name in set(row) - {"body"}:
            same(str(record.get(name, "")), row[name], f"{name} of record {record['id']}")
        content = row["body"].encode()
        content = base64.b64decode(content) if row["body_encoding"] else content
        same(body(record) or b"", value_of(content, body(record) or b""), f"body of record {record['id']}")
    yield f"csv: {len(rows)} rows"


def warc(place, records):
    """WARC, by warcio, which checks the digests."""
    from warcio.archiveiterator import ArchiveIterator

    expected = [record for record in records if "body" in record]
    with open(place / "crawl.warc.gz", "rb") as file:
        found = []
        for record in ArchiveIterator(file, check_digests="raise"):
            content = record.content_stream().read()
            found.append((record.rec_type, record.rec_headers, content))
    same("warcinfo", found[0][0], "first record")
    same(len(expected), len(found) - 1, "records in crawl.warc.gz")
    same(len(found), len({headers.get_header("WARC-Record-ID") for _, headers, _ in found}), "different IDs of records")
    for record, (kind, headers, content) in zip(expected, found[1:]):
        url = record.get("url", f"http://127.0.0.1:8080/items/{record['id']:04}")
        ours = ("resource", url, record["at"], record["content_type"], "length" if "body_bytes" in record else None)
        names = ("WARC-Target-URI", "WARC-Date", "Content-Type", "WARC-Truncated")
        same(ours, (kind, *(headers.get_header(name) for name in names)), f"head of record {record['id']}")
        same(body(record), value_of(content, body(record)), f"body of record {record['id']}")
    yield f"warcio: {len(found)} records"


READERS = (
    ("csv", "csv", table),
    ("zstdcat", "subprocess", zstdcat),
    ("zstandard", "zstandard", zstandard),
    ("duckdb", "duckdb", duckdb),
    ("pandas", "pandas", pandas),
    ("pyarrow", "pyarrow", pyarrow),
    ("warcio", "warcio", warc),
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
