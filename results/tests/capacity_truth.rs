//! Whole searches of simulated targets whose capacity is known, request by request in virtual time:
//! what is found is never above it.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times and ranks, positive and small"
)]

use std::collections::VecDeque;
use std::time::Duration;

use crawlmark_harness::plan::Arrivals;
use crawlmark_harness::stats::SecondCounts;
use crawlmark_results::judge::Finding;
use crawlmark_results::run::report::{IntervalRow, Latency, Report, TargetReport, Verdict};
use crawlmark_results::studies::capacity::search::{
    Bounds, Pace, ProbeKind, RateState, SearchStep, resolution,
};
use crawlmark_results::studies::capacity::{
    Capacity, ProbePlan, ProbeReport, Question, SearchOutcome, next_step, times_s,
};
use crawlmark_results::studies::{Header, StudyFinding, StudyResult};

/// A target with a memory of its own, which forgets between probes as one that is left alone does.
trait Target {
    /// What becomes of a request that arrives at `at`, s: none of one that is refused, else the
    /// response time, s.
    fn answer(&mut self, at: f64) -> Option<f64>;

    /// True if it closes the connection where others refuse the request.
    fn closes(&self) -> bool {
        false
    }
}

const QUICK: f64 = 0.001;

/// Refills `rate` tokens a second, and holds `burst`.
struct Bucket {
    rate: f64,
    burst: f64,
    tokens: f64,
    last: f64,
}

impl Bucket {
    const fn new(rate: f64, burst: f64) -> Self {
        let burst = burst.max(1.0);
        Self {
            rate,
            burst,
            tokens: burst,
            last: 0.0,
        }
    }
}

impl Target for Bucket {
    fn answer(&mut self, at: f64) -> Option<f64> {
        self.tokens = (self.tokens + (at - self.last) * self.rate).min(self.burst);
        self.last = at;
        (self.tokens >= 1.0 - 1e-9)
            .then(|| self.tokens -= 1.0)
            .map(|()| QUICK)
    }
}

/// So many in each window, aligned to `phase`.
struct Fixed {
    permits: f64,
    width: f64,
    phase: f64,
    window: f64,
    used: f64,
}

impl Fixed {
    fn new(permits: f64, width: f64, probe: u64) -> Self {
        Self {
            permits,
            width,
            phase: fastrand::Rng::with_seed(probe).f64() * width,
            window: -1.0,
            used: 0.0,
        }
    }
}

impl Target for Fixed {
    fn answer(&mut self, at: f64) -> Option<f64> {
        let window = ((at + self.phase) / self.width).floor();
        if window > self.window {
            (self.window, self.used) = (window, 0.0);
        }
        (self.used < self.permits)
            .then(|| self.used += 1.0)
            .map(|()| QUICK)
    }
}

/// So many in any window.
struct Sliding {
    permits: usize,
    width: f64,
    log: VecDeque<f64>,
}

impl Sliding {
    fn new(permits: f64, width: f64) -> Self {
        Self {
            permits: permits as usize,
            width,
            log: VecDeque::new(),
        }
    }
}

impl Target for Sliding {
    fn answer(&mut self, at: f64) -> Option<f64> {
        while self
            .log
            .front()
            .is_some_and(|first| *first <= at - self.width)
        {
            self.log.pop_front();
        }
        (self.log.len() < self.permits)
            .then(|| self.log.push_back(at))
            .map(|()| QUICK)
    }
}

/// A target that closes the connection of what another one refuses.
struct Closing<T>(T);

impl<T: Target> Target for Closing<T> {
    fn answer(&mut self, at: f64) -> Option<f64> {
        self.0.answer(at)
    }

    fn closes(&self) -> bool {
        true
    }
}

/// M/M/1.
struct Queue {
    service: f64,
    free: f64,
    draw: fastrand::Rng,
}

impl Queue {
    fn new(service: f64, probe: u64) -> Self {
        Self {
            service,
            free: 0.0,
            draw: fastrand::Rng::with_seed(!probe),
        }
    }
}

impl Target for Queue {
    fn answer(&mut self, at: f64) -> Option<f64> {
        self.free = self.free.max(at) - (1.0 - self.draw.f64()).ln() / self.service;
        Some(self.free - at)
    }
}

/// Works on one at a time, for as long as each takes.
struct Serial {
    service: f64,
    free: f64,
}

impl Target for Serial {
    fn answer(&mut self, at: f64) -> Option<f64> {
        self.free = self.free.max(at) + 1.0 / self.service;
        Some(self.free - at)
    }
}

/// Refuses what comes sooner after the last one that it let through than its rate allows, by a
/// clock with ticks: nginx without a burst has one of a millisecond.
struct Spaced {
    rate: f64,
    tick: f64,
    last: f64,
}

impl Target for Spaced {
    fn answer(&mut self, at: f64) -> Option<f64> {
        let now = (at / self.tick).floor() * self.tick;
        ((now - self.last) * self.rate >= 1.0 - 1e-9).then(|| self.last = now)?;
        Some(QUICK)
    }
}

/// A target whose requests arrive late, by up to this, drawn at random, or a longer time now and
/// then; and are read late in the same way.
struct Behind<T> {
    target: T,
    usual: f64,
    now_and_then: f64,
    draw: fastrand::Rng,
}

impl<T> Behind<T> {
    fn late(&mut self) -> f64 {
        let is_long = self.draw.f64() < 0.005;
        let most = if is_long {
            self.now_and_then
        } else {
            self.usual
        };
        most * self.draw.f64()
    }
}

impl<T: Target> Target for Behind<T> {
    fn answer(&mut self, at: f64) -> Option<f64> {
        let (sent, read) = (self.late(), self.late());
        let took = self.target.answer(at + sent)?;
        Some(sent + took + read)
    }
}

/// A report of an open loop, of which a probe replaces what it is about.
fn saved() -> Report {
    let mut report = crate::saved();
    report.schedule = None;
    report.stopped_by = None;
    report.totals.errors_by_kind.clear();
    report.validity.verdict = Verdict::Valid;
    report.throttling.longest_promise_ns = 0;
    if let Some(lag) = report.latency.get_mut("sched_lag") {
        (lag.p50_us, lag.p90_us, lag.p99_us, lag.hdr) = (Some(10.0), Some(20.0), Some(50.0), None);
    }
    report
}

fn empty(row: &IntervalRow, start_s: u64) -> IntervalRow {
    IntervalRow {
        start_s,
        counts: SecondCounts::default(),
        scheduled: Some(0),
        in_flight: 0,
        response_p50_us: None,
        ..row.clone()
    }
}

/// Nearest rank of sorted values.
fn rank(sorted: &[u64], q: f64) -> Option<f64> {
    let beyond = sorted.len() as f64 * (1.0 - q);
    let index = (sorted.len() as f64 * q).ceil() as usize;
    (beyond >= 9.99).then(|| sorted[index.saturating_sub(1)] as f64 / 1e3)
}

/// What a probe of `target` saves.
fn probe(
    target: &mut dyn Target,
    (pace, kind): (Pace, ProbeKind),
    (report, question): (&mut Report, &Question),
    seed: u64,
) {
    let (warmup, measured) = match kind {
        ProbeKind::Full | ProbeKind::Random => times_s(pace.per_s(), question),
        ProbeKind::Scout => (0.3, 1.0),
    };
    let mut draw = fastrand::Rng::with_seed(seed);
    let length = warmup + measured;
    let row = report.intervals[0].clone();
    let mut rows: Vec<IntervalRow> = (0..length.ceil() as u64)
        .map(|second| empty(&row, second))
        .collect();
    let mut times: Vec<Vec<u64>> = vec![Vec::new(); rows.len()];
    let (mut at, mut stopped, mut all) = (0.0, None, Vec::new());
    let (mut attempts, mut refused, mut last) = (0_u64, 0_u64, 0.0_f64);
    for number in 0.. {
        at = match question.arrivals {
            _ if kind == ProbeKind::Random => at - (1.0 - draw.f64()).ln() / pace.per_s(),
            Arrivals::Poisson => at - (1.0 - draw.f64()).ln() / pace.per_s(),
            _ => f64::from(number) / pace.per_s(),
        };
        if at >= length || stopped.is_some_and(|end| at >= end) {
            break;
        }
        let second = at as usize;
        let answer = target.answer(at);
        let ended = at + answer.unwrap_or(QUICK);
        last = last.max(ended);
        while rows.len() <= ended as usize {
            rows.push(empty(&row, rows.len() as u64));
            times.push(Vec::new());
        }
        rows[second].scheduled = rows[second].scheduled.map(|before| before + 1);
        rows[ended as usize].attempts += 1;
        for row in &mut rows[second..ended as usize] {
            row.in_flight += 1;
        }
        match answer {
            Some(seconds) => {
                rows[ended as usize].ok += 1;
                times[second].push((seconds * 1e9) as u64);
                if at >= warmup {
                    all.push((seconds * 1e9) as u64);
                }
            }
            None if target.closes() => rows[ended as usize].failed += 1,
            None => rows[ended as usize].throttled += 1,
        }
        if at >= warmup {
            attempts += 1;
            refused += u64::from(answer.is_none());
            // As `--stop-unless throttled_rate < 50%` does, at the end of a second.
            if attempts >= 100 && refused * 2 >= attempts && stopped.is_none() {
                stopped = Some(at.floor() + 1.0);
            }
        }
    }
    for (row, times) in rows.iter_mut().zip(&mut times) {
        times.sort_unstable();
        row.response_p50_us = rank(times, 0.5);
    }
    all.sort_unstable();
    let mut histogram =
        hdrhistogram::Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).unwrap();
    for ns in &all {
        histogram.record((*ns).max(1)).unwrap();
    }
    let mut bytes = Vec::new();
    let mut v2 = hdrhistogram::serialization::V2Serializer::new();
    hdrhistogram::serialization::Serializer::serialize(&mut v2, &histogram, &mut bytes).unwrap();
    let response = Latency {
        count: all.len() as u64,
        p50_us: rank(&all, 0.5),
        p90_us: rank(&all, 0.9),
        p99_us: rank(&all, 0.99),
        p999_us: rank(&all, 0.999),
        max_us: all.last().map(|ns| *ns as f64 / 1e3),
        at_least: Vec::new(),
        overflow: 0,
        censored: 0,
        hdr: Some(base64::Engine::encode(
            &base64::engine::general_purpose::STANDARD,
            bytes,
        )),
        ..report.latency["service"].clone()
    };
    report
        .latency
        .insert("response".to_owned(), response.clone());
    report.latency.insert("service".to_owned(), response);
    report.stopped_by = stopped.map(|_| "throttled_rate < 0.5".to_owned());
    report.totals.duration_s = stopped.unwrap_or(f64::INFINITY).min(last);
    report.totals.attempts = attempts;
    report.plan.run.arrivals = question.arrivals;
    report.plan.run.warmup = Duration::from_secs_f64(warmup);
    report.plan.run.duration = Some(Duration::from_secs_f64(length));
    report.intervals = rows;
}

fn question(arrivals: Arrivals, objective: &str) -> Question {
    let objectives = [objective, "error_rate < 1%", "throttled_rate < 1%"];
    Question {
        what: String::new(),
        objectives: objectives.map(|text| text.parse().unwrap()).to_vec(),
        by_default: false,
        arrivals,
        bounds: Bounds {
            least: Pace::nearest(50.0),
            greatest: Pace::nearest(100_000.0),
            precision: 0.02,
        },
        warmup_s: 1.0,
        probe_s: 4.0,
        seed: 1,
    }
}

/// A search to its end; a new target for each probe, by its number.
fn search(question: &Question, seed: u64, target: impl FnMut(u64) -> Box<dyn Target>) -> Capacity {
    search_on(saved(), question, seed, target)
}

/// A search whose probes have what this report says of the machine.
fn search_on(
    mut report: Report,
    question: &Question,
    seed: u64,
    mut target: impl FnMut(u64) -> Box<dyn Target>,
) -> Capacity {
    report.intervals.truncate(1);
    let mut probes: Vec<ProbeReport> = Vec::new();
    loop {
        // The time for a search ends it as well.
        let step = Some(next_step(question, &probes)).filter(|_| probes.len() < 150);
        let Some(SearchStep::Probe(pace, kind)) = step else {
            let outcome = step.and_then(|step| match step {
                SearchStep::Done(outcome) => Some(outcome),
                SearchStep::Probe(..) => None,
            });
            let (question, machine) = (question.clone(), report.environment.clone());
            let header = Header::new::<Capacity>("truth", [""; 2]);
            let capacity = Capacity::new(header, question, machine, probes, outcome);
            follows(&capacity);
            return capacity;
        };
        let number = probes.len() + 1;
        let of_probe = seed * 1_000 + number as u64;
        probe(
            &mut *target(of_probe),
            (pace, kind),
            (&mut report, question),
            of_probe,
        );
        let plan = ProbePlan::new(number, pace, kind, true);
        probes.push(ProbeReport::new(plan, &report, String::new(), question));
    }
}

/// The statement follows from the table of rates: the capacity is what was accepted at the highest
/// rate that passes, no higher rate passed all of its probes, and no lower one fails.
#[track_caller]
fn follows(capacity: &Capacity) {
    let text = || capacity.doc().terminal(200);
    let Some(passes_at) = capacity.passes_at_per_s else {
        return;
    };
    for rate in &capacity.rates {
        let leans_to_fail = matches!(rate.state, RateState::SeemsToFail | RateState::Fails);
        let all_pass = rate.tally.passes > 0 && rate.tally.fails + rate.tally.voids == 0;
        assert!(!leans_to_fail || rate.rate_per_s > passes_at, "{}", text());
        assert!(!all_pass || rate.rate_per_s <= passes_at, "{}", text());
    }
    let of_pass = capacity
        .rates
        .iter()
        .find(|rate| (rate.rate_per_s - passes_at).abs() < 1e-9)
        .unwrap();
    assert_eq!(of_pass.state, RateState::Passes, "{}", text());
    assert_eq!(
        capacity.capacity_per_s,
        of_pass.accepted_per_s,
        "{}",
        text()
    );
    // The objectives allow 1 % of refusals and errors each.
    let found = capacity.capacity_per_s.unwrap();
    let is_refused = capacity.limit_per_s.is_some();
    assert!(!is_refused || found >= passes_at * 0.97, "{}", text());
    assert!(
        found <= passes_at
            && capacity
                .fails_at_per_s
                .is_none_or(|fails_at| passes_at < fails_at)
    );
}

/// What is found lies at most 4 % below `true_per_s` and never above it, and it fails above it.
#[track_caller]
fn holds(capacity: &Capacity, true_per_s: f64, what: &str) {
    assert_eq!(
        capacity.outcome,
        SearchOutcome::Found,
        "{what}: {}",
        capacity.doc().terminal(100)
    );
    let found = capacity.capacity_per_s.unwrap();
    let fails = capacity.fails_at_per_s.unwrap();
    assert!(
        found <= true_per_s * (1.0 + 1e-9)
            && found >= true_per_s * 0.96
            && fails >= true_per_s * 0.995,
        "{what}: {found} to {fails} of {true_per_s}: {}",
        capacity.doc().terminal(100)
    );
}

#[test]
fn a_capacity_is_not_above_the_limit_in_short_probes_either() {
    // The probes of `--probe 1s --warmup 300ms`.
    let question = Question {
        warmup_s: 0.3,
        probe_s: 1.0,
        ..question(Arrivals::Constant, "response_p99 < 500ms")
    };
    let mut draw = fastrand::Rng::with_seed(5);
    // The default burst of the bundled target is a fortieth of the rate, and one.
    let given = [
        (300.0, 8.0),
        (150.0, 4.0),
        (900.0, 23.0),
        (900.0, 1.0),
        (900.0, 900.0),
        (900.0, 2_000.0),
    ];
    let more: Vec<(f64, f64)> = (0..40)
        .map(|_| {
            let rate = 100.0 * 40_f64.powf(draw.f64());
            (
                rate,
                (rate * 0.005 * 400_f64.powf(draw.f64())).round().max(1.0),
            )
        })
        .collect();
    for (seed, (rate, burst)) in (0..).zip(given.into_iter().chain(more)) {
        let capacity = search(&question, seed, |_| Box::new(Bucket::new(rate, burst)));
        let what = format!(
            "bucket of {rate}/s and {burst}: {}",
            capacity.doc().terminal(200)
        );
        promises(&capacity, rate, &what);
        assert!(
            capacity.outcome == SearchOutcome::Found || burst < 2.0,
            "{what}"
        );
        let found = capacity.capacity_per_s.unwrap();
        // Three tenths of a second are read to a request.
        assert!(
            found <= rate * (1.0 + 1e-9) && found >= rate * 0.96 - 1.0 / 0.3,
            "{what}"
        );
    }
}

#[test]
fn no_burst_hides_a_limit() {
    let question = question(Arrivals::Constant, "response_p99 < 500ms");
    let mut draw = fastrand::Rng::with_seed(3);
    let bursts = [0.0_f64, 1.0, 20.0, 450.0, 900.0, 2_000.0, 3_500.0, 5_000.0];
    let more: Vec<f64> = (0..12).map(|_| (draw.f64() * 6_000.0).round()).collect();
    for (case, burst) in bursts.into_iter().chain(more).enumerate() {
        let rates = [900.0, 100.0 * 60_f64.powf(draw.f64())];
        for (seed, rate) in (case as u64 * 10..).zip(rates) {
            let mut bucket = search(&question, seed, |_| Box::new(Bucket::new(rate, burst)));
            let what = format!("bucket of {rate}/s and {burst}");
            assert_eq!(allows_none(&bucket), burst < 2.0, "{what}");
            if burst < 2.0 {
                assert_eq!(bucket.outcome, SearchOutcome::Unconfirmed, "{what}");
                bucket.outcome = SearchOutcome::Found;
            }
            holds(&bucket, rate, &what);
        }
    }
}

/// True if the caveat says that the target allows no bursts.
fn allows_none(capacity: &Capacity) -> bool {
    let mut findings = capacity.findings().into_iter();
    findings.any(|it| matches!(it, StudyFinding::NoBurst { .. }))
}

#[test]
fn a_limit_without_bursts_is_named_where_requests_are_a_little_late() {
    let question = question(Arrivals::Constant, "response_p99 < 500ms");
    let mut draw = fastrand::Rng::with_seed(7);
    for seed in 0..24 {
        let rate = [800.0, 150.0 * 10_f64.powf(draw.f64())][usize::from(seed > 3)];
        let (tick, usual) = ([1e-3, 1e-6][draw.usize(..2)], 0.1 * draw.f64() / rate);
        let behind = |target, probe| Behind {
            target,
            usual,
            now_and_then: usual * 3.0,
            draw: fastrand::Rng::with_seed(probe),
        };
        let capacity = search(&question, seed, |probe| {
            let last = -1.0;
            Box::new(behind(Spaced { rate, tick, last }, probe))
        });
        let what = format!("{rate}/s, {tick} s: {}", capacity.doc().terminal(200));
        assert!(allows_none(&capacity), "{what}");
        assert!(capacity.outcome != SearchOutcome::Found, "{what}");
        let found = capacity.capacity_per_s.unwrap();
        assert!(found <= rate * 1.001 && found >= rate * 0.4, "{what}");
    }
}

/// A machine on which this client waits for a CPU now and then, and the target for this part of the
/// time in which it has one.
fn busy(target_waits: f64) -> Report {
    let mut report = saved();
    report.environment.colocated = true;
    report.validity.verdict = Verdict::Disturbed;
    report.findings = vec![Finding::CpuWait {
        share: 0.36,
        is_disturbed: true,
    }];
    for shard in &mut report.shards {
        shard.usage.cpu_share = Some(0.03);
    }
    for series in ["sched_lag", "loop_lag"] {
        let times = report.latency.get_mut(series).unwrap();
        times.max_us = Some(40_000.0);
    }
    report.target = Some(TargetReport {
        cpu_us_per_attempt: Some(5_700.0),
        run_delay_us_per_attempt: Some(5_700.0 * target_waits),
        ..TargetReport::default()
    });
    report
}

#[test]
fn waits_for_a_cpu_that_are_small_beside_the_response_time_hide_no_capacity() {
    let question = question(Arrivals::Constant, "response_p99 < 500ms");
    let mut draw = fastrand::Rng::with_seed(11);
    for seed in 0..20 {
        let service = [170.0, 60.0 * 20_f64.powf(draw.f64())][usize::from(seed > 3)];
        let find = |report: Report| {
            search_on(report, &question, seed, |probe| {
                let free = 0.0;
                Box::new(Behind {
                    target: Serial { service, free },
                    usual: 2e-3,
                    now_and_then: 40e-3,
                    draw: fastrand::Rng::with_seed(probe),
                })
            })
        };
        let capacity = find(busy(0.05));
        let what = format!("{service}/s: {}", capacity.doc().terminal(200));
        assert_eq!(capacity.outcome, SearchOutcome::Found, "{what}");
        let found = capacity.capacity_per_s.unwrap();
        assert!(
            (0.96..1.02).contains(&(found / service)),
            "{found} of {what}"
        );
        // One that others kept from its CPU may do more, and no limit of this client is named.
        let capacity = find(busy(1.0));
        let what = format!("{service}/s: {}", capacity.doc().terminal(200));
        assert_eq!(capacity.outcome, SearchOutcome::Undecided, "{what}");
    }
}

#[test]
fn no_window_hides_a_limit() {
    let question = question(Arrivals::Constant, "response_p99 < 500ms");
    for (seed, (permits, width)) in
        (0..).zip([(900.0, 1.0), (90.0, 0.1), (450.0, 0.5), (1_800.0, 2.0)])
    {
        let rate = permits / width;
        let fixed = search(&question, seed, |probe| {
            Box::new(Fixed::new(permits, width, probe))
        });
        holds(
            &fixed,
            rate,
            &format!("fixed window of {permits} in {width} s"),
        );
        let sliding = search(&question, seed, |_| Box::new(Sliding::new(permits, width)));
        holds(
            &sliding,
            rate,
            &format!("sliding window of {permits} in {width} s"),
        );
    }
}

#[test]
fn a_queue_is_not_read_too_high_in_probes_that_are_too_short_for_it() {
    let question = question(Arrivals::Poisson, "response_p99 < 100ms");
    // M/M/1: p99 is ln 100 / (service - rate).
    let (searches, mut above, mut found) = (12, 0, 0);
    for (seed, service) in (0..searches).zip([1_000.0, 4_000.0, 300.0].into_iter().cycle()) {
        let capacity = search(&question, seed, |probe| {
            Box::new(Queue::new(service, probe))
        });
        let Some(rate) = capacity
            .capacity_per_s
            .filter(|_| capacity.outcome == SearchOutcome::Found)
        else {
            continue;
        };
        found += 1;
        let may = question
            .bounds
            .precision
            .max(resolution(rate, &question).unwrap_or(0.0));
        let true_per_s = service - 100_f64.ln() / 0.1;
        above += u32::from(rate > true_per_s * (1.0 + may));
        assert!(rate > true_per_s * 0.9, "{}", capacity.doc().terminal(100));
    }
    assert!(found * 4 >= searches * 3, "{found} of {searches} found");
    assert!(above <= 1, "{above} of {found} are too high");
}

/// No capacity is named that the target does not sustain: what is found is no more than it does,
/// and of what is not found the true capacity lies within the interval.
#[track_caller]
fn promises(capacity: &Capacity, true_per_s: f64, what: &str) {
    let text = capacity.doc().terminal(200);
    if !matches!(
        capacity.outcome,
        SearchOutcome::Found | SearchOutcome::Unconfirmed
    ) {
        return;
    }
    let found = capacity.capacity_per_s.unwrap();
    if capacity.outcome == SearchOutcome::Found {
        assert!(
            found <= true_per_s * 1.02,
            "{what}: found {found} of {true_per_s}: {text}"
        );
    }
    let least = capacity.at_least_per_s.unwrap();
    assert!(
        least <= true_per_s * 1.02 && least <= found,
        "{what}: at least {least} of {true_per_s}: {text}"
    );
    assert!(
        capacity.fails_at_per_s.unwrap() >= true_per_s * 0.995,
        "{what}: of {true_per_s}: {text}"
    );
}

/// Probes of the default lengths, and of the shortest.
fn lengths() -> [Question; 2] {
    let question = question(Arrivals::Constant, "response_p99 < 500ms");
    [
        question.clone(),
        Question {
            warmup_s: 0.3,
            probe_s: 1.0,
            ..question
        },
    ]
}

#[test]
fn no_window_longer_than_a_probe_is_taken_for_a_rate() {
    for question in lengths() {
        for (seed, (permits, width)) in (0..).zip([
            (6_000.0, 60.0),
            (1_000.0, 10.0),
            (3_000.0, 60.0),
            (3e5, 3_600.0),
        ]) {
            let rate = permits / width;
            let fixed = search(&question, seed, |probe| {
                Box::new(Fixed::new(permits, width, probe))
            });
            let what = format!("fixed window of {permits} in {width} s");
            assert!(
                fixed.outcome != SearchOutcome::Found,
                "{what}: {}",
                fixed.doc().terminal(200)
            );
            if fixed.outcome == SearchOutcome::Unconfirmed {
                promises(&fixed, rate, &what);
            }
            let sliding = search(&question, seed, |_| Box::new(Sliding::new(permits, width)));
            promises(
                &sliding,
                rate,
                &format!("sliding window of {permits} in {width} s"),
            );
        }
    }
}

#[test]
fn a_target_that_closes_connections_is_read_like_one_that_refuses() {
    for question in lengths() {
        for (seed, burst) in (0..).zip([1.0_f64, 20.0, 130.0, 250.0, 1_000.0, 2_000.0]) {
            let bucket = || Bucket::new(250.0, burst);
            let refusing = search(&question, seed, |_| Box::new(bucket()));
            let closing = search(&question, seed, |_| Box::new(Closing(bucket())));
            let what = format!("bucket of 250/s and {burst} that closes connections");
            promises(&closing, 250.0, &what);
            assert_eq!(closing.capacity_per_s, refusing.capacity_per_s, "{what}");
            assert_eq!(closing.outcome, refusing.outcome, "{what}");
        }
    }
}
