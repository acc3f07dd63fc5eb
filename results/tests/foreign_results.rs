//! Saved results that are damaged or made up: real ones, with values changed, are refused in one
//! line that names the field, or can be shown. The same laws as in `fuzz/`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop at the first surprise"
)]

use std::fs;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crawlmark_results::run::report::Report;
use crawlmark_results::run::result_dir::{RESULT, read};
use crawlmark_results::studies::compare::{
    Arm, Contest, ContestContext, RoundReport, Side, round_folder, run_metrics,
};
use crawlmark_results::studies::{Header, StudyResult};
use proptest::prelude::*;
use proptest::sample::Index;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn example() -> Value {
    serde_json::to_value(crate::saved()).unwrap()
}

/// Why a report with another value at `pointer` is refused.
#[track_caller]
fn refusal(pointer: &str, value: Value) -> String {
    let mut report = example();
    *report
        .pointer_mut(pointer)
        .unwrap_or_else(|| panic!("no {pointer}")) = value;
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join(RESULT), report.to_string()).unwrap();
    read(place.path()).unwrap_err().to_string()
}

/// A histogram that says that it has so many bytes, digits and a highest value.
fn claims(length: u32, digits: u32, highest: u64) -> Value {
    let mut header = 0x1c84_9313_u32.to_be_bytes().to_vec();
    header.extend(length.to_be_bytes());
    header.extend(0_u32.to_be_bytes());
    header.extend(digits.to_be_bytes());
    header.extend(1_u64.to_be_bytes());
    header.extend(highest.to_be_bytes());
    header.extend(1_f64.to_bits().to_be_bytes());
    header.extend([0; 8]);
    json!(STANDARD.encode(header))
}

#[test]
fn what_no_run_can_have_is_refused_by_its_name() {
    for (pointer, value, says) in [
        (
            "/totals/duration_s",
            json!(18_446_744_073_709_551_616.0),
            "`duration_s` is 1.8446744073709552e19",
        ),
        ("/totals/duration_s", json!(1e9), "`totals.duration_s`"),
        ("/totals/duration_s", json!(-1.0), "`totals.duration_s`"),
        (
            "/shards/0/totals/duration_s",
            json!(1e11),
            "`totals.duration_s`",
        ),
        (
            "/intervals/0/start_s",
            json!(100_000_000),
            "`intervals.start_s`",
        ),
        ("/plan/duration_us", json!(u64::MAX), "`duration_us`"),
        ("/plan/timeout_us", json!(u64::MAX), "`timeout_us`"),
        ("/plan/shards", json!(4_000_000_000_u32), "`plan.shards`"),
        ("/plan/ids", json!({"start": 0, "end": 0}), "`plan.ids`"),
        (
            "/totals/attempts",
            json!(u64::MAX),
            "`attempts` is 18446744073709551615, more than",
        ),
        (
            "/name",
            json!("x".repeat(100_000)),
            "`name` is a text of 100,000 bytes",
        ),
        (
            "/latency/service/hdr",
            claims(u32::MAX, 3, 1_000),
            "`latency.service.hdr` is not a histogram: its length",
        ),
        (
            "/latency/service/hdr",
            claims(8, 5, 1_000),
            "its bounds are none of this program's",
        ),
        (
            "/latency/service/hdr",
            claims(8, 3, u64::MAX),
            "its bounds are none of this program's",
        ),
        (
            "/latency/service/hdr",
            json!("?"),
            "`latency.service.hdr` is not base64",
        ),
    ] {
        let said = refusal(pointer, value);
        assert!(
            said.contains(says) && said.contains(RESULT) && !said.contains('\n'),
            "{pointer}: {said}"
        );
    }
}

/// Every place in a document.
fn places(value: &Value, above: &str, out: &mut Vec<String>) {
    out.push(above.to_owned());
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                places(
                    value,
                    &format!("{above}/{}", key.replace('~', "~0").replace('/', "~1")),
                    out,
                );
            }
        }
        // All of a list are alike.
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate().take(2) {
                places(value, &format!("{above}/{index}"), out);
            }
        }
        _ => {}
    }
}

fn extremes() -> Vec<Value> {
    let mut all = vec![
        json!(null),
        json!([]),
        json!({}),
        json!(""),
        json!("\u{0}\n<b>|"),
        json!(true),
        json!(0.5),
    ];
    all.extend(
        [
            0,
            1,
            u64::MAX,
            1 << 53,
            1 << 32,
            31_622_400,
            999_999_999_999,
        ]
        .map(|number| json!(number)),
    );
    all.extend([-1.0, 1e-300, 1e300, -1e300, 1e12, 31_622_400.0, 1e9].map(|number| json!(number)));
    all.extend([
        claims(8, 3, 2_000_000_000),
        claims(u32::MAX, 3, 1),
        json!("x".repeat(70_000)),
        json!("-1"),
    ]);
    all
}

/// A comparison of two pairs of rounds that went as the example, as it is saved.
fn comparison() -> Value {
    let report: Report = serde_json::from_value(example()).unwrap();
    let arms = [
        (1, Arm::Base),
        (1, Arm::Candidate),
        (2, Arm::Candidate),
        (2, Arm::Base),
    ];
    let round = |(pair, arm)| {
        RoundReport::new(
            &report,
            pair,
            arm,
            format!("rounds/{}", round_folder(pair, arm)),
        )
    };
    let side = |name: &str| Side {
        name: name.to_owned(),
        what: format!("--name {name}"),
    };
    let circumstances = ContestContext {
        header: Header::new::<Contest>("ab", [&*report.started_at, &report.finished_at]),
        base: side("base"),
        candidate: side("candidate"),
        differences: Vec::new(),
        noise_floor: None,
        not_profiled: None,
    };
    serde_json::to_value(
        Contest::new(&run_metrics(), arms.map(round).to_vec(), circumstances).unwrap(),
    )
    .unwrap()
}

/// The text of a document with other values in some places.
fn edited(mut whole: Value, changes: &[(Index, Index)]) -> String {
    let (mut all, extremes) = (Vec::new(), extremes());
    places(&whole, "", &mut all);
    for (place, value) in changes {
        if let Some(there) = whole.pointer_mut(&all[place.index(all.len())]) {
            *there = value.get(extremes.as_slice()).clone();
        }
    }
    whole.to_string()
}

/// Each count of a saved study in turn is beyond every list, and each list is empty: the study is
/// refused or shown.
fn check_each_value<S: StudyResult + DeserializeOwned>(study: &S) {
    let saved: Value = serde_json::from_str(&study.json().unwrap()).unwrap();
    let mut all = Vec::new();
    places(&saved, "", &mut all);
    for place in &all {
        let mut forged = saved.clone();
        let there = forged.pointer_mut(place).unwrap();
        *there = match there {
            Value::Number(number) if number.is_u64() => json!(900),
            Value::Array(_) => json!([]),
            _ => continue,
        };
        crate::laws::check_study::<S>(&forged.to_string());
    }
}

#[test]
fn no_forged_count_or_list_of_a_study_brings_it_down() {
    let bisects = crate::bisect_truth::with_findings();
    bisects[1..3].iter().for_each(check_each_value);
    check_each_value(&crate::arena::with_findings()[0]);
    check_each_value(&crate::overload::with_findings()[0]);
    check_each_value(&crate::scaling::with_findings()[0]);
    check_each_value(&crate::scenarios::with_findings()[0]);
    check_each_value(&crate::history::with_findings()[0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_changed_value_of_a_comparison_brings_it_down(
        changes in prop::collection::vec((any::<Index>(), any::<Index>()), 1..4),
    ) {
        crate::laws::check(edited(comparison(), &changes).as_bytes());
    }

    #[test]
    fn no_changed_value_of_a_result_brings_it_down(
        changes in prop::collection::vec((any::<Index>(), any::<Index>()), 1..4),
    ) {
        crate::laws::check(edited(example(), &changes).as_bytes());
    }

    #[test]
    fn no_bytes_bring_a_reader_down(
        at in any::<Index>(), cut in any::<Index>(), junk in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let whole = example().to_string();
        let mut damaged = whole.as_bytes()[..at.index(whole.len())].to_vec();
        damaged.extend(&junk);
        damaged.extend(&whole.as_bytes()[cut.index(whole.len())..]);
        crate::laws::check(&damaged);
        crate::laws::check(&junk);
    }
}
