//! `crawlmark report`: what a saved result is made into, once more and for others.

use std::fs;
use std::path::Path;

use crate::command::call_line;
use crate::run::ended;

/// The names of the files of a folder with this ending, without it.
fn names(folder: &Path, ending: &str) -> Vec<String> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let wanted = entries.filter(|path| path.extension().is_some_and(|found| found == ending));
    let mut names: Vec<String> = wanted
        .map(|path| path.file_stem().unwrap().display().to_string())
        .collect();
    names.sort();
    names
}

#[test]
fn plots_are_made_again_as_png_when_asked_for() {
    let ended = ended("-n 40 -s 1 -c 2 --png");
    let result = ended.result();
    let plots = result.join("plots");
    let pictures = names(&plots, "png");
    assert!(
        pictures.len() >= 7 && pictures == names(&plots, "svg"),
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
    assert_eq!(names(&plots, "svg"), pictures);
    assert_eq!(ended.file("result.json"), json);
}

#[test]
fn several_results_are_laid_over_each_other_or_refused_by_name() {
    let flags = "-n 40 -s 1 -c 2";
    let [a, b] =
        ["--name a", "--name b --timeout 9s"].map(|more| ended(&format!("{flags} {more}")));
    let (a, b) = (a.result(), b.result());
    let (a, b) = (a.display(), b.display());
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    let nine = format!("{a} ").repeat(9);
    for (line, code, says) in [
        (nine, 2, "9 results are too many for one page"),
        (
            format!("{a} {b} {a}/plots/.."),
            2,
            "plots/.. is named twice",
        ),
        (format!("{a} nowhere"), 2, "nowhere does not exist"),
        (format!("{a} {b} --out {a}"), 2, "already exists"),
        (format!("{a} {b} --out {a}/result.json/below"), 1, "below"),
    ] {
        let said = call_line(place, &format!("report {line}"));
        assert!(
            said.code == Some(code) && said.stderr.contains(says),
            "{line}: {}",
            said.stderr
        );
    }
    let written = fs::read_dir(place).unwrap().count();
    assert_eq!(written, 0);
    let said = call_line(place, &format!("report {a} {b}/result.json --out both"));
    assert_eq!((said.code, &*said.stderr), (Some(0), ""));
    let page = fs::read_to_string(place.join("both/report.html")).unwrap();
    assert!(page.contains("2 runs side by side") && page.contains("plan.timeout_us"));
    assert_eq!(
        names(&place.join("both/plots"), "svg"),
        ["over-time", "spectrum"]
    );
    // Unless told otherwise, it is where runs are.
    let said = call_line(place, &format!("report --png {a} {b}")).stdout;
    assert!(
        said.starts_with("results/runs/") && said.ends_with("-overlay/report.html\n"),
        "{said}"
    );
    let plots = place.join(said.trim()).with_file_name("plots");
    assert_eq!(names(&plots, "png"), names(&plots, "svg"));
}
