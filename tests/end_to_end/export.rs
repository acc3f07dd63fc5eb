//! Exports of real runs: where they go, what is refused, and what the formats' own readers make of
//! them.
//!
//! The readers are those of `tests/consumers/read.py`, in `target/consumers`, where `.ci/run`
//! installs them.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crawlmark_results::export::Format;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::command::{Done, call_line, said};
use crate::run::{ONE_ATTEMPT, ended};
use crate::target::Target;

/// Flags for every export, each under its usual name.
fn every_export() -> String {
    let flags: Vec<String> = Format::ALL
        .iter()
        .map(|format| format!(" --export {format}"))
        .collect();
    flags.concat()
}

/// What is in a file of a result.
#[track_caller]
fn read(result: &Path, format: Format) -> String {
    fs::read_to_string(result.join(format.file_name())).unwrap()
}

/// Have a script of `tests/consumers` read a directory.
#[track_caller]
pub(crate) fn have_read(script: &str, directory: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut reader = Command::new(root.join("target/consumers/bin/python"));
    let said = said({
        reader
            .arg(root.join("tests/consumers").join(script))
            .arg(directory);
        reader
    });
    assert_eq!(said.code, Some(0), "{}{}", said.stdout, said.stderr);
}

/// Runs of every kind with every export, which is what `report` makes of the saved result.
fn exported() -> impl Iterator<Item = Done> {
    let runs = [
        ("--fault error:0.02:500", "--ids 0..5k -c 8 --tag a=b,c"),
        ("--fault drop:0.005", "--ids 0..2k -c 16"),
        (
            "--latency uniform:1ms,3ms",
            "-d 2s --rate 1500 --arrivals constant -c 200",
        ),
    ];
    runs.into_iter().map(|(target, flags)| {
        let target = Target::start(target);
        let line = format!("{} {flags} --shards 2 {ONE_ATTEMPT}", target.url());
        let ended = ended(&format!(
            "{line} --threshold 'attempts > 0' {}",
            every_export()
        ));
        ended.report(0);
        let again = format!("report out --out again {}", every_export());
        let said = call_line(&ended.work(), &again).code(&[0]);
        assert_eq!(said.stdout.lines().count(), Format::ALL.len());
        for &format in Format::ALL {
            let again = read(&ended.work().join("again"), format);
            assert_eq!(again, read(&ended.out(), format), "{format}");
        }
        ended
    })
}

#[test]
#[ignore = "needs the readers of the exports: .ci/run"]
fn readers_of_the_formats_read_the_exports() {
    exported().for_each(|ended| have_read("read.py", &ended.out()));
}

#[test]
fn an_export_goes_where_it_is_told() {
    let (target, folder) = (Target::start(""), tempfile::tempdir().unwrap());
    let place = folder.path();
    let run = |args: &str| {
        let line = format!(
            "run {} --ids 0..300 -s 1 -c 4 --no-progress {args}",
            target.url()
        );
        call_line(place, &line)
    };
    fs::write(place.join("old.json"), "old").unwrap();
    symlink("old.json", place.join("link.json")).unwrap();
    let mode = Mode::from_bits_truncate(0o600);
    mkfifo(&place.join("pipe"), mode).unwrap();
    // Open at both ends, so that nobody waits.
    let pipe = OpenOptions::new()
        .read(true)
        .write(true)
        .open(place.join("pipe"));
    let exports = "--export openmetrics=link.json --export csv=pipe --export csv-shards=-";
    let said = run(&format!("--out one --export junit {exports}"));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    // Nothing but the table, which has a row for the only shard.
    assert!(said.stdout.starts_with("shard,") && said.stdout.lines().count() == 2);
    let old = fs::read_to_string(place.join("old.json")).unwrap();
    assert!(old.ends_with("# EOF\n"), "{old}");
    assert!(place.join("link.json").is_symlink() && place.join("one/junit.xml").exists());
    let mut head = [0; 8];
    pipe.unwrap().read_exact(&mut head).unwrap();
    assert_eq!(&head, b"start_s,");
    assert!(
        run("--out two --export csv=-")
            .stdout
            .starts_with("start_s,")
    );
    let said = run("--out three --json");
    let measured = fs::read_to_string(place.join("three/result.json")).unwrap();
    assert_eq!(said.stdout, measured);
    run("--out four");
    let said = call_line(place, "report three/result.json four --export junit");
    assert_eq!(
        said.stdout, "three/junit.xml\nfour/junit.xml\n",
        "{}",
        said.stderr
    );
    for line in [
        "three four --export csv=-",
        "nowhere three --export csv",
        "three --export csv=a --export junit=./a",
        "three --export csv=three/../three/result.json",
        "three --out four",
    ] {
        call_line(place, &format!("report {line}")).code(&[2]);
    }
    assert_eq!(
        fs::read_to_string(place.join("three/result.json")).unwrap(),
        measured
    );
    assert!(!place.join("a").exists());
    // A failed threshold has the exit code that was asked for.
    for (flags, code) in [("", 3), ("--k6-exit-codes", 99)] {
        let line = format!(
            "{} -n 100 -s 1 -c 2 --threshold 'items<5' {flags}",
            target.url()
        );
        ended(&line).report(code);
    }
}
