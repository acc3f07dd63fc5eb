//! Every finding of every study has fired, in studies as their own tests make them.

use std::collections::BTreeSet;

use crawlmark_harness::fixtures::kinds;
use crawlmark_results::studies::{CommonFinding, FoundBy, StudyResult};
use serde::de::Deserialize;

/// What studies have shown, and what they have not.
#[derive(Default)]
struct Marks {
    /// Findings that any study may have.
    common: BTreeSet<String>,
    missing: Vec<String>,
}

impl Marks {
    /// Look at studies that have all findings of their kind.
    fn see<S: StudyResult>(&mut self, studies: &[S])
    where
        S::Finding: Deserialize<'static>,
    {
        let mut own = BTreeSet::new();
        for finding in studies.iter().flat_map(StudyResult::shown) {
            let json = serde_json::to_value(&finding.what).unwrap_or_default();
            let kind = json["kind"].as_str().unwrap_or_default().to_owned();
            match finding.what {
                FoundBy::Study(_) => own.insert(kind),
                FoundBy::Rounds(_) => self.common.insert(kind),
            };
        }
        self.miss::<S::Finding>(S::SCHEMA, &own);
    }

    fn miss<F: Deserialize<'static>>(&mut self, of: &str, seen: &BTreeSet<String>) {
        let missing = kinds::<F>().iter().filter(|kind| !seen.contains(**kind));
        self.missing
            .extend(missing.map(|kind| format!("{of}: {kind}")));
    }
}

#[test]
fn every_finding_of_every_study_fires() {
    let mut marks = Marks::default();
    marks.see(&crate::capacity::with_findings());
    marks.see(&crate::contest::with_findings());
    marks.see(&crate::history::with_findings());
    marks.see(&crate::import::with_findings());
    marks.see(&crate::scaling::with_findings());
    marks.see(&crate::scenarios::with_findings());
    let common = std::mem::take(&mut marks.common);
    marks.miss::<CommonFinding>("any study", &common);
    assert_eq!(marks.missing, [""; 0]);
}
