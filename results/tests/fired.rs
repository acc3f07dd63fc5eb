//! Every finding of every study has fired, in studies as their own tests make them. Those of a
//! selftest fire in its own tests.

use std::collections::BTreeSet;

use crawlmark_results::studies::{StudyFinding, StudyResult};

/// Findings that only a selftest has.
const SELFTEST: [&str; 6] = [
    "Passed",
    "Failed",
    "Busy",
    "NotRun",
    "MeasurementError",
    "RowDisturbed",
];

fn kinds<S: StudyResult>(studies: &[S]) -> Vec<&'static str> {
    let shown = studies.iter().flat_map(StudyResult::shown);
    shown.map(|finding| finding.kind()).collect()
}

#[test]
fn every_finding_of_every_study_fires() {
    let mut seen: BTreeSet<&str> = SELFTEST.into_iter().collect();
    seen.extend(kinds(&crate::arena::with_findings()));
    seen.extend(kinds(&crate::bisect_truth::with_findings()));
    let searches = crate::capacity::with_findings();
    seen.extend(kinds(&searches));
    seen.extend(crate::capacity::reasons());
    seen.extend(kinds(&crate::contest::with_findings()));
    seen.extend(kinds(&crate::history::with_findings()));
    seen.extend(kinds(&crate::import::with_findings()));
    seen.extend(kinds(&crate::overload::with_findings()));
    seen.extend(kinds(&crate::scaling::with_findings()));
    seen.extend(kinds(&crate::scenarios::with_findings()));
    seen.extend(crate::scenarios::limits());
    let missing = StudyFinding::KINDS
        .iter()
        .filter(|kind| !seen.contains(*kind));
    assert_eq!(missing.collect::<Vec<_>>(), [&""; 0]);
}
