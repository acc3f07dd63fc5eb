//! Validity: the verdict in a word, what it means, each finding, and what was looked at.

use super::frame::{Html, capital};
use crate::run::report::{Report, Verdict};

/// Return the style of a verdict by its gravity: the colour of the box, and a sign for readers who do not distinguish colours.
pub(super) const fn gravity(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Valid => ("verdict good", "\u{2713}"),
        Verdict::Errors
        | Verdict::BudgetLimited
        | Verdict::ConcurrencyLimited
        | Verdict::ClientLimited
        | Verdict::TargetLimited => ("verdict limited", "!"),
        Verdict::Disturbed | Verdict::Incomplete => ("verdict bad", "\u{d7}"),
    }
}

pub(super) fn write(html: &mut Html, report: &Report) {
    let validity = &report.validity;
    let (class, symbol) = gravity(validity.verdict);
    html.with("section", &[("id", "validity"), ("class", class)], |html| {
        html.element("h2", |html| {
            html.with("span", &[("class", "symbol"), ("aria-hidden", "true")], |html| html.text(symbol));
            html.text(&format!("This measurement is {}", validity.verdict.name().replace('_', "-")));
        });
        html.say("p", validity.verdict.meaning());
        if !validity.reasons.is_empty() {
            html.element("ul", |html| {
                validity.reasons.iter().for_each(|reason| html.element("li", |html| html.lines(&capital(reason))));
            });
        }
        let (made, missing) = (validity.checked.len(), validity.unavailable.len());
        let summary = if missing == 0 {
            format!("{made} checks run")
        } else {
            format!("{made} checks run, {missing} not available")
        };
        html.details(&summary, |html| {
            html.say("p", &format!("Checked: {}.", validity.checked.join(", ")));
            if missing > 0 {
                for not_made in validity.not_made() {
                    html.say("p", &format!("{}.", capital(&not_made)));
                }
            }
        });
    });
}
