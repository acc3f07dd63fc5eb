//! Gates on what the target answered.

use super::thresholds::{ERRORS, HARDLY_ANY, THROTTLED};
use super::wording::percent;
use super::{Evidence, Seen};
use crate::plan::OnThrottle;
use crate::report::share;
use crate::sample::ErrorKind;

/// Failures that are this machine's own: they have gates of their own.
const OWN: [ErrorKind; 2] = [ErrorKind::AddressUnavailable, ErrorKind::TooManyFiles];

/// Attempts that failed so.
pub(super) fn failed_with(evidence: &Evidence<'_>, kind: ErrorKind) -> u64 {
    evidence.totals.errors_by_kind.get(kind.name()).copied().unwrap_or(0)
}

/// Hardly any valid answers.
pub(super) fn unanswered(evidence: &Evidence<'_>) -> Seen {
    let totals = evidence.totals;
    let own: u64 = OWN.into_iter().map(|kind| failed_with(evidence, kind)).sum();
    let errors = totals.errors_by_kind.values().sum::<u64>() - own;
    // A challenge page is an answer to another question.
    let part = share((errors + totals.soft_blocked) as f64, totals.attempts as f64);
    Seen::perhaps((part > ERRORS).then(|| {
        format!(
            "{} of the attempts had no valid answer: the rate is how fast they failed; see `errors` for why",
            percent(part)
        )
    }))
}

/// A run that was mostly turned away.
pub(super) fn throttled(evidence: &Evidence<'_>) -> Seen {
    let Evidence { plan, totals, ledger, .. } = evidence;
    let throttled = share(totals.throttled as f64, totals.attempts as f64);
    let good = share((ledger.ok + ledger.not_found) as f64, totals.attempts as f64);
    if throttled <= THROTTLED {
        return Seen::Findings(Vec::new());
    }
    let patient = plan.manners.on_throttle == OnThrottle::Honor;
    Seen::perhaps(match (patient, good < HARDLY_ANY) {
        (false, _) => Some(format!(
            "{} of the attempts were throttled and the run did not wait: the rate is how fast the target refuses; \
             use --on-throttle honor, or a lower --rate",
            percent(throttled)
        )),
        (true, true) => Some(format!(
            "only {} of the attempts brought an item, {} were throttled: the target's limit was measured, not its \
             answers; use a lower --rate, or --adaptive",
            percent(good),
            percent(throttled)
        )),
        (true, false) => None,
    })
}
