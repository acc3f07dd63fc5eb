//! Functions of targets and commands: sampled by the kernel, named by their programs, compared in
//! pairs.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::command::run;

/// A program with two functions, of which one spins so many rounds more.
const SOURCE: &str = "
static volatile unsigned long sum;
__attribute__((noinline)) void spin(long n) { for (long i = 0; i < n; i++) sum += i; }
__attribute__((noinline)) void other(long n) { for (long i = 0; i < n; i++) sum ^= i; }
int main(void) { spin(30000000 + MORE); other(30000000); return 0; }
";

/// Compile it, and return its path; none where that is not possible.
fn compiled(folder: &Path, more: u64) -> Option<String> {
    let source = folder.join("program.c");
    fs::write(&source, SOURCE).unwrap();
    let made = folder.join(more.to_string());
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", &format!("-DMORE={more}"), "-o"]);
    let ended = compiler.args([&made, &source]).status();
    if !ended.is_ok_and(|status| status.success()) {
        println!("skipped: there is no C compiler");
        return None;
    }
    Some(made.display().to_string())
}

#[test]
fn the_function_that_does_more_is_named_first() {
    let folder = tempfile::tempdir().unwrap();
    let [base, candidate] = [0, 30_000_000].map(|more| compiled(folder.path(), more));
    let (Some(base), Some(candidate)) = (base, candidate) else {
        return;
    };
    let result = run(&format!(
        "ab --profile --pairs 16 --executions 1 --quiet --shell none --out out \
         --base-command {base} --cand-command {candidate}"
    ))
    .code(&[3, 5])
    .saved("comparison.json");
    let counted = &result["rounds"][0]["executions"][0]["counted"];
    assert!(counted["page_faults"].as_u64().unwrap() > 0, "{counted}");
    if let Some(why) = result["not_profiled"].as_str() {
        return println!("skipped: {why}");
    }
    let first = &result["profile"]["functions"][0];
    assert_eq!(first["function"], "spin", "{result:#}");
    assert_eq!(first["differs"], true);
    // It does twice as much, on a machine that may be busy.
    let us = |side: &str| first[side].as_f64().unwrap();
    let ratio = us("candidate_us") / us("base_us");
    assert!((1.5..2.7).contains(&ratio), "{ratio}");
    let mut findings = result["findings"].as_array().unwrap().iter();
    assert!(findings.any(|it| it["kind"] == "function_changed"));
}

#[test]
fn functions_of_a_target_are_in_the_result_of_its_run() {
    let done = run(
        "run -n 3000 -c 8 --shards 1 --target-processes 1 --target-functions --quiet --out out",
    )
    .code(&[0]);
    let target = &done.saved("result.json")["target"];
    if let Some(why) = target["unavailable"]["functions"].as_str() {
        return println!("skipped: {why}");
    }
    let profile = &target["profile"];
    let functions = profile["functions"].as_array().unwrap().iter();
    let samples =
        functions.map(|it| (it["object"] == "crawlmark", it["samples"].as_u64().unwrap()));
    let [mut named, mut all] = [0; 2];
    for (is_own, count) in samples {
        named += if is_own { count } else { 0 };
        all += count;
    }
    assert!(
        named > 0 && all <= profile["samples"].as_u64().unwrap(),
        "{profile}"
    );
}
