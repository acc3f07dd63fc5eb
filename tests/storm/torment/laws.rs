//! What holds however a session was tormented.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::session::{Course, Ended};
use crate::scene::wrong_result;

/// Exit codes of a run, as documented.
const CODES: [i32; 9] = [0, 1, 2, 3, 4, 5, 129, 130, 143];

/// A count of a JSON file.
pub(crate) fn count(json: &Value, path: &str) -> u64 {
    json.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

/// Read a JSON file; none if it is not there.
pub(crate) fn read(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// What is wrong with how the commands of a session ended, whatever they were.
pub(crate) fn wrong_ends(course: &Course) -> Vec<String> {
    let mut wrong = Vec::new();
    for orphan in &course.orphans {
        wrong.push(format!("left running: {orphan}"));
    }
    for ended in &course.ended {
        let Some(status) = ended.status else {
            wrong.push(format!("no end of {}", ended.line));
            continue;
        };
        if let Some(pid) = ended.zombie {
            wrong.push(format!(
                "{pid} ended, and was not waited for: {}",
                ended.line
            ));
        }
        let is_as_sent = |number: i32| ended.signals.iter().any(|sent| *sent as i32 == number);
        let is_right = match (status.code(), status.signal()) {
            (Some(2), _) if ended.stderr.contains("try '--help'") => false,
            (Some(code), _) => CODES.contains(&code),
            // A signal that comes before there is a handler for it ends the process, too.
            (None, number) => number.is_some_and(is_as_sent) || is_out_of_memory(ended),
        };
        if !is_right || ended.stderr.contains("panicked") {
            wrong.push(format!("{status} of {}: {}", ended.line, ended.stderr));
        }
    }
    wrong
}

/// True if the standard library has aborted it for lack of memory: it died as by `SIGKILL`.
pub(crate) fn is_out_of_memory(ended: &Ended) -> bool {
    ended.stderr.contains("memory allocation of")
}

/// What is wrong with the result in `out`, or with the exit code by it.
pub(crate) fn wrong_run(ended: &Ended, out: &Path) -> Vec<String> {
    let mut wrong: Vec<String> = wrong_result(out, false).into_iter().collect();
    let code = ended.status.and_then(|status| status.code());
    let Some(result) = read(&out.join("result.json")) else {
        if matches!(code, Some(0 | 3 | 5)) {
            wrong.push(format!("{code:?} without a result: {}", ended.stderr));
        }
        return wrong;
    };
    if let Some(code) = code.filter(|code| !expected_codes(&result).contains(code)) {
        let verdict = &result["validity"]["verdict"];
        wrong.push(format!("{code} with {verdict}: {}", ended.stderr));
    }
    let states = result["ledger"].as_object().into_iter().flatten();
    for (state, total) in states {
        let shards = result["shards"].as_array().into_iter().flatten();
        let sum: u64 = shards
            .map(|shard| count(shard, &format!("/ledger/{state}")))
            .sum();
        if Some(sum) != total.as_u64() {
            wrong.push(format!("{state}: {total}, and {sum} over the shards"));
        }
    }
    if result["budget"]["kept"] == false {
        wrong.push(format!("the budget was exceeded: {}", result["budget"]));
    }
    wrong
}

/// Exit codes that fit a result.
fn expected_codes(result: &Value) -> Vec<i32> {
    match result["interrupted_by"].as_i64() {
        Some(number) => vec![128 + i32::try_from(number).unwrap()],
        None if result["validity"]["verdict"] == "incomplete" => vec![4],
        None if count(result, "/got/ok") == 0 => vec![1],
        // The result is there, and something behind it failed: the disk is full.
        None => vec![0, 1],
    }
}

/// What is wrong with the client's attempts by the target's count of its requests; `slack` are those
/// that may be lost on their way.
pub(crate) fn wrong_counts(sent: u64, at_target: u64, slack: u64) -> Option<String> {
    (at_target.abs_diff(sent) > slack)
        .then(|| format!("{sent} sent, {at_target} at the target; {slack} may be lost"))
}

/// The names of unfinished results in `work` that nothing that was said names.
pub(crate) fn unnamed(work: &Path, said: &str) -> Vec<String> {
    let flat: String = said.split_whitespace().collect();
    let mut names = Vec::new();
    for entry in fs::read_dir(work).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        if name.contains(".partial") && !flat.contains(&name) {
            names.push(format!("{name} is left, and not named"));
        }
    }
    names
}

/// The exported records, by their IDs.
pub(crate) fn records(lines: &str, wrong: &mut Vec<String>) -> BTreeMap<u64, Value> {
    let mut records = BTreeMap::new();
    for line in lines.lines() {
        let Ok(record) = serde_json::from_str::<Value>(line) else {
            wrong.push(format!("an exported line is no JSON: {line}"));
            continue;
        };
        let id = count(&record, "/id");
        if records.insert(id, record).is_some() {
            wrong.push(format!("{id} is exported twice"));
        }
    }
    records
}

/// True if the item of a record is not crawled again.
fn is_final(record: &Value) -> bool {
    ["ok", "not_found", "skipped"].contains(&record["outcome"].as_str().unwrap_or_default())
}

/// What is wrong with the records `now`, by those `before`: a final one stays as it is.
pub(crate) fn wrong_records(
    before: &BTreeMap<u64, Value>,
    now: &BTreeMap<u64, Value>,
) -> Vec<String> {
    let finals = before.iter().filter(|(_, record)| is_final(record));
    finals
        .filter(|(id, record)| now.get(id) != Some(record))
        .map(|(id, record)| format!("{record} was saved, and is now {:?}", now.get(id)))
        .take(3)
        .collect()
}

/// What is wrong with the segments of a whole crawl: each ID has one final record.
pub(crate) fn wrong_segments(crawl: &Path, items: u64) -> Vec<String> {
    let mut finals: BTreeMap<u64, u64> = (0..items).map(|id| (id, 0)).collect();
    for path in files(crawl) {
        if path.extension().is_none_or(|ending| ending != "zst") {
            continue;
        }
        let mut text = String::new();
        let file = fs::File::open(&path).unwrap();
        let decoded =
            zstd::Decoder::new(file).and_then(|mut lines| lines.read_to_string(&mut text));
        if let Err(error) = decoded {
            return vec![format!("{}: {error}", path.display())];
        }
        for line in text.lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            *finals.entry(count(&record, "/id")).or_default() += u64::from(is_final(&record));
        }
    }
    let odd = finals.iter().filter(|(_, times)| **times != 1);
    odd.take(3)
        .map(|(id, times)| format!("{id} has {times} final records"))
        .collect()
}

/// The files in `directory` and below it, in order.
pub(crate) fn files(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// True if a supervisor got this signal.
pub(crate) fn was_sent(course: &Course, number: Signal) -> bool {
    let mut ended = course.ended.iter();
    ended.any(|ended| ended.signals.contains(&number))
}
