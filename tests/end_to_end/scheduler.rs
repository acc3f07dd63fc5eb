//! Parts that are given to a scheduler: plans that cannot be used, and the script of a task with a
//! double of the program.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crawlmark_results::run::parts::PlanFile;
use tempfile::TempDir;

use crate::command::{Done, program, said, words};

/// A directory with a plan of twelve parts, three at a time, and with the doubles of programs.
struct Desk(TempDir);

/// Plans of other crawls begin so.
const PLAN: &str = "plan http://127.0.0.1:9/items/{id} --ids 0..120";

impl Desk {
    fn new(flags: &str) -> Self {
        let desk = Self(tempfile::tempdir().unwrap());
        assert_eq!(
            desk.call(&format!("{PLAN} --nodes 12 --slots 3 {flags}"))
                .code,
            Some(0)
        );
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", self.0.path().display()));
        command.current_dir(self.0.path());
        command
    }

    fn call(&self, line: &str) -> Done {
        let mut command = self.command(program());
        command.args(words(line));
        said(command)
    }

    /// Check that a line is refused, with these words.
    #[track_caller]
    fn assert_refused(&self, line: &str, says: &str) {
        let refused = self.call(line);
        assert_eq!(refused.code, Some(2), "{line}: {}", refused.stderr);
        assert!(refused.stderr.contains(says), "{line}: {}", refused.stderr);
    }

    /// Put a program there, a script of the shell.
    fn double(&self, name: &str, script: &str) {
        fs::write(self.path(name), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn noted(&self, name: &str) -> Vec<String> {
        let noted = fs::read_to_string(self.path(name)).unwrap_or_default();
        noted.lines().map(str::to_owned).collect()
    }
}

#[test]
fn a_plan_that_cannot_be_used_is_refused_by_every_command() {
    let desk = Desk::new("-H 'authorization: secret' --out secret.json");
    for line in [
        format!("{PLAN} --nodes 2 --out other.json"),
        format!("{PLAN} --nodes 2 --save items --slots 1"),
    ] {
        assert_eq!(desk.call(&line).code, Some(0), "{line}");
    }
    let (mut foreign, _) = PlanFile::read(&desk.path("other.json")).unwrap();
    foreign.program = "0123456789abcdef".to_owned();
    fs::write(desk.path("foreign.json"), foreign.text().unwrap()).unwrap();
    for (line, says) in [
        ("secret.json --node 0/12 --into new", "authorization"),
        ("foreign.json --node 0/2 --into new", "0123456789ab"),
    ] {
        desk.assert_refused(&format!("run --plan {line}"), says);
    }
    fs::create_dir(desk.path("crawl")).unwrap();
    // One that was changed.
    let plan = fs::read_to_string(desk.path("plan.json")).unwrap();
    assert!(plan.contains("\"slots\": 1"), "{plan}");
    for place in ["edited.json", "crawl/plan.json"] {
        fs::write(
            desk.path(place),
            plan.replace("\"slots\": 1", "\"slots\": 2"),
        )
        .unwrap();
    }
    for (line, file) in [
        (
            "run --plan edited.json --node 0/2 --into new",
            "edited.json",
        ),
        (
            "run --plan plan.json --node 0/2 --into crawl",
            "crawl/plan.json",
        ),
        ("watch crawl", "crawl/plan.json"),
        ("merge crawl", "crawl/plan.json"),
        ("verify crawl", "crawl/plan.json"),
        ("export crawl", "crawl/plan.json"),
    ] {
        let why = format!("{file} was changed after `crawlmark plan` wrote it.");
        desk.assert_refused(line, &why);
    }
    assert!(
        !desk.path("new").exists(),
        "nothing is written for a plan that cannot be used"
    );
}

#[test]
fn a_task_is_requeued_if_its_part_was_lost_and_not_if_it_was_measured_or_makes_no_sense() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/cluster/slurm/part.sh");
    // The exit code of the crawl, the restarts until now, and true if it is requeued.
    for (code, restarts, is_requeued) in [
        (0, "", false),
        (2, "", false),
        (3, "", false),
        (4, "", false),
        (130, "", false),
        (143, "", false),
        (1, "", true),
        (1, "2", true),
        (137, "1", true),
        (1, "3", false),
    ] {
        let desk = Desk(tempfile::tempdir().unwrap());
        desk.double("crawl", &format!("echo \"$*\" >> crawled; exit {code}"));
        desk.double("scontrol", "echo \"$*\" >> requeued");
        let mut command = desk.command("bash");
        command
            .arg(&script)
            .args(["./crawl", "p.json", "dir", "10", "12", "--shards", "1"]);
        command.envs([("SLURM_ARRAY_TASK_ID", "1"), ("SLURM_ARRAY_JOB_ID", "77")]);
        command.env_remove("SLURM_RESTART_COUNT");
        if !restarts.is_empty() {
            command.env("SLURM_RESTART_COUNT", restarts);
        }
        assert_eq!(said(command).code, Some(code));
        let run = "run --plan p.json --node 11/12 --into dir --no-progress --shards 1";
        assert_eq!(desk.noted("crawled"), [run]);
        let requeued = is_requeued.then(|| "requeue 77_1".to_owned());
        assert_eq!(
            desk.noted("requeued"),
            Vec::from_iter(requeued),
            "{code} {restarts}"
        );
    }
}
