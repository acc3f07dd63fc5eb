//! `crawlmark bisect`: generated repositories whose commits print a number, so that each answer is
//! known; and one of services.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::command::{Done, call, program, said};

/// A repository of commits, of which each has a file `number`.
struct Repository {
    place: TempDir,
    commits: Vec<String>,
}

impl Repository {
    /// A commit for each number; none without Git.
    fn new(numbers: &[u32]) -> Option<Self> {
        if Command::new("git").arg("--version").output().is_err() {
            println!("skipped: Git is not installed");
            return None;
        }
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("repository")).unwrap();
        let mut made = Self {
            place,
            commits: Vec::new(),
        };
        made.git(&["init", "--quiet"]);
        for (number, value) in numbers.iter().enumerate() {
            fs::write(made.tree().join("number"), format!("{value}\n")).unwrap();
            made.git(&["add", "number"]);
            let message = format!("Change {number}");
            made.git(&["commit", "--quiet", "--allow-empty", "--message", &message]);
            let commit = made.git(&["rev-parse", "HEAD"]);
            made.commits.push(commit);
        }
        // What the user is at work on is to stay as it is.
        fs::write(made.tree().join("number"), "work\n").unwrap();
        Some(made)
    }

    fn tree(&self) -> PathBuf {
        self.place.path().join("repository")
    }

    fn out(&self) -> PathBuf {
        self.place.path().join("out")
    }

    fn cache(&self) -> PathBuf {
        self.place.path().join("cache")
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        git.current_dir(self.tree());
        git.args(["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]);
        let output = git.args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Search for the commit from which on the number is greater; each execution adds a line to `log`.
    fn bisect(&self, build: &str, command: &str) -> Done {
        let [out, cache] = [self.out(), self.cache()];
        let _ = fs::remove_dir_all(&out);
        let last = self.commits.last().unwrap();
        call(
            &self.tree(),
            &[
                "bisect",
                "--good",
                &self.commits[0],
                "--bad",
                last,
                "--build",
                build,
                "--command",
                &format!("echo >> {}; {command}", self.log().display()),
                "--value",
                "number=([0-9]+)",
                "--executions",
                "1",
                "--warmup",
                "0",
                "--cache",
                cache.to_str().unwrap(),
                "--out",
                out.to_str().unwrap(),
            ],
        )
    }

    fn log(&self) -> PathBuf {
        self.place.path().join("log")
    }

    fn executions(&self) -> usize {
        fs::read_to_string(self.log())
            .unwrap_or_default()
            .lines()
            .count()
    }

    /// Check that nothing of the user's was touched, and that nothing is left.
    fn is_untouched(&self) {
        assert_eq!(self.git(&["status", "--short"]), "M number");
        assert_eq!(self.git(&["worktree", "list"]).lines().count(), 1);
        assert_eq!(
            self.git(&["rev-parse", "HEAD"]),
            *self.commits.last().unwrap()
        );
        assert!(!self.cache().exists());
    }

    fn result(&self) -> Value {
        read(&self.out().join("bisect.json"))
    }
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Numbers that are 100, and from the commit on 103.
fn worse_from(commit: usize) -> Vec<u32> {
    (0..=24)
        .map(|at| if at < commit { 100 } else { 103 })
        .collect()
}

#[test]
fn the_commit_is_named_and_nothing_of_the_users_is_touched() {
    for commit in [1, 11, 24] {
        let Some(repository) = Repository::new(&worse_from(commit)) else {
            return;
        };
        let _ = repository.bisect("test -e number", "cat number").code(&[0]);
        let result = repository.result();
        assert_eq!(result["outcome"], "found");
        assert_eq!(result["step"], serde_json::json!([commit, commit]));
        let found = &result["commits"][commit];
        assert_eq!(found["commit"], repository.commits[commit].as_str());
        assert_eq!(found["author"], "Ann");
        assert_eq!(found["subject"], format!("Change {commit}"));
        assert!(
            result["looks"].as_u64().unwrap() <= 8,
            "{}",
            result["looks"]
        );
        let ratio = result["effect"]["ratio"].as_f64().unwrap();
        assert!((ratio - 1.03).abs() < 1e-9, "{ratio}");
        repository.is_untouched();
        for file in ["report.html", "summary.md", "plots/bisect.svg"] {
            assert!(repository.out().join(file).is_file(), "{file}");
        }
    }
}

#[test]
fn commits_that_do_not_build_or_run_leave_a_range_and_others_cost_nothing() {
    let mut numbers = worse_from(12);
    for broken in [10, 11, 12, 18] {
        numbers[broken] += 1_000;
    }
    let is_whole = "[ $(cat number) -lt 1000 ]";
    for (build, command) in [
        (is_whole, "cat number".to_owned()),
        ("true", format!("{is_whole} && cat number")),
    ] {
        let Some(repository) = Repository::new(&numbers) else {
            return;
        };
        let done = repository.bisect(build, &command).code(&[0]);
        assert!(!done.stdout.is_empty());
        let result = repository.result();
        assert_eq!(result["outcome"], "found_range");
        assert_eq!(result["step"], serde_json::json!([10, 13]));
        assert_eq!(result["commits"][11]["builds"], false);
        repository.is_untouched();
    }
}

#[test]
fn several_steps_and_no_loss_are_no_answer() {
    let steps: Vec<u32> = (0..=24)
        .map(|at| [100, 105, 110][usize::from(at > 7) + usize::from(at > 15)])
        .collect();
    let back: Vec<u32> = (0..=24)
        .map(|at| if (8..16).contains(&at) { 105 } else { 100 })
        .collect();
    for (numbers, outcome) in [(steps, "several_steps"), (back, "no_loss")] {
        let Some(repository) = Repository::new(&numbers) else {
            return;
        };
        let _ = repository.bisect("true", "cat number").code(&[5]);
        assert_eq!(repository.result()["outcome"], outcome);
        repository.is_untouched();
    }
}

#[test]
fn a_search_that_was_cut_goes_on_with_its_builds_and_readings() {
    let Some(repository) = Repository::new(&worse_from(9)) else {
        return;
    };
    let ready = repository.place.path().join("ready");
    // A look at a commit between the ends stops the search until the file is there.
    let command = format!(
        "[ -e {} ] || [ $(git rev-parse HEAD) = {} ] || [ $(git rev-parse HEAD) = {} ] || kill -TERM $PPID; cat number",
        ready.display(),
        repository.commits[0],
        repository.commits.last().unwrap()
    );
    let builds = repository.place.path().join("builds");
    let build = format!("echo >> {}", builds.display());
    let _ = repository.bisect(&build, &command).code(&[143]);
    let before = repository.executions();
    assert!(before >= 16, "the ends were measured: {before}");
    fs::write(ready, "").unwrap();
    let _ = repository.bisect(&build, &command).code(&[0]);
    let result = repository.result();
    assert_eq!(result["step"], serde_json::json!([9, 9]));
    let readings: usize = result["blocks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["readings"].as_array().unwrap().len())
        .sum();
    // The block that was cut was begun twice.
    let executions = repository.executions();
    assert!(
        (readings..readings + 3).contains(&executions),
        "{readings} {executions}"
    );
    let builds = fs::read_to_string(builds).unwrap().lines().count();
    let commits = result["commits"].as_array().unwrap();
    let measured = commits.iter().filter(|commit| commit["builds"] == true);
    assert_eq!(builds, measured.count(), "each is built once");
    repository.is_untouched();
}

#[test]
fn ends_that_cannot_be_searched_are_refused() {
    let Some(repository) = Repository::new(&worse_from(3)) else {
        return;
    };
    let first = &repository.commits[0];
    let words = |good: &str, bad: &str| {
        let done = call(
            &repository.tree(),
            &[
                "bisect",
                "--good",
                good,
                "--bad",
                bad,
                "--build",
                "true",
                "--command",
                "true",
            ],
        );
        done.code(&[2])
    };
    let _ = words(first, "nothing");
    let _ = words(first, first);
    let _ = words("HEAD", first);
    let _ = words("--help", first);
    // Not in a repository.
    let _ = call(
        repository.place.path(),
        &[
            "bisect",
            "--good",
            "a",
            "--bad",
            "b",
            "--build",
            "true",
            "--command",
            "true",
        ],
    )
    .code(&[2]);
    // An end that does not build.
    let _ = repository.bisect("false", "cat number").code(&[1]);
}

#[test]
fn services_are_started_in_the_directory_of_their_commit_without_the_token() {
    let Some(repository) = Repository::new(&[5, 5, 5, 25, 25]) else {
        return;
    };
    let [out, cache, server] = [
        repository.out().display().to_string(),
        repository.cache().display().to_string(),
        program().display().to_string(),
    ];
    let target = format!(
        "[ -z \"$API_TOKEN\" ] && exec {server} serve --listen 127.0.0.1:{{port}} --latency $(cat number)ms"
    );
    let last = repository.commits.last().unwrap();
    let mut words = vec!["bisect", "--good", &repository.commits[0], "--bad", last];
    words.extend([
        "--build",
        "true",
        "--target",
        &target,
        "--metric",
        "service_p50",
    ]);
    words.extend(["--cache", &cache, "--out", &out, "--"]);
    words.extend(["http://127.0.0.1:{port}/items/{id}", "-n", "100", "-c", "8"]);
    words.extend(["-s", "1", "--bearer-env", "API_TOKEN"]);
    let mut bisect = Command::new(program());
    bisect.args(words).current_dir(repository.tree());
    bisect.env("API_TOKEN", "secret");
    let _ = said(bisect).code(&[0]);
    assert_eq!(repository.result()["step"], serde_json::json!([3, 3]));
    repository.is_untouched();
}

#[test]
fn a_directory_with_files_of_others_is_no_cache() {
    let Some(repository) = Repository::new(&worse_from(3)) else {
        return;
    };
    fs::create_dir(repository.cache()).unwrap();
    let file = repository.cache().join("notes");
    fs::write(&file, "mine").unwrap();
    let _ = repository.bisect("true", "cat number").code(&[2]);
    // Put there later, it outlives the search.
    fs::remove_file(&file).unwrap();
    let add = format!("echo mine > {}", file.display());
    let _ = repository.bisect(&add, "cat number").code(&[0]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine\n");
    assert_eq!(fs::read_dir(repository.cache()).unwrap().count(), 1);
}
