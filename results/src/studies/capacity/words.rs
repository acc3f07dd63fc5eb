//! A capacity in words: as a document, and a probe in a line while the search goes on.

use crawlmark_harness::units::grouped;

use super::hidden::CERTAIN;
use super::probe::STARVED;
use super::search::{ProbeKind, ProbeResult, RateState};
use super::{
    BY_BURST, Capacity, Cause, FILE, Hidden, LEAST_SECONDS, MEDIANS_FROM, Pace, ProbeReport,
    RateReport, SCHEMA, SearchOutcome, backlog, credit, times_s, unevenness, used_up,
};
use crate::show::doc::{Column, Doc, Severity, Table};
use crate::show::plot::{self, Plot};
use crate::show::text::{decimal, micros};
use crate::studies::{Conclusion, StudyResult};

/// A rate: `4,040/s`, `22.2/s`.
fn rate(per_s: f64) -> String {
    if per_s > 0.0 {
        format!("{}/s", decimal(per_s))
    } else {
        "0/s".to_owned()
    }
}

/// A wait that the target asked for that is worth a word, s.
const LONG: f64 = 10.0;

/// Results of probes that failed.
const FAILED: [ProbeResult; 2] = [ProbeResult::Fail, ProbeResult::Collapse];

/// Next step after a search that was cut short.
const GO_ON: &str =
    "to continue, repeat the command with --resume and the directory of this result";

/// Share of not-found responses from which on it is reported.
const MANY_MISSING: f64 = 0.01;

/// The rate of a probe, as it is announced.
#[must_use]
pub fn offered(pace: Pace) -> String {
    rate(pace.per_s())
}

/// Summarize the result in a sentence or two.
#[must_use]
pub fn capacity_headline(capacity: &Capacity) -> String {
    let counted = || capacity.probes.iter().filter_map(|probe| probe.counted);
    let (all, missing) = counted().fold((0_u128, 0_u128), |(all, missing), counted| {
        (
            all + u128::from(counted.attempts),
            missing + u128::from(counted.not_found),
        )
    });
    if all > 0 && missing == all {
        return "No good response: every request was not found (404 or 410). Choose --ids that exist, or accept these responses \
                (--expect status:200,404)."
            .to_owned();
    }
    let longer = longer_limit(capacity).map_or_else(String::new, |longer| format!(" {longer}"));
    sentence(capacity) + &longer
}

/// Explain refusals by a limit that counts over a longer time than a probe.
fn longer_limit(capacity: &Capacity) -> Option<String> {
    let probe = used_up(&capacity.probes).filter(|_| capacity.limit_per_s.is_none())?;
    let (warmup_s, measured_s) = times_s(probe.rate_per_s, &capacity.question);
    let (lasts, number, at) = (
        micros((warmup_s + measured_s) * 1e6),
        probe.number,
        rate(probe.rate_per_s),
    );
    Some(format!(
        "The limit seems to count over a longer time than a probe ({lasts}): probe {number} at {at} had all of its requests \
         refused after others passed. Use a --probe of at least that time."
    ))
}

/// Reason why this client could not send more.
fn limited_by(capacity: &Capacity) -> String {
    let void = capacity
        .probes
        .iter()
        .filter(|probe| probe.seen == ProbeResult::Void);
    match (
        void.clone().count(),
        void.filter(|probe| probe.busy).count(),
    ) {
        (all, by_load) if by_load > 0 && by_load * 2 >= all => format!(
            "this machine was too busy (this client was late or disturbed in {by_load} probes; use an idle machine, or another one \
             for the target)"
        ),
        _ => "this client could not send on schedule".to_owned(),
    }
}

/// The outcome in a sentence.
fn sentence(capacity: &Capacity) -> String {
    let pass = capacity.passes_at_per_s.map(rate);
    let fail = capacity.fails_at_per_s.map(rate);
    let bounds = capacity.question.bounds;
    // What was accepted, where that is less than what was offered.
    let accepted = capacity
        .capacity_per_s
        .map(rate)
        .filter(|accepted| Some(accepted) != pass.as_ref());
    let sustained = |pass: &String| {
        accepted
            .as_ref()
            .map_or_else(|| pass.clone(), |rate| format!("{rate} accepted"))
    };
    let offered = |pass: &String| {
        if accepted.is_some() {
            format!("{pass} offered")
        } else {
            pass.clone()
        }
    };
    let lasts = capacity
        .sustained_for_s
        .map_or_else(String::new, |seconds| micros(seconds * 1e6));
    let busy = limited_by(capacity);
    let span = if lasts.is_empty() {
        String::new()
    } else {
        format!(" for {lasts}")
    };
    match (capacity.outcome, &pass, &fail) {
        (SearchOutcome::Found, Some(pass), Some(fail))
            if capacity.limit_per_s.is_some() && capacity.limit_per_s == capacity.capacity_per_s =>
        {
            format!(
                "Capacity: {} for {lasts}, the target's limit: it refuses requests above that rate, after any burst that it \
                 allows (objectives broken at {fail} offered). Limits over longer periods were not tested.",
                sustained(pass)
            )
        }
        (SearchOutcome::Found, Some(pass), Some(fail)) => {
            let is_chance = matches!(capacity.hidden().first(), Some(Hidden { cause: Cause::Chance { .. }, .. }));
            let lower = capacity.at_least_per_s.filter(|_| is_chance).map_or_else(String::new, |least| {
                format!(" It may be as low as {} if service times vary at random.", rate(least))
            });
            format!(
                "Capacity: {} for {lasts} (objectives met at {}, broken at {fail}).{lower} Limits over longer periods were not tested.",
                sustained(pass),
                offered(pass)
            )
        }
        (SearchOutcome::Unconfirmed, Some(pass), Some(fail)) => {
            let Some(least) = capacity.at_least_per_s.map(rate) else {
                return format!(
                    "No capacity: no good response at {pass}, which met the objectives for {lasts} (broken at {fail}). If 404 is \
                     the expected status, use --expect status:404."
                );
            };
            let lag_us = capacity.fails_at_per_s.and_then(|fail| unevenness(&capacity.probes, Pace::nearest(fail)));
            if let (true, Some(lag_us)) = (capacity.hidden().is_empty(), lag_us) {
                return format!(
                    "Not confirmed: at least {} for {lasts} (objectives met at {}, broken at {fail}), and perhaps more: this client \
                     sent requests up to {} late, and a limit without a burst refuses those that arrive too close together.",
                    sustained(pass),
                    offered(pass),
                    micros(lag_us)
                );
            }
            let why = match capacity.hidden().first().map(|hidden| hidden.cause) {
                Some(Cause::Refusals { .. }) => "the target's limit may count over a longer period than a probe",
                Some(Cause::Queue) => "probes are too short to see whether a queue grows",
                Some(Cause::Chance { .. }) => "a queue that grows slowly looks like chance in so few requests",
                _ => "with random arrivals a queue grows for longer than a probe",
            };
            format!(
                "Not confirmed: {} for {lasts} (objectives met at {}, broken at {fail}), but over a longer time the capacity may be \
                 lower, down to {least}: {why}.",
                sustained(pass),
                offered(pass)
            )
        }
        (SearchOutcome::LeastFails, ..) => {
            let least = rate(bounds.least.per_s());
            format!("Even {least} fails, the lowest rate of the search: use a lower --from.")
        }
        (SearchOutcome::NotReached, ..) => {
            let most = rate(bounds.greatest.per_s());
            let least = match &accepted {
                Some(accepted) if pass.as_ref() == Some(&most) => format!("{accepted} accepted of {most}"),
                _ => most,
            };
            format!("Capacity: at least {least}{span}, the highest rate of the search: use a higher --max-rate.")
        }
        (SearchOutcome::ClientLimited, Some(pass), Some(fail)) => {
            format!(
                "Capacity: between {} and {fail} (objectives met at {}, broken at {fail}); in between {busy}.",
                sustained(pass),
                offered(pass)
            )
        }
        (SearchOutcome::ClientLimited, Some(pass), None) => {
            let least = sustained(pass);
            format!("Capacity: at least {least}{span}; {busy}, so the target's capacity is unknown.")
        }
        (SearchOutcome::ClientLimited, None, Some(fail)) => {
            format!("Capacity: below {fail}; at lower rates {busy}.")
        }
        (SearchOutcome::ClientLimited, None, None) => format!("No capacity was found: {busy}."),
        (SearchOutcome::Unsteady, ..) => {
            "The target is unsteady: it failed at a rate below one at which it passed, each confirmed. \
             It has no single capacity, or something else used it during the search."
                .to_owned()
        }
        (_, Some(pass), Some(fail)) => {
            format!("Not settled: objectives met at {pass}, broken at {fail}; undecided in between.")
        }
        (_, Some(pass), None) => format!("Not settled: objectives met at {pass}; no rate is confirmed to fail."),
        (_, None, Some(fail)) => format!("Not settled: objectives broken at {fail}; no rate is confirmed to pass."),
        (_, None, None) => "Not settled: no rate was confirmed to pass or to fail.".to_owned(),
    }
}

/// A probe in a line, that is read otherwise because of a later one.
#[must_use]
pub fn probe_correction(probe: &ProbeReport) -> String {
    format!(
        "{} {} after all{}",
        rate(probe.rate_per_s),
        seen(probe.seen),
        why(probe)
    )
}

/// All of what speaks against a probe is in the file.
fn why(probe: &ProbeReport) -> String {
    probe
        .reasons
        .first()
        .map_or_else(String::new, |why| format!(": {why}"))
}

/// A probe in a line.
#[must_use]
pub fn probe_line(probe: &ProbeReport) -> String {
    let seen = seen(probe.seen);
    let p99 = probe.response_p99_us.map_or_else(String::new, |us| {
        let at_least = if probe.response_p99_at_least {
            "at least "
        } else {
            ""
        };
        format!(", p99 {at_least}{}", micros(us))
    });
    format!("{} {seen}{p99}{}", rate(probe.rate_per_s), why(probe))
}

const fn seen(seen: ProbeResult) -> &'static str {
    match seen {
        ProbeResult::Pass => "passes",
        ProbeResult::Fail => "fails",
        ProbeResult::Collapse => "fails badly",
        ProbeResult::Void => "is void",
        ProbeResult::Lost => "did not end",
    }
}

const fn standing(standing: RateState) -> &'static str {
    match standing {
        RateState::Passes => "passes",
        RateState::SeemsToPass => "seems to pass",
        RateState::Undecided => "undecided",
        RateState::SeemsToFail => "seems to fail",
        RateState::Fails => "fails",
        RateState::Unknown => "unknown",
    }
}

impl StudyResult for Capacity {
    const SCHEMA: &'static str = SCHEMA;

    const FILE: &'static str = FILE;

    fn conclusion(&self) -> Conclusion {
        match self.outcome {
            SearchOutcome::Found => Conclusion::Done,
            SearchOutcome::LeastFails => Conclusion::Failed,
            SearchOutcome::Unconfirmed
            | SearchOutcome::NotReached
            | SearchOutcome::ClientLimited
            | SearchOutcome::Unsteady
            | SearchOutcome::Undecided => Conclusion::Inconclusive,
        }
    }

    fn doc(&self) -> Doc {
        let together = if self.environment.colocated {
            ", client and target together"
        } else {
            ""
        };
        Doc::new(format!("{}: {}", self.name, self.outcome.name()))
            .headline(severity(self.outcome), &capacity_headline(self))
            .facts(rows(self))
            .table(table(self))
            .text(legend(self))
            .in_files()
            .plot("plots/capacity.svg", "Latency against rate")
            .text(format!(
                "{}, {} cores{together}. crawlmark {}, {}.",
                self.environment
                    .cpu_model
                    .as_deref()
                    .unwrap_or("an unknown CPU"),
                self.environment.cores,
                self.crawlmark_version,
                self.started_at
            ))
    }

    fn plots(&self) -> Vec<Plot> {
        vec![plot::capacity(self)]
    }
}

fn severity(outcome: SearchOutcome) -> Severity {
    match outcome {
        SearchOutcome::Found => Severity::Good,
        SearchOutcome::LeastFails => Severity::Bad,
        SearchOutcome::Unconfirmed
        | SearchOutcome::NotReached
        | SearchOutcome::ClientLimited
        | SearchOutcome::Unsteady
        | SearchOutcome::Undecided => Severity::Warning,
    }
}

/// The rates that were probed.
fn table(capacity: &Capacity) -> Table {
    let us = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), micros);
    let row = |report: &RateReport| {
        let RateReport {
            passes,
            fails,
            voids,
            ..
        } = *report;
        let full = match (passes, fails) {
            (0, 0) if report.standing == RateState::Unknown => String::new(),
            (0, 0) => "short".to_owned(),
            _ => format!("+{passes} -{fails}"),
        };
        let void = if voids > 0 {
            format!(" ?{voids}")
        } else {
            String::new()
        };
        vec![
            rate(report.rate_per_s),
            standing(report.standing).to_owned(),
            format!("{full}{void}").trim_start().to_owned(),
            us(report.response_p50_us),
            if report.response_p99_at_least {
                ">= "
            } else {
                ""
            }
            .to_owned()
                + &us(report.response_p99_us),
        ]
    };
    Table {
        columns: vec![
            Column::numbers("rate"),
            Column::words("objectives"),
            Column::words("probes").leaving(2),
            Column::numbers("response p50").leaving(1),
            Column::numbers("response p99"),
        ],
        rows: capacity.rates.iter().map(row).collect(),
        ..Table::default()
    }
}

/// Explain the marks of the table.
fn legend(capacity: &Capacity) -> String {
    let few = if capacity
        .rates
        .iter()
        .any(|rate| rate.response_p99_us.is_none())
    {
        " \"-\": fewer than 1,000 good responses in a probe are too few for a p99 (use a longer --probe); an objective on it is judged \
         by the number of slower ones."
    } else {
        ""
    };
    format!(
        "Probes: + passed, - failed, ? void; short: only short probes, made while rates were doubled, which + and - leave out.{few}"
    )
}

/// Return the rates between which the capacity lies, and their distance; none unless one passes and
/// one fails.
fn interval(capacity: &Capacity) -> Option<String> {
    let (pass, fail) = capacity.passes_at_per_s.zip(capacity.fails_at_per_s)?;
    let (apart, wanted) = (
        (fail / pass - 1.0) * 100.0,
        capacity.question.bounds.precision * 100.0,
    );
    let wider = if apart > wanted + 0.1 && capacity.outcome == SearchOutcome::Found {
        ": between them, some probes passed and some failed, so the capacity is not known more closely"
    } else {
        ""
    };
    Some(format!(
        "{} to {} offered, {apart:.1} % apart (--precision {wanted}%){wider}",
        rate(pass),
        rate(fail)
    ))
}

/// Return the rows of the summary.
fn rows(capacity: &Capacity) -> Vec<(&'static str, String)> {
    let question = &capacity.question;
    let what = if question.what.is_empty() {
        "the bundled target"
    } else {
        &question.what
    };
    let mut rows = vec![
        ("target", what.to_owned()),
        ("objectives", question.objectives.join(", ")),
    ];
    rows.extend(interval(capacity).map(|interval| ("interval", interval)));
    let of_pass = |probe: &&ProbeReport| {
        Some(probe.rate_per_s) == capacity.passes_at_per_s && probe.seen == ProbeResult::Pass
    };
    let missing = capacity
        .probes
        .iter()
        .filter(of_pass)
        .filter_map(|probe| probe.counted)
        .map(|counted| counted.missing());
    if let Some(missing) = missing
        .reduce(f64::max)
        .filter(|missing| *missing > MANY_MISSING)
    {
        let percent = missing * 100.0;
        rows.push((
            "not found",
            format!(
                "{percent:.0} % of the responses were 404 or 410, which are not accepted: choose --ids that exist, or accept them \
                 (--expect status:200,404)"
            ),
        ));
    }
    let is_starved = |probe: &&ProbeReport| {
        Some(probe.rate_per_s) == capacity.fails_at_per_s
            && probe.reasons.iter().any(|why| why.contains(STARVED))
    };
    if let Some(probe) = capacity.probes.iter().find(is_starved) {
        let (all, at) = (probe.connections, rate(probe.rate_per_s));
        rows.push((
            "connections",
            format!(
                "all {all} were in use at {at}: this is the capacity over {all} connections (-c)"
            ),
        ));
    }
    if let Some(limit) = capacity.limit_per_s {
        rows.push((
            "limit",
            format!(
                "in probes where it refused requests, the target accepted at least {}",
                rate(limit)
            ),
        ));
    }
    if let Some(knee) = capacity.knee {
        let (at, us) = (rate(knee.rate_per_s), micros(knee.us));
        rows.push((
            "knee",
            format!("p99 of the response time rises sharply above {at}, where it is {us}"),
        ));
    }
    let of = |wanted: &'static [ProbeResult]| {
        capacity
            .probes
            .iter()
            .filter(|probe| wanted.contains(&probe.seen))
    };
    let count = |wanted| of(wanted).count();
    let short = |wanted| match of(wanted)
        .filter(|probe| probe.kind == ProbeKind::Scout)
        .count()
    {
        0 => String::new(),
        short => format!(" ({short} short)"),
    };
    let (all, void) = (capacity.probes.len(), count(&[ProbeResult::Void]));
    let passed = format!(
        "{} passed{}",
        count(&[ProbeResult::Pass]),
        short(&[ProbeResult::Pass])
    );
    let failed = format!("{} failed{}", count(&FAILED), short(&FAILED));
    let said_nothing = if void > 0 {
        format!(", {void} void (limited by this client or disturbed)")
    } else {
        String::new()
    };
    let lost = count(&[ProbeResult::Lost]);
    let did_not_end = if lost > 0 {
        format!(", {lost} did not end")
    } else {
        String::new()
    };
    rows.push((
        "probes",
        format!("{all}: {passed}, {failed}{said_nothing}{did_not_end}"),
    ));
    rows.extend(
        capacity
            .probes
            .iter()
            .filter(|probe| probe.seen == ProbeResult::Lost)
            .map(|probe| {
                let (number, at) = (probe.number, rate(probe.rate_per_s));
                ("lost", format!("probe {number} at {at}{}", why(probe)))
            }),
    );
    if let Some(why) = capacity
        .probes
        .iter()
        .rev()
        .filter(|probe| probe.seen == ProbeResult::Void)
        .find_map(|probe| probe.reasons.first())
    {
        rows.push(("void", why.clone()));
    }
    let by_burst = |probe: &ProbeReport| {
        let why = probe
            .reasons
            .first()
            .filter(|why| why.starts_with(BY_BURST))?;
        Some(format!(
            "probe {} at {} {why}",
            probe.number,
            rate(probe.rate_per_s)
        ))
    };
    rows.extend(
        capacity
            .probes
            .iter()
            .rev()
            .find_map(by_burst)
            .map(|why| ("burst", why)),
    );
    let labels = std::iter::once("caveat").chain(std::iter::repeat(""));
    rows.extend(labels.zip(unseen(capacity)));
    if capacity.out_of_time {
        let promise = capacity
            .probes
            .last()
            .map(|probe| probe.longest_promise_s)
            .filter(|promise| *promise >= LONG);
        let asked = promise.map_or_else(String::new, |promise| {
            format!(": the target asked for a wait of {}", micros(promise * 1e6))
        });
        rows.push((
            "note",
            format!("the time for the search (--budget) was used up{asked}; {GO_ON}"),
        ));
    }
    if capacity.interrupted {
        rows.push(("note", format!("the search was interrupted; {GO_ON}")));
    }
    rows
}

/// Caveats: limits that the probes could not see.
fn unseen(capacity: &Capacity) -> Vec<String> {
    let question = &capacity.question;
    let Some(pass) = capacity.passes_at_per_s else {
        return Vec::new();
    };
    let mut unseen = Vec::new();
    // A burst cannot hide what is let through once requests are refused.
    if capacity.limit_per_s.is_none() {
        let (credit, percent) = (credit(pass, question), question.bounds.precision * 100.0);
        unseen.push(format!(
            "the real limit may be lower if it allows bursts ({percent:.0} % lower with a burst of {}, {:.0} % with {}). A longer --probe \
             would show it.",
            grouped_up(credit),
            percent * 5.0,
            grouped_up(credit * 5.0)
        ));
    }
    if let Some(lag_us) = capacity
        .fails_at_per_s
        .and_then(|fail| unevenness(&capacity.probes, Pace::nearest(fail)))
    {
        let lag = micros(lag_us);
        unseen.push(format!(
            "the real limit may be higher if it allows no bursts, because requests that arrive too close together are then refused: \
             this client sent some up to {lag} late."
        ));
    }
    // A queue that answered all that was accepted hides nothing, and less than the precision is no
    // news of a confirmed capacity.
    let noteworthy = CERTAIN.max(1.0 - question.bounds.precision);
    let is_lower = |hidden: &Hidden| {
        capacity
            .capacity_per_s
            .is_some_and(|found| hidden.least_per_s < found * noteworthy)
    };
    let hides = |hidden: &&Hidden| hidden.cause != Cause::Queue || is_lower(hidden);
    unseen.extend(
        capacity
            .hidden()
            .iter()
            .filter(hides)
            .map(|hidden| unseen_by(hidden, capacity)),
    );
    unseen
}

/// A lower capacity that the probes could not exclude.
fn unseen_by(hidden: &Hidden, capacity: &Capacity) -> String {
    let least = rate(hidden.least_per_s);
    match hidden.cause {
        Cause::Refusals {
            let_through_per_s,
            wait_s,
        } => {
            let asked = if wait_s > 0.0 {
                format!(" and asked for a wait of {}", micros(wait_s * 1e6))
            } else {
                String::new()
            };
            format!(
                "the limit may count over a period longer than a probe: once this target refused requests, it accepted as little as \
                 {}{asked}. A --probe of twice the period would show it.",
                rate(let_through_per_s)
            )
        }
        Cause::Chance { part, requests } => format!(
            "the capacity may be up to {:.0} % lower if service times vary at random: a queue that grows so slowly looks like chance \
             in the {} requests that were counted. A longer --probe would show it.",
            (part * 100.0).ceil(),
            grouped(requests)
        ),
        Cause::Arrivals { part } => format!(
            "the capacity may be up to {:.0} % lower: with random arrivals, a queue this close to capacity grows for longer than a \
             probe. A longer --probe would show it.",
            (part * 100.0).ceil()
        ),
        Cause::Queue => format!(
            "the capacity may be as low as {least}, because a target that queues responds late only after some time, and the probes end \
             before that. {}",
            queue_remedy(capacity)
        ),
    }
}

/// Remedy for probes that are too short to see a queue grow.
fn queue_remedy(
    Capacity {
        question,
        passes_at_per_s,
        ..
    }: &Capacity,
) -> String {
    let probe_s = LEAST_SECONDS + usize::from(question.warmup_s.fract() > 0.0);
    match passes_at_per_s.is_some_and(|pass| pass >= MEDIANS_FROM) {
        true => format!("Use --probe {probe_s}s or more to see it."),
        false if backlog(question).is_none() => {
            "Add an objective on a time (--slo-p99).".to_owned()
        }
        false => {
            format!("Fewer than {MEDIANS_FROM:.0} requests/s show it only in a longer --probe.")
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of requests"
)]
fn grouped_up(count: f64) -> String {
    grouped(count.ceil().max(1.0) as u64)
}
