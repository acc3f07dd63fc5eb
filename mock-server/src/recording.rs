//! Recording of another service: a response for each URL, and the times of all responses, as a
//! mapping file that [`Mappings::load`](crate::Mappings::load) reads. The server adds what it
//! passes on.
//!
//! It must not send or wait, and it keeps nothing of a request but its method and URL.

use crate::latency::MAX_HOLD;
use crate::text::duration_text;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{ALT_SVC, CONTENT_LENGTH, DATE, HeaderMap, HeaderName, SET_COOKIE};
use hyper::{Method, StatusCode};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// File of a recording, below the directory that stubs are served from.
pub const RECORDED: &str = "mappings/recorded.json";

/// Most bytes of a body that is recorded.
pub(crate) const MAX_BODY: usize = 1 << 20;

/// Most URLs.
const MAX_URLS: usize = 10_000;

/// Most bytes of all URLs, headers and bodies: JSON makes them twice as many at most, and no mapping
/// file is larger than 64 MiB.
const MAX_BYTES: usize = 24 << 20;

/// Shares of the responses whose times are written.
const SHARES: [f64; 25] = [
    0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8,
    0.85, 0.9, 0.95, 0.97, 0.98, 0.99, 0.999, 1.0,
];

/// The 99th percentile of the standard normal distribution.
const Z_99: f64 = 2.326_347_874;

/// Headers that are not recorded: secrets, and what the server writes itself.
const DROPPED: [HeaderName; 3] = [SET_COOKIE, DATE, ALT_SVC];

/// How the names of headers begin that the bundled target adds to a stub's.
const OWN: [&str; 2] = ["x-mock-", "matched-stub-"];

/// Responses that were passed on, by method and URL. Its size is bounded: 10,000 URLs with 24 MiB,
/// and at most 1,700 different times each.
#[derive(Debug, Default)]
pub struct Recording {
    /// By method and URL, with a blank between them.
    urls: BTreeMap<String, Recorded>,
    bytes: usize,
    pub(crate) counts: RecordingCounts,
}

/// Counts of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordingCounts {
    /// URLs with a stub, each method apart.
    pub urls: usize,
    /// Responses whose times were recorded.
    pub recorded: u64,
    /// Those of them with another body than the one that was kept for their URL.
    pub other_body: u64,
    /// Responses with another status than the one that was kept: not recorded.
    pub other_status: u64,
    /// Responses with bodies of more than 1 MiB: not recorded.
    pub too_large: u64,
    /// Responses for whose URLs there was no room: not recorded.
    pub no_room: u64,
    /// Responses that ended early, or whose client left: not recorded.
    pub cut_short: u64,
    /// Requests that the service did not respond to.
    pub unanswered: u64,
}

/// Response as it was received.
#[derive(Debug)]
pub(crate) struct Passed {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) url: String,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: HeaderMap,
}

/// The response that was kept of a URL, and the times of all.
#[derive(Debug)]
struct Recorded {
    passed: Passed,
    times: Times,
}

impl Recording {
    /// Add a response that took `time`. The first success of a URL is kept, or its first response
    /// if none succeeds.
    pub(crate) fn add(&mut self, mut passed: Passed, time: Duration) {
        let key = format!("{} {}", passed.method, passed.url);
        let mut replaced = 0;
        if let Some(known) = self.urls.get_mut(&key) {
            if known.passed.status == passed.status {
                known.times.add(time);
                self.counts.recorded += 1;
                self.counts.other_body += u64::from(known.passed.body != passed.body);
                return;
            }
            if known.passed.status.is_success() || !passed.status.is_success() {
                self.counts.other_status += 1;
                return;
            }
            replaced = known.passed.size();
        }
        passed.strip();
        let bytes = self.bytes - replaced + passed.size();
        if bytes > MAX_BYTES || (replaced == 0 && self.urls.len() >= MAX_URLS) {
            self.counts.no_room += 1;
            return;
        }
        self.bytes = bytes;
        self.counts.recorded += 1;
        let mut times = Times::default();
        times.add(time);
        if let Some(old) = self.urls.insert(key, Recorded { passed, times }) {
            self.counts.recorded -= old.times.count();
            self.counts.other_status += old.times.count();
        }
    }

    /// Return how much was recorded, and what was not.
    pub fn counts(&self) -> RecordingCounts {
        RecordingCounts {
            urls: self.urls.len(),
            ..self.counts
        }
    }

    /// Return the stubs as a file of mappings.
    ///
    /// # Errors
    ///
    /// None that is known: texts and numbers alone are written.
    pub fn json(&self) -> serde_json::Result<Vec<u8>> {
        let mappings: Vec<Value> = self.urls.values().map(Recorded::stub).collect();
        let meta = json!({ "total": mappings.len(), "counts": self.counts() });
        let all = json!({ "mappings": mappings, "meta": meta });
        serde_json::to_vec_pretty(&all)
    }
}

impl Passed {
    /// Remove the headers that are not recorded.
    fn strip(&mut self) {
        self.trailers.remove(SET_COOKIE);
        let all = std::mem::take(&mut self.headers);
        let kept = all.iter().filter(|(name, _)| self.has_recorded(name));
        self.headers = kept
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
    }

    fn has_recorded(&self, name: &HeaderName) -> bool {
        // Of a response to HEAD it is the length of the body that GET would get.
        let is_framing = name == CONTENT_LENGTH && self.method != Method::HEAD;
        !is_framing
            && !DROPPED.contains(name)
            && !OWN.iter().any(|start| name.as_str().starts_with(start))
    }

    fn size(&self) -> usize {
        let headers = self
            .headers
            .iter()
            .chain(&self.trailers)
            .map(|(name, value)| name.as_str().len() + value.len());
        self.url.len() + headers.sum::<usize>() + self.body.len()
    }
}

impl Recorded {
    /// The stub. `delayDistribution` is for WireMock, which has no other that has a tail: the
    /// log-normal one with the same median and the same 99th percentile.
    fn stub(&self) -> Value {
        let Passed {
            method,
            url,
            status,
            headers,
            body,
            trailers,
        } = &self.passed;
        let [median, p99] = [0.5, 0.99].map(|share| self.times.at(share).as_secs_f64() * 1e3);
        let sigma = (p99 / median.max(1e-3)).ln().max(0.0) / Z_99;
        let mut response = json!({
            "status": status.as_u16(),
            "headers": fields(headers),
            "delayDistribution": { "type": "lognormal", "median": median, "sigma": sigma.min(5.0) },
        });
        if !body.is_empty() {
            let text = str::from_utf8(body).ok();
            match text.filter(|text| !text.contains(is_escaped)) {
                Some(text) => response["body"] = text.into(),
                None => response["base64Body"] = STANDARD.encode(body).into(),
            }
        }
        let mut metadata = json!({ "x-latency": self.times.law() });
        if !trailers.is_empty() {
            metadata["x-trailers"] = fields(trailers);
        }
        json!({
            "request": { "method": method.as_str(), "url": url },
            "response": response,
            "metadata": metadata,
        })
    }
}

/// True of a character that JSON takes six bytes for.
fn is_escaped(char: char) -> bool {
    char < ' ' && !matches!(char, '\t' | '\n' | '\r')
}

/// Headers as a stub has them, in ISO 8859-1: a text, or a list of texts.
fn fields(headers: &HeaderMap) -> Value {
    let mut all = Map::new();
    for name in headers.keys() {
        let texts: Vec<String> = headers
            .get_all(name)
            .iter()
            .map(|value| value.as_bytes().iter().copied().map(char::from).collect())
            .collect();
        all.insert(name.as_str().to_owned(), texts.into());
    }
    Value::Object(all)
}

/// Counts of times in microseconds, each rounded to seven bits, so by 0.8 % at most.
#[derive(Debug, Default)]
struct Times(BTreeMap<u32, u64>);

impl Times {
    fn add(&mut self, time: Duration) {
        let us = u32::try_from(time.min(MAX_HOLD).as_micros()).unwrap_or(u32::MAX);
        let shift = (u32::BITS - us.leading_zeros()).saturating_sub(7);
        let rounded = (us >> shift << shift) + (1 << shift >> 1);
        *self.0.entry(rounded).or_default() += 1;
    }

    fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// Return the time that a share of all does not exceed.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count"
    )]
    fn at(&self, share: f64) -> Duration {
        let rank = (share * self.count() as f64).ceil() as u64;
        let mut up_to = 0;
        let us = self
            .0
            .iter()
            .find(|(_, count)| {
                up_to += *count;
                up_to >= rank
            })
            .or(self.0.last_key_value())
            .map_or(0, |(us, _)| *us);
        Duration::from_micros(us.into()).min(MAX_HOLD)
    }

    /// The model of `--latency` with these times.
    fn law(&self) -> String {
        if self.0.len() == 1 {
            return duration_text(self.at(1.0));
        }
        format!(
            "quantiles:{}",
            SHARES
                .map(|share| format!("{share}={}", duration_text(self.at(share))))
                .join(",")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Draws, Stream};
    use crate::latency::Latency;
    use crate::stubs::{Mappings, OnUnsupported};
    use proptest::prelude::*;

    fn passed(url: &str, status: u16, body: &[u8]) -> Passed {
        Passed {
            method: Method::GET,
            url: url.to_owned(),
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: body.to_vec(),
            trailers: HeaderMap::new(),
        }
    }

    fn counts_of(responses: &[(u16, &[u8])]) -> (Recording, RecordingCounts) {
        let mut recording = Recording::default();
        for (status, body) in responses {
            recording.add(passed("/", *status, body), Duration::from_millis(5));
        }
        let counts = recording.counts();
        (recording, counts)
    }

    /// The quantiles of a law, by as many draws as a crawl has.
    fn drawn(law: &str) -> Vec<Duration> {
        let latency: Latency = law.parse().unwrap();
        let mut holds: Vec<Duration> = (0..20_000)
            .map(|id| latency.drawn(id, || Draws::new(Stream::Stub, 3, id)))
            .collect();
        holds.sort_unstable();
        holds
    }

    #[test]
    fn draws_of_a_law_have_the_quantiles_that_were_recorded() {
        for model in [
            "lognormal:20ms,0.4",
            "uniform:1ms,3ms",
            "pareto:5ms,2,2s",
            "bimodal:2ms,200ms,0.05",
            "fixed:700us",
            "quantiles:0=1ms,0.5=1ms,0.6=50ms,1=50ms",
        ] {
            let real: Latency = model.parse().unwrap();
            let mut times = Times::default();
            let mut recorded: Vec<Duration> = (0..5_000).map(|id| real.hold(9, id, 0)).collect();
            for time in &recorded {
                times.add(*time);
            }
            recorded.sort_unstable();
            let replayed = drawn(&times.law());
            // Not at the edge of the two times, where either is right.
            for percent in [10, 25, 50, 90, 99] {
                let at =
                    |sorted: &[Duration]| sorted[sorted.len() * percent / 100 - 1].as_secs_f64();
                let (was, is) = (at(&recorded), at(&replayed));
                let within = (0.1 * was).max(0.001);
                assert!(
                    (is - was).abs() <= within,
                    "{model} at {percent}: {was}, {is}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn a_law_is_read_and_lies_between_its_ends(
            us in prop::collection::vec(0_u64..5_000_000_000, 1..60),
        ) {
            let mut times = Times::default();
            for us in &us {
                times.add(Duration::from_micros(*us));
            }
            let near = |time: Duration| (time.mul_f64(0.992), time.mul_f64(1.008));
            let ends = [us.iter().min(), us.iter().max()];
            let [low, high] = ends.map(|us| Duration::from_micros(*us.unwrap()).min(MAX_HOLD));
            let latency: Latency = times.law().parse().unwrap();
            for id in 0..50 {
                let hold = latency.drawn(id, || Draws::new(Stream::Stub, 3, id));
                prop_assert!(near(low).0 <= hold + Duration::from_micros(1) && hold <= near(high).1);
            }
        }

        #[test]
        fn whatever_is_recorded_is_loaded_and_answers_as_it_was(
            url in "/[ -~]{0,12}", body in prop::collection::vec(any::<u8>(), 0..20),
            value in prop::collection::vec(prop_oneof![Just(b'\t'), b' '..=b'~', 0x80_u8..], 0..9),
            status in 200_u16..999,
        ) {
            let mut recording = Recording::default();
            let mut passed = passed(&url, status, &body);
            passed.headers.insert("x-v", hyper::header::HeaderValue::from_bytes(&value).unwrap());
            let expected = passed.headers["x-v"].clone();
            recording.add(passed, Duration::from_micros(1234));
            let mappings = Mappings::parse(&recording.json().unwrap(), OnUnsupported::Refuse).unwrap();
            let stub = mappings.stubs().iter().next().unwrap();
            let rendered = stub.reply.ready().unwrap();
            prop_assert_eq!((rendered.status.as_u16(), &*rendered.body), (status, &*body));
            prop_assert_eq!(rendered.headers, [(HeaderName::from_static("x-v"), expected)]);
            let hold = stub.reply.delays.hold(&mappings.stubs().settings.delays, 1, 1);
            prop_assert_eq!(hold.as_micros(), 1240);
        }
    }

    #[test]
    fn the_first_success_is_kept_with_the_times_of_its_status() {
        let first: (u16, &[u8]) = (503, b"busy");
        let (recording, counts) = counts_of(&[first, first, (200, b"a"), (200, b"b"), first]);
        let expected = RecordingCounts {
            urls: 1,
            recorded: 2,
            other_body: 1,
            other_status: 3,
            ..RecordingCounts::default()
        };
        assert_eq!(counts, expected);
        assert_eq!(recording.urls["GET /"].passed.body, b"a");
        assert_eq!(recording.bytes, 2);
        let (_, counts) = counts_of(&[(404, b""), (404, b""), (500, b"")]);
        assert_eq!((counts.recorded, counts.other_status), (2, 1));
    }

    #[test]
    fn a_recording_is_bounded() {
        let mut recording = Recording::default();
        for url in 0..MAX_URLS + 3 {
            recording.add(passed(&format!("/{url}"), 200, b""), Duration::ZERO);
        }
        assert_eq!(
            (recording.counts().urls, recording.counts().no_room),
            (MAX_URLS, 3)
        );
        let mut recording = Recording::default();
        let body = vec![b'"'; MAX_BODY];
        for url in 0..30 {
            recording.add(passed(&format!("/{url}"), 200, &body), Duration::ZERO);
        }
        assert_eq!(
            (recording.counts().urls, recording.counts().no_room),
            (23, 7)
        );
        assert!(recording.json().unwrap().len() < 64 << 20);
    }

    #[test]
    fn headers_of_the_servers_own_are_left_out() {
        let names = |method: Method| {
            let mut passed = passed("/", 200, b"");
            passed.method = method;
            for name in [
                "set-cookie",
                "date",
                "content-length",
                "x-mock-hold-us",
                "etag",
            ] {
                let value = hyper::header::HeaderValue::from_static("7");
                passed.headers.insert(HeaderName::from_static(name), value);
            }
            passed.strip();
            passed
                .headers
                .keys()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(Method::GET), ["etag"]);
        assert_eq!(names(Method::HEAD), ["content-length", "etag"]);
    }
}
