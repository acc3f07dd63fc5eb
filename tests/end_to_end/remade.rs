//! `crawlmark report`: what a saved result is made into, once more and for others.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose program cannot be started is over"
)]

use std::fs;
use std::path::Path;

use assert_cmd::Command;

use crate::process::DEADLINE;
use crate::run::{Ended, Run, program};

/// A short run against the bundled target.
fn short_run(more: &str) -> Ended {
    let line = format!("-n 40 -s 1 -c 2 --target-processes 1 {more}");
    let ended = Run::start(line.split_whitespace()).end();
    ended.report(0);
    ended
}

/// Calls `report`, and returns its exit code and what it complained about.
fn report(args: &[&Path]) -> (Option<i32>, String) {
    let output = Command::new(program())
        .arg("report")
        .args(args)
        .timeout(DEADLINE)
        .output()
        .unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

/// The names of the files of a folder with this ending, without it.
fn names(folder: &Path, ending: &str) -> Vec<String> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let wanted = entries.filter(|path| {
        path.extension()
            .is_some_and(|extension| extension == ending)
    });
    let mut names: Vec<String> = wanted
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn plots_are_saved_as_png_when_asked_for() {
    let ended = short_run("--png");
    let plots = ended.result().join("plots");
    let pictures = names(&plots, "png");
    assert_eq!(pictures, names(&plots, "svg"));
    assert!(pictures.len() >= 7, "{pictures:?}");
    let picture = |name: &str| fs::read(plots.join(name).with_extension("png")).unwrap();
    let light = picture("throughput");
    assert!(light.starts_with(b"\x89PNG\r\n\x1a\n"));

    // The same once more, and on the other ground; nothing else is changed by it.
    let json = fs::read(ended.result().join("result.json")).unwrap();
    assert_eq!(
        report(&[&ended.result(), Path::new("--png")]),
        (Some(0), String::new())
    );
    assert!(picture("throughput") == light, "the same picture");
    assert_eq!(
        report(&[&ended.result(), Path::new("--png=dark")]),
        (Some(0), String::new())
    );
    assert!(picture("throughput") != light, "another ground");
    assert_eq!(fs::read(ended.result().join("result.json")).unwrap(), json);
    assert_eq!(names(&plots, "png"), pictures);
    let (code, said) = report(&[&ended.result(), Path::new("--png=pink")]);
    assert!(
        code == Some(2) && said.contains("--png") && said.contains("light, dark"),
        "{said}"
    );

    let without = short_run("");
    assert_eq!(
        names(&without.result().join("plots"), "png"),
        Vec::<String>::new()
    );
}

#[test]
fn a_plot_that_is_no_longer_drawn_is_removed_and_foreign_files_stay() {
    let ended = short_run("");
    let plots = ended.result().join("plots");
    let drawn = names(&plots, "svg");
    assert!(
        !drawn.contains(&"budget".to_owned()),
        "there was no rate to audit: {drawn:?}"
    );
    for stale in ["budget.svg", "budget.png", "own.svg"] {
        fs::write(plots.join(stale), "from before").unwrap();
    }
    assert_eq!(report(&[&ended.result()]), (Some(0), String::new()));
    let mut expected = [drawn, vec!["own".to_owned()]].concat();
    expected.sort();
    assert_eq!(names(&plots, "svg"), expected);
    assert_eq!(names(&plots, "png"), Vec::<String>::new());
}

#[test]
fn several_results_are_laid_over_each_other() {
    let (a, b) = (short_run("--name a"), short_run("--name b --timeout 9s"));
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("both");
    let (code, said) = report(&[
        &a.result(),
        &b.result().join("result.json"),
        Path::new("--out"),
        &out,
    ]);
    assert_eq!((code, &*said), (Some(0), ""));
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(
        page.contains("2 runs side by side") && page.contains("plan.timeout_us"),
        "what differs is said"
    );
    assert_eq!(names(&out.join("plots"), "svg"), ["over-time", "spectrum"]);
    assert_eq!(
        fs::read_dir(place.path()).unwrap().count(),
        1,
        "nothing else is left"
    );

    // Unless told otherwise, it is where runs are.
    let output = Command::new(program())
        .args(["report", "--png"])
        .args([a.result(), b.result()])
        .current_dir(place.path())
        .timeout(DEADLINE)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.starts_with("results/runs/") && said.ends_with("-overlay/report.html\n"),
        "{said}"
    );
    let made = place.path().join(said.trim()).with_file_name("plots");
    assert_eq!(names(&made, "png"), names(&made, "svg"));
}

#[test]
fn what_cannot_be_laid_over_each_other_is_told_by_its_name() {
    let (a, b) = (short_run("--name a"), short_run("--name b"));
    let place = tempfile::tempdir().unwrap();
    let (nowhere, empty) = (place.path().join("nowhere"), place.path().join("empty"));
    fs::create_dir(&empty).unwrap();
    let nine = vec![a.result(); 9];
    let (a, b, out) = (a.result(), b.result(), Path::new("--out"));
    let again = a.join("plots/..");
    let file = a.join("result.json");
    let nine: Vec<&Path> = nine.iter().map(AsRef::as_ref).collect();
    let below_a_file = file.join("below");
    let cases: [(&[&Path], i32, &str); 7] = [
        (&nine, 2, "9 results are too many for one page"),
        (&[&a, &b, &again], 2, "plots/.. is named twice"),
        (&[&a, &b, &file], 2, "result.json is named twice"),
        (&[&a, &nowhere], 2, "nowhere does not exist"),
        (&[&a, &empty], 2, "empty holds no result.json"),
        (&[&a, &b, out, &a], 2, "already exists"),
        (&[&a, &b, out, &below_a_file], 1, "below"),
    ];
    let before = names(&a, "html");
    for (args, code, says) in cases {
        let (found, said) = report(args);
        assert!(
            found == Some(code) && said.contains(says) && said.lines().count() <= 3,
            "{args:?}: {found:?} {said}"
        );
    }
    assert_eq!(names(&a, "html"), before);
    assert_eq!(
        fs::read_dir(place.path()).unwrap().count(),
        1,
        "nothing was written"
    );
}
