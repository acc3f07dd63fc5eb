//! `crawlmark report`: what a saved result is made into, once more and for others.

use std::fs;
use std::path::Path;

use crate::command::{call_line, names};
use crate::run::ended;

/// The names of the files of a folder with this ending, without it.
fn stems(folder: &Path, ending: &str) -> Vec<String> {
    let stems = names(folder).into_iter();
    let stems = stems.filter_map(|name| Some(name.strip_suffix(ending)?.to_owned()));
    stems.collect()
}

#[test]
fn plots_are_made_again_as_png_when_asked_for() {
    let ended = ended("-n 40 -s 1 -c 2 --png");
    let result = ended.out();
    let plots = result.join("plots");
    let pictures = stems(&plots, ".png");
    assert!(
        pictures.len() >= 7 && pictures == stems(&plots, ".svg"),
        "{pictures:?}"
    );
    let picture = || fs::read(plots.join("throughput.png")).unwrap();
    let (light, json) = (picture(), ended.file("result.json"));
    assert!(light.starts_with(b"\x89PNG\r\n\x1a\n"));
    let report = |flags: &str| {
        let said = call_line(&result, &format!("report . {flags}"));
        assert_eq!((said.code, &*said.stderr), (Some(0), ""), "{flags}");
    };
    report("--png");
    assert!(picture() == light, "the same picture");
    report("--png=dark");
    assert!(picture() != light, "another ground");
    report("");
    assert_eq!(stems(&plots, ".svg"), pictures);
    assert_eq!(ended.file("result.json"), json);
}
