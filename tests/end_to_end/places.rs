//! Paths of results: one that cannot be written to, that another run writes to, or that is no file
//! of a result.

use std::fs;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use serde_json::Value;

use crate::bad_input::call;
use crate::command::{Done, Started};
use crate::lost::{CRAWL, Disk, path};
use crate::process::{signal, wait_for, working_in};
use crate::report::Report;

/// Commands that run rounds, with short ones.
const STUDIES: [(&str, &[&str]); 4] = [
    (
        "ab",
        &[
            "--pairs",
            "40",
            "--",
            "-n",
            "64",
            "-c",
            "4",
            "-s",
            "1",
            "--target-processes",
            "1",
        ],
    ),
    (
        "scale",
        &[
            "--no-ceiling",
            "-s",
            "1,2",
            "-d",
            "500ms",
            "--repeats",
            "40",
            "--",
            "--target-processes",
            "1",
        ],
    ),
    (
        "capacity",
        &[
            "--probe",
            "1s",
            "--warmup",
            "0s",
            "--rest",
            "0s",
            "--",
            "--target-limit",
            "50/s",
        ],
    ),
    ("ladder", &["-d", "500ms"]),
];

fn study(name: &str, out: &Path, flags: &[&str]) -> Started {
    Started::new(&[&[name, "--out", path(out)], flags].concat())
}

/// The message names the file, the cause and the remedy, and blames nothing else.
#[track_caller]
fn assert_says_full(name: &str, done: &Done, disk: &Disk) {
    let said = &done.stderr;
    assert!(said.contains("No space left on device"), "{name}: {said}");
    assert!(said.contains(path(disk.place())), "{name}: {said}");
    assert!(said.contains("Free some space"), "{name}: {said}");
    assert!(
        !said.contains("build of crawlmark") && !said.contains("failed to print"),
        "{name}: {said}"
    );
}

#[test]
fn a_study_on_a_full_disk_says_so() {
    for (name, flags) in STUDIES {
        let Some(disk) = Disk::of(1 << 20) else {
            return;
        };
        disk.fill();
        let done = study(name, &disk.out(), flags).end().code(&[1]);
        assert_says_full(name, &done, &disk);
    }
}

#[test]
fn a_study_whose_disk_gets_full_says_so_and_what_is_kept() {
    for (name, flags) in STUDIES {
        let Some(disk) = Disk::of(2 << 20) else {
            return;
        };
        let started = study(name, &disk.out(), flags);
        wait_for("a round", || {
            let rounds = disk.partial()?.join("rounds");
            let names = fs::read_dir(rounds).ok()?.flatten();
            names
                .map(|entry| entry.path().join("result.json"))
                .find(|result| result.is_file())
        });
        disk.fill();
        let done = started.end().code(&[1]);
        assert_says_full(name, &done, &disk);
        assert!(
            done.stderr.to_lowercase().contains("kept in "),
            "{name}: {}",
            done.stderr
        );
    }
}

#[test]
fn a_directory_that_cannot_be_made_is_named_with_its_flag_and_a_remedy() {
    let Some(disk) = Disk::of(1 << 20) else {
        return;
    };
    assert!(
        Command::new("mount")
            .args(["-o", "remount,ro"])
            .arg(disk.place())
            .status()
            .unwrap()
            .success()
    );
    let run: (&str, &[&str]) = ("run", &["-n", "10", "-s", "1"]);
    for (name, flags) in STUDIES.into_iter().chain([run, ("selftest", &["--quick"])]) {
        let done = study(name, &disk.out(), flags).end().code(&[1]);
        let said = &done.stderr;
        let out = path(&disk.out()).to_owned();
        assert!(
            said.contains("--out") && said.contains(&out) && said.contains("Read-only file system"),
            "{said}"
        );
        assert!(
            said.contains("Name a directory that can be written to with --out"),
            "{said}"
        );
    }
}

#[test]
fn a_second_run_into_a_directory_that_is_being_written_is_refused_and_the_first_is_whole() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    let crawl = |more: &[&str]| Started::new(&[&CRAWL[..], &["--out", path(&out)], more].concat());
    let first = crawl(&["-d", "60s"]);
    let partial = wait_for("its directory", || {
        fs::read_dir(place.path()).ok()?.flatten().next()
    })
    .path();
    wait_for("its lock", || {
        fs::File::open(&partial)
            .unwrap()
            .try_lock()
            .is_err()
            .then_some(())
    });
    let second = crawl(&["-n", "10"]).end().code(&[2]);
    let said = &second.stderr;
    assert!(said.contains(&format!("--out {}", out.display())), "{said}");
    assert!(
        said.contains(&format!(
            "is in use: another run writes to it, in {}",
            partial.display()
        )),
        "{said}"
    );
    first.interrupt();
    first.end().code(&[130]);
    Report::read(&out.join("result.json"));
    let left: Vec<_> = fs::read_dir(place.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(left, ["out"]);
}

#[test]
fn a_run_that_was_killed_keeps_nobody_from_its_directory() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    let crawl = |more: &[&str]| Started::new(&[&CRAWL[..], &["--out", path(&out)], more].concat());
    let first = crawl(&["-d", "60s"]);
    wait_for("its directory", || {
        fs::read_dir(place.path()).ok()?.flatten().next()
    });
    signal(first.pid(), Signal::SIGKILL);
    // Its shards learn of it, but no sooner than they run.
    let work = first.work();
    wait_for("the end of its shards", || {
        working_in(&work).is_empty().then_some(())
    });
    first.end();
    crawl(&["-n", "10"]).end().code(&[0]);
    Report::read(&out.join("result.json"));
}

#[test]
fn what_is_no_plain_file_is_refused_as_a_result_by_its_path() {
    let place = tempfile::tempdir().unwrap();
    let fifo = place.path().join("fifo");
    nix::unistd::mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let nested = place.path().join("nested");
    fs::create_dir_all(nested.join("result.json")).unwrap();
    let inside = place.path().join("inside");
    fs::create_dir(&inside).unwrap();
    nix::unistd::mkfifo(&inside.join("result.json"), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let example = example();
    let nested_file = nested.join("result.json");
    for (given, named, is) in [
        (path(&fifo), path(&fifo), "it is a FIFO"),
        ("/dev/zero", "/dev/zero", "it is a device"),
        (path(&nested), path(&nested_file), "it is a directory"),
        (
            path(&inside),
            path(&inside.join("result.json")),
            "it is a FIFO",
        ),
    ] {
        for args in [
            &["report", given][..],
            &["report", given, example],
            &["report", given, "--export", "csv=-"],
            &["report", given, "--from", "0s"],
            &["compare", given, example],
            &["compare", example, given],
        ] {
            let said = call(place.path(), args);
            assert_eq!(said.code, Some(2), "{args:?}: {}", said.stderr);
            assert!(
                said.stderr
                    .contains(&format!("{named} cannot be read: {is}")),
                "{args:?}: {}",
                said.stderr
            );
        }
    }
    // The log of a result.
    let copy = place.path().join("copy");
    fs::create_dir(&copy).unwrap();
    fs::copy(
        Path::new(example).join("result.json"),
        copy.join("result.json"),
    )
    .unwrap();
    nix::unistd::mkfifo(&copy.join("latency.hlog"), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let said = call(place.path(), &["report", path(&copy), "--from", "2s"]);
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert!(said.stderr.contains("it is a FIFO"), "{}", said.stderr);
}

#[test]
fn a_character_that_hides_or_reorders_text_is_shown_by_its_number() {
    // Right-to-left override, zero-width space, escape.
    let evil = "evil\u{202e}txt.\u{200b}\u{1b}[31mred";
    let shown = "evil\\u202etxt.\\u200b\\u001b[31mred";
    let place = tempfile::tempdir().unwrap();
    let [result, other] = ["result", "other"].map(|name| place.path().join(name));
    for (directory, end) in [(&result, "1"), (&other, "2")] {
        fs::create_dir(directory).unwrap();
        let mut saved: Value = serde_json::from_str(
            &fs::read_to_string(Path::new(example()).join("result.json")).unwrap(),
        )
        .unwrap();
        // Runs of one name would be shown by their directories.
        saved["name"] = format!("{evil}{end}").into();
        saved["environment"]["cpu_model"] = evil.into();
        fs::write(directory.join("result.json"), saved.to_string()).unwrap();
    }
    let mut texts = Vec::new();
    for args in [
        &["report", path(&result)][..],
        &["report", path(&result), path(&other), "--out", "both"],
        &[
            "report",
            path(&result),
            "--export",
            "step-summary=summary.txt",
        ],
        &["compare", path(&result), path(&other), "--out", "compared"],
        &["compare", path(&result), path(&other), "--markdown"],
        &["report", path(&result), path(&result.join("evil\u{202e}"))],
    ] {
        let said = call(place.path(), args);
        texts.push((format!("{args:?}"), said.stdout + &said.stderr));
    }
    let files = [
        "result/summary.md",
        "result/report.html",
        "both/report.html",
        "summary.txt",
        "compared/summary.md",
    ];
    for file in files {
        texts.push((
            file.to_owned(),
            fs::read_to_string(place.path().join(file)).unwrap(),
        ));
    }
    let hides = |c: char| c != '\n' && (c.is_control() || matches!(c, '\u{202e}' | '\u{200b}'));
    for (file, text) in &texts {
        assert!(!text.contains(hides), "{file}: {text:?}");
    }
    for file in [
        "result/summary.md",
        "result/report.html",
        "both/report.html",
    ] {
        // Markdown has a backslash before its own characters.
        let plain = |text: &str| text.replace("\\\\", "\\").replace("\\[", "[");
        assert!(
            texts
                .iter()
                .any(|(name, text)| name == file && plain(text).contains(shown)),
            "{file}"
        );
    }
    // For programs it is what it was.
    let json = call(
        place.path(),
        &["compare", path(&result), path(&other), "--json"],
    );
    serde_json::from_str::<Value>(&json.stdout).unwrap();
}

fn example() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/results/example")
}
