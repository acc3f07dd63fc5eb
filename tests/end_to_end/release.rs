//! Parts of a release: the archive of a program, the names that installers look for, and the steps
//! of the workflows.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use saphyr::{LoadableYamlNode, Yaml};
use toml::Table;

use crate::run::program;

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
    // What the Debian package is made of.
    for asset in metadata("deb")["assets"].as_array().unwrap() {
        let path = asset[0].as_str().unwrap();
        let held = match path.strip_prefix("target/archive/") {
            Some(made) => place.path().join(made),
            None => Path::new(ROOT).join(path),
        };
        let (folder, name) = (
            held.parent().unwrap(),
            held.file_name().unwrap().to_str().unwrap(),
        );
        let fits = |found: &str| {
            name.strip_prefix('*')
                .map_or(found == name, |end| found.ends_with(end))
        };
        let found = fs::read_dir(folder)
            .unwrap()
            .any(|entry| fits(entry.unwrap().file_name().to_str().unwrap()));
        assert!(found, "{path}");
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

fn workflow(name: &str) -> (String, Yaml<'static>) {
    let text = fs::read_to_string(Path::new(ROOT).join(".github/workflows").join(name)).unwrap();
    let yaml = Yaml::load_from_str(Box::leak(text.clone().into_boxed_str()))
        .unwrap()
        .remove(0);
    (text, yaml)
}

/// Every step of a workflow, with its job.
fn steps<'a>(
    workflow: &'a Yaml<'static>,
) -> impl Iterator<Item = (&'a Yaml<'static>, &'a Yaml<'static>)> {
    let jobs = workflow["jobs"]
        .as_mapping()
        .unwrap()
        .iter()
        .map(|(_, job)| job);
    jobs.flat_map(|job| {
        job["steps"]
            .as_sequence()
            .unwrap()
            .iter()
            .map(move |step| (job, step))
    })
}

/// The script of a step, by its name.
fn step<'a>(workflow: &'a Yaml<'static>, name: &str) -> &'a str {
    let is_it = |(_, step): &(_, &Yaml<'static>)| {
        step.as_mapping_get("name").and_then(Yaml::as_str) == Some(name)
    };
    steps(workflow).find(is_it).unwrap().1["run"]
        .as_str()
        .unwrap()
}

#[test]
fn the_notes_of_a_release_are_its_section_of_the_changelog() {
    let (_, workflow) = workflow("release.yml");
    let notes = step(&workflow, "Take the notes from the changelog");
    let place = tempfile::tempdir().unwrap();
    let changelog = "# Changelog\n\n## [Unreleased]\n\n- next\n\n## [1.2.0] - 2026-12-01\n\n### Added\n\n- this\n\n## [1.2] - 2026-11-01\n\n- before\n";
    fs::write(place.path().join("CHANGELOG.md"), changelog).unwrap();
    for (tag, expected) in [
        ("v1.2.0", Some("\n### Added\n\n- this\n\n")),
        ("v1.2", Some("\n- before\n")),
        ("v9.9.9", None),
    ] {
        let mut shell = Command::new("bash");
        shell
            .args(["-eo", "pipefail", "-c", notes])
            .env("GITHUB_REF_NAME", tag)
            .current_dir(place.path());
        assert_eq!(
            shell.output().unwrap().status.success(),
            expected.is_some(),
            "{tag}"
        );
        let written = fs::read_to_string(place.path().join("notes.md")).unwrap();
        assert_eq!(written, expected.unwrap_or_default(), "{tag}");
    }
}

#[test]
fn a_release_is_refused_unless_tag_version_and_changelog_agree() {
    let (_, workflow) = workflow("release.yml");
    let check = step(&workflow, "Check the tag");
    let place = tempfile::tempdir().unwrap();
    fs::copy(
        Path::new(ROOT).join("Cargo.toml"),
        place.path().join("Cargo.toml"),
    )
    .unwrap();
    let tag = format!("v{VERSION}");
    for (tag, section, passes) in [
        (tag.as_str(), format!("## {VERSION} - 2026-12-01\n"), true),
        (&tag, format!("## [{VERSION}] - 2026-12-01\n"), true),
        (&tag, "## Unreleased\n".to_owned(), false),
        ("v9.9.9", format!("## {VERSION}\n"), false),
    ] {
        fs::write(
            place.path().join("CHANGELOG.md"),
            format!("# Changelog\n\n{section}"),
        )
        .unwrap();
        let mut shell = Command::new("bash");
        shell
            .args(["-eo", "pipefail", "-c", check])
            .env("GITHUB_REF_NAME", tag)
            .current_dir(place.path());
        assert_eq!(
            shell.output().unwrap().status.success(),
            passes,
            "{tag} {section}"
        );
    }
}
