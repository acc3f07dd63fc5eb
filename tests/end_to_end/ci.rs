//! The workflows under `results/ci`: they are YAML, what they tell crawlmark is what this build
//! understands, and what they make of its exit codes is seen by running their shell.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose workflow cannot be read is over"
)]

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Parser;
use crawlmark::cli::{Cli, Command as Typed};
use saphyr::{LoadableYamlNode, Yaml};
use tempfile::TempDir;

use crate::ab::is_too_disturbed;
use crate::process::{wait_for, working_in};
use crate::run::program;

const GITHUB: &str = include_str!("../../results/ci/github-actions.yml");
const GITLAB: &str = include_str!("../../results/ci/gitlab-ci.yml");

const ACTION: &str = include_str!("../../action.yml");
const WITH_ACTION: &str = include_str!("../../results/ci/github-action.yml");

/// The job in both that compares.
const COMPARE: &str = "compare";

/// Stands for crawlmark: notes what it is told and ends as it is bid. It leaves what the shell
/// after it reads.
const STUB: &str = r#"#!/bin/sh
printf '%s\0' "$@" > "$CALLS/$$"
case $1 in
ab) [ "$STUB_CODE" = 1 ] || { mkdir -p comparison; echo '# stub' > comparison/summary.md; } ;;
run) mkdir -p result; echo '# stub' > result/summary.md; echo "{}" > result/result.json ;;
esac
exit "$STUB_CODE"
"#;

/// A piece of shell in a workflow.
struct ShellStep {
    job: String,
    text: String,
}

/// A workflow, as far as it matters here.
struct Workflow {
    variables: BTreeMap<String, String>,
    bodies: Vec<ShellStep>,
}

fn load(text: &'static str) -> Yaml<'static> {
    let mut documents = Yaml::load_from_str(text).unwrap();
    assert_eq!(documents.len(), 1);
    documents.remove(0)
}

/// The entries of a mapping.
fn entries<'a>(yaml: &'a Yaml<'static>) -> impl Iterator<Item = (String, &'a Yaml<'static>)> {
    yaml.as_mapping()
        .unwrap()
        .iter()
        .map(|(key, value)| (scalar(key), value))
}

fn scalar(yaml: &Yaml<'_>) -> String {
    yaml.as_str()
        .map(str::to_owned)
        .or_else(|| yaml.as_integer().map(|number| number.to_string()))
        .unwrap()
}

fn scalars(yaml: &Yaml<'static>) -> BTreeMap<String, String> {
    entries(yaml)
        .map(|(key, value)| (key, scalar(value)))
        .collect()
}

fn github() -> Workflow {
    let workflow = load(GITHUB);
    let bodies = entries(&workflow["jobs"]).flat_map(|(job, what)| {
        let steps = what["steps"].as_sequence().unwrap().iter();
        let runs = steps
            .filter_map(|step| step.as_mapping_get("run").map(scalar))
            .collect::<Vec<_>>();
        runs.into_iter().map(move |text| ShellStep {
            job: job.clone(),
            text,
        })
    });
    Workflow {
        bodies: bodies.collect(),
        variables: scalars(&workflow["env"]),
    }
}

fn gitlab() -> Workflow {
    let workflow = load(GITLAB);
    let bodies = entries(&workflow).flat_map(|(job, what)| {
        let scripts = ["before_script", "script"]
            .into_iter()
            .filter_map(|key| what.as_mapping_get(key));
        let runs: Vec<String> = scripts
            .flat_map(|script| {
                script
                    .as_sequence()
                    .unwrap()
                    .iter()
                    .map(scalar)
                    .collect::<Vec<_>>()
            })
            .collect();
        runs.into_iter().map(move |text| ShellStep {
            job: job.clone(),
            text,
        })
    });
    let variables = scalars(&workflow[".benchmark"]["variables"]);
    // GitLab expands what a `$` names, and makes one of two.
    let variables = variables
        .into_iter()
        .map(|(name, value)| (name, value.replace("$$", "$")))
        .collect();
    Workflow {
        bodies: bodies.collect(),
        variables,
    }
}

/// The action, with the defaults of its inputs as its steps get them.
fn action() -> Workflow {
    let action = load(ACTION);
    let inputs: BTreeMap<String, String> = entries(&action["inputs"])
        .map(|(name, input)| (name, scalar(&input["default"])))
        .collect();
    let (mut bodies, mut variables) = (Vec::new(), BTreeMap::new());
    for step in action["runs"]["steps"].as_sequence().unwrap() {
        let Some(run) = step.as_mapping_get("run").map(scalar) else {
            continue;
        };
        bodies.push(ShellStep {
            job: scalar(&step["name"]),
            text: run,
        });
        for (name, value) in step.as_mapping_get("env").map(scalars).unwrap_or_default() {
            let input = value
                .strip_prefix("${{ inputs.")
                .and_then(|value| value.strip_suffix(" }}"));
            let value = input.map_or_else(String::new, |input| inputs[input].clone());
            variables.insert(name, value);
        }
    }
    Workflow { variables, bodies }
}

impl Workflow {
    /// The step of this name.
    fn step(&self, name: &str) -> &str {
        &self
            .bodies
            .iter()
            .find(|body| body.job == name)
            .unwrap()
            .text
    }

    /// The shell of the job's step that runs `crawlmark`.
    fn calling(&self, job: &str) -> &str {
        let mut found = self
            .bodies
            .iter()
            .filter(|body| body.job == job && calls(&body.text) > 0);
        let body = found.next().unwrap();
        assert!(found.next().is_none());
        &body.text
    }
}

/// How often a piece of shell calls crawlmark.
fn calls(text: &str) -> usize {
    text.lines()
        .filter(|line| line.trim_start().starts_with("crawlmark "))
        .count()
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

    /// One where crawlmark is this build's, and the two commits' services hold each answer for so
    /// long.
    fn with_services(latencies: [&str; 2]) -> Self {
        let runner = Self::new();
        std::os::unix::fs::symlink(program(), runner.path("bin/crawlmark")).unwrap();
        for (side, latency) in ["base", "candidate"].into_iter().zip(latencies) {
            let serve = format!(
                "exec crawlmark serve --processes 1 --latency {latency} --listen \"127.0.0.1:$1\""
            );
            runner.script(
                &format!("work/{side}/service"),
                &format!("#!/bin/sh\n{serve}\n"),
            );
        }
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
    fn run(
        &self,
        text: &str,
        variables: &BTreeMap<String, String>,
        more: &[(&str, &str)],
    ) -> Ended {
        let work = self.path("work");
        let path = format!(
            "{}:{}",
            self.path("bin").display(),
            std::env::var("PATH").unwrap()
        );
        let output = Command::new("bash")
            .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", text])
            .current_dir(&work)
            .envs(variables)
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

    /// What the stub was told.
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
fn what_crawlmark_is_told_is_what_this_build_understands() {
    for workflow in [github(), gitlab()] {
        let mut commands = Vec::new();
        for body in workflow.bodies.iter().filter(|body| calls(&body.text) > 0) {
            let runner = Runner::with_stubs();
            fs::create_dir(runner.path("work/result")).unwrap();
            fs::write(runner.path("work/result/result.json"), "{}").unwrap();
            // What ends at once is ended in vain, which is to be no failure.
            let ended = runner.run(&body.text, &workflow.variables, &[("START", "true")]);
            assert_eq!(ended.code, Some(0), "{}: {}", body.job, ended.said);
            let told = runner.told();
            assert_eq!(told.len(), calls(&body.text), "{}", body.text);
            for words in told {
                commands.push(words[0].clone());
                let typed =
                    Cli::try_parse_from(std::iter::once("crawlmark".to_owned()).chain(words));
                if let Typed::Ab(ab) = typed.unwrap().command {
                    Cli::try_parse_from(
                        ["crawlmark", "run"]
                            .into_iter()
                            .chain(ab.run.iter().map(String::as_str)),
                    )
                    .unwrap();
                }
            }
        }
        commands.sort();
        assert_eq!(commands, ["ab", "compare", "run"]);
    }
}

#[test]
fn a_regression_fails_an_inconclusive_comparison_warns_and_whatever_else_is_an_error() {
    let (github, gitlab) = (github(), gitlab());
    assert_eq!(
        load(GITLAB)[COMPARE]["allow_failure"]["exit_codes"].as_integer(),
        Some(5)
    );
    for (code, on_github, annotation, on_gitlab) in [
        (0, 0, "", ""),
        (
            1,
            1,
            "::error title=No comparison::crawlmark ended with exit code 1:",
            "No comparison",
        ),
        (
            2,
            2,
            "::error title=No comparison::crawlmark ended with exit code 2:",
            "No comparison",
        ),
        (3, 3, "::error title=Regression::", "Regression"),
        (5, 0, "::warning title=Inconclusive::", "Inconclusive"),
        (130, 130, "::error title=No comparison::", "No comparison"),
    ] {
        let stub_code = code.to_string();
        let more = [("STUB_CODE", stub_code.as_str())];
        let runner = Runner::with_stubs();
        let ended = runner.run(github.calling(COMPARE), &github.variables, &more);
        assert_eq!(ended.code, Some(on_github), "{}", ended.said);
        assert!(
            ended.said.starts_with(annotation) && ended.said.is_empty() == annotation.is_empty(),
            "{}",
            ended.said
        );
        assert_eq!(ended.summary, if code == 1 { "" } else { "# stub\n" });
        let ended = Runner::with_stubs().run(gitlab.calling(COMPARE), &gitlab.variables, &more);
        assert_eq!(ended.code, Some(code));
        assert!(
            ended.said.starts_with(on_gitlab) && ended.said.is_empty() == on_gitlab.is_empty(),
            "{}",
            ended.said
        );
    }
}

/// What a stand-in of a service needs, and rounds that are short.
const STAND_IN: [(&str, &str); 2] = [
    ("START", "exec ./service {port}"),
    ("LOAD", "-n 256 -c 16 -s 1"),
];

#[test]
fn a_commit_that_answers_half_as_fast_fails_its_job() {
    let github = github();
    let runner = Runner::with_services(["5ms", "10ms"]);
    let ended = runner.run(github.calling(COMPARE), &github.variables, &STAND_IN);
    let contest = fs::read_to_string(runner.path("work/comparison/comparison.json")).unwrap();
    if is_too_disturbed(&serde_json::from_str(&contest).unwrap()) {
        return;
    }
    assert_eq!(ended.code, Some(3), "{}", ended.said);
    assert!(
        ended.said.contains("::error title=Regression::"),
        "{}",
        ended.said
    );
    assert!(
        ended.summary.starts_with("# service: regression\n"),
        "{}",
        ended.summary
    );
    for file in ["comparison.json", "junit.xml", "plots/pairs.svg"] {
        assert!(runner.path("work/comparison").join(file).exists(), "{file}");
    }
}

#[test]
fn a_comparison_that_ends_before_it_knows_warns() {
    let few = [&STAND_IN[..], &[("PAIRS", "2")]].concat();
    for (workflow, code, says) in [
        (github(), 0, "::warning title=Inconclusive::"),
        (gitlab(), 5, "Inconclusive: "),
    ] {
        let runner = Runner::with_services(["1ms", "1ms"]);
        let ended = runner.run(workflow.calling(COMPARE), &workflow.variables, &few);
        assert_eq!(ended.code, Some(code), "{}", ended.said);
        assert!(ended.said.contains(says), "{}", ended.said);
    }
}

#[test]
fn a_commit_that_does_not_start_is_no_comparison() {
    let github = github();
    let runner = Runner::with_services(["1ms", "1ms"]);
    fs::remove_file(runner.path("work/candidate/service")).unwrap();
    let ended = runner.run(github.calling(COMPARE), &github.variables, &STAND_IN);
    assert_eq!(ended.code, Some(1), "{}", ended.said);
    assert!(
        ended.said.contains("::error title=No comparison::") && ended.said.contains("./service"),
        "{}",
        ended.said
    );
    assert_eq!(ended.summary, "");
}

#[test]
fn a_push_adds_to_the_history() {
    for workflow in [github(), gitlab()] {
        let runner = Runner::with_services(["1ms", "1ms"]);
        runner.script(
            "bin/curl",
            "#!/bin/bash\nuntil (: < /dev/tcp/127.0.0.1/$PORT) 2>&-; do sleep 0.05; done\n",
        );
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port()
            .to_string();
        let more = [
            ("START", "exec ./base/service {port}"),
            ("LOAD", "-n 256 -c 16 -s 1 --expect whole"),
            ("PORT", &port),
        ];
        let mut said = String::new();
        for body in workflow
            .bodies
            .iter()
            .filter(|body| body.job == "measure" && calls(&body.text) > 0)
        {
            let ended = runner.run(&body.text, &workflow.variables, &more);
            assert_eq!(ended.code, Some(0), "{}", ended.said);
            said = ended.said + &ended.summary;
        }
        assert!(said.contains("1 result with the name `service`"), "{said}");
        for file in [
            "history/0123abc/result.json",
            "benchmark-bigger.json",
            "benchmark-smaller.json",
            "bencher.json",
        ] {
            let text = fs::read_to_string(runner.path("work").join(file)).unwrap();
            assert!(
                serde_json::from_str::<serde_json::Value>(&text).is_ok(),
                "{file}: {text}"
            );
        }
    }
}

#[test]
fn nothing_that_was_built_runs_beside_a_secret_and_every_job_ends() {
    let workflow = load(GITHUB);
    assert_eq!(
        scalars(&workflow["permissions"]),
        BTreeMap::from([("contents".to_owned(), "read".to_owned())])
    );
    for (job, what) in entries(&workflow["jobs"]) {
        assert!(what["timeout-minutes"].as_integer().is_some(), "{job}");
        let may_write = what.as_mapping_get("permissions").is_some();
        let steps = what["steps"].as_sequence().unwrap();
        for step in steps {
            if let Some(uses) = step.as_mapping_get("uses") {
                let uses = scalar(uses);
                if uses.starts_with("actions/checkout@") {
                    assert_eq!(
                        step["with"]["persist-credentials"].as_bool(),
                        Some(false),
                        "{job}"
                    );
                }
            }
            if let Some(run) = step.as_mapping_get("run").map(scalar) {
                // What a branch is called, or a title, is text to the shell and nothing that it
                // runs.
                assert!(!run.contains("${{") && !run.contains("set -x"), "{run}");
                assert!(
                    !may_write || !run.contains("START") && !run.contains("BUILD"),
                    "{run}"
                );
            }
            assert!(may_write || step.as_mapping_get("env").is_none(), "{job}");
        }
    }
    let workflow = load(GITLAB);
    let jobs: Vec<_> = entries(&workflow).collect();
    for (job, what) in &jobs {
        let time = what.as_mapping_get("timeout").is_some();
        assert!(
            time || what["extends"].as_str() == Some(".benchmark"),
            "{job}"
        );
    }
    assert_eq!(
        jobs.iter().map(|(job, _)| job.as_str()).collect::<Vec<_>>(),
        [".benchmark", COMPARE, "comment", "measure", "publish"]
    );
}

#[test]
fn a_token_reaches_curl_and_no_log() {
    let runner = Runner::with_stubs();
    runner.script(
        "bin/curl",
        "#!/bin/sh\nprintf '%s\\n' \"$@\" > ../calls/arguments\ncat > ../calls/config\n",
    );
    let gitlab = gitlab();
    let body = gitlab
        .bodies
        .iter()
        .find(|body| body.job == "comment")
        .unwrap();
    let more = [
        ("BENCHMARK_TOKEN", "glpat-secret"),
        ("CI_API_V4_URL", "http://gitlab.test/api/v4"),
    ];
    let ended = runner.run(&body.text, &gitlab.variables, &more);
    assert_eq!(
        (ended.code, ended.said.as_str()),
        (Some(0), "There is no comparison to comment on.\n")
    );
    fs::create_dir(runner.path("work/comparison")).unwrap();
    fs::write(runner.path("work/comparison/summary.md"), "# stub\n").unwrap();
    let ended = runner.run(&body.text, &gitlab.variables, &more);
    assert_eq!((ended.code, ended.said.as_str()), (Some(0), ""));
    let read = |name: &str| fs::read_to_string(runner.path("calls").join(name)).unwrap();
    assert_eq!(read("config"), "header = \"PRIVATE-TOKEN: glpat-secret\"\n");
    assert!(
        !read("arguments").contains("secret")
            && read("arguments").contains("body@comparison/summary.md")
    );
}

/// Stands for cargo: installs this build's program if it is asked for a commit that the repository
/// has, or for the sources of the action.
const CARGO: &str = r#"#!/bin/bash
[ "$1" = install ] && [ "$2" = --locked ] && [ "$3" = --root ] || exit 9
case $5 in
--git) [ "$6" = https://github.com/crawlmark/crawlmark ] && [ "$7" = --rev ] && [ "$9" = crawlmark ] || exit 8
       [ -z "$REPOSITORY" ] || git -C "$REPOSITORY" cat-file -e "$8^{commit}" || exit 7 ;;
--path) grep -q '^name = "crawlmark"$' "$6/Cargo.toml" || exit 6 ;;
*) exit 5 ;;
esac
echo x >> ../calls/cargo
mkdir -p "$4/bin" && ln -s "$PROGRAM" "$4/bin/crawlmark"
"#;

#[test]
fn what_is_installed_exists_and_is_kept() {
    let root = env!("CARGO_MANIFEST_DIR");
    let git = |arguments: &[&str]| {
        Command::new("git")
            .args(["-C", root])
            .args(arguments)
            .output()
    };
    let has_history =
        git(&["rev-parse", "--is-shallow-repository"]).is_ok_and(|said| said.stdout == b"false\n");
    if !has_history {
        eprintln!("the commit of the recipes is not looked up: there is no history here");
    }
    let repository = if has_history { root } else { "" };
    let program = program().to_str().unwrap();
    let mut installed = 0;
    for workflow in [github(), gitlab(), action()] {
        for body in workflow
            .bodies
            .iter()
            .filter(|body| body.text.contains("cargo install"))
        {
            let runner = Runner::new();
            runner.script("bin/cargo", CARGO);
            let more = [
                ("REPOSITORY", repository),
                ("PROGRAM", program),
                ("SOURCE", root),
            ];
            // The second time it is in the cache.
            for _ in 0..2 {
                let ended = runner.run(
                    &format!(
                        "{}\nexport PATH=~/.crawlmark/bin:$PATH\ncrawlmark -V",
                        body.text
                    ),
                    &workflow.variables,
                    &more,
                );
                assert_eq!(ended.code, Some(0), "{}: {}", body.job, ended.said);
                assert!(ended.said.starts_with("crawlmark "), "{}", ended.said);
            }
            assert_eq!(
                fs::read_to_string(runner.path("calls/cargo")).unwrap(),
                "x\n"
            );
            installed += 1;
        }
    }
    assert_eq!(installed, 4);
    let commits = |text: &str| -> Vec<String> {
        let is_own = |line: &&str| !line.contains("uses: ") || line.contains("uses: crawlmark/");
        let words = text
            .lines()
            .filter(is_own)
            .flat_map(|line| line.split(|c: char| !c.is_ascii_hexdigit()));
        words
            .filter(|word| word.len() == 40)
            .map(str::to_owned)
            .collect()
    };
    let mut all = [commits(GITHUB), commits(GITLAB), commits(WITH_ACTION)].concat();
    all.dedup();
    assert_eq!(all.len(), 1, "the recipes install one commit: {all:?}");
    let has_action = git(&["cat-file", "-e", &format!("{}:action.yml", all[0])])
        .unwrap()
        .status
        .success();
    assert!(
        has_action || !has_history,
        "{} has no action: name a commit that is kept, in all of results/ci",
        all[0]
    );
}

#[test]
fn what_is_cached_is_what_the_sources_of_the_action_make() {
    let (action, runner) = (action(), Runner::new());
    let source = runner.path("source");
    fs::create_dir(&source).unwrap();
    let key = |text: &str| {
        fs::write(source.join("main.rs"), text).unwrap();
        fs::write(runner.path("output"), "").unwrap();
        let more = [
            ("SOURCE", source.to_str().unwrap()),
            ("ImageOS", "ubuntu24"),
        ];
        let ended = runner.run(action.step("Identify crawlmark"), &action.variables, &more);
        assert_eq!(ended.code, Some(0), "{}", ended.said);
        fs::read_to_string(runner.path("output")).unwrap()
    };
    let first = key("one");
    assert!(
        first.starts_with("key=ubuntu24-") && first.trim_end().len() == "key=ubuntu24-".len() + 40,
        "{first}"
    );
    assert_eq!(key("one"), first);
    assert_ne!(key("other"), first);
}

#[test]
fn actions_of_others_are_commits_with_the_version_beside_them() {
    let ours = [".github/workflows/ci.yml", ".github/workflows/release.yml"]
        .map(|path| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap());
    let mut seen = 0;
    for text in ours
        .iter()
        .map(String::as_str)
        .chain([GITHUB, WITH_ACTION, ACTION])
    {
        for line in text
            .lines()
            .filter(|line| line.contains("uses: ") && !line.contains("uses: crawlmark/"))
        {
            let (commit, version) = line
                .split_once('@')
                .and_then(|(_, rest)| rest.split_once(" # v"))
                .unwrap_or_default();
            let is_commit =
                commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(is_commit && version.split('.').count() == 3, "{line}");
            seen += 1;
        }
    }
    assert!(seen > 15, "{seen}");
}

#[test]
fn the_action_compares_two_commits_of_a_repository() {
    let action = action();
    let runner = Runner::with_services(["5ms", "10ms"]);
    let line =
        "exec crawlmark serve --processes 1 --latency $(cat latency) --listen 127.0.0.1:{port}";
    let history = "rm -rf base candidate && git init -q . && git config user.name a && git config user.email a@b && for latency in 5ms 10ms; do \
        echo $latency > latency; git add latency; git commit -qm $latency; done";
    let set_up = runner.run(history, &BTreeMap::new(), &[]);
    assert_eq!(set_up.code, Some(0), "{}", set_up.said);
    let more = [
        ("START", line),
        ("BUILD", "cp latency built"),
        ("LOAD", "-n 256 -c 16 -s 1"),
    ];
    let built = runner.run(action.step("Build both commits"), &action.variables, &more);
    assert_eq!(built.code, Some(0), "{}", built.said);
    let ended = runner.run(action.step("Compare"), &action.variables, &more);
    let contest = fs::read_to_string(runner.path("work/comparison/comparison.json")).unwrap();
    if is_too_disturbed(&serde_json::from_str(&contest).unwrap()) {
        return;
    }
    assert_eq!(ended.code, Some(3), "{}", ended.said);
    assert_eq!(
        fs::read_to_string(runner.path("output")).unwrap(),
        "verdict=regression\ndirectory=comparison\n"
    );
    runner.script("bin/gh", "#!/bin/sh\nprintf '%s ' \"$@\" > ../calls/gh\n");
    let ended = runner.run(
        action.step("Comment"),
        &action.variables,
        &[("NUMBER", "7")],
    );
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    let told = fs::read_to_string(runner.path("calls/gh")).unwrap();
    assert_eq!(
        told,
        "pr comment 7 --edit-last --create-if-none --body-file comparison/summary.md "
    );
}

#[test]
fn the_action_reports_each_verdict_and_refuses_to_start_nothing() {
    let action = action();
    for (code, strict, ends, verdict) in [
        ("0", "false", 0, "pass"),
        ("3", "false", 3, "regression"),
        ("5", "false", 0, "inconclusive"),
        ("5", "true", 5, "inconclusive"),
        ("1", "false", 1, "error"),
    ] {
        let runner = Runner::with_stubs();
        let ended = runner.run(
            action.step("Compare"),
            &action.variables,
            &[("STUB_CODE", code), ("STRICT", strict)],
        );
        assert_eq!(ended.code, Some(ends), "{code}: {}", ended.said);
        let output = fs::read_to_string(runner.path("output")).unwrap();
        assert!(
            output.starts_with(&format!("verdict={verdict}\n")),
            "{output}"
        );
    }
    let ended = Runner::with_stubs().run(action.step("Build both commits"), &action.variables, &[]);
    assert!(
        ended.code == Some(2) && ended.said.contains("The input start is missing"),
        "{}",
        ended.said
    );
    let ended = Runner::with_stubs().run(action.step("Comment"), &action.variables, &[]);
    assert_eq!(
        (ended.code, ended.said.as_str()),
        (Some(0), "There is no comparison to comment on.\n")
    );
}

#[test]
fn the_recipe_of_the_action_sets_inputs_that_it_has() {
    let (action, recipe) = (load(ACTION), load(WITH_ACTION));
    let inputs: Vec<String> = entries(&action["inputs"]).map(|(name, _)| name).collect();
    let (mut set, mut jobs) = (Vec::new(), 0);
    for (job, what) in entries(&recipe["jobs"]) {
        jobs += 1;
        assert!(what["timeout-minutes"].as_integer().is_some(), "{job}");
        for step in what["steps"].as_sequence().unwrap() {
            if scalar(&step["uses"]).starts_with("crawlmark/") {
                set.extend(entries(&step["with"]).map(|(name, _)| name));
            }
        }
    }
    assert!(
        jobs == 2 && set.iter().all(|name| inputs.contains(name)),
        "{set:?} {inputs:?}"
    );
    // No text of a pull request is part of a script, and only the step that comments has a token.
    for step in action["runs"]["steps"].as_sequence().unwrap() {
        let Some(run) = step.as_mapping_get("run").map(scalar) else {
            continue;
        };
        assert!(!run.contains("${{"), "{run}");
        let has_token = step
            .as_mapping_get("env")
            .is_some_and(|env| scalars(env).values().any(|value| value.contains("token")));
        assert_eq!(has_token, scalar(&step["name"]) == "Comment");
    }
}
