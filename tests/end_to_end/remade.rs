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

#[test]
fn several_results_are_laid_over_each_other_or_refused_by_name() {
    let flags = "-n 40 -s 1 -c 2";
    let [a, b] =
        ["--name a", "--name b --timeout 9s"].map(|more| ended(&format!("{flags} {more}")));
    let (a, b) = (a.out(), b.out());
    let (a, b) = (a.display(), b.display());
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    for (line, code) in [
        (format!("{a} {b} {a}/plots/.."), 2),
        (format!("{a} nowhere"), 2),
        (format!("{a} {b} --out {a}"), 2),
        (format!("{a} {b} --out {a}/result.json/below"), 1),
    ] {
        call_line(place, &format!("report {line}")).code(&[code]);
    }
    assert_eq!(names(place), [""; 0]);
    let said = call_line(place, &format!("report {a} {b}/result.json --out both"));
    assert_eq!((said.code, &*said.stderr), (Some(0), ""));
    let page = fs::read_to_string(place.join("both/report.html")).unwrap();
    assert!(page.contains("2 runs side by side") && page.contains("plan.timeout_us"));
    assert_eq!(
        stems(&place.join("both/plots"), ".svg"),
        ["over-time", "spectrum"]
    );
    // Unless told otherwise, it is where runs are.
    let said = call_line(place, &format!("report --png {a} {b}")).stdout;
    assert!(
        said.starts_with("results/runs/") && said.ends_with("-overlay/report.html\n"),
        "{said}"
    );
    let plots = place.join(said.trim()).with_file_name("plots");
    assert_eq!(stems(&plots, ".png"), stems(&plots, ".svg"));
}
