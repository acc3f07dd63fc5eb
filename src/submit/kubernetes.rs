//! Manifests of Kubernetes: the plan, an Indexed Job with a pod for each part, and a suspended Job
//! that merges.
//!
//! The text is that of the files in `results/cluster/kubernetes/`, with the values of a plan in the
//! lines that end with `# <name>`.

use std::fmt::Write;
use std::path::{Component, Path};

use crawlmark_results::run::parts::scheduler;

use super::Submission;
use crate::error::Error;

const JOB: &str = scheduler::KUBERNETES_PARTS;
const MERGE: &str = scheduler::KUBERNETES_MERGE;

/// Place of the volume in a pod.
const DATA: &str = "/data";

/// Largest object of a cluster is 1 MiB, of which names and labels need some.
const LARGEST_PLAN: usize = 1_000_000;

/// Return the manifests.
pub(super) fn manifests(submission: &Submission<'_>) -> Result<String, Error> {
    let Submission {
        args,
        plan,
        text,
        flags,
    } = submission;
    if text.len() > LARGEST_PLAN {
        return Err(Error::Usage(format!(
            "{}: it has {} bytes, and a ConfigMap holds {LARGEST_PLAN}. Put it on the claim, and use results/cluster/kubernetes",
            args.plan.display(),
            text.len()
        )));
    }
    let into = format!("{DATA}/{}", within_claim(&args.into)?);
    let run = [
        "run",
        "--plan",
        "/plan/plan.json",
        "--node",
        "auto",
        "--into",
        &into,
        "--no-progress",
    ];
    let run: Vec<&str> = run
        .into_iter()
        .chain(flags.iter().map(String::as_str))
        .collect();
    let merge = ["merge", &into, "--out", &format!("{into}/merged")];
    let (name, merge_name, plan_name) = (
        &args.name,
        format!("{}-merge", args.name),
        format!("{}-plan", args.name),
    );
    let value = |key: &str| {
        Some(match key {
            "name" => quoted(name),
            "merge" => quoted(&merge_name),
            "plan" => quoted(&plan_name),
            "claim" => quoted(&args.claim),
            "image" => quoted(args.image.as_deref().unwrap_or_default()),
            "parts" => plan.nodes.to_string(),
            "slots" => plan.slots.to_string(),
            "cpus" => args.cpus.to_string(),
            "memory" => quoted(&args.memory),
            "run" => sequence(&run),
            "merge-args" => sequence(&merge),
            _ => return None,
        })
    };
    let head = format!(
        "# Checked against the schema of Kubernetes; not run on a cluster by the authors of crawlmark. Needs the claim {claim}, which many nodes can\n\
         # write to (ReadWriteMany). Environment variables that flags name go into a Secret {name}.\n\
         #\n\
         #     kubectl apply -f FILE\n\
         #     kubectl get job {name} --watch\n\
         #     kubectl patch job {merge_name} --patch '{{\"spec\":{{\"suspend\":false}}}}'\n",
        claim = args.claim
    );
    let config = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {}\nimmutable: true\ndata:\n  plan.json: {}\n",
        quoted(&plan_name),
        quoted(text)
    );
    Ok(format!(
        "{head}{config}---\n{}---\n{}",
        filled(JOB, value),
        filled(MERGE, value)
    ))
}

/// Return the path within the claim's volume.
fn within_claim(into: &Path) -> Result<&str, Error> {
    let is_within = into
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    into.to_str().filter(|text| is_within && !text.is_empty()).ok_or_else(|| {
        Error::Usage(format!(
            "--into {}: for kubernetes, it is a directory of the claim's volume: give a relative path, as in --into july",
            into.display()
        ))
    })
}

/// Return a manifest without the comment at its start, and with the values of the lines that end
/// with `# <key>`.
fn filled(manifest: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let line = |line: &str| {
        let marked = || {
            let (text, key) = line.strip_suffix('>')?.rsplit_once(" # <")?;
            let (name, _) = text.split_once(": ")?;
            Some(format!("{name}: {}\n", value(key)?))
        };
        marked().unwrap_or_else(|| format!("{line}\n"))
    };
    manifest
        .lines()
        .skip_while(|line| line.starts_with('#'))
        .map(line)
        .collect()
}

/// A text as a double-quoted scalar, which in YAML is one of JSON without characters that do not
/// print.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted += "\\n",
            ' '..='~' => quoted.push(c),
            _ => {
                let _ = write!(quoted, "\\U{:08x}", u32::from(c));
            }
        }
    }
    quoted + "\""
}

fn sequence(words: &[&str]) -> String {
    format!(
        "[{}]",
        words
            .iter()
            .map(|word| quoted(word))
            .collect::<Vec<_>>()
            .join(", ")
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use saphyr::{LoadableYamlNode, Yaml};

    use super::*;

    #[test]
    fn every_marked_line_has_a_value() {
        let keys = |text: &str| text.matches("# <").count();
        for (manifest, marked) in [(JOB, 12), (MERGE, 6)] {
            let manifest = manifest
                .lines()
                .skip_while(|line| line.starts_with('#'))
                .collect::<Vec<_>>()
                .join("\n");
            assert_eq!(keys(&manifest), marked);
            assert_eq!(keys(&filled(&manifest, |_| Some("1".to_owned()))), 0);
        }
    }

    #[test]
    fn a_path_stays_on_the_claim() {
        assert_eq!(within_claim(Path::new("a/b")).unwrap(), "a/b");
        for path in ["/a", "../a", "a/../b", "", "."] {
            assert!(within_claim(Path::new(path)).is_err(), "{path}");
        }
    }

    proptest! {
        #[test]
        fn a_quoted_text_is_read_as_it_was(text in any::<String>()) {
            let line = quoted(&text);
            let read = Yaml::load_from_str(&line).unwrap();
            prop_assert_eq!(read[0].as_str(), Some(text.as_str()), "{}", line);
        }
    }
}
