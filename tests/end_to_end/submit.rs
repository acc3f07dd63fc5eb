//! Parts that are given to a scheduler: a double of `sbatch` that notes its words, the script of a
//! task with a double of the program, and manifests that other programs read.
#![expect(
    clippy::unwrap_used,
    reason = "a test without its plan or its scripts is over"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crawlmark_results::run::parts::PlanFile;
use saphyr::{LoadableYamlNode, Yaml};
use tempfile::TempDir;

use crate::export::python;
use crate::run::program;

/// A directory with a plan of twelve parts, three at a time, and with the doubles of programs.
struct Desk(TempDir);

impl Desk {
    fn new(flags: &[&str]) -> Self {
        let desk = Self(tempfile::tempdir().unwrap());
        let plan = [
            "plan",
            "http://127.0.0.1:9/items/{id}",
            "--ids",
            "0..120",
            "--nodes",
            "12",
            "--slots",
            "3",
        ];
        assert_eq!(desk.call(&[&plan, flags].concat()).status.code(), Some(0));
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let path = format!(
            "{}:{}",
            self.0.path().display(),
            std::env::var("PATH").unwrap()
        );
        command.current_dir(self.0.path()).env("PATH", path);
        command
    }

    fn call(&self, args: &[&str]) -> Output {
        self.command(program()).args(args).output().unwrap()
    }

    /// Puts a program there, a script of the shell.
    fn double(&self, name: &str, script: &str) {
        fs::write(self.path(name), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn noted(&self, name: &str) -> Vec<String> {
        fs::read_to_string(self.path(name))
            .unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect()
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// An `sbatch` that notes its words, and gives its jobs the numbers 1, 2, 3.
const SBATCH: &str = r#"echo "$*" >> noted; wc -l < noted | tr -d ' '"#;

#[test]
fn what_is_printed_for_slurm_is_what_go_runs() {
    let desk = Desk::new(&[]);
    desk.double("sbatch", SBATCH);
    let flags = [
        "--into",
        "it's here",
        "--array-limit",
        "5",
        "--flags",
        "--shards 1",
        "--",
        "--partition=a b",
    ];
    let printed = desk.call(&[&["submit", "slurm", "plan.json"], &flags[..]].concat());
    assert_eq!(printed.status.code(), Some(0), "{}", text(&printed));
    assert_eq!(
        desk.noted("noted"),
        Vec::<String>::new(),
        "nothing was submitted"
    );
    let run = desk
        .command("sh")
        .arg("-c")
        .arg(String::from_utf8(printed.stdout).unwrap())
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", text(&run));
    let by_shell = desk.noted("noted");

    fs::remove_file(desk.path("noted")).unwrap();
    let gone = desk.call(&[&["submit", "slurm", "plan.json", "--go"], &flags[..]].concat());
    assert_eq!(gone.status.code(), Some(0), "{}", text(&gone));
    assert_eq!(desk.noted("noted"), by_shell);
    assert!(
        text(&gone).contains("as job 1, 2, 3, at most 3 at once, and the merge as job 4"),
        "{}",
        text(&gone)
    );

    let into = desk.path("it's here").canonicalize().unwrap();
    let (into, program) = (into.display(), program().canonicalize().unwrap());
    let common = format!("--open-mode=append --output={into}/slurm");
    let part = |array: &str, after: &str, first: u32| {
        format!(
            "--parsable --job-name=crawl {common}/%A_%a.log --partition=a b --array={array}%3 --requeue{after} {into}/slurm/part.sh {} \
             {into}/plan.json {into} {first} 12 --shards 1",
            program.display()
        )
    };
    let merge = format!(
        "--parsable --job-name=crawl-merge {common}/merge.log --partition=a b --dependency=afterany:3 {into}/slurm/merge.sh {} {into}",
        program.display()
    );
    let after = |job: u32| format!(" --dependency=afterany:{job}");
    assert_eq!(
        by_shell,
        [
            part("0-4", "", 0),
            part("0-4", &after(1), 5),
            part("0-1", &after(2), 10),
            merge
        ]
    );
    for script in ["part.sh", "merge.sh"] {
        let mode = desk
            .path("it's here/slurm")
            .join(script)
            .metadata()
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o111, 0o111, "{script}");
    }
}

#[test]
fn a_job_that_slurm_refuses_is_named_with_those_before_it() {
    let desk = Desk::new(&[]);
    let go = ["submit", "slurm", "plan.json", "--into", "crawl", "--go"];
    desk.double(
        "sbatch",
        "[ -e once ] && { echo 'Invalid partition' >&2; exit 1; }; touch once; echo '7;east'",
    );
    let refused = desk.call(&go);
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused);
    assert!(
        said.contains("Invalid partition") && said.contains("scancel 7"),
        "{said}"
    );
}

#[test]
fn parts_that_have_a_result_are_named_and_a_crawl_of_such_parts_is_not_submitted() {
    let desk = Desk::new(&[]);
    desk.double("sbatch", SBATCH);
    let go = ["submit", "slurm", "plan.json", "--into", "crawl", "--go"];
    let publish = |part: u32| {
        let place = desk.path(&format!("crawl/part-{part:05}"));
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("RESULT"), "").unwrap();
    };
    publish(7);
    let said = text(&desk.call(&go));
    assert!(said.contains("have a result already: 1 of 12"), "{said}");
    assert_eq!(desk.noted("noted").len(), 2);
    (0..12).for_each(publish);
    for words in [&go[..], &go[..5]] {
        let done = desk.call(words);
        assert_eq!(
            (done.status.code(), done.stdout.len()),
            (Some(0), 0),
            "{}",
            text(&done)
        );
        assert!(
            text(&done).contains("All parts have a result (12 parts), so"),
            "{}",
            text(&done)
        );
    }
    assert_eq!(desk.noted("noted").len(), 2, "nothing more is submitted");
}

#[test]
fn a_plan_that_would_fail_in_each_task_is_not_submitted() {
    let desk = Desk::new(&["-H", "authorization: secret", "--out", "secret.json"]);
    let refusal = |args: &[&str]| {
        let refused = desk.call(&[&["submit"], args].concat());
        assert_eq!(
            refused.status.code(),
            Some(2),
            "{args:?}: {}",
            text(&refused)
        );
        text(&refused)
    };
    let said = refusal(&["slurm", "secret.json", "--into", "crawl"]);
    assert!(
        said.contains("authorization") && said.contains("--flags"),
        "{said}"
    );

    let plan = [
        "plan",
        "http://127.0.0.1:9/items/{id}",
        "--ids",
        "0..120",
        "--nodes",
        "2",
    ];
    assert_eq!(
        desk.call(&[&plan[..], &["--out", "other.json"]].concat())
            .status
            .code(),
        Some(0)
    );
    assert_eq!(desk.call(&plan).status.code(), Some(0));
    assert_eq!(
        desk.call(&["submit", "slurm", "plan.json", "--into", "crawl"])
            .status
            .code(),
        Some(0)
    );
    assert!(refusal(&["slurm", "other.json", "--into", "crawl"]).contains("another plan"));
    let (mut foreign, _) = PlanFile::read(&desk.path("other.json")).unwrap();
    foreign.program = "0123456789abcdef".to_owned();
    fs::write(desk.path("foreign.json"), foreign.into_text().unwrap()).unwrap();
    assert!(refusal(&["slurm", "foreign.json", "--into", "new"]).contains("0123456789ab"));
    assert!(
        !desk.path("new").exists(),
        "nothing is written for a plan that cannot be used"
    );
    let said = refusal(&["slurm", "plan.json", "--into", "crawl", "--flags", "'open"]);
    assert!(said.contains("quotation mark"), "{said}");
    assert!(refusal(&["slurm", ".", "--into", "crawl"]).contains("PLAN .: it is a directory"));
    let image = ["--image", "crawlmark:1"];
    assert!(
        refusal(&[&["kubernetes", "plan.json", "--into", "/abs"], &image[..]].concat())
            .contains("relative path")
    );
    assert!(
        refusal(
            &[
                &["kubernetes", "plan.json", "--into", "a", "--go"],
                &image[..]
            ]
            .concat()
        )
        .contains("for slurm")
    );
    assert!(refusal(&["kubernetes", "plan.json", "--into", "a"]).contains("--image"));
}

#[test]
fn a_plan_that_was_changed_is_refused_by_every_command() {
    let desk = Desk::new(&["--save", "items"]);
    let plan = fs::read_to_string(desk.path("plan.json")).unwrap();
    assert!(plan.contains("\"slots\": 3"), "{plan}");
    fs::create_dir(desk.path("crawl")).unwrap();
    for place in ["edited.json", "crawl/plan.json"] {
        fs::write(
            desk.path(place),
            plan.replace("\"slots\": 3", "\"slots\": 4"),
        )
        .unwrap();
    }
    for (line, file) in [
        ("submit slurm edited.json --into new", "edited.json"),
        (
            "submit kubernetes edited.json --into new --image i:1",
            "edited.json",
        ),
        (
            "run --plan edited.json --node 0/12 --into new",
            "edited.json",
        ),
        (
            "run --plan plan.json --node 0/12 --into crawl",
            "crawl/plan.json",
        ),
        ("submit slurm plan.json --into crawl", "plan.json"),
        ("watch crawl", "crawl/plan.json"),
        ("merge crawl", "crawl/plan.json"),
        ("verify crawl", "crawl/plan.json"),
        ("export crawl --to csv --out -", "crawl/plan.json"),
    ] {
        let refused = desk.call(&line.split(' ').collect::<Vec<_>>());
        let said = text(&refused);
        assert_eq!(refused.status.code(), Some(2), "{line}: {said}");
        let why = format!(
            "{file} was changed after `crawlmark plan` wrote it. Restore it, or write a new plan\n"
        );
        assert!(said.ends_with(&why), "{line}: {said}");
    }
    assert!(
        !desk.path("new").exists(),
        "nothing is written for a plan that cannot be used"
    );
}

/// Runs the script of a task whose crawl ends with `code`, after `restarts`, and returns the code
/// of the script and what was requeued.
fn task(code: u32, restarts: &str) -> (Option<i32>, Vec<String>) {
    let desk = Desk(tempfile::tempdir().unwrap());
    desk.double("crawl", &format!("echo \"$*\" >> crawled; exit {code}"));
    desk.double("scontrol", "echo \"$*\" >> requeued");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/cluster/slurm/part.sh");
    let mut command = desk.command("bash");
    command
        .arg(script)
        .args(["./crawl", "p.json", "dir", "10", "12", "--shards", "1"]);
    command
        .envs([("SLURM_ARRAY_TASK_ID", "1"), ("SLURM_ARRAY_JOB_ID", "77")])
        .env_remove("SLURM_RESTART_COUNT");
    if !restarts.is_empty() {
        command.env("SLURM_RESTART_COUNT", restarts);
    }
    let ended = command.output().unwrap();
    assert_eq!(
        desk.noted("crawled"),
        ["run --plan p.json --node 11/12 --into dir --no-progress --shards 1"]
    );
    (ended.status.code(), desk.noted("requeued"))
}

#[test]
fn a_task_is_requeued_if_its_part_was_lost_and_not_if_it_was_measured_or_makes_no_sense() {
    for code in [0, 2, 3, 4, 5, 130, 143] {
        assert_eq!(
            task(code, ""),
            (i32::try_from(code).ok(), Vec::new()),
            "{code}"
        );
    }
    for (code, restarts) in [(1, ""), (1, "2"), (137, "1"), (127, "0")] {
        assert_eq!(
            task(code, restarts),
            (i32::try_from(code).ok(), vec!["requeue 77_1".to_owned()]),
            "{code}"
        );
    }
    assert_eq!(task(1, "3"), (Some(1), Vec::new()), "not for ever");
}

fn at<'a>(yaml: &'a Yaml<'a>, path: &str) -> &'a Yaml<'a> {
    path.split('/')
        .fold(yaml, |yaml, key| match key.parse::<usize>() {
            Ok(index) => &yaml[index],
            Err(_) => &yaml[key],
        })
}

#[test]
fn manifests_hold_the_plan_and_its_parts() {
    let desk = Desk::new(&[]);
    let names = [
        "--into",
        "july",
        "--image",
        "registry.local/crawlmark:1",
        "--name",
        "july",
        "--claim",
        "shared",
    ];
    let sizes = [
        "--cpus",
        "4",
        "--memory",
        "3Gi",
        "--flags",
        "--bearer-env TOKEN",
    ];
    let printed = desk.call(
        &[
            &["submit", "kubernetes", "plan.json"],
            &names[..],
            &sizes[..],
        ]
        .concat(),
    );
    assert_eq!(printed.status.code(), Some(0), "{}", text(&printed));
    let manifests = String::from_utf8(printed.stdout).unwrap();
    assert!(
        !manifests.contains("# <") && manifests.contains("not run on a cluster"),
        "{manifests}"
    );
    let read = Yaml::load_from_str(&manifests).unwrap();
    let [plan, job, merge] = &read[..] else {
        panic!("{manifests}")
    };
    let plan_text = fs::read_to_string(desk.path("plan.json")).unwrap();
    assert_eq!(at(plan, "data/plan.json").as_str(), Some(&*plan_text));
    for (path, number) in [
        ("spec/completions", 12),
        ("spec/parallelism", 3),
        ("spec/backoffLimitPerIndex", 3),
    ] {
        assert_eq!(at(job, path).as_integer(), Some(number), "{path}");
    }
    let container = at(job, "spec/template/spec/containers/0");
    let args: Vec<_> = at(container, "args")
        .as_sequence()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect();
    let expected =
        "run --plan /plan/plan.json --node auto --into /data/july --no-progress --bearer-env TOKEN";
    assert_eq!(args.join(" "), expected);
    for (yaml, path, value) in [
        (job, "metadata/name", "july"),
        (job, "spec/completionMode", "Indexed"),
        (job, "spec/podReplacementPolicy", "Failed"),
        (job, "spec/podFailurePolicy/rules/1/action", "FailIndex"),
        (
            job,
            "spec/template/spec/volumes/0/configMap/name",
            "july-plan",
        ),
        (
            job,
            "spec/template/spec/volumes/1/persistentVolumeClaim/claimName",
            "shared",
        ),
        (container, "image", "registry.local/crawlmark:1"),
        (container, "resources/limits/memory", "3Gi"),
        (container, "envFrom/0/secretRef/name", "july"),
        (merge, "metadata/name", "july-merge"),
        (
            merge,
            "spec/template/spec/containers/0/args/1",
            "/data/july",
        ),
    ] {
        assert_eq!(at(yaml, path).as_str(), Some(value), "{path}");
    }
    fs::write(desk.path("printed.yaml"), &manifests).unwrap();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/cluster/kubernetes");
    let shipped = ["claim.yaml", "job.yaml", "merge.yaml"].map(|name| shipped.join(name));
    have_validated([desk.path("printed.yaml")].iter().chain(&shipped));
}

/// Has the published schema of Kubernetes check manifests.
#[track_caller]
#[expect(
    clippy::print_stderr,
    reason = "a check that is not installed is skipped aloud"
)]
fn have_validated<'a>(manifests: impl Iterator<Item = &'a PathBuf>) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/consumers/read_manifests.py");
    let Ok(output) = Command::new(python()).arg(script).args(manifests).output() else {
        eprintln!("skipped: the schema of Kubernetes: there is no Python");
        return;
    };
    assert!(output.status.success(), "{}", text(&output));
    eprintln!("{}", text(&output));
}
