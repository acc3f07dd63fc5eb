//! Parser of conditions. Every error says what is wrong and what would be right.
//!
//! ```text
//! condition = metric [ "{" group "}" | "[" seconds "]" ] op limit
//! metric    = series "_" stat | quantity          stat = p50 | p99.9 | p(99.9) | min | mean | max
//! op        = "<" | "<=" | ">" | ">=" | "==" | "!="
//! limit     = number with us, ms, s, m or h | number or number% | number with k or m, and /s | true | false
//! ```

use std::str::FromStr;

use super::{Condition, Metric, Op, Unit, Window};
use crawlmark_harness::units::nearest;

/// A text that is no condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}`: {fault}")]
pub struct ConditionError {
    /// The text.
    pub text: String,
    /// What is wrong in it, and what would be right.
    pub fault: String,
}

impl FromStr for Condition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        parse(text).map_err(|fault| ConditionError {
            text: text.to_owned(),
            fault,
        })
    }
}

fn parse(text: &str) -> Result<Condition, String> {
    // A group may have any sign in its name, and braces.
    let group_end = text.find('{').and(text.rfind('}')).map_or(0, |end| end + 1);
    let start = text[group_end..].find(is_comparison);
    let (left, rest) = text.split_at(start.map_or(text.len(), |start| group_end + start));
    let right = rest.trim_start_matches(is_comparison);
    let (left, group) = group(left.trim())?;
    let (metric, window) = metric(left)?;
    if let Some(group) = &group {
        fits_group(metric, group)?;
        if window.is_some() {
            return Err("groups are counted over the whole run, and have no windows".to_owned());
        }
    }
    let unit = metric.unit();
    let op = op(&rest[..rest.len() - right.len()], unit)?;
    Ok(Condition {
        metric,
        group,
        window,
        op,
        limit: limit(right.trim(), unit)?,
    })
}

fn is_comparison(c: char) -> bool {
    "<>=!≤≥≠~".contains(c)
}

/// Split off a group: `service_p99{/items/{id}}`.
fn group(text: &str) -> Result<(&str, Option<String>), String> {
    let Some((name, rest)) = text.split_once('{') else {
        return Ok((text, None));
    };
    let Some(group) = rest.strip_suffix('}') else {
        return Err(format!(
            "end the group with a brace, as in {name}{{/items/{{id}}}} < 5"
        ));
    };
    Ok((name.trim_end(), Some(group.trim().to_owned())))
}

/// Refuse a metric that is not counted by group.
fn fits_group(metric: Metric, group: &str) -> Result<(), String> {
    if group.is_empty() {
        return Err(
            "name a URL template, a host, a source address or a stage (stage=2) between the braces"
                .to_owned(),
        );
    }
    if metric.is_of_group() {
        return Ok(());
    }
    Err(format!(
        "`{metric}` is not counted by template, host or stage: use service_p50, service_p99, in an open loop response_p50, response_p99, \
         error_rate, throttled_rate, goodput (of stages), goodput_share, attempts, ok, not_found, throttled or errors"
    ))
}

fn metric(text: &str) -> Result<(Metric, Option<Window>), String> {
    let (name, window) = match text.split_once('[') {
        Some((name, window)) => (name.trim_end(), Some(window)),
        None => (text, None),
    };
    if name.is_empty() {
        return Err("write a metric first, as in service_p99 < 250ms".to_owned());
    }
    let metric = Metric::named(name)
        .ok_or_else(|| format!("there is no metric `{name}`; {}", hint(name)))?;
    if window.is_some() && !metric.is_live() {
        return Err(format!(
            "`{metric}` is known only when the run is over, and has no window"
        ));
    }
    Ok((metric, window.map(read_window).transpose()?))
}

/// `10s]` as ten seconds.
fn read_window(text: &str) -> Result<Window, String> {
    let inside = text.strip_suffix(']').map_or("", str::trim);
    let seconds = match inside {
        "1m" => Some(60),
        _ => inside.strip_suffix('s').and_then(|n| n.parse().ok()),
    };
    seconds.and_then(Window::new).ok_or_else(|| {
        let text = text.trim_end_matches(']');
        format!("`{text}` is not a valid window: write whole seconds, [1s] to [60s]")
    })
}

fn op(text: &str, unit: Unit) -> Result<Op, String> {
    let ops = if unit == Unit::Flag {
        &Op::ALL[4..]
    } else {
        &Op::ALL[..]
    };
    ops.iter()
        .find(|op| op.name() == text)
        .copied()
        .ok_or_else(|| {
            let names: Vec<&str> = ops.iter().map(|op| op.name()).collect();
            format!(
                "write one of {} after the metric, not `{text}`",
                names.join(" ")
            )
        })
}

/// Return advice on how to write a value of this unit.
const fn right(unit: Unit) -> &'static str {
    match unit {
        Unit::Us => "write a time, as in 250ms",
        Unit::PerS => "write a number per second, as in 9500, 9.5k or 9500/s",
        Unit::Share => "write a share of 0% to 100%, or below 1, as in 1% or 0.01",
        Unit::Count => "write a whole number, as in 100 or 10k",
        Unit::Flag => "write true or false",
    }
}

/// Say that a time has no unit.
pub fn no_unit(text: &str) -> String {
    format!("`{text}` has no unit: write {text}ms, or µs, s, m or h")
}

fn limit(text: &str, unit: Unit) -> Result<f64, String> {
    let bad = || {
        let right = right(unit);
        format!("`{text}` is not a valid limit for this metric: {right}")
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '_'));
    let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
    let (number, suffix) = (number.replace('_', ""), suffix.trim_start());
    let of = |exponent: i32| scaled(&number, exponent).ok_or_else(bad);
    let thousands = |suffix| match suffix {
        "" => of(0),
        "k" | "K" => of(3),
        "m" | "M" => of(6),
        _ => Err(bad()),
    };
    match (unit, suffix) {
        (Unit::Flag, "true") if number.is_empty() => Ok(1.0),
        (Unit::Flag, "false") if number.is_empty() => Ok(0.0),
        (Unit::Us, "us" | "µs" | "μs") => of(0),
        (Unit::Us, "ms") => of(3),
        (Unit::Us, "s") => of(6),
        (Unit::Us, "m") => Ok(of(6)? * 60.0),
        (Unit::Us, "h") => Ok(of(6)? * 3_600.0),
        (Unit::Us, "") if of(0)? > 0.0 => Err(no_unit(text)),
        (Unit::Us, "") => Ok(0.0),
        (Unit::Share, "%") => Some(of(-2)?).filter(|part| *part <= 1.0).ok_or_else(bad),
        (Unit::Share, "") => match of(0)? {
            part if part < 1.0 => Ok(part),
            part if part < 100.0 => {
                Err(format!("`{text}` has no %: write {text}%, or 100% for all"))
            }
            _ => Err(bad()),
        },
        (Unit::PerS, suffix) => thousands(suffix.strip_suffix("/s").unwrap_or(suffix).trim_end()),
        (Unit::Count, suffix) => Some(thousands(suffix)?)
            .filter(|count| count.fract() == 0.0)
            .ok_or_else(bad),
        _ => Err(bad()),
    }
}

/// A decimal number times a power of ten, rounded once; none beyond what a result could hold
/// exactly.
fn scaled(number: &str, exponent: i32) -> Option<f64> {
    const GREATEST: f64 = 9e15;
    let digits = number.starts_with(|c: char| c.is_ascii_digit())
        && number.ends_with(|c: char| c.is_ascii_digit());
    let value: f64 = if digits {
        format!("{number}e{exponent}").parse().ok()?
    } else {
        return None;
    };
    (value <= GREATEST).then_some(value)
}

/// Words of other tools in names of metrics, and those here.
const OTHER_WORDS: [(&str, &str); 11] = [
    ("mean", "average avg"),
    ("p50", "median med"),
    ("service", "latency duration time"),
    ("rate", "qps rps throughput reqs requests"),
    ("ok", "success successes checks"),
    ("error", "failure failures failed fail fails"),
    ("ttfb", "waiting"),
    ("connect", "connecting"),
    ("tls", "handshaking"),
    ("body", "receiving"),
    ("item", "iteration"),
];

/// Return the metric that a name means in other words or with other signs between them:
/// `service.p95`, `latency_avg`, `http_req_duration.p95`, `http_req_failed`.
fn meant(name: &str) -> Option<Metric> {
    let lower = name.to_lowercase();
    if let Some(own) = Metric::named(&lower) {
        return Some(own);
    }
    let of_http = lower.strip_prefix("http_").unwrap_or(&lower);
    let mut words: Vec<&str> = of_http
        .strip_prefix("req_")
        .unwrap_or(of_http)
        .split(['_', '-', ' '])
        .flat_map(parts_of_word)
        .map(own_word)
        .collect();
    words.dedup();
    let meant = words.join("_");
    if let Some(own) = Metric::named(&meant) {
        return Some(own);
    }
    // What is named already needs no word for a time.
    words.retain(|word| *word != "service");
    [words.join("_"), meant].into_iter().find_map(|name| {
        let forms = [
            name.clone(),
            format!("service_{name}"),
            format!("{name}_rate"),
            format!("{name}_p95"),
        ];
        forms.iter().find_map(|name| Metric::named(name))
    })
}

/// Split a word at its point, which is no sign between words in a percentile, as in p99.9.
fn parts_of_word(word: &str) -> Vec<&str> {
    match word.split_once('.') {
        Some((one, other)) if !other.starts_with(|it: char| it.is_ascii_digit()) => {
            vec![one, other]
        }
        _ => vec![word],
    }
}

/// Our word for one that other tools have.
fn own_word(word: &str) -> &str {
    OTHER_WORDS
        .iter()
        .find(|(_, others)| others.split(' ').any(|other| other == word))
        .map_or(word, |(own, _)| own)
}

/// Suggest the metric that was probably meant by `name`: by its meaning, or else by its letters.
fn hint(name: &str) -> String {
    let meant = meant(name).map(|meant| meant.to_string());
    match meant.or_else(|| nearest(name, Metric::usual_names())) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "there are times (service_p99, response_p(95), item_max, ...), rate, throttled_rate, error_rate and \
                 counts: see --help"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::run::gates::{Quantity, Stat};
    use crawlmark_harness::stats::Series;

    fn parsed(text: &str) -> Condition {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_metric_in_the_words_of_others_is_meant_by_its_meaning() {
        for (name, metric) in [
            ("service.p95", "service_p95"),
            ("service.p99.9", "service_p999"),
            ("service_avg", "service_mean"),
            ("service-median", "service_p50"),
            ("Service_P99", "service_p99"),
            ("latency.average", "service_mean"),
            ("latency_p99", "service_p99"),
            ("response avg", "response_mean"),
            ("http_req_duration.p95", "service_p95"),
            ("rps", "rate"),
            ("throughput", "rate"),
            ("success_rate", "ok_rate"),
            ("failure_rate", "error_rate"),
            ("avg", "service_mean"),
            ("servce_p99", "service_p99"),
            ("error", "error_rate"),
            ("http_req_failed", "error_rate"),
            ("http_req_failed.rate", "error_rate"),
            ("http_req_duration", "service_p95"),
            ("http_req_waiting.p99", "ttfb_p99"),
            ("http_req_tls_handshaking", "tls_p95"),
            ("http_reqs", "rate"),
            ("iteration_duration", "item_p95"),
            ("response_time_p99", "response_p99"),
            ("latency", "service_p95"),
        ] {
            assert_eq!(hint(name), format!("did you mean `{metric}`?"), "{name}");
        }
        // Its own words mean themselves.
        for name in Metric::usual_names() {
            assert_eq!(meant(&name).map(|it| it.to_string()), Some(name));
        }
    }

    #[test]
    fn what_is_written_is_understood() {
        for (text, shown, limit) in [
            (
                "  service_p(99.9) [ 5s ]  <=  1.5 s ",
                "service_p999[5s] <= 1.5s",
                1_500_000.0,
            ),
            ("service_p(95) < 2m", "service_p95 < 120s", 120e6),
            (
                "throttled_rate[1m] < 0.7%",
                "throttled_rate[60s] < 0.7%",
                0.007,
            ),
            ("rate >= 9.5k/s", "rate >= 9500", 9_500.0),
            ("attempts_rate>1_000 /s", "attempts_rate > 1000", 1_000.0),
            ("valid != false", "valid != false", 0.0),
            (
                "service_p99{GET /checkout/{id}?a<b}  < 2s",
                "service_p99{GET /checkout/{id}?a<b} < 2s",
                2e6,
            ),
            (
                "error_rate { a.example:80 } < 1%",
                "error_rate{a.example:80} < 1%",
                0.01,
            ),
        ] {
            let condition = parsed(text);
            assert_eq!(
                (condition.to_string().as_str(), condition.limit),
                (shown, limit),
                "{text}"
            );
            assert_eq!(parsed(shown), condition);
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_what_would_be_right() {
        for (text, word) in [
            ("< 5", "write a metric first"),
            ("p(99) < 250ms", "did you mean `service_p99`?"),
            ("service_p100 < 1s", "there is no metric `service_p100`"),
            ("service_p99[90s] < 250ms", "whole seconds, [1s] to [60s]"),
            ("item_p99[10s] < 250ms", "known only when the run is over"),
            ("service_p99 = 250ms", "write one of < <= > >= == !="),
            ("service_p99 < 250", "`250` has no unit: write 250ms"),
            ("service_p99 < -1ms", "is not a valid limit"),
            ("error_rate < 150%", "write a share of 0% to 100%"),
            ("error_rate < 1", "`1` has no %: write 1%, or 100% for all"),
            ("errors < 1.5", "a whole number"),
            ("valid < true", "write one of == !="),
            (
                "rate{/items/{id}} > 5",
                "not counted by template, host or stage",
            ),
            (
                "service_p999{/items/{id}} < 1s",
                "not counted by template, host or stage",
            ),
            ("service_p99{} < 1s", "between the braces"),
            ("errors[1s]{/items/{id}} == 0", "no windows"),
            ("errors{/items/{id}}[1s] == 0", "end the group with a brace"),
        ] {
            let error = text.parse::<Condition>().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    fn metrics() -> impl Strategy<Value = Metric> {
        let percentiles = (1_u32..1_000_000).prop_map(|part| {
            let text = format!("p({}.{:04})", part / 10_000, part % 10_000);
            Stat::named(&text).unwrap_or_else(|| panic!("{text}"))
        });
        let stats = prop_oneof![
            Just(Stat::Min),
            Just(Stat::Mean),
            Just(Stat::Max),
            percentiles
        ];
        let times = (prop::sample::select(Series::ALL.to_vec()), stats)
            .prop_map(|(series, stat)| Metric::Time(series, stat));
        prop_oneof![
            times,
            prop::sample::select(Quantity::ALL.to_vec()).prop_map(Metric::Of)
        ]
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(
            text in ".{0,40}",
            near in "(service_p99|rate|valid|p\\(9|é){0,2} ?(\\[[0-9s ]{0,3}\\]?)?[<>=!≤ ]{0,3}[0-9._]{0,6}[µa-z%/& ]{0,4}"
        ) {
            let _ = (text.parse::<Condition>(), near.parse::<Condition>());
        }

        #[test]
        fn a_printed_condition_parses_to_itself(
            metric in metrics(),
            seconds in prop::option::of(1..=Window::LONGEST),
            op in prop::sample::select(Op::ALL.to_vec()),
            limit in prop_oneof![0.0..1.0_f64, 0.0..1e9_f64, (0..1_000_000_u32).prop_map(f64::from)],
        ) {
            let limit = match metric.unit() {
                Unit::Us | Unit::PerS => limit,
                Unit::Share => limit.fract(),
                Unit::Count => limit.trunc(),
                Unit::Flag => f64::from(limit > 0.5),
            };
            prop_assume!(metric.unit() != Unit::Flag || matches!(op, Op::Equal | Op::Unequal));
            let window = seconds.filter(|_| metric.is_live()).and_then(Window::new);
            let condition = Condition { metric, group: None, window, op, limit };
            let text = condition.to_string();
            prop_assert_eq!(text.parse(), Ok(condition), "{}", text);
        }
    }
}
