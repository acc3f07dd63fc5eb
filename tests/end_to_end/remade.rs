//! `crawlmark report`: what a saved result is made into, once more.

use std::fs;

use crate::command::{call_line, names};
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
