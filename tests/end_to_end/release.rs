//! Parts of a release: the archive of a program, the names that installers look for, and the steps
//! of the workflows.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use saphyr::{LoadableYamlNode, Yaml};
use toml::Table;

use crate::command::program;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const VERSION: &str = env!("CARGO_PKG_VERSION");
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];

fn script(name: &str, arguments: &[&str], archives: &Path) -> Output {
    let mut script = Command::new(Path::new(ROOT).join(".ci").join(name));
    let output = script
        .args(arguments)
        .current_dir(ROOT)
        .env("ARCHIVES", archives)
        .output()
        .unwrap();
    assert!(output.status.success(), "{name}: {output:?}");
    output
}

/// Packs a stand-in for the program of each target.
fn packed(archives: &Path) {
    let stand_in = archives.join("stand-in");
    fs::write(&stand_in, "a program of another machine").unwrap();
    for target in TARGETS {
        script(
            "archive",
            &[
                stand_in.to_str().unwrap(),
                target,
                program().to_str().unwrap(),
            ],
            archives,
        );
    }
}

/// Files of an archive.
fn files(archive: &Path) -> Vec<String> {
    let listed = Command::new("tar")
        .arg("-tzf")
        .arg(archive)
        .output()
        .unwrap();
    assert!(listed.status.success(), "{listed:?}");
    String::from_utf8(listed.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

/// The manifest's table for a tool.
fn metadata(tool: &str) -> Table {
    let manifest: Table = fs::read_to_string(Path::new(ROOT).join("Cargo.toml"))
        .unwrap()
        .parse()
        .unwrap();
    manifest["package"]["metadata"][tool]
        .as_table()
        .unwrap()
        .clone()
}

#[test]
fn an_archive_holds_what_installers_look_for() {
    let place = tempfile::tempdir().unwrap();
    packed(place.path());
    let binstall = metadata("binstall");
    for target in TARGETS {
        let fill = |key: &str| {
            let text = binstall[key]
                .as_str()
                .unwrap()
                .replace("{ version }", VERSION)
                .replace("{ target }", target);
            text.replace("{ bin }", "crawlmark")
        };
        let url = fill("pkg-url");
        let archive = place.path().join(url.rsplit('/').next().unwrap());
        let held = files(&archive);
        assert!(held.contains(&fill("bin-dir")), "{held:?}");
        let folder = format!("crawlmark-{VERSION}-{target}");
        for file in [
            "completions/_crawlmark",
            "completions/crawlmark.bash",
            "completions/crawlmark.fish",
            "man/crawlmark.1",
            "man/crawlmark-run.1",
        ] {
            assert!(
                held.contains(&format!("{folder}/{file}")),
                "{file}: {held:?}"
            );
        }
        for file in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            assert!(
                held.contains(&format!("{folder}/{file}")),
                "{file}: {held:?}"
            );
        }
    }
    let checked = Command::new("sh")
        .args(["-c", "sha256sum -c ./*.sha256"])
        .current_dir(place.path())
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}");
    // The same bytes again.
    let again = tempfile::tempdir().unwrap();
    packed(again.path());
    let sum = |place: &Path| {
        fs::read(place.join(format!("crawlmark-{VERSION}-{}.tar.gz", TARGETS[0]))).unwrap()
    };
    assert!(sum(place.path()) == sum(again.path()));
    // The Debian package, where this machine can make and read one.
    let listed = Command::new("dpkg-deb")
        .arg("--contents")
        .arg(
            place
                .path()
                .join(format!("crawlmark_{VERSION}-1_amd64.deb")),
        )
        .output();
    let Ok(listed) = listed else {
        return println!("skipped: there is no dpkg-deb");
    };
    let listed = String::from_utf8(listed.stdout).unwrap();
    for file in [
        "usr/bin/crawlmark",
        "usr/share/bash-completion/completions/crawlmark",
        "usr/share/zsh/vendor-completions/_crawlmark",
        "usr/share/fish/vendor_completions.d/crawlmark.fish",
        "usr/share/man/man1/crawlmark-run.1.gz",
        "usr/share/doc/crawlmark/copyright",
    ] {
        let is_there =
            |line: &str| line.ends_with(&format!(" ./{file}")) && line.contains(" root/root ");
        assert!(listed.lines().any(is_there), "{file}: {listed}");
    }
}

#[test]
fn the_formula_has_the_sums_of_both_archives() {
    let place = tempfile::tempdir().unwrap();
    packed(place.path());
    let formula = script(
        "formula",
        &[place.path().to_str().unwrap(), VERSION],
        place.path(),
    );
    let formula = String::from_utf8(formula.stdout).unwrap();
    assert!(!formula.contains('@'), "{formula}");
    for target in TARGETS {
        let archive = format!("crawlmark-{VERSION}-{target}.tar.gz");
        let sum = fs::read_to_string(place.path().join(format!("{archive}.sha256"))).unwrap();
        let sum = sum.split(' ').next().unwrap();
        assert!(
            sum.len() == 64 && formula.contains(&format!("{archive}\"\n    sha256 \"{sum}\"")),
            "{target}: {formula}"
        );
    }
}

/// A repository that holds what `.ci/release` reads, with this change log.
struct Sources(tempfile::TempDir);

impl Sources {
    fn new(changelog: &str) -> Self {
        let sources = Self(tempfile::tempdir().unwrap());
        let cluster = "results/cluster/kubernetes";
        for folder in [".ci", cluster] {
            fs::create_dir_all(sources.0.path().join(folder)).unwrap();
        }
        for file in [
            ".ci/release",
            "Cargo.toml",
            "Cargo.lock",
            "results/cluster/kubernetes/job.yaml",
            "results/cluster/kubernetes/kustomization.yaml",
        ] {
            fs::copy(Path::new(ROOT).join(file), sources.0.path().join(file)).unwrap();
        }
        sources.write("CHANGELOG.md", changelog);
        sources.git(&["init", "--quiet"]);
        sources.commit();
        sources
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.0.path().join(file), text).unwrap();
    }

    /// Replace a text of a file that is there.
    fn replace(&self, file: &str, old: &str, new: &str) {
        let text = fs::read_to_string(self.0.path().join(file)).unwrap();
        assert!(text.contains(old), "{file}: {old}");
        self.write(file, &text.replace(old, new));
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=test", "-c", "user.email=test@localhost"]);
        let output = git.args(arguments).current_dir(&self.0).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", "change"]);
    }

    /// Run the script: true if it succeeds, and what it prints.
    fn release(&self, arguments: &[&str]) -> (bool, String) {
        let mut script = Command::new(self.0.path().join(".ci/release"));
        for (variable, value) in [("NAME", "test"), ("EMAIL", "test@localhost")] {
            script.env(format!("GIT_COMMITTER_{variable}"), value);
        }
        let output = script.args(arguments).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        (output.status.success(), printed)
    }
}

/// A change log with this section of the version.
fn changelog(heading: &str, unreleased: &str) -> String {
    format!(
        "# Changelog\n\n## [Unreleased]\n{unreleased}\n{heading}\n\n- [this](docs/src/a.md)\n\n\
         ## [0.0.1] - 2026-01-01\n\n- before\n\n[0.0.1]: https://example.com\n"
    )
}

/// Heading of the section of this version.
fn dated() -> String {
    format!("## [{VERSION}] - 2026-12-01")
}

#[test]
fn the_notes_of_a_release_are_its_section_of_the_changelog() {
    let (is_there, notes) = Sources::new(&changelog(&dated(), "\n- next\n")).release(&["notes"]);
    let link = format!("https://github.com/crawlmark/crawlmark/blob/v{VERSION}/docs/src/a.md");
    assert_eq!(notes.trim_end(), format!("- [this]({link})"));
    assert!(is_there && !notes.starts_with('\n'));
    let (is_there, _) = Sources::new("# Changelog\n").release(&["notes"]);
    assert!(!is_there);
}

#[test]
fn a_release_is_refused_unless_tag_versions_and_changelog_agree() {
    let tag = format!("v{VERSION}");
    for (tag, heading, passes) in [
        (tag.as_str(), dated(), true),
        (&tag, format!("## {VERSION} - 2026-12-01"), true),
        (&tag, format!("## {VERSION}"), false),
        (&tag, "## [9.9.9] - 2026-12-01".to_owned(), false),
        ("v9.9.9", dated(), false),
    ] {
        let (passed, _) = Sources::new(&changelog(&heading, "")).release(&["check", tag]);
        assert_eq!(passed, passes, "{tag} {heading}");
    }
    let is_there = format!("version = \"{VERSION}\"");
    let in_lock = format!("name = \"crawlmark\"\n{is_there}");
    for (file, old, new) in [
        (
            "Cargo.toml",
            &*format!("path = \"results\", {is_there}"),
            "path = \"results\", version = \"9.9.9\"",
        ),
        (
            "Cargo.lock",
            &in_lock,
            "name = \"crawlmark\"\nversion = \"9.9.9\"",
        ),
        (
            "results/cluster/kubernetes/job.yaml",
            &format!("crawlmark:{VERSION}"),
            "crawlmark:latest",
        ),
        (
            "results/cluster/kubernetes/kustomization.yaml",
            &format!("newTag: \"{VERSION}\""),
            "newTag: latest",
        ),
    ] {
        let sources = Sources::new(&changelog(&dated(), ""));
        sources.replace(file, old, new);
        assert!(!sources.release(&["check"]).0, "{file}");
    }
}

#[test]
fn a_clean_tree_is_tagged_once_with_its_notes() {
    let tag = format!("v{VERSION}");
    let sources = Sources::new(&changelog(&dated(), "\n- next\n"));
    assert!(!sources.release(&["tag"]).0, "something is unreleased");
    sources.write("CHANGELOG.md", &changelog(&dated(), ""));
    assert!(!sources.release(&["tag"]).0, "not committed");
    assert_eq!(sources.git(&["tag"]), "");
    sources.commit();
    assert!(sources.release(&["tag"]).0);
    let message = sources.git(&["tag", "--list", "--format=%(contents)", &tag]);
    assert!(
        message.starts_with(&format!("crawlmark {VERSION}\n\n- [this](https://")),
        "{message}"
    );
    assert_eq!(sources.git(&["cat-file", "-t", &tag]), "tag\n");
    assert!(!sources.release(&["tag"]).0, "a second time");
}

#[test]
fn the_workflow_checks_and_describes_a_release_as_this_script_does() {
    let text = fs::read_to_string(Path::new(ROOT).join(".github/workflows/release.yml")).unwrap();
    let workflow = Yaml::load_from_str(&text).unwrap().remove(0);
    let jobs = workflow["jobs"].as_mapping().unwrap().values();
    let mut runs = jobs
        .flat_map(|job| job["steps"].as_sequence().unwrap())
        .filter_map(|step| step.as_mapping_get("run").and_then(Yaml::as_str));
    assert!(runs.any(|run| run.contains(".ci/release check \"$GITHUB_REF_NAME\"")));
    assert!(runs.any(|run| run.contains(".ci/release notes > notes.md")));
}
