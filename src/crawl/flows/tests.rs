//! The law of items of several requests: whole runs in virtual time over connections in memory, by
//! what the target received.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::rehearse::{Incident, Rehearsal, rehearse};
use crawlmark_harness::sample::{Fate, Outcome};
use crawlmark_harness::trace::mixed;
use crawlmark_harness::units::IdRange;
use crawlmark_results::run::report::{
    Environment, Labels, Placement, Report, RunFacts, Seconds, Source,
};
use http::header::RETRY_AFTER;
use http::{Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::{DuplexStream, duplex};
use tokio::task::spawn_local;

use super::*;
use crate::crawl::{
    Crawl, CrawlOptions, CrawlSpec, Dial, Expectations, Flow, HoldHeader, HttpSettings, Line,
    RequestShape, Reuse, Route, Step, Takes, Targets,
};
use crawlmark_harness::workload::Flight;

/// Header with the value that the next request repeats.
const VALUE: &str = "x-value";

/// Paths of the requests of an item.
const NAMES: [&str; 4] = ["login", "list", "read", "write"];

/// Answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Good,
    /// Good, without the value.
    Bare,
    Throttled,
    Failed,
    Cut,
    Missing,
}

impl Answer {
    fn drawn(seed: u64, id: u64, number: usize, nth: usize) -> Self {
        let draw = [id, number as u64, nth as u64]
            .iter()
            .fold(seed, |seed, next| mixed(seed ^ next));
        match draw % 32 {
            0 => Self::Bare,
            1 => Self::Missing,
            2..5 => Self::Throttled,
            5..9 => Self::Failed,
            9..12 => Self::Cut,
            _ => Self::Good,
        }
    }

    /// True if the same request may be sent again after it.
    const fn may_pass(self) -> bool {
        matches!(self, Self::Throttled | Self::Failed | Self::Cut)
    }
}

/// The numbers of the requests of each item in the order in which they came, and their answers.
type Log = BTreeMap<u64, Vec<(usize, Answer)>>;

/// A target that all shards share.
#[derive(Debug, Clone)]
struct Target {
    seed: u64,
    log: Rc<RefCell<Log>>,
}

impl Dial for Target {
    type Stream = DuplexStream;

    async fn dial(&self, _: Route<'_>, _: &Flight) -> io::Result<DuplexStream> {
        let (near, far) = duplex(4 << 10);
        let target = self.clone();
        spawn_local(async move {
            let answer = service_fn(async |request| target.answer(&request).await);
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(far), answer)
                .await;
        });
        Ok(near)
    }
}

impl Target {
    async fn answer(&self, request: &Request<Incoming>) -> io::Result<Response<Empty<Bytes>>> {
        let path: Vec<&str> = request.uri().path().split('/').collect();
        let [_, number, id, value] = path[..] else {
            panic!("{path:?}");
        };
        let number = NAMES.iter().position(|name| *name == number).unwrap();
        let id = id.parse().unwrap();
        let answer = {
            let log = &mut *self.log.borrow_mut();
            let log: &mut Vec<_> = log.entry(id).or_default();
            // That of the last good answer.
            let last = log.iter().filter(|(of, _)| of + 1 == number).count();
            let expected = if number == 0 {
                "start".to_owned()
            } else {
                format!("{id}-{last}")
            };
            assert_eq!(value, expected);
            let nth = log.iter().filter(|(of, _)| *of == number).count();
            let answer = Answer::drawn(self.seed, id, number, nth);
            log.push((number, answer));
            answer
        };
        tokio::time::sleep(Duration::from_millis(1 + mixed(self.seed ^ id) % 20)).await;
        let response = Response::builder();
        let response = match answer {
            Answer::Good => {
                let log = self.log.borrow();
                let times = log[&id].iter().filter(|(of, _)| *of == number).count();
                response.header(VALUE, format!("{id}-{times}"))
            }
            Answer::Bare => response,
            Answer::Throttled => response.status(429).header(RETRY_AFTER, 1),
            Answer::Failed => response.status(500),
            Answer::Missing => response.status(404),
            Answer::Cut => return Err(io::ErrorKind::BrokenPipe.into()),
        };
        Ok(response.body(Empty::new()).unwrap())
    }
}

/// The requests of an item: so many, each of which but the last gives a value to the next.
fn line(requests: usize) -> Line {
    let takes = |is_last: bool| {
        let from = format!("header:{VALUE}");
        let value = [("v", from.as_str())].into_iter();
        Takes::new(value.filter(|_| !is_last), None, None).unwrap()
    };
    let shape = RequestShape::new("GET", &[], Bytes::new()).unwrap();
    let step = |number| {
        let url = format!("http://a.test/{}/{{id}}/{{v}}", NAMES[number]);
        let takes = takes(number + 1 == requests);
        Step::new(&url, shape.clone(), None, takes, &["v".to_owned()]).unwrap()
    };
    Line {
        template: "http://a.test/login/{id}/start".parse().unwrap(),
        shape: None,
        method: None,
        flow: Some(Flow {
            first: Arc::new(takes(requests == 1)),
            steps: (1..requests).map(step).collect(),
        }),
    }
}

fn spec(plan: &RunPlan, requests: usize) -> CrawlSpec {
    let lines = [Ok::<_, crate::crawl::TemplateError>(line(requests))];
    CrawlSpec {
        addresses: vec![vec![SocketAddr::from(([192, 0, 2, 1], 80))]],
        targets: Arc::new(Targets::collect(lines).unwrap()),
        request: RequestShape::new("GET", &[], Bytes::new()).unwrap(),
        expect: Expectations::default(),
        timeout: plan.timeout,
        connect_timeout: plan.timeout,
        reuse: Reuse::default(),
        local_ips: None,
        held: HoldHeader::Ignored,
        tls: None,
        proxies: None,
        http: HttpSettings::default(),
        options: CrawlOptions::default(),
    }
}

/// Check the requests of an item that ended. Return true if it might have gone on.
fn check_item(sent: &[(usize, Answer)], requests: usize, retries: u32) -> bool {
    assert_eq!(sent[0].0, 0);
    for two in sent.windows(2) {
        let [(number, answer), (next, _)] = two else {
            unreachable!()
        };
        // A good answer is followed by the next request, and another one by its own again.
        assert_eq!(
            *next,
            number + usize::from(*answer == Answer::Good),
            "{sent:?}"
        );
        assert!(*answer == Answer::Good || answer.may_pass(), "{sent:?}");
    }
    // Throttles and failures of a request have a limit each.
    let of_kind = |number: usize, throttled: bool| {
        let same = |answer: Answer| (answer == Answer::Throttled) == throttled;
        let of = sent
            .iter()
            .filter(|(of, answer)| *of == number && answer.may_pass() && same(*answer));
        of.count()
    };
    for number in 0..requests {
        for throttled in [false, true] {
            assert!(
                of_kind(number, throttled) <= retries as usize + 1,
                "{sent:?}"
            );
        }
    }
    let (number, last) = *sent.last().unwrap();
    assert!(last != Answer::Good || number + 1 == requests, "{sent:?}");
    last.may_pass() && of_kind(number, last == Answer::Throttled) <= retries as usize
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn each_item_ends_once_and_a_request_is_repeated_only_as_the_retry_rules_say(
        seed: u64, items in 1..40_u64, requests in 1..5_usize, retries in 0..4_u32, budget in prop_oneof![Just(100), 0..100_u32],
        shards in 1..4_u32, connections in 1..6_u32, disorder in prop::option::of(any::<u64>()),
    ) {
        let mut plan = RunPlan {
            shards,
            connections: connections * shards,
            ..RunPlan::new("http://a.test", IdRange { start: 0, end: items })
        };
        (plan.throttling.retries, plan.throttling.retry_budget_percent) = (retries, budget);
        let plan = plan.validate().unwrap();
        let (spec, target) = (spec(&plan, requests), Target { seed, log: Rc::default() });
        let disorder = disorder.map(|seed| Incident::Disorder { seed });
        let Rehearsal { record, samples, .. } = rehearse(&plan, disorder.as_slice(), |shard, clock| {
            Crawl::over(target.clone(), spec.clone(), shard.connections, clock)
        }).unwrap();
        let log = target.log.take();
        prop_assert_eq!(log.len() as u64, items);
        let mut given_up = 0;
        for (id, sent) in &log {
            let of_item: Vec<_> = samples.iter().filter(|sample| sample.permit.id == *id).collect();
            prop_assert_eq!(of_item.len(), sent.len());
            let ended = of_item.iter().filter(|sample| sample.fate == Fate::Ended).count();
            prop_assert_eq!(ended, 1);
            let stepped = of_item.iter().filter(|sample| sample.attempt.outcome == Outcome::Stepped).count();
            prop_assert_eq!(stepped, sent.last().unwrap().0);
            given_up += u64::from(check_item(sent, requests, retries));
        }
        let report = Report::new(Source {
            target: None,
            plan: &plan,
            labels: &Labels::default(),
            record: &record,
            intervals: Seconds::default(),
            environment: Environment::read(Placement::Apart),
            facts: RunFacts::default(),
        });
        prop_assert_eq!(report.throttling.retries_denied, given_up);
        prop_assert_eq!(report.totals.attempts, samples.len() as u64);
        prop_assert_eq!(report.totals.retries, samples.len() as u64 - items);
        let of_number = |number| log.values().flatten().filter(|(of, _)| *of == number).count() as u64;
        if requests > 1 {
            prop_assert_eq!(report.totals.steps, (1..requests).map(|number| log.values().filter(|sent| sent.iter().any(|(of, _)| *of == number)).count() as u64).sum::<u64>());
            let rows = report.by_template.iter().map(|row| (row.group.number(), row.attempts));
            let rows: BTreeMap<_, _> = rows.filter(|(_, count)| *count > 0).collect();
            let expected = (0..requests).map(|number| (u32::try_from(number).ok(), of_number(number)));
            let expected: BTreeMap<_, _> = expected.filter(|(_, count)| *count > 0).collect();
            prop_assert_eq!(rows, expected);
        }
    }
}
