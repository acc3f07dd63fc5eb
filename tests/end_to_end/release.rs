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

/// Run a step of the workflow, by its name, with this tag and this change log: true if it succeeds,
/// and the notes that it writes.
fn run_step(name: &str, tag: &str, changelog: &str) -> (bool, String) {
    let text = fs::read_to_string(Path::new(ROOT).join(".github/workflows/release.yml")).unwrap();
    let workflow = Yaml::load_from_str(&text).unwrap().remove(0);
    let jobs = workflow["jobs"].as_mapping().unwrap().values();
    let mut steps = jobs.flat_map(|job| job["steps"].as_sequence().unwrap());
    let is_it = |step: &&Yaml| step.as_mapping_get("name").and_then(Yaml::as_str) == Some(name);
    let script = steps.find(is_it).unwrap()["run"].as_str().unwrap();
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("CHANGELOG.md"), changelog).unwrap();
    let manifest = Path::new(ROOT).join("Cargo.toml");
    fs::copy(manifest, place.path().join("Cargo.toml")).unwrap();
    let mut shell = Command::new("bash");
    shell
        .args(["-eo", "pipefail", "-c", script])
        .current_dir(place.path());
    let output = shell.env("GITHUB_REF_NAME", tag).output().unwrap();
    let notes = fs::read_to_string(place.path().join("notes.md")).unwrap_or_default();
    (output.status.success(), notes)
}

#[test]
fn the_notes_of_a_release_are_its_section_of_the_changelog() {
    let changelog = "# Changelog\n\n## [Unreleased]\n\n- next\n\n## [1.2.0] - 2026-12-01\n\n- this\n\n\
                     ## [1.2] - 2026-11-01\n\n- before\n";
    for (tag, has_section, notes) in [
        ("v1.2.0", true, "\n- this\n\n"),
        ("v1.2", true, "\n- before\n"),
        ("v9.9.9", false, ""),
    ] {
        let written = run_step("Take the notes from the changelog", tag, changelog);
        assert_eq!(written, (has_section, notes.to_owned()), "{tag}");
    }
}

#[test]
fn a_release_is_refused_unless_tag_version_and_changelog_agree() {
    let tag = format!("v{VERSION}");
    for (tag, section, passes) in [
        (tag.as_str(), format!("## {VERSION} - 2026-12-01\n"), true),
        (&tag, format!("## [{VERSION}] - 2026-12-01\n"), true),
        (&tag, "## Unreleased\n".to_owned(), false),
        ("v9.9.9", format!("## {VERSION}\n"), false),
    ] {
        let changelog = format!("# Changelog\n\n{section}");
        let (passed, _) = run_step("Check the tag", tag, &changelog);
        assert_eq!(passed, passes, "{tag} {section}");
    }
}
