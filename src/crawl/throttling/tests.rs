//! Whole answers: those that real targets give, laws that hold for any answer, and those of the
//! bundled target.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crawlmark_mock_server::{Config, Limits, serve};
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;
use crate::crawl::header_fields::lent;

/// Wed, 09 Aug 2023 14:24:23 GMT.
const RECEIVED: Duration = Duration::from_secs(1_691_591_063);
const DATE: (&str, &str) = ("date", "Wed, 09 Aug 2023 14:24:23 GMT");

fn headers<'a>(lines: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(
            HeaderName::from_bytes(name.as_bytes()).unwrap(),
            HeaderValue::from_bytes(value).unwrap(),
        );
    }
    headers
}

fn read(status: u16, headers: &HeaderMap, received: Duration) -> Signals {
    lent(headers, |fields| super::read(status, fields, received))
}

fn of(status: u16, lines: &[(&str, &str)]) -> Signals {
    read(
        status,
        &headers(lines.iter().map(|(name, value)| (*name, value.as_bytes()))),
        RECEIVED,
    )
}

#[expect(clippy::unnecessary_wraps, reason = "as it is compared")]
fn quota(remaining: u64, limit: Option<u64>, resets_in_s: Option<u64>) -> Option<Quota> {
    Some(Quota {
        remaining,
        limit,
        resets_in: resets_in_s.map(Duration::from_secs),
    })
}

/// Source and seconds.
type ExpectedWait = Option<(Source, f64)>;

fn check(
    status: u16,
    lines: &[(&str, &str)],
    expected: (Option<Throttle>, ExpectedWait, Option<Quota>),
) {
    let Signals {
        throttle,
        wait,
        quota,
    } = of(status, lines);
    let wait = wait.map(|wait| (wait.source, wait.promised.as_secs_f64()));
    assert_eq!((throttle, wait, quota), expected, "{status} {lines:?}");
}

#[test]
fn github_is_read_by_its_rules() {
    let of = |remaining| {
        [
            DATE,
            ("x-ratelimit-limit", "60"),
            remaining,
            ("x-ratelimit-reset", "1691591363"),
        ]
    };
    let used_up = of(("x-ratelimit-remaining", "0"));
    let minutes = Some((Source::XRateLimit, 300.0));
    for status in [403, 429] {
        check(
            status,
            &used_up,
            (
                Some(Throttle::QuotaUsedUp),
                minutes,
                quota(0, Some(60), Some(300)),
            ),
        );
    }
    // The last request that was let through, and one that is forbidden.
    check(200, &used_up, (None, None, quota(0, Some(60), Some(300))));
    check(404, &used_up, (None, None, quota(0, Some(60), Some(300))));
    check(
        403,
        &of(("x-ratelimit-remaining", "42")),
        (None, None, quota(42, Some(60), Some(300))),
    );
    // Secondary limits: the quota is not what was exceeded.
    let id = ("x-github-request-id", "C0DE:1234:5678");
    let left = ("x-ratelimit-remaining", "4990");
    let told = Some((Source::RetryAfter, 60.0));
    check(
        403,
        &[id, left, ("retry-after", "60")],
        (Some(Throttle::Secondary), told, quota(4_990, None, None)),
    );
    check(
        429,
        &[id, left, ("retry-after", "60")],
        (Some(Throttle::Secondary), told, quota(4_990, None, None)),
    );
    let minute = Some((Source::GitHubMinimum, 60.0));
    let soon = ("x-ratelimit-reset", "5");
    check(
        429,
        &[id, left, soon],
        (
            Some(Throttle::Secondary),
            minute,
            quota(4_990, None, Some(5)),
        ),
    );
    check(
        429,
        &[id, left],
        (Some(Throttle::Secondary), minute, quota(4_990, None, None)),
    );
    check(
        403,
        &[id, ("x-ratelimit-remaining", "0")],
        (Some(Throttle::QuotaUsedUp), minute, quota(0, None, None)),
    );
    check(403, &[id, left], (None, None, quota(4_990, None, None)));
}

#[test]
fn the_examples_of_the_ietf_draft_are_read() {
    let policy = ("ratelimit-policy", r#""default";q=100;w=10"#);
    let fifty = quota(50, Some(100), Some(5));
    check(
        200,
        &[policy, ("ratelimit", r#""default";r=50;t=5"#)],
        (None, None, fifty),
    );
    let used_up = ("ratelimit", r#""default";r=0;t=5"#);
    let five = Some((Source::RateLimit, 5.0));
    for status in [403, 420, 429, 500, 503] {
        check(
            status,
            &[policy, used_up],
            (
                Some(Throttle::QuotaUsedUp),
                five,
                quota(0, Some(100), Some(5)),
            ),
        );
    }
    for status in [204, 302, 400, 401, 404, 410] {
        check(
            status,
            &[policy, used_up],
            (None, None, quota(0, Some(100), Some(5))),
        );
    }
    // Retry-After takes precedence, even where it is shorter.
    for seconds in ["20", "1"] {
        let told = Some((Source::RetryAfter, seconds.parse().unwrap()));
        let expected = (Some(Throttle::QuotaUsedUp), told, quota(0, None, Some(5)));
        check(503, &[("retry-after", seconds), used_up], expected);
    }
}

#[test]
fn other_targets_are_read() {
    let too_many = Some(Throttle::TooManyRequests);
    // nginx: `limit_req` as it comes, and with `limit_req_status 429`.
    check(503, &[("server", "nginx")], (None, None, None));
    check(429, &[("server", "nginx")], (too_many, None, None));
    // Cloudflare's API.
    let cloudflare = [
        ("retry-after", "30"),
        ("ratelimit", r#""default";r=0;t=30"#),
        ("ratelimit-policy", r#""default";q=1200;w=300"#),
    ];
    let half_minute = Some((Source::RetryAfter, 30.0));
    check(
        429,
        &cloudflare,
        (
            Some(Throttle::QuotaUsedUp),
            half_minute,
            quota(0, Some(1_200), Some(30)),
        ),
    );
    // Discord: decimals, and the reset twice.
    let discord = [
        ("date", "Tue, 02 Aug 2016 23:02:38 GMT"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "1470178963.123"),
        ("x-ratelimit-reset-after", "4.57"),
    ];
    let expected = Some(Duration::from_millis(5_123));
    assert_eq!(of(429, &discord).wait.map(|wait| wait.promised), expected);
    // Drafts 03 and 07.
    let draft_03 = [
        ("ratelimit-limit", "2, 2;w=1"),
        ("ratelimit-remaining", "0"),
        ("ratelimit-reset", "1"),
    ];
    let second = Some((Source::RateLimit, 1.0));
    check(
        429,
        &draft_03,
        (
            Some(Throttle::QuotaUsedUp),
            second,
            quota(0, Some(2), Some(1)),
        ),
    );
    let draft_07 = [
        ("ratelimit", "limit=100, remaining=0, reset=50"),
        ("ratelimit-policy", "100;w=60"),
    ];
    let fifty = Some((Source::RateLimit, 50.0));
    check(
        429,
        &draft_07,
        (
            Some(Throttle::QuotaUsedUp),
            fifty,
            quota(0, Some(100), Some(50)),
        ),
    );
    // X: the spelling with one more hyphen. And a refusal with a reset and nothing else.
    let x = [
        DATE,
        ("x-rate-limit-remaining", "0"),
        ("x-rate-limit-reset", "1691591963"),
    ];
    check(
        429,
        &x,
        (
            Some(Throttle::QuotaUsedUp),
            Some((Source::XRateLimit, 900.0)),
            quota(0, None, Some(900)),
        ),
    );
    check(
        429,
        &[("x-ratelimit-reset", "7")],
        (too_many, Some((Source::XRateLimit, 7.0)), None),
    );
}

#[test]
fn retry_after_is_read_in_seconds_and_as_a_date() {
    let wait =
        |status, lines: &[(&str, &str)]| of(status, lines).wait.map(|wait| wait.promised.as_secs());
    let at = |date| ("retry-after", date);
    for date in [
        "Wed, 09 Aug 2023 14:26:23 GMT",
        "Wednesday, 09-Aug-23 14:26:23 GMT",
        "Wed Aug  9 14:26:23 2023",
    ] {
        assert_eq!(wait(503, &[at(date)]), Some(120), "{date}");
    }
    let date = at("Wed, 09 Aug 2023 14:26:23 GMT");
    // By the answer's own clock, which is wrong, as the date is: it is right about the span.
    assert_eq!(
        wait(503, &[("date", "Wed, 09 Aug 2023 14:26:13 GMT"), date]),
        Some(10)
    );
    assert_eq!(wait(503, &[("date", "yesterday"), date]), Some(120));
    // A time that has passed is a limit's, too, and promises nothing.
    for passed in ["0", "Wed, 09 Aug 2023 14:24:22 GMT"] {
        assert_eq!(
            of(503, &[at(passed)]).throttle,
            Some(Throttle::Unavailable),
            "{passed}"
        );
        assert_eq!(of(503, &[at(passed)]).wait, None, "{passed}");
        assert_eq!(
            wait(429, &[at(passed), ("ratelimit", r#""a";r=0;t=9"#)]),
            Some(9),
            "{passed}"
        );
    }
    // Lines that contradict each other, and statuses on which it is about something else.
    assert_eq!(
        wait(429, &[at("5"), at("120"), at("-1"), at("7")]),
        Some(120)
    );
    assert_eq!(
        (wait(500, &[at("5")]), of(500, &[at("5")]).throttle),
        (Some(5), None)
    );
    assert_eq!((wait(200, &[at("5")]), wait(301, &[at("5")])), (None, None));
}

#[test]
fn what_is_absurd_is_as_good_as_absent() {
    for value in [
        "-1",
        "+1",
        "1e3",
        "NaN",
        "inf",
        "soon",
        "",
        "0x10",
        "-99999999999",
    ] {
        check(503, &[("retry-after", value)], (None, None, None));
        check(
            429,
            &[("retry-after", value)],
            (Some(Throttle::TooManyRequests), None, None),
        );
    }
    check(
        403,
        &[("x-ratelimit-remaining", "-1"), ("x-ratelimit-reset", "5")],
        (None, None, None),
    );
}

#[test]
fn a_time_to_come_back_that_is_too_long_is_cut_and_not_ignored() {
    let year = Some((366 * 24 * 3_600, Source::RetryAfter));
    let digits = "9".repeat(31);
    for value in [
        "31708800",
        "18446744073709551615",
        &digits,
        "Fri, 31 Dec 9999 23:59:59 GMT",
    ] {
        for (status, throttle) in [
            (503, Throttle::Unavailable),
            (429, Throttle::TooManyRequests),
            (403, Throttle::Secondary),
        ] {
            let signals = of(status, &[("retry-after", value)]);
            assert_eq!(signals.throttle, Some(throttle), "{status} {value}");
            assert_eq!(
                signals
                    .wait
                    .map(|wait| (wait.promised.as_secs(), wait.source)),
                year,
                "{status} {value}"
            );
        }
    }
}

const NAMES: [&str; 16] = [
    "retry-after",
    "ratelimit",
    "ratelimit-policy",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-ratelimit-reset-after",
    "x-rate-limit-limit",
    "x-rate-limit-remaining",
    "x-rate-limit-reset",
    "x-ratelimit-used",
    "date",
    "x-github-request-id",
];

/// Fields that another line can contradict. The others of [`NAMES`] are left out: a policy says
/// what is counted, so a number may stop being one of requests, and the first date that can be read
/// replaces this client's.
const CONTRADICTABLE: [&str; 12] = [
    "retry-after",
    "ratelimit",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-ratelimit-reset-after",
    "x-rate-limit-limit",
    "x-rate-limit-remaining",
    "x-rate-limit-reset",
];

fn status() -> impl Strategy<Value = u16> {
    prop_oneof![
        prop::sample::select(vec![
            200, 204, 302, 400, 401, 403, 404, 410, 429, 500, 502, 503
        ]),
        100..600_u16
    ]
}

/// Bytes that a field may hold.
fn any_value() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(
        prop_oneof![Just(b'\t'), 0x20..=0x7e_u8, 0x80..=0xff_u8],
        0..40,
    )
}

/// Generate values, most of which mean something in some field.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let text = prop_oneof![
        "[0-9]{1,13}",
        "[0-9]{1,6}(, ?[0-9]{1,6}){1,2}",
        "1691[0-9]{6}",
        "[0-9]{1,4}\\.[0-9]{1,12}",
        "\"a\";r=[0-9]{1,2};t=[0-9]{1,4}(, \"b\";r=[0-3];t=[0-9]{1,5})?",
        "\"[ab]\";q=[0-9]{1,3};w=60(;qu=\"(requests|content-bytes)\")?",
        "limit=[0-9]{1,3}, remaining=[0-9]{1,2}, reset=[0-9]{1,4}",
        "Wed, 09 Aug 2023 1[0-9]:[0-5][0-9]:[0-5][0-9] GMT",
    ];
    prop_oneof![4 => text.prop_map(String::into_bytes), 1 => any_value()]
}

/// Generate values that no field can be read from.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let text = prop_oneof![
        "[-+][0-9]{1,5}",
        "[0-9]{1,3}e[0-9]{1,3}",
        "9{21,40}",
        "(NaN|inf|soon|null|0x10|--|,|5,,6|60 s|1\\.2\\.3)",
        "\"a\";r=(-[1-9]|[0-9]\\.[0-9]|\"0\"|9{16});t=5",
        "\"a\";r=0;t=(-1|x|9{15})",
        "\"a;r=0;t=5",
        "Wed, (32|99) Aug 2023 14:00:00 GMT",
        "Wed, 09 Aug 2023 25:00:00 GMT",
        "limit=-1, remaining=x, reset=\"5\"",
    ];
    let foreign = any_value().prop_map(|mut value| {
        value.push(0xe9);
        value
    });
    prop_oneof![text.prop_map(String::into_bytes), foreign]
}

fn lines(
    value: impl Strategy<Value = Vec<u8>>,
    most: usize,
) -> impl Strategy<Value = Vec<(&'static str, Vec<u8>)>> {
    prop::collection::vec((prop::sample::select(NAMES.to_vec()), value), 0..most)
}

/// Several lines of one field, or of two, all of which can be read.
fn contradictory_lines() -> impl Strategy<Value = Vec<(&'static str, Vec<u8>)>> {
    let fitting = |name: &str| match name {
        "ratelimit" => "(\"[ab]\";r=[01];t=[1-9][0-9]{0,2}|(remaining=[0-2], )?reset=[1-9][0-9]?)",
        "retry-after" => {
            "([1-9][0-9]{0,3}|[1-9], ?[1-9][0-9]|Wed, 09 Aug 2023 1[4-6]:[0-5][0-9]:00 GMT)"
        }
        _ if name.ends_with("remaining") => "[0-2]",
        _ => "([1-9][0-9]{0,2}|316[0-9]{5}|[1-9]\\.[0-9]|1691591[0-9]{3})",
    };
    let name = || prop::sample::select(CONTRADICTABLE.to_vec());
    let names = (name(), name()).prop_map(|(one, other)| vec![one, other]);
    let line = move |name: &'static str| (Just(name), fitting(name).prop_map(String::into_bytes));
    names.prop_flat_map(move |names| {
        prop::collection::vec(prop::sample::select(names).prop_flat_map(line), 2..6)
    })
}

fn map(lines: &[(&'static str, Vec<u8>)]) -> HeaderMap {
    headers(lines.iter().map(|(name, value)| (*name, value.as_slice())))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_answer_can_be_read_and_no_wait_is_nothing(
        status in status(), lines in lines(prop_oneof![value(), any_value(), garbage()], 8), received: u32,
    ) {
        let signals = read(status, &map(&lines), Duration::from_secs(received.into()));
        prop_assert!(signals.throttle.is_none() || status >= 400);
        prop_assert!(signals.wait.is_none_or(|wait| !wait.promised.is_zero()));
    }

    #[test]
    fn what_cannot_be_read_changes_nothing(
        status in status(), valid in lines(value(), 6), garbage in lines(garbage(), 6), before: bool,
    ) {
        // Seconds are seconds, however many: that is a time to come back.
        let is_time = |name: &str, value: &[u8]| name == "retry-after" && value.iter().all(u8::is_ascii_digit);
        let garbage: Vec<_> = (garbage.into_iter())
            .filter(|(name, value)| *name != "x-github-request-id" && !is_time(name, value))
            .collect();
        let both = if before { [garbage, valid.clone()].concat() } else { [valid.clone(), garbage].concat() };
        prop_assert_eq!(read(status, &map(&both), RECEIVED), read(status, &map(&valid), RECEIVED));
    }

    /// Another line of a field never shortens a wait, nor quickens the pace.
    #[test]
    fn a_contradiction_is_read_patiently(
        status in status(), name in prop::sample::select(CONTRADICTABLE.to_vec()), one in value(), other in value(),
        rest in lines(value(), 5),
    ) {
        let lines = [rest, vec![(name, one)]].concat();
        let source = |signals: &Signals| signals.wait.map(|wait| wait.source);
        let promised = |signals: &Signals| signals.wait.map(|wait| wait.promised);
        let pace = |signals: &Signals| signals.quota.and_then(|quota| quota.pace_per_s()).unwrap_or(f64::INFINITY);
        let before = read(status, &map(&lines), RECEIVED);
        let after = read(status, &map(&[lines, vec![(name, other)]].concat()), RECEIVED);
        prop_assert!(before.throttle.is_none() || after.throttle.is_some());
        prop_assert!(pace(&after) <= pace(&before));
        // A source of higher rank may be shorter: that is what precedence is.
        if source(&before) == source(&after) {
            prop_assert!(promised(&after) >= promised(&before));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_laws_that_fuzzing_relies_on_hold(
        status in status(),
        lines in prop_oneof![lines(prop_oneof![value(), any_value(), garbage()], 8), contradictory_lines()],
    ) {
        let mut text = format!("{status} {}", RECEIVED.as_secs()).into_bytes();
        for (name, value) in &lines {
            text.extend([b"\n", name.as_bytes(), b": ", value].concat());
        }
        laws::check(&text);
    }

    #[test]
    fn no_bytes_break_a_law(text: Vec<u8>, lines in "(retry-after: [-0-9,.:]*\n|[\\PC\n]){0,20}") {
        laws::check(&text);
        laws::check(lines.as_bytes());
    }
}

/// Status and head of the next answer of a target.
fn ask(target: std::net::SocketAddr) -> (u16, HeaderMap) {
    let mut client = TcpStream::connect(target).unwrap();
    client
        .write_all(b"GET /items/1 HTTP/1.1\r\nhost: target\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    let (head, _) = answer.split_once("\r\n\r\n").unwrap();
    let (first, fields) = head.split_once("\r\n").unwrap();
    let lines = fields
        .split("\r\n")
        .map(|line| line.split_once(": ").unwrap());
    (
        first[9..12].parse().unwrap(),
        headers(lines.map(|(name, value)| (name, value.as_bytes()))),
    )
}

#[test]
fn the_bundled_target_is_understood_in_every_dialect() {
    let dialects = [
        "x-ratelimit",
        "x-ratelimit-delta",
        "ietf",
        "draft-07",
        "draft-03",
        "x-ratelimit+ietf+draft-03",
    ];
    let refusals = [
        ("429", "seconds"),
        ("429", "date"),
        ("503", "seconds"),
        ("403", "none"),
    ];
    for dialect in dialects {
        for (status, retry) in refusals {
            let limit = format!("fixed:2/24h:status={status}:retry={retry}:headers={dialect}");
            let limits = Limits::new(vec![limit.parse().unwrap()]).unwrap();
            let config = Config {
                limits,
                ..Config::default()
            };
            let target = serve(TcpListener::bind("127.0.0.1:0").unwrap(), config).unwrap();
            for left in [1, 0] {
                let (code, headers) = ask(target.address());
                let Signals {
                    throttle,
                    wait,
                    quota,
                } = read(code, &headers, Duration::ZERO);
                assert_eq!((code, throttle, wait), (200, None, None), "{limit}");
                let quota = quota.unwrap();
                assert_eq!(
                    (quota.remaining, quota.limit, quota.resets_in.is_some()),
                    (left, Some(2), true),
                    "{limit}"
                );
            }
            let (code, mut headers) = ask(target.address());
            let refused = read(code, &headers, Duration::ZERO);
            assert_eq!(
                (code.to_string().as_str(), refused.throttle),
                (status, Some(Throttle::QuotaUsedUp)),
                "{limit}"
            );
            headers.remove("retry-after");
            let by_quota = read(code, &headers, Duration::ZERO).wait.unwrap();
            let is_x = dialect == "x-ratelimit" || dialect == "x-ratelimit-delta";
            assert_eq!(
                by_quota.source,
                if is_x {
                    Source::XRateLimit
                } else {
                    Source::RateLimit
                },
                "{limit}"
            );
            let wait = refused.wait.unwrap();
            assert_eq!(
                wait.source,
                if retry == "none" {
                    by_quota.source
                } else {
                    Source::RetryAfter
                },
                "{limit}"
            );
            // All of them round up, by a second of their own and one of the date.
            assert!(
                wait.promised.abs_diff(by_quota.promised) <= Duration::from_secs(2),
                "{limit}"
            );
            assert!(
                wait.promised <= Duration::from_secs(24 * 3_600 + 2),
                "{limit}"
            );
        }
    }
}
