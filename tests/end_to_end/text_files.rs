//! Text files of others, with each line end, mark and encoding: they mean what they mean without.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::command::call;
use crate::target::Target;

/// The forms of a text.
fn forms(text: &str) -> [(&'static str, Vec<u8>); 5] {
    let dos = text.replace('\n', "\r\n");
    let units = format!("\u{feff}{dos}");
    let units = units.encode_utf16().flat_map(u16::to_le_bytes);
    [
        ("LF", text.into()),
        ("CRLF", dos.clone().into()),
        ("CR", text.replace('\n', "\r").into()),
        ("mark", format!("\u{feff}{text}").into()),
        ("UTF-16", units.collect()),
    ]
}

/// Exit code of a command in this directory, and what does not change from one run to the next.
fn outcome(place: &Path, line: &str) -> (Option<i32>, Value) {
    let words: Vec<&str> = line.split(' ').collect();
    let done = call(place, &words);
    let printed: Value = serde_json::from_str(&done.stdout).unwrap_or_default();
    let figures = ["/ledger/ok", "/results", "/series", "/rows"];
    let figures = figures.map(|at| printed.pointer(at).cloned().unwrap_or_default());
    assert_ne!(
        figures,
        [const { Value::Null }; 4],
        "{line}: {}",
        done.stderr
    );
    (done.code, json!(figures))
}

#[test]
fn a_file_means_the_same_with_each_line_end_and_mark() {
    let place = tempfile::tempdir().unwrap();
    let trusted = place.path().join("trusted.pem");
    let plain = Target::start("");
    let tls = Target::start(&format!("--tls --tls-cert {}", trusted.display()));
    let url = plain.url();
    let origin = plain.origin();
    let common = "--shards 1 -c 1 --no-pin --quiet --json";
    let log = |path: &str| {
        format!("::1 - - [31/Jan/2026:23:59:59 +0200] \"GET {path} HTTP/1.1\" 200 5\n")
    };
    let point = |n: u32| {
        format!(
            "{{\"schema\":\"crawlmark.point/1\",\"time\":\"2026-01-{n:02}T00:00:00Z\",\"commit\":\"\",\"machine\":\"m\",\"name\":\"b\",\
             \"plan\":\"\",\"metrics\":{{\"t\":{{\"value\":{n}.5,\"unit\":\"ms\",\"worse\":\"more\"}}}}}}\n\n"
        )
    };
    let har = json!({"log": {"entries": [
        {"request": {"method": "GET", "url": format!("{origin}/items/1"), "headers": []}},
    ]}});
    for (text, line) in [
        (
            format!("{url} \\\n -n 3 \\\n# -n 9 \\\n\\\n-H 'x: a \\'\n{common}\n"),
            "run --config FILE".to_owned(),
        ),
        (
            format!("# two\n{origin}/items/1\n\n{origin}/items/2\n"),
            format!("run --urls FILE {common} -n 4"),
        ),
        (
            format!("{{\"url\":\"{url}\"}}\n\n{{\"url\":\"{url}\"}}\n"),
            format!("run --requests-file FILE {common} -n 4"),
        ),
        (
            log("/items/1") + &log("/items/2"),
            format!("run {origin} --requests-file FILE {common}"),
        ),
        (
            serde_json::to_string_pretty(&har).unwrap(),
            format!("run --requests-file FILE {common}"),
        ),
        (
            fs::read_to_string(&trusted).unwrap(),
            format!("run {} --cacert FILE {common} -n 2", tls.url()),
        ),
        (
            (1..=24).map(point).collect(),
            "history FILE --json".to_owned(),
        ),
        (
            "Unit op/s better=lower\n\nBenchmarkA 1 2 op/s\nBenchmarkA 1 3 op/s\n".to_owned(),
            "compare FILE FILE --json".to_owned(),
        ),
    ] {
        let mut wanted = None;
        for (form, bytes) in forms(&text) {
            fs::write(place.path().join("file"), bytes).unwrap();
            let found = outcome(place.path(), &line.replace("FILE", "file"));
            assert_eq!(
                wanted.get_or_insert_with(|| found.clone()),
                &found,
                "{line}, {form}"
            );
            let _ = fs::remove_dir_all(place.path().join("results"));
        }
    }
}
