//! The commands whose calls fail: what is there before, and what must hold afterwards.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::target::Target;

/// A command and its surroundings.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    /// Commands before it.
    before: &'static [&'static str],
    /// Its words, with `{url}` for the target.
    pub(crate) line: &'static str,
    /// Its exit code when nothing fails.
    pub(crate) code: i32,
    /// Files that are the same after any run that ended with that code.
    pub(crate) same: &'static [&'static str],
    /// The saved crawl, which `verify` must accept.
    pub(crate) crawl: Option<&'static str>,
    /// The result, whose sums must hold.
    pub(crate) result: Option<&'static str>,
    /// Commands that lead to the whole result after a failure.
    pub(crate) again: &'static [&'static str],
}

const RUN: &str =
    "run {url} --ids 0..40 --shards 2 -c 4 --seed 1 --no-progress --save crawl --out out";
const HALF: &str = "run {url} --ids 0..40 --shards 2 -c 4 --seed 1 --no-progress --save crawl --out out -d 100ms --rate 200";
const RESUME: &str = "run --resume crawl -d 10s --rate 2000 --no-progress --out resumed";
const AGAIN: &str = "run --resume crawl -d 10s --rate 2000 --no-progress --out again";
const PLAN: &str =
    "plan {url} -n 40 --nodes 2 --shards 1 -c 4 --save kept --seed 1 --out plan.json";
const PART: &str = "run --plan plan.json --node 0/2 --into parts --no-progress";
const OTHER_PART: &str = "run --plan plan.json --node 1/2 --into parts --no-progress";

pub(crate) const SCENES: &[Scene] = &[
    Scene {
        name: "run --save",
        before: &[],
        line: RUN,
        code: 0,
        same: &[],
        crawl: Some("crawl"),
        result: Some("out"),
        again: &[AGAIN],
    },
    Scene {
        name: "run --resume",
        before: &[HALF],
        line: RESUME,
        code: 0,
        same: &[],
        crawl: Some("crawl"),
        result: Some("resumed"),
        again: &[AGAIN],
    },
    Scene {
        name: "run --plan",
        before: &[PLAN],
        line: PART,
        code: 0,
        same: &[],
        crawl: None,
        result: None,
        again: &[PART, OTHER_PART, "merge parts --out again"],
    },
    Scene {
        name: "merge",
        before: &[PLAN, PART, OTHER_PART],
        line: "merge parts --out merged",
        code: 0,
        same: &[],
        crawl: Some("parts"),
        result: Some("merged"),
        again: &["merge parts --out again"],
    },
    Scene {
        name: "report",
        before: &[RUN],
        line: "report out",
        code: 0,
        same: &["out/result.json", "out/report.html", "out/summary.md"],
        crawl: None,
        result: Some("out"),
        again: &["report out"],
    },
    Scene {
        name: "report --export",
        before: &[RUN],
        line: "report out --export csv --export openmetrics",
        code: 0,
        same: &[
            "out/result.json",
            "out/intervals.csv",
            "out/openmetrics.txt",
        ],
        crawl: None,
        result: Some("out"),
        again: &["report out --export csv --export openmetrics"],
    },
    Scene {
        name: "export",
        before: &[RUN],
        line: "export crawl",
        code: 0,
        same: &["../stdout"],
        crawl: Some("crawl"),
        result: None,
        again: &["export crawl"],
    },
    Scene {
        name: "verify",
        before: &[RUN],
        line: "verify crawl --complete",
        code: 0,
        same: &["../stdout"],
        crawl: Some("crawl"),
        result: None,
        again: &["verify crawl --complete"],
    },
    Scene {
        name: "ab",
        before: &[],
        line: "ab --pairs 1 --out ab --base {url} --cand {url} --no-progress -- -n 40 --shards 1 -c 2",
        code: 5,
        same: &[],
        crawl: None,
        result: None,
        again: &[],
    },
];

/// The target, and what is there before each command.
pub(crate) struct Stage {
    target: Target,
    before: TempDir,
}

impl Stage {
    /// Start the target, and do what comes before each command.
    pub(crate) fn set() -> Self {
        let stage = Self {
            target: Target::start("--processes 1"),
            before: tempfile::tempdir().unwrap(),
        };
        for (number, scene) in SCENES.iter().enumerate() {
            let place = stage.before.path().join(number.to_string());
            fs::create_dir(&place).unwrap();
            for line in scene.before {
                let (code, text) = stage.call(&place, line);
                assert_eq!(code, Some(0), "{line}: {text}");
            }
        }
        stage
    }

    /// The words of a line.
    pub(crate) fn words(&self, line: &str) -> Vec<String> {
        line.split_whitespace()
            .map(|word| word.replace("{url}", &self.target.url()))
            .collect()
    }

    /// Run a line in a directory where nothing fails; its exit code and what it said.
    pub(crate) fn call(&self, place: &Path, line: &str) -> (Option<i32>, String) {
        let mut program = Command::new(PROGRAM);
        let done = program
            .args(self.words(line))
            .current_dir(place)
            .output()
            .unwrap();
        let said = [done.stdout, done.stderr].concat();
        (
            done.status.code(),
            String::from_utf8_lossy(&said).into_owned(),
        )
    }

    /// A directory with `work` as it is before the command of `scene`.
    pub(crate) fn place(&self, scene: &Scene) -> TempDir {
        let place = tempfile::tempdir().unwrap();
        let number = SCENES
            .iter()
            .position(|other| other.name == scene.name)
            .unwrap();
        copy(
            &self.before.path().join(number.to_string()),
            &place.path().join("work"),
        );
        place
    }
}

/// The program.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_crawlmark");

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let from = entry.unwrap().path();
        let to = to.join(from.file_name().unwrap());
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }
}

impl Scene {
    /// The content of its files that are always the same.
    pub(crate) fn same_files(&self, work: &Path) -> Vec<Option<Vec<u8>>> {
        self.same
            .iter()
            .map(|name| fs::read(work.join(name)).ok())
            .collect()
    }

    /// What is wrong with what an end with `code` left in `work`.
    pub(crate) fn wrong(&self, stage: &Stage, work: &Path, is_done: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        if let Some(result) = self.result.map(|result| work.join(result)) {
            wrong.extend(wrong_result(&result, is_done));
        }
        if let Some(crawl) = self.crawl.filter(|crawl| has_crawl(&work.join(crawl))) {
            let whole = if is_done { "--complete" } else { "" };
            let (code, said) = stage.call(work, &format!("verify {crawl} {whole}"));
            if code != Some(0) {
                wrong.push(format!("verify: {code:?}: {said}"));
            }
        }
        if !is_done {
            wrong.extend(self.wrong_again(stage, work));
        }
        wrong
    }

    /// What is wrong with the commands that lead to the whole result.
    fn wrong_again(&self, stage: &Stage, work: &Path) -> Vec<String> {
        let mut wrong = Vec::new();
        let lines: &[&str] = match self.crawl {
            Some(crawl)
                if self.before.is_empty() && !work.join(crawl).join("crawl.json").exists() =>
            {
                &[
                    "run {url} --ids 0..40 --shards 2 -c 4 --seed 1 --no-progress --save crawl --out again",
                ]
            }
            _ => self.again,
        };
        for line in lines {
            let (code, said) = stage.call(work, line);
            // There may be nothing left to do, which is no result and so no success.
            if code != Some(0) && !(code == Some(2) && *line == AGAIN) {
                wrong.push(format!("then {line}: {code:?}: {said}"));
            }
        }
        if let Some(crawl) = self.crawl {
            let (code, said) = stage.call(work, &format!("verify {crawl} --complete"));
            if code != Some(0) {
                wrong.push(format!("then verify --complete: {code:?}: {said}"));
            }
        }
        if work.join("again").exists() {
            wrong.extend(wrong_result(&work.join("again"), true));
        }
        wrong
    }
}

fn has_crawl(place: &Path) -> bool {
    place.join("crawl.json").exists() || place.join("plan.json").exists()
}

/// What is wrong with a result: it is there once the run `is_done`, and each of its items is in
/// exactly one state.
pub(crate) fn wrong_result(place: &Path, is_done: bool) -> Option<String> {
    let text = match fs::read(place.join("result.json")) {
        Ok(text) => text,
        Err(error) => return is_done.then(|| format!("{}: {error}", place.display())),
    };
    let Ok(result) = serde_json::from_slice::<Value>(&text) else {
        return Some(format!("{} is no JSON", place.display()));
    };
    let ledger = &result["ledger"];
    let count = |name: &str| ledger[name].as_u64().unwrap_or(0);
    let states = [
        "ok",
        "not_found",
        "failed",
        "gave_up",
        "aborted",
        "unfinished",
        "skipped",
        "not_attempted",
        "lost",
    ];
    let sum: u64 = states.into_iter().map(count).sum();
    if sum != count("planned") {
        return Some(format!("the sums of {} differ: {ledger}", place.display()));
    }
    if is_done && result["validity"]["verdict"] == "incomplete" {
        return Some(format!(
            "incomplete, and no failure: {}",
            result["findings"]
        ));
    }
    ["report.html", "summary.md", "plots"]
        .into_iter()
        .find(|name| is_done && !place.join(name).exists())
        .map(|name| format!("{} has no {name}", place.display()))
}
