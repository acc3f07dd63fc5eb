//! GitHub Actions: the first finding as an annotation, and the summary of a job.

use std::env;
use std::fs::OpenOptions;
use std::io::{self, Write};

use super::print::{is_workflow, say};
use crate::crawl::redact;

/// File to which the Markdown of a job's summary is appended.
const SUMMARY: &str = "GITHUB_STEP_SUMMARY";

/// In a workflow of GitHub, repeat a finding as an annotation, and add Markdown to the summary of the
/// job; nothing elsewhere.
pub(crate) fn announce(finding: Option<&str>, markdown: &str) {
    if !is_workflow() {
        return;
    }
    if let Some(finding) = finding {
        // Standard error may be closed.
        let _ = io::stderr().write_all(annotation(finding).as_bytes());
    }
    let Some(path) = env::var_os(SUMMARY).filter(|path| !path.is_empty()) else {
        return;
    };
    let file = OpenOptions::new().append(true).create(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(markdown.as_bytes()));
    if let Err(error) = written {
        say(&format!(
            "warning: the summary of the job is not written: {error}\n"
        ));
    }
}

/// The command that makes an annotation. The runner reads `%`, and obeys each line.
fn annotation(finding: &str) -> String {
    let data = redact::text(finding)
        .replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A");
    format!("::warning title=crawlmark::{data}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_annotation_is_one_line_whatever_the_finding() {
        assert_eq!(
            annotation("40 % throttled\n::error::x\r"),
            "::warning title=crawlmark::40 %25 throttled%0A::error::x%0D\n"
        );
    }
}
