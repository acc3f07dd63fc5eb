//! The workflows under `results/ci`: they are YAML, what they tell crawlmark is what this build
//! understands, and what they make of its exit codes is seen by running their shell.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Parser;
use crawlmark::cli::{Cli, Command as Typed};
use saphyr::{LoadableYamlNode, Yaml};
use tempfile::TempDir;

use crate::command::{names, program};
use crate::process::{wait_for, working_in};

const GITHUB: &str = include_str!("../../results/ci/github-actions.yml");
const GITLAB: &str = include_str!("../../results/ci/gitlab-ci.yml");

const ACTION: &str = include_str!("../../action.yml");

/// The job in both that compares.
const COMPARE: &str = "compare";

/// Stands for crawlmark: notes what it is told and ends as it is bid. It leaves what the shell
/// after it reads.
const STUB: &str = r#"#!/bin/sh
printf '%s\0' "$@" > "$CALLS/$$"
case $1 in
history) echo "$4" >> "$2"; mkdir -p "$6"; echo page > "$6/report.html" ;;
ab) [ "$STUB_CODE" = 1 ] || { mkdir -p comparison; echo '# stub' > comparison/summary.md; } ;;
run) mkdir -p result; echo '# stub' > result/summary.md; echo "{}" > result/result.json ;;
esac
exit "$STUB_CODE"
"#;

/// A workflow: its variables and its pieces of shell, by job or name of the step.
struct Workflow {
    variables: BTreeMap<String, String>,
    scripts: Vec<(String, String)>,
}

fn load(text: &str) -> Yaml<'static> {
    let text = Box::leak(text.to_owned().into_boxed_str());
    let mut documents = Yaml::load_from_str(text).unwrap();
    assert_eq!(documents.len(), 1);
    documents.remove(0)
}

/// The entries of a mapping.
fn entries<'a>(yaml: &'a Yaml<'static>) -> impl Iterator<Item = (String, &'a Yaml<'static>)> {
    let entries = yaml.as_mapping().unwrap().iter();
    entries.map(|(key, value)| (scalar(key), value))
}

fn scalar(yaml: &Yaml<'_>) -> String {
    let number = || yaml.as_integer().map(|number| number.to_string());
    yaml.as_str().map(str::to_owned).or_else(number).unwrap()
}

fn scalars(yaml: &Yaml<'static>) -> BTreeMap<String, String> {
    entries(yaml)
        .map(|(key, value)| (key, scalar(value)))
        .collect()
}

/// The script of a step.
fn script(step: &Yaml<'static>) -> Option<String> {
    step.as_mapping_get("run").map(scalar)
}

impl Workflow {
    fn github() -> Self {
        let workflow = load(GITHUB);
        let mut scripts = Vec::new();
        for (job, what) in entries(&workflow["jobs"]) {
            let steps = what["steps"].as_sequence().unwrap();
            scripts.extend(
                steps
                    .iter()
                    .filter_map(script)
                    .map(|text| (job.clone(), text)),
            );
        }
        Self {
            variables: scalars(&workflow["env"]),
            scripts,
        }
    }

    fn gitlab() -> Self {
        let workflow = load(GITLAB);
        let mut scripts = Vec::new();
        for (job, what) in entries(&workflow) {
            for key in ["before_script", "script"] {
                let lines = what.as_mapping_get(key).and_then(Yaml::as_sequence);
                let lines = lines.into_iter().flatten();
                scripts.extend(lines.map(|text| (job.clone(), scalar(text))));
            }
        }
        let mut variables = scalars(&workflow[".benchmark"]["variables"]);
        // GitLab expands what a `$` names, and makes one of two.
        for value in variables.values_mut() {
            *value = value.replace("$$", "$");
        }
        Self { variables, scripts }
    }

    /// The action, with the defaults of its inputs as its steps get them.
    fn action() -> Self {
        let action = load(ACTION);
        let (mut scripts, mut variables) = (Vec::new(), BTreeMap::new());
        for step in action["runs"]["steps"].as_sequence().unwrap() {
            let Some(run) = script(step) else { continue };
            scripts.push((scalar(&step["name"]), run));
            for (name, value) in step.as_mapping_get("env").map(scalars).unwrap_or_default() {
                let input = value.strip_prefix("${{ inputs.");
                let input = input.and_then(|value| value.strip_suffix(" }}"));
                let value = input.map(|input| scalar(&action["inputs"][input]["default"]));
                variables.insert(name, value.unwrap_or_default());
            }
        }
        Self { variables, scripts }
    }

    /// The script of this job or step that has these words.
    #[track_caller]
    fn script(&self, name: &str, words: &str) -> &str {
        let is_it = |(job, text): &&(String, String)| job == name && text.contains(words);
        let mut found = self.scripts.iter().filter(is_it);
        let (_, text) = found.next().unwrap();
        assert!(found.next().is_none(), "{name}");
        text
    }
}

/// The number of calls of crawlmark in a piece of shell.
fn calls(text: &str) -> usize {
    let lines = text.lines().map(str::trim_start);
    lines.filter(|line| line.starts_with("crawlmark ")).count()
}

/// Where a piece of shell runs: programs of its own that come first, and a directory.
struct Runner {
    root: TempDir,
}

/// What a piece of shell came to.
struct Ended {
    code: Option<i32>,
    said: String,
    summary: String,
}

impl Runner {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for folder in ["bin", "calls", "work", "work/base", "work/candidate"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        Self { root }
    }

    /// One where crawlmark is a stub, and nothing is reached by any network.
    fn with_stubs() -> Self {
        let runner = Self::new();
        runner.script("bin/crawlmark", STUB);
        runner.script("bin/curl", "#!/bin/sh\n");
        runner
    }

    fn path(&self, inner: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(inner)
    }

    fn script(&self, inner: &str, text: &str) {
        let path = self.path(inner);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs a piece of shell as both hosts do, with the workflow's variables and what the host
    /// sets. Nothing may be left.
    fn run(&self, workflow: &Workflow, text: &str, more: &[(&str, &str)]) -> Ended {
        let work = self.path("work");
        let path = format!(
            "{}:{}",
            self.path("bin").display(),
            std::env::var("PATH").unwrap()
        );
        let output = Command::new("bash")
            .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", text])
            .current_dir(&work)
            .envs(&workflow.variables)
            .env("PATH", path)
            .env("CALLS", self.path("calls"))
            .env("STUB_CODE", "0")
            .env("GITHUB_STEP_SUMMARY", self.path("summary"))
            .env("GITHUB_OUTPUT", self.path("output"))
            .env("GITHUB_PATH", self.path("path"))
            .env("GITHUB_SHA", "0123abc")
            .env("HOME", &work)
            .env("RUNNER_TEMP", &work)
            .env("CI_COMMIT_SHA", "0123abc")
            .env("CI_PROJECT_DIR", &work)
            .envs(more.iter().copied())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        for place in ["work", "work/base", "work/candidate"] {
            // What was told to end may take a moment to.
            wait_for("the end of every process", || {
                working_in(&self.path(place)).is_empty().then_some(())
            });
        }
        Ended {
            code: output.status.code(),
            said: String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
            summary: fs::read_to_string(self.path("summary")).unwrap_or_default(),
        }
    }

    fn read(&self, inner: &str) -> String {
        fs::read_to_string(self.path(inner)).unwrap()
    }

    /// The arguments of each call of the stub.
    fn told(&self) -> Vec<Vec<String>> {
        let words = |path: PathBuf| {
            let text = fs::read_to_string(path).unwrap();
            text.split_terminator('\0').map(str::to_owned).collect()
        };
        fs::read_dir(self.path("calls"))
            .unwrap()
            .map(|entry| words(entry.unwrap().path()))
            .collect()
    }
}

#[test]
fn this_build_understands_what_the_workflows_tell_crawlmark() {
    for workflow in [Workflow::github(), Workflow::gitlab()] {
        let mut commands = Vec::new();
        for (job, text) in workflow.scripts.iter().filter(|(_, text)| calls(text) > 0) {
            let runner = Runner::with_stubs();
            fs::create_dir(runner.path("work/result")).unwrap();
            fs::write(runner.path("work/result/result.json"), "{}").unwrap();
            // What ends at once is ended in vain, which is to be no failure.
            let ended = runner.run(&workflow, text, &[("START", "true")]);
            assert_eq!(ended.code, Some(0), "{job}: {}", ended.said);
            let told = runner.told();
            assert_eq!(told.len(), calls(text), "{text}");
            for words in told {
                commands.push(words[0].clone());
                let words = std::iter::once("crawlmark".to_owned()).chain(words);
                if let Typed::Ab(ab) = Cli::try_parse_from(words).unwrap().command {
                    let run = ["crawlmark".to_owned(), "run".to_owned()].into_iter();
                    Cli::try_parse_from(run.chain(ab.run)).unwrap();
                }
            }
        }
        commands.sort();
        assert_eq!(commands, ["ab", "history", "run"]);
    }
}

#[test]
fn a_regression_fails_an_inconclusive_comparison_warns_and_other_codes_are_errors() {
    let (github, gitlab) = (Workflow::github(), Workflow::gitlab());
    let [on_github, on_gitlab] =
        [&github, &gitlab].map(|workflow| workflow.script(COMPARE, "crawlmark ab"));
    let allowed = &load(GITLAB)[COMPARE]["allow_failure"]["exit_codes"];
    assert_eq!(allowed.as_integer(), Some(5));
    for (code, ends, kind, title) in [
        (0, 0, "", ""),
        (1, 1, "error", "No comparison"),
        (2, 2, "error", "No comparison"),
        (3, 3, "error", "Regression"),
        (5, 0, "warning", "Inconclusive"),
        (130, 130, "error", "No comparison"),
    ] {
        let stub_code = code.to_string();
        let more = [("STUB_CODE", stub_code.as_str())];
        let ended = Runner::with_stubs().run(&github, on_github, &more);
        assert_eq!(ended.code, Some(ends), "{}", ended.said);
        let annotation = format!("::{kind} title={title}::");
        let said = &ended.said;
        assert!(
            if code == 0 {
                said.is_empty()
            } else {
                said.starts_with(&annotation)
            },
            "{said}"
        );
        assert_eq!(ended.summary, if code == 1 { "" } else { "# stub\n" });
        let ended = Runner::with_stubs().run(&gitlab, on_gitlab, &more);
        assert_eq!(ended.code, Some(code));
        assert!(ended.said.starts_with(title), "{}", ended.said);
        assert_eq!(ended.said.is_empty(), code == 0, "{}", ended.said);
    }
}

#[test]
fn a_token_reaches_curl_and_no_log() {
    let runner = Runner::with_stubs();
    let curl = "printf '%s\\n' \"$@\" > ../calls/arguments\ncat > ../calls/config";
    runner.script("bin/curl", &format!("#!/bin/sh\n{curl}\n"));
    let gitlab = Workflow::gitlab();
    let text = gitlab.script("comment", "");
    let url = ("CI_API_V4_URL", "http://gitlab.test/api/v4");
    let more = [("BENCHMARK_TOKEN", "glpat-secret"), url];
    let comment = |says: &str| {
        let ended = runner.run(&gitlab, text, &more);
        assert_eq!((ended.code, ended.said.as_str()), (Some(0), says));
    };
    comment("There is no comparison to comment on.\n");
    fs::create_dir(runner.path("work/comparison")).unwrap();
    fs::write(runner.path("work/comparison/summary.md"), "# stub\n").unwrap();
    comment("");
    assert_eq!(
        runner.read("calls/config"),
        "header = \"PRIVATE-TOKEN: glpat-secret\"\n"
    );
    let arguments = runner.read("calls/arguments");
    assert!(!arguments.contains("secret") && arguments.contains("body@comparison/summary.md"));
}
#[test]
fn the_action_compares_two_commits_and_reports_each_verdict() {
    let action = Workflow::action();
    let [build, compare, comment] =
        ["Build both commits", "Compare", "Comment"].map(|name| action.script(name, ""));
    let runner = Runner::with_stubs();
    fs::create_dir(runner.path("work/comparison")).unwrap();
    let forged = "# Passed\n\n[click](https://evil.test) <img src=x>\n";
    fs::write(runner.path("work/comparison/summary.md"), forged).unwrap();
    runner.script(
        "bin/gh",
        "#!/bin/sh\necho \"$@\" > ../calls/gh\ncat \"$7\" > ../calls/body\n",
    );
    let commented = |runner: &Runner| runner.run(&action, comment, &[("NUMBER", "7")]);
    let ended = commented(&runner);
    assert_eq!(
        (ended.code, &*ended.said),
        (Some(0), "There is no comparison to comment on.\n")
    );
    // What the pull request's code wrote is no comment; this program says what the figures are.
    fs::remove_file(runner.path("bin/crawlmark")).unwrap();
    symlink(program(), runner.path("bin/crawlmark")).unwrap();
    let saved = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/ab/comparison.json");
    fs::copy(saved, runner.path("work/comparison/comparison.json")).unwrap();
    let ended = commented(&runner);
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    assert!(
        runner
            .read("calls/gh")
            .starts_with("pr comment 7 --edit-last --create-if-none --body-file ")
    );
    let body = runner.read("calls/body");
    assert!(body.starts_with("# ") && !body.contains("evil"), "{body}");
    fs::remove_file(runner.path("calls/gh")).unwrap();
    fs::write(runner.path("work/comparison/comparison.json"), "{}").unwrap();
    assert_eq!(commented(&runner).code, Some(1));
    assert!(!runner.path("calls/gh").exists());
    for (code, strict, ends, verdict) in [
        ("0", "false", 0, "pass"),
        ("3", "false", 3, "regression"),
        ("5", "false", 0, "inconclusive"),
        ("5", "true", 5, "inconclusive"),
        ("1", "false", 1, "error"),
    ] {
        let runner = Runner::with_stubs();
        let more = [("STUB_CODE", code), ("STRICT", strict)];
        let ended = runner.run(&action, compare, &more);
        assert_eq!(ended.code, Some(ends), "{code}: {}", ended.said);
        assert!(
            runner
                .read("output")
                .starts_with(&format!("verdict={verdict}\n"))
        );
    }
    let runner = Runner::with_stubs();
    let flags = "--value 'score=([0-9.]+) MB/s' --better higher";
    let more = [("COMMAND", "./bench a"), ("FLAGS", flags)];
    let ended = runner.run(&action, compare, &more);
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    let words = ["crawlmark".to_owned()]
        .into_iter()
        .chain(runner.told().remove(0));
    let Typed::Ab(ab) = Cli::try_parse_from(words).unwrap().command else {
        panic!("another command")
    };
    let candidate = format!(
        "cd '{}' && ./bench a",
        runner.path("work/candidate").display()
    );
    assert_eq!(ab.cand_command, Some(candidate));
    assert_eq!(ab.commands.value[0].name, "score");
    let ended = Runner::with_stubs().run(&action, build, &[]);
    assert_eq!(ended.code, Some(2), "nothing to start: {}", ended.said);
}

#[test]
fn the_action_takes_the_program_of_its_release_only_where_its_origin_is_attested() {
    let action = Workflow::action();
    let install = action.script("Install crawlmark", "");
    let source = env!("CARGO_MANIFEST_DIR");
    let tag = concat!("v", env!("CARGO_PKG_VERSION"));
    for (reference, curl, gh, is_built) in [
        (tag, "true", "true", false),
        (tag, "true", "false", true),
        (tag, "false", "true", true),
        ("v9.9.9", "true", "true", true),
        (
            "fd1056752d80a4e0b5fd9d2513899c0ce6e3173a",
            "true",
            "true",
            true,
        ),
    ] {
        let runner = Runner::new();
        // What is fetched is an archive with a program, as `.ci/archive` names them.
        let fetch = "while [ \"$1\" != --output ]; do shift; done; name=$(basename \"$2\" .tar.gz)\n\
                     mkdir -p \"$name\"; echo released > \"$name/crawlmark\"; chmod +x \"$name/crawlmark\"\n\
                     tar -czf \"$2\" \"$name\"";
        runner.script(
            "bin/curl",
            &format!("#!/bin/sh\n{curl} || exit 22\n{fetch}\n"),
        );
        runner.script("bin/gh", &format!("#!/bin/sh\n{gh}\n"));
        runner.script("bin/cargo", "#!/bin/sh\necho \"$@\" > ../calls/cargo\n");
        let more = [("SOURCE", source), ("REF", reference)];
        let ended = runner.run(&action, install, &more);
        assert_eq!(ended.code, Some(0), "{}", ended.said);
        let (built, taken) = (
            runner.path("calls/cargo").exists(),
            runner.path("work/.crawlmark/bin/crawlmark").exists(),
        );
        assert_eq!(
            (built, taken),
            (is_built, !is_built),
            "{reference} {curl} {gh}"
        );
    }
}

#[test]
fn the_action_keeps_a_history_on_a_branch() {
    let action = Workflow::action();
    let keep = action.script("Keep history", "");
    let runner = Runner::with_stubs();
    let git = |line: &str| {
        let output = Command::new("git")
            .args(line.split(' '))
            .current_dir(runner.path("work"))
            .env("HOME", runner.path("work"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    git("init --quiet --bare ../origin");
    git("init --quiet");
    git(&format!(
        "remote add origin {}",
        runner.path("origin").display()
    ));
    git("-c user.name=t -c user.email=t@localhost commit --quiet --allow-empty --message first");
    fs::create_dir(runner.path("work/comparison")).unwrap();
    fs::write(runner.path("work/comparison/comparison.json"), "{}").unwrap();
    let more = [
        ("BRANCH", "benchmarks"),
        ("NAME", "service"),
        ("TOKEN", "secret-token"),
    ];
    for lines in 1..=2 {
        let ended = runner.run(&action, keep, &more);
        assert_eq!(ended.code, Some(0), "{}", ended.said);
        assert!(!ended.said.contains("secret-token"));
        git("fetch --quiet origin benchmarks");
        let kept = git("show FETCH_HEAD:service.jsonl");
        assert_eq!(kept.lines().count(), lines);
        assert_eq!(git("show FETCH_HEAD:service/report.html"), "page\n");
    }
}

#[test]
fn workflows_pin_what_they_use_and_may_only_read() {
    let workflows = Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/workflows");
    for name in names(&workflows) {
        let text = fs::read_to_string(workflows.join(&name)).unwrap();
        for line in text.lines().chain(ACTION.lines()) {
            let Some((_, action)) = line.split_once("uses: ") else {
                continue;
            };
            let pin = action.split(['@', ' ']).nth(1).unwrap();
            let is_hash = pin.len() == 40 && pin.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(is_hash, "{name}: {action}");
        }
        let installs = text.lines().filter(|line| line.contains("cargo install"));
        assert_eq!(installs.count(), 0, "{name}: a tool without a hash");
        let rights = scalars(&load(&text)["permissions"]);
        assert!(rights.values().all(|right| right == "read"), "{name}");
    }
}

#[test]
fn tools_are_pinned_by_their_hashes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tools = fs::read_to_string(root.join(".ci/tools.txt")).unwrap();
    let mut hashed = None;
    for line in tools.lines().filter(|line| !line.starts_with('#')) {
        if line.contains("==") {
            assert_ne!(hashed, Some(0), "before {line}");
            hashed = Some(0);
        } else {
            assert!(line.trim_start().starts_with("--hash=sha256:"), "{line}");
            hashed = hashed.map(|count| count + 1);
        }
    }
    assert!(hashed.is_some_and(|count| count > 0));
}
