//! Wake-up times for due requests: one wake-up for several that are due close together.
//!
//! Sleeping and waking costs a client more than sending a request. So of requests that are due
//! within a slack of tens of microseconds, the time of the last one is the wake-up time. None is
//! sent early; each is late by at most the slack plus the lateness of the alarm, and that is
//! counted like any other send delay. Pure; called by the shard's gate.

use std::iter::Peekable;
use std::time::Duration;

use super::tempo::Tempo;
use super::timetable::Timetable;
use crate::clock::Nanos;

/// Limits of one wake-up for several requests.
#[derive(Debug, Clone, Copy)]
pub struct Slack {
    /// The longest that one request may wait for others.
    pub span: Duration,
    /// The most requests that one ring is to be for; 0 counts as 1.
    pub most: usize,
}

/// The next moment to wake at, and the one after it if it can be seen; none when nothing comes due.
pub(super) fn rings(
    upcoming: impl Iterator<Item = Nanos>,
    slack: Slack,
) -> Option<(Nanos, Option<Nanos>)> {
    let mut upcoming = upcoming.peekable();
    Some((
        next_ring(&mut upcoming, slack)?,
        next_ring(&mut upcoming, slack),
    ))
}

fn next_ring(upcoming: &mut Peekable<impl Iterator<Item = Nanos>>, slack: Slack) -> Option<Nanos> {
    let first = upcoming.next()?;
    let latest = first.plus(slack.span);
    let mut last = first;
    for _ in 1..slack.most {
        let Some(due) = upcoming.next_if(|due| *due <= latest) else {
            break;
        };
        last = due;
    }
    Some(last)
}

/// The moments at which a pacer lets requests go from the next one on, if each goes then.
#[derive(Debug)]
pub(super) enum Upcoming<'a> {
    Never,
    Budgeted {
        tempo: &'a Tempo,
        own: Nanos,
        interval_ns: u64,
    },
    Timed(Timetable),
}

impl Iterator for Upcoming<'_> {
    type Item = Nanos;

    fn next(&mut self) -> Option<Nanos> {
        let due = match self {
            Self::Never => return None,
            Self::Budgeted {
                tempo,
                own,
                interval_ns,
            } => {
                let due = tempo.when(*own);
                own.0 = own.0.saturating_add(*interval_ns);
                due
            }
            Self::Timed(table) => {
                let due = table.due();
                table.take();
                due
            }
        };
        (due < Nanos(u64::MAX)).then_some(due)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Curve, Pace, Pacer};
    use super::*;
    use crate::plan::{Budget, Gaps, TimetablePlan};
    use crate::units::Rate;

    const SLACK: Slack = Slack {
        span: Duration::from_nanos(60),
        most: 100,
    };

    #[test]
    fn of_what_comes_due_within_the_slack_the_last_is_waited_for() {
        for (upcoming, most, expected) in [
            (&[][..], 9, None),
            (&[10], 9, Some((10, None))),
            (&[10, 100], 9, Some((10, Some(100)))),
            (&[10, 70, 71, 130, 131, 132], 9, Some((70, Some(131)))),
            (&[10, 20, 30, 40, 50], 2, Some((20, Some(40)))),
            (&[10, 20, 30], 0, Some((10, Some(20)))),
        ] {
            let dues = upcoming.iter().copied().map(Nanos);
            let found = rings(dues, Slack { most, ..SLACK })
                .map(|(at, then)| (at.0, then.map(|then| then.0)));
            assert_eq!(found, expected, "{upcoming:?}, {most}");
        }
    }

    /// Wakes when it is told to and lets go what is due; returns how late each request went, and
    /// how often it woke.
    fn lateness(mut pacer: Pacer, slack: Slack, requests: usize) -> (Vec<u64>, usize) {
        let (mut now, mut late, mut woke) = (Nanos(0), Vec::new(), 0);
        loop {
            while let Pace::Go(due) = pacer.poll(now) {
                pacer.sent(now);
                late.push(now.since(due));
            }
            let Some((at, _)) = pacer.rings(slack).filter(|_| late.len() < requests) else {
                break;
            };
            assert!(at > now);
            (now, woke) = (at, woke + 1);
        }
        assert!(pacer.audit().is_none_or(super::super::BudgetAudit::kept));
        (late, woke)
    }

    proptest! {
        #[test]
        fn no_request_goes_early_and_none_later_than_the_slack(
            permits in 1..2_000_000_u64, span_us in 0..200_u64, most in 0..20_usize, seed: u64, random: bool,
        ) {
            let gaps = if random { Gaps::Exponential } else { Gaps::Even };
            let rate = Rate { permits, period_ns: 1_000_000_000 };
            let plan = TimetablePlan { gaps, rate, stride: 1, offset: 0, seed };
            let slack = Slack { span: Duration::from_micros(span_us), most };
            let table = Timetable::new(plan, Curve::Flat, Nanos(1), Nanos(u64::MAX));
            // A pacer says since when a request was allowed, so a request that went early would not
            // have gone at all.
            let (late, woke) = lateness(Pacer::Timed(Box::new(table)), slack, 500);
            prop_assert!(late.iter().all(|late| *late <= span_us * 1_000), "{late:?}");
            prop_assert!(woke <= late.len() && (most > 1 || woke == late.len() || random), "{woke} for {}", late.len());
        }

        #[test]
        fn a_budget_loses_nothing_to_the_slack(
            interval_ns in 1_000..2_000_000_u64, burst in 1..50_u64, span_us in 0..200_u64,
        ) {
            let budget = Budget { interval_ns, burst, at_start: 1, phase_ns: 7, apart_ns: 0 };
            let slack = Slack { span: Duration::from_micros(span_us), most: 64 };
            let (late, _) = lateness(Pacer::new(Some(budget), Nanos(0)), slack, 300);
            prop_assert!(late.iter().all(|late| *late <= span_us * 1_000));
            // What went last went when it would have without any slack, had each gone at once.
            let mut greedy = Pacer::new(Some(budget), Nanos(0));
            let mut now = Nanos(0);
            for _ in 0..late.len() {
                while let Pace::Wait(next) = greedy.poll(now) {
                    now = next;
                }
            }
            let ended = now.0;
            prop_assert_eq!(ended, 7 + (late.len() as u64 - 1) * interval_ns);
        }
    }
}
