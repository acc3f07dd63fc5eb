//! Gates on what the target answered.

use super::thresholds::{ERRORS, ERRORS_OF_RESPONSE, HARDLY_ANY, THROTTLED};
use super::wording::percent;
use super::{Evidence, Seen};
use crate::plan::OnThrottle;
use crate::report::share;
use crate::sample::ErrorKind;
use crate::stats::Series;
use crate::units::grouped;

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
    let is_open_loop = evidence.plan.arrivals.gaps().is_some();
    let finding = match part {
        part if part > ERRORS => Some("the rate is how fast they failed"),
        part if part > ERRORS_OF_RESPONSE && is_open_loop => Some("the response times are those of the others"),
        _ => None,
    };
    Seen::perhaps(finding.map(|finding| {
        format!("{} of the attempts had no valid answer: {finding}; see `errors` for why", percent(part))
    }))
}

/// A run of which nothing was measured.
pub(super) fn nothing_measured(evidence: &Evidence<'_>) -> Seen {
    let Evidence { plan, shards, totals, .. } = evidence;
    let measured =
        shards.iter().filter_map(|shard| shard.latency.get(Series::SchedLag.name())).any(|lag| lag.count > 0);
    Seen::perhaps((!plan.warmup.is_zero() && totals.attempts > 0 && !measured).then(|| {
        format!(
            "all {} attempts were within the warm-up: nothing was measured; use a shorter --warmup, or a longer run",
            grouped(totals.attempts)
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
