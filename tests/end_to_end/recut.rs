//! Parts of a saved result: the seconds of a stall beside those without one, by text and by JSON
//! that fits its schema.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose part cannot be read is over"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::run::{Ended, Run, program};
use crate::schema::{closed, places};

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../results/schema/cut-1.schema.json")).unwrap()
});

static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| closed(&SCHEMA));

fn complaints(cut: &Value) -> Vec<String> {
    VALIDATOR
        .iter_errors(cut)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

/// What `report` said.
struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn report(result: &Path, line: &str) -> Said {
    let output = Command::new(program())
        .arg("report")
        .arg(result)
        .args(line.split_whitespace())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// A part as JSON, which fits its schema.
#[track_caller]
fn cut(result: &Path, line: &str) -> Value {
    let said = report(result, &format!("{line} --json"));
    assert_eq!((said.code, &*said.stderr), (Some(0), ""), "{line}");
    let cut = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(complaints(&cut), Vec::<String>::new(), "{line}");
    cut
}

fn count(cut: &Value, pointer: &str) -> u64 {
    cut.pointer(pointer).unwrap().as_u64().unwrap()
}

/// The names and contents of a directory's files.
fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let read = |path: &std::path::PathBuf| {
        (
            path.file_name().unwrap().to_string_lossy().into_owned(),
            fs::read(path).unwrap(),
        )
    };
    files
        .iter()
        .filter(|path| path.is_file())
        .map(read)
        .collect()
}

/// Six seconds at an even rate, of a target that answers nothing for 700 ms of every 2.2 s.
fn stalled() -> Ended {
    Run::start(
        "-d 6s --rate 400 --arrivals constant --shards 2 -c 8 --target-stall 2200ms,700ms --timeout 5s".split(' '),
    )
    .end()
}

#[test]
fn a_part_shows_what_the_whole_hides_and_the_parts_add_up() {
    let ended = stalled();
    let whole = ended.report(0);
    let result = ended.result();
    let before = files(&result);

    let all = cut(&result, "--from 0s");
    let seconds = all["part"]["run_s"].as_u64().unwrap();
    for series in ["service", "response", "service_error", "response_throttled"] {
        assert_eq!(
            all["latency"][series]["hdr"],
            *whole.at(&format!("/latency/{series}/hdr")),
            "{series}"
        );
        assert_eq!(
            all["latency"][series]["censored"],
            *whole.at(&format!("/latency/{series}/censored")),
            "{series}"
        );
    }
    assert_eq!(
        count(&all, "/counted/attempts"),
        whole.count("/totals/attempts")
    );
    assert_eq!(
        (all["counted"]["items_per_s"].clone(), all["notes"].clone()),
        (whole.at("/totals/items_per_s").clone(), json!([]))
    );

    let parts: Vec<Value> = (0..seconds)
        .map(|second| cut(&result, &format!("--from {second}s --to {}", second + 1)))
        .collect();
    for pointer in [
        "/answers/ok/count",
        "/counted/items",
        "/latency/response/count",
    ] {
        assert_eq!(
            parts.iter().map(|part| count(part, pointer)).sum::<u64>(),
            count(&all, pointer),
            "{pointer}"
        );
    }
    let shards = ["0", "1"].map(|shard| cut(&result, &format!("--shards {shard} --outcome ok")));
    assert_eq!(
        shards
            .iter()
            .map(|part| count(part, "/latency/service/count"))
            .sum::<u64>(),
        count(&all, "/latency/service/count")
    );
    assert!(shards[0]["counted"].is_null() && shards[0]["latency"].get("service_error").is_none());

    // Some second began with a stall, or ran into one: what was due in it waited for most of 700
    // ms. Half of what was due in another did not. When the first stall comes is the target's
    // affair. In the last seconds only answers came.
    let worst = |part: &Value| {
        part["latency"]["response"]["max_us"]
            .as_f64()
            .unwrap_or(0.0)
    };
    let worst_of_all = parts.iter().map(worst).fold(0.0, f64::max);
    assert!(
        worst_of_all > 500_000.0 && (worst(&all) - worst_of_all).abs() < 1.0,
        "{worst_of_all}"
    );
    let medians = parts
        .iter()
        .filter_map(|part| part["latency"]["response"]["p50_us"].as_f64());
    let calmest = medians.fold(f64::INFINITY, f64::min);
    assert!(
        calmest < worst_of_all / 2.0,
        "{calmest} beside {worst_of_all}"
    );

    let text = report(&result, "--from 2s --to 3s");
    assert!(
        text.stdout.contains("  part        2 s to 3 s of ")
            && text.stdout.contains("  response    min "),
        "{}",
        text.stdout
    );
    assert_eq!(
        files(&result),
        before,
        "a part without a place of its own is only printed"
    );
}

#[test]
fn a_part_is_saved_where_it_is_told_and_a_run_without_one_is_told_so() {
    let ended = stalled();
    let result = ended.result();
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("part");
    let said = report(
        &result,
        &format!("--from 1s --to 4s --quiet --out {}", out.display()),
    );
    assert_eq!((said.code, &*said.stdout, &*said.stderr), (Some(0), "", ""));
    let saved = files(&out);
    assert_eq!(
        saved.iter().map(|(name, _)| &**name).collect::<Vec<_>>(),
        ["cut.json", "summary.md"]
    );
    assert_eq!(
        complaints(&serde_json::from_slice(&saved[0].1).unwrap()),
        Vec::<String>::new()
    );
    assert!(String::from_utf8_lossy(&saved[1].1).contains("# crawl, 1 s to 4 s"));

    let own = result.display();
    for (line, code, says) in [
        (
            "--from 1500ms".to_owned(),
            2,
            "`1500ms` is not a whole second",
        ),
        (
            "--from 99s".to_owned(),
            2,
            "--from 99s is outside the run, which took ",
        ),
        (
            "--from 3s --to 2s".to_owned(),
            2,
            "--from 3s is not before --to 2s",
        ),
        (
            "--shards 1-2".to_owned(),
            2,
            "--shards names shard 2, and the run's are 0 to 1",
        ),
        ("--shards two".to_owned(), 2, "`two` names no shards"),
        (
            "--outcome good".to_owned(),
            2,
            "[possible values: ok, throttled, error, all]",
        ),
        ("--steady --from 1s".to_owned(), 2, "cannot be used with"),
        ("--steady".to_owned(), 5, "failed to find a steady state: "),
        (format!("--from 1s {own}"), 2, "out of one result at a time"),
        (format!("--from 1s --out {own}"), 2, "is the result itself"),
        (
            "--from 1s --export csv".to_owned(),
            2,
            "cannot be used with",
        ),
        ("--from 1s --png".to_owned(), 2, "cannot be used with"),
    ] {
        let said = report(&result, &line);
        assert_eq!(
            (said.code, &*said.stdout),
            (Some(code), ""),
            "{line}: {}",
            said.stderr
        );
        assert!(said.stderr.contains(says), "{line}: {}", said.stderr);
    }
    fs::write(
        result.join("latency.hlog"),
        "Tag=shard-0.service,0.000,1.000,1.0,AAAA\n",
    )
    .unwrap();
    let said = report(&result, "--from 1s");
    assert_eq!(said.code, Some(2));
    assert!(
        said.stderr
            .contains("latency.hlog, line 1: its histogram cannot be read: it is cut short"),
        "{}",
        said.stderr
    );
    fs::remove_file(result.join("latency.hlog")).unwrap();
    let said = report(&result, "--from 1s");
    assert!(
        said.code == Some(2) && said.stderr.contains("latency.hlog does not exist"),
        "{}",
        said.stderr
    );
}

#[test]
fn the_schema_of_parts_is_one_and_can_say_no() {
    assert!(jsonschema::draft202012::meta::is_valid(&SCHEMA));
    assert_eq!(
        SCHEMA["properties"]["schema"]["const"],
        json!(crawlmark_results::run::cut::SCHEMA)
    );
    let ended = Run::start("-n 400 --rate 20k --shards 2 -c 4".split(' ')).end();
    let mut part = cut(&ended.result(), "--from 0s");
    // As of a long run, which a test has no time for.
    part["part"]["steady"] = json!({
        "from_s": 5, "to_s": 60, "batch_s": 5, "end_left_out_s": 0, "sentence": "steady",
        "series": [{ "name": "items_per_s", "left_out_s": 5 }],
    });
    assert_eq!(complaints(&part), Vec::<String>::new());
    let mut all = Vec::new();
    places(&part, "", &mut all);
    for place in all
        .iter()
        .filter(|place| !place.starts_with("/latency") || place.ends_with("_us"))
    {
        let mut wrong = part.clone();
        *wrong.pointer_mut(place).unwrap() = json!([{"a": 0.5}]);
        assert_ne!(
            complaints(&wrong),
            Vec::<String>::new(),
            "{place} may be anything"
        );
        let Some((parent, key)) = place
            .rsplit_once('/')
            .filter(|(parent, _)| part.pointer(parent).unwrap().is_object())
        else {
            continue;
        };
        let mut without = part.clone();
        without
            .pointer_mut(parent)
            .unwrap()
            .as_object_mut()
            .unwrap()
            .remove(key);
        assert_ne!(
            complaints(&without),
            Vec::<String>::new(),
            "{place} is required by nobody"
        );
    }
}
