//! `crawlmark report`: what a saved result is made into, once more.

use std::fs;

use crate::command::{assert_fits, call_line, json as read_json, names};
use crate::run::ended;

#[test]
fn what_is_made_from_a_result_is_made_again() {
    let ended = ended("-n 40 -s 1 -c 2");
    let result = ended.out();
    let made = || {
        let plots = names(&result.join("plots")).into_iter();
        let mut files: Vec<String> = plots.map(|name| format!("plots/{name}")).collect();
        files.extend(["report.html", "summary.md"].map(str::to_owned));
        files
            .into_iter()
            .map(|name| (ended.file(&name), name))
            .collect::<Vec<_>>()
    };
    let (before, json) = (made(), ended.file("result.json"));
    assert!(before.len() >= 9, "{before:?}");
    for (_, name) in &before {
        fs::remove_file(result.join(name)).unwrap();
    }
    let said = call_line(&result, "report . ");
    assert_eq!((said.code, &*said.stderr), (Some(0), ""));
    assert!(made() == before && ended.file("result.json") == json);
}

#[test]
fn what_was_never_sent_is_slower_than_all_others_in_a_run_and_in_a_part_of_it() {
    // Six connections of 50 ms each bear 120/s.
    let line = "-d 2s -s 2 -c 6 --rate 500 --arrivals constant --queue 4";
    let ended = ended(&format!("{line} --target-latency 50ms"));
    let (whole, result) = (ended.report(0), ended.out());
    let seconds = whole.at("/intervals").as_array().unwrap().len();
    call_line(&result, &format!("report . --to {seconds} --out all")).code(&[0]);
    let all = read_json(&result.join("all/cut.json"));
    assert_fits("cut", &all);
    for of in [&all, &read_json(&result.join("result.json"))] {
        let response = &of["latency"]["response"];
        assert_eq!(response["at_least"][0], "p50_us");
        let us = |key: &str| response[key].as_f64().unwrap();
        assert!((us("p50_us") / us("max_us") - 1.0).abs() < 0.01);
        assert!(us("max_us") >= 50_000.0);
        let dropped = &of["latency"]["drop_age"]["count"];
        assert_eq!(*dropped, whole.count("/totals/dropped"));
    }
}

#[test]
fn a_part_of_a_run_is_cut_out_with_page_plots_and_json() {
    let ended = ended("-d 3s -s 2 -c 40 --rate 60 --arrivals constant --target-latency 20ms");
    let (whole, result) = (ended.report(0), ended.out());
    let part = |line: &str| call_line(&result, &format!("report . {line}"));
    let said = part("--from 1s --to 2s");
    assert_eq!((said.code, &*said.stderr), (Some(0), ""));
    let cut = |name: &str| read_json(&result.join(name).join("cut.json"));
    let second = cut("part-1s-2s");
    assert_fits("cut", &second);
    assert_eq!(second["intervals"][0], *whole.at("/intervals/1"));
    for file in ["report.html", "summary.md", "plots/throughput.svg"] {
        assert!(result.join("part-1s-2s").join(file).is_file(), "{file}");
    }
    // The target's own count is that of the parts.
    let names = whole.at("/intervals").as_array().unwrap().len();
    part("--to 1s --quiet").code(&[0]);
    part(&format!("--from 2s --to {names} --out rest")).code(&[0]);
    let parts = ["part-0s-1s", "part-1s-2s", "rest"].map(cut);
    let attempts = parts
        .iter()
        .map(|it| it["totals"]["attempts"].as_u64().unwrap());
    assert_eq!(
        attempts.sum::<u64>(),
        whole.count("/witness/ledger/requests")
    );
    for line in [
        "--from 2s --to 1s",
        "--from 99s",
        "--from 1.5s",
        "--to 2s --out .",
        "--from 1s --export csv",
    ] {
        let said = part(line);
        assert_eq!((said.code, &*said.stdout), (Some(2), ""), "{line}");
    }
}
