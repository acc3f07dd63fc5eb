//! `crawlmark arena`: each entry in each round, in fresh servers and in the order drawn; ranks with
//! ties; what answers differently is named.

use std::fs;

use crawlmark_results::studies::arena::order;
use serde_json::{Value, json};

use crate::command::{Done, program, run};

/// An entry that is the bundled target with these flags, as a program of its own.
fn entry(name: &str, flags: &str) -> String {
    format!(
        "--entry '{name}=exec {} serve --processes 1 --listen 127.0.0.1:{{port}} {flags}'",
        program().display()
    )
}

/// An arena of these entries.
fn arena(entries: &[String], flags: &str) -> Done {
    let entries = entries.join(" ");
    run(&format!(
        "arena --out out --path /items/{{id}} -w 20ms {entries} {flags} -- -c 4 -s 1 --no-pin"
    ))
}

fn names(list: &Value, key: &str) -> Vec<String> {
    let list = list.as_array().unwrap().iter();
    list.map(|one| one[key].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn every_entry_runs_in_every_round_and_is_checked_and_saved() {
    let entries = [
        entry("one", "--latency 5ms"),
        entry("two", "--latency 5ms"),
        entry("other", "--latency 5ms --keep-alive 1"),
    ];
    let flags = "--rounds 2 -d 400ms --curve 2 --seed 7 --json --version-of 'one=echo one 1.2'";
    let done = arena(&entries, flags).code(&[5]);
    let arena = done.saved("arena.json");
    assert_eq!(arena, done.printed());
    let all = ["one", "two", "other"];
    let expected: Vec<&str> = (1..=2)
        .flat_map(|round| order(7, 3, round))
        .map(|at| all[at])
        .collect();
    assert_eq!(names(&arena["rounds"], "entry"), expected);
    for entry in arena["entries"].as_array().unwrap() {
        assert_eq!(entry["rank"], Value::Null, "none before the first look");
        assert_eq!(entry["fixed"]["rounds"], 2);
        assert_eq!(entry["curve"].as_array().unwrap().len(), 2);
        assert!(entry["fixed"]["cpu_us_per_request"].as_f64().unwrap() > 0.0);
        // A run on a busy machine may end before a sample of it.
        let memory = entry["fixed"]["peak_memory"].as_u64();
        assert!(memory.is_none_or(|bytes| bytes > 1 << 20), "{memory:?}");
        assert_eq!(entry["check"]["good"], 6);
        let is_other = entry["name"] == "other";
        assert_eq!(entry["check"]["connections"], if is_other { 6 } else { 1 });
        let version = if entry["name"] == "one" {
            json!("one 1.2")
        } else {
            Value::Null
        };
        assert_eq!(entry["version"], version);
    }
    let kinds = names(&arena["findings"], "kind");
    assert!(kinds.contains(&"no_keep_alive".to_owned()), "{kinds:?}");
    for file in ["summary.md", "report.html", "plots/arena.svg"] {
        assert!(done.out().join(file).exists(), "{file}");
    }
    assert!(!done.out().join("checks/one.saved").exists());
}

#[test]
fn entries_of_a_file_are_read_and_bad_ones_are_refused() {
    for (lines, flags, says) in [
        ("a=x {port}\n", "", "1 entries"),
        ("a=x\na=y\n", "", "1 names"),
        ("# none\n\na\n", "", "NAME=COMMAND"),
        ("a=x\nb=y\n", "--version-of 'c=d'", "--version-of c"),
        // A command that does not end.
        ("a=x\nb=y\n", "--version-of 'a=sleep 1h'", "--version-of: "),
        ("a=x\nb=y\n", "-- --rate 5", "--rate cannot be chosen"),
    ] {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("entries");
        fs::write(&file, lines).unwrap();
        let line = format!("arena --out out --entries {} {flags}", file.display());
        let done = run(&line).code(&[2]);
        assert!(done.stderr.contains(says), "{}", done.stderr);
    }
}

/// True if no round was left out, which is the machine's affair.
fn is_whole(arena: &Value) -> bool {
    let mut pairs = arena["pairs"].as_array().unwrap().iter();
    pairs.all(|pair| pair["pairs"] == 16)
}

#[test]
fn a_server_that_takes_much_longer_is_the_second() {
    let entries = [
        entry("slow", "--latency 100ms"),
        entry("fast", "--latency 5ms"),
    ];
    let done = arena(&entries, "--rate 20 -d 250ms --rounds 16 --curve 0").code(&[0, 5]);
    let arena = done.saved("arena.json");
    if !is_whole(&arena) {
        eprintln!("not judged: rounds were disturbed");
        return;
    }
    let ranks: Vec<&Value> = arena["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["rank"])
        .collect();
    assert_eq!(names(&arena["entries"], "name"), ["fast", "slow"]);
    assert_eq!(ranks, [&json!(1), &json!(2)]);
    assert_eq!(
        arena["pairs"][0]["relation"], "differ",
        "{}",
        arena["pairs"]
    );
}

#[test]
fn an_entry_is_added_beside_two_of_a_saved_arena() {
    let entries = [entry("one", "--latency 5ms"), entry("two", "--latency 5ms")];
    let done = arena(&entries, "--rate 50 --rounds 2 -d 100ms --curve 0").code(&[5]);
    let mut saved = done.saved("arena.json");
    let file = done.out().join("arena.json");
    let add = |entries: &[&str]| {
        let entries: Vec<String> = entries
            .iter()
            .map(|it| entry(it, "--latency 5ms"))
            .collect();
        run(&format!(
            "arena --out out --path /items/{{id}} --add {} {} --json -- -c 4 -s 1 --no-pin",
            file.display(),
            entries.join(" ")
        ))
    };
    let all = ["one", "two", "new"];
    assert!(
        add(&all)
            .code(&[2])
            .stderr
            .contains("fewer than two ranked")
    );
    // As if it had been looked at, by somebody who would like to have a command executed.
    let foreign = file.parent().unwrap().join("foreign");
    let forged = format!("one=touch {}; exit 1", foreign.display());
    saved["command"] = json!([
        "crawlmark",
        "arena",
        "--entry",
        forged,
        "--entry",
        "two=true"
    ]);
    saved["look"] = json!({"number": 1, "pairs": 2, "alpha": 0.001});
    for entry in saved["entries"].as_array_mut().unwrap() {
        entry["rank"] = json!(1);
    }
    fs::write(&file, saved.to_string()).unwrap();
    for refused in [&["new"][..], &["one", "new"], &["one", "two"]] {
        add(refused).code(&[2]);
    }
    let added = add(&all).code(&[5]).printed();
    assert!(!foreign.exists(), "no command of a file is executed");
    assert!(added["command"].to_string().contains("new="));
    saved["command"] = json!([]);
    fs::write(&file, saved.to_string()).unwrap();
    let all = add(&all).code(&[5]).printed();
    let mut found = names(&all["entries"], "name");
    found.sort();
    assert_eq!(found, ["new", "one", "two"]);
    let rounds = names(&all["rounds"], "entry");
    assert!(rounds.len() <= 6 && rounds[..4] == names(&saved["rounds"], "entry"));
    assert_eq!(all["added"][0]["entries"], json!(["new"]));
    for ratio in all["added"][0]["ratios"].as_array().unwrap() {
        assert!((0.2..5.0).contains(&ratio.as_f64().unwrap()), "{ratio}");
    }
    assert!(all["command"].to_string().contains("new="));
}
