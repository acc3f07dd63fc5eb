//! Whole answers: those that real targets give, laws that hold for any answer, and those of the
//! bundled target.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crawlmark_mock_server::{Config, Limits, serve};
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;
use crate::crawl::response::fields::lent_map;

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
    lent_map(headers, |fields| super::read(status, fields, received))
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

/// Check that an answer is read as throttled or not, with a wait in ms and a quota.
fn check(status: u16, lines: &[(&str, &str)], expected: (bool, Option<u128>, Option<Quota>)) {
    let Signals {
        is_throttled,
        wait,
        quota,
    } = of(status, lines);
    let wait = wait.map(|wait| wait.as_millis());
    assert_eq!((is_throttled, wait, quota), expected, "{status} {lines:?}");
}

/// Statuses, header fields, and their reading.
type RealAnswer<'a> = (
    &'a [u16],
    &'a [(&'a str, &'a str)],
    (bool, Option<u128>, Option<Quota>),
);

#[test]
fn real_answers_are_read_by_the_rules_of_their_targets() {
    let id = ("x-github-request-id", "C0DE:1234:5678");
    let left = ("x-ratelimit-remaining", "4990");
    let (limit, reset) = (
        ("x-ratelimit-limit", "60"),
        ("x-ratelimit-reset", "1691591363"),
    );
    let github = |remaining| [DATE, limit, ("x-ratelimit-remaining", remaining), reset];
    let used_up = github("0");
    let policy = ("ratelimit-policy", r#""default";q=100;w=10"#);
    let draft_used_up = ("ratelimit", r#""default";r=0;t=5"#);
    let none_of_60 = quota(0, Some(60), Some(300));
    let many = quota(4_990, None, None);
    let cases: &[RealAnswer<'_>] = &[
        // GitHub: the primary limit, the last request that was let through, and one that is
        // forbidden.
        (&[403, 429], &used_up, (true, Some(300_000), none_of_60)),
        (&[200, 404], &used_up, (false, None, none_of_60)),
        (
            &[403],
            &github("42"),
            (false, None, quota(42, Some(60), Some(300))),
        ),
        // Secondary limits: the quota is not what was exceeded.
        (
            &[403, 429],
            &[id, left, ("retry-after", "90")],
            (true, Some(90_000), many),
        ),
        (&[429], &[id, left], (true, Some(60_000), many)),
        (
            &[403],
            &[id, ("x-ratelimit-remaining", "0")],
            (true, Some(60_000), quota(0, None, None)),
        ),
        (&[403], &[id, left], (false, None, many)),
        // The examples of the IETF draft.
        (
            &[200],
            &[policy, ("ratelimit", r#""default";r=50;t=5"#)],
            (false, None, quota(50, Some(100), Some(5))),
        ),
        (
            &[403, 420, 429, 500, 503],
            &[policy, draft_used_up],
            (true, Some(5_000), quota(0, Some(100), Some(5))),
        ),
        (
            &[204, 302, 400, 401, 404, 410],
            &[policy, draft_used_up],
            (false, None, quota(0, Some(100), Some(5))),
        ),
        // Retry-After takes precedence, even where it is shorter.
        (
            &[503],
            &[("retry-after", "1"), draft_used_up],
            (true, Some(1_000), quota(0, None, Some(5))),
        ),
        // nginx: `limit_req` as it comes, and with `limit_req_status 429`.
        (&[503], &[("server", "nginx")], (false, None, None)),
        (&[429], &[("server", "nginx")], (true, None, None)),
        // Discord's decimals.
        (
            &[429],
            &[
                ("x-ratelimit-remaining", "0"),
                ("x-ratelimit-reset-after", "4.57"),
            ],
            (
                true,
                Some(4_570),
                Some(Quota {
                    resets_in: Some(Duration::from_millis(4_570)),
                    ..NOTHING
                }),
            ),
        ),
        // OpenAI: the tokens are used up, or the requests; Azure, and milliseconds.
        (
            &[429],
            &[
                ("x-ratelimit-limit-requests", "60"),
                ("x-ratelimit-remaining-requests", "59"),
                ("x-ratelimit-reset-requests", "1s"),
                ("x-ratelimit-remaining-tokens", "0"),
                ("x-ratelimit-reset-tokens", "6m0s"),
            ],
            (true, Some(360_000), quota(59, Some(60), Some(1))),
        ),
        (
            &[429],
            &[
                ("x-ratelimit-remaining-requests", "0"),
                ("x-ratelimit-reset-requests", "1h2m3s"),
            ],
            (true, Some(3_723_000), quota(0, None, Some(3_723))),
        ),
        (
            &[429, 503],
            &[("retry-after-ms", "1500")],
            (true, Some(1_500), None),
        ),
        (
            &[429, 529],
            &[("X-MS-Retry-After-MS", "20"), ("retry-after", "1")],
            (true, Some(1_000), None),
        ),
        // Anthropic.
        (
            &[429],
            &[
                DATE,
                ("anthropic-ratelimit-requests-remaining", "0"),
                ("anthropic-ratelimit-requests-reset", "2023-08-09T14:24:33Z"),
                ("anthropic-ratelimit-input-tokens-remaining", "5000"),
            ],
            (true, Some(10_000), quota(0, None, Some(10))),
        ),
        (&[529], &[], (false, None, None)),
        // Drafts 03 and 07.
        (
            &[429],
            &[
                ("ratelimit-limit", "2, 2;w=1"),
                ("ratelimit-remaining", "0"),
                ("ratelimit-reset", "1"),
            ],
            (true, Some(1_000), quota(0, Some(2), Some(1))),
        ),
        (
            &[429],
            &[
                ("ratelimit", "limit=100, remaining=0, reset=50"),
                ("ratelimit-policy", "100;w=60"),
            ],
            (true, Some(50_000), quota(0, Some(100), Some(50))),
        ),
        // X: one more hyphen. And a refusal with a reset and nothing else.
        (
            &[429],
            &[
                DATE,
                ("x-rate-limit-remaining", "0"),
                ("x-rate-limit-reset", "1691591963"),
            ],
            (true, Some(900_000), quota(0, None, Some(900))),
        ),
        (
            &[429],
            &[("x-ratelimit-reset", "7")],
            (true, Some(7_000), None),
        ),
        // A time that has passed is a limit's, too, and promises nothing.
        (&[503], &[("retry-after", "0")], (true, None, None)),
        (
            &[429],
            &[("retry-after", "0"), draft_used_up],
            (true, Some(5_000), quota(0, None, Some(5))),
        ),
        // Lines that contradict each other, and statuses on which it is about something else.
        (
            &[429],
            &[
                ("retry-after", "5"),
                ("retry-after", "120"),
                ("retry-after", "-1"),
            ],
            (true, Some(120_000), None),
        ),
        (&[500], &[("retry-after", "5")], (false, Some(5_000), None)),
        (&[200, 301], &[("retry-after", "5")], (false, None, None)),
        // What cannot be read.
        (&[503], &[("retry-after", "soon")], (false, None, None)),
        (
            &[403],
            &[("x-ratelimit-remaining", "-1"), ("x-ratelimit-reset", "5")],
            (false, None, None),
        ),
        // Too long to be believed: it is cut, and a throttling answer all the same.
        (
            &[403, 429, 503],
            &[("retry-after", "18446744073709551615")],
            (true, Some(31_622_400_000), None),
        ),
    ];
    for (statuses, lines, expected) in cases {
        for status in *statuses {
            check(*status, lines, *expected);
        }
    }
}

/// A quota with nothing left.
const NOTHING: Quota = Quota {
    remaining: 0,
    limit: None,
    resets_in: None,
};

/// Fields of limits; another line contradicts one of all but the last three.
const NAMES: [&str; 23] = [
    "retry-after",
    "retry-after-ms",
    "x-ms-retry-after-ms",
    "x-ratelimit-limit-requests",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-reset-requests",
    "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset-tokens",
    "anthropic-ratelimit-input-tokens-reset",
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
    "ratelimit-policy",
    "date",
    "x-github-request-id",
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
        "([0-9]{1,3}h)?([0-9]{1,3}m)?[0-9]{1,3}(\\.[0-9]{1,3})?(s|ms)",
        "2023-08-09T1[0-9]:[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,3})?(Z|\\+00:00)",
        "[0-9]{1,4}\\.[0-9]{1,12}",
        "\"a\";r=[0-9]{1,2};t=[0-9]{1,4}(, \"b\";r=[0-3];t=[0-9]{1,5})?",
        "\"[ab]\";q=[0-9]{1,3};w=60(;qu=\"(requests|content-bytes)\")?",
        "limit=[0-9]{1,3}, remaining=[0-9]{1,2}, reset=[0-9]{1,4}",
        "Wed, 09 Aug 2023 1[0-9]:[0-5][0-9]:[0-5][0-9] GMT",
    ];
    prop_oneof![4 => text.prop_map(String::into_bytes), 1 => any_value()]
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
        "retry-after-ms" | "x-ms-retry-after-ms" => "[1-9][0-9]{0,7}",
        "retry-after" => {
            "([1-9][0-9]{0,3}|[1-9], ?[1-9][0-9]|Wed, 09 Aug 2023 1[4-6]:[0-5][0-9]:00 GMT)"
        }
        _ if name.contains("remaining") => "[0-2]",
        _ => "([1-9][0-9]{0,2}|316[0-9]{5}|[1-9]\\.[0-9]|1691591[0-9]{3}|[1-9]m[0-9]s)",
    };
    let name = || prop::sample::select(NAMES[..NAMES.len() - 3].to_vec());
    let names = (name(), name()).prop_map(|(one, other)| vec![one, other]);
    let line = move |name: &'static str| (Just(name), fitting(name).prop_map(String::into_bytes));
    names.prop_flat_map(move |names| {
        prop::collection::vec(prop::sample::select(names).prop_flat_map(line), 2..6)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_laws_that_fuzzing_relies_on_hold(
        status in status(),
        lines in prop_oneof![lines(value(), 8), contradictory_lines()],
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
                    is_throttled,
                    wait,
                    quota,
                } = read(code, &headers, Duration::ZERO);
                assert_eq!((code, is_throttled, wait), (200, false, None), "{limit}");
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
                (code.to_string().as_str(), refused.is_throttled),
                (status, true),
                "{limit}"
            );
            headers.remove("retry-after");
            let by_quota = read(code, &headers, Duration::ZERO).wait.unwrap();
            // All of them round up, by a second of their own and one of the date.
            let (wait, seconds) = (refused.wait.unwrap(), Duration::from_secs(2));
            assert!(wait.abs_diff(by_quota) <= seconds, "{limit}");
            assert!(wait <= Duration::from_hours(24) + seconds, "{limit}");
        }
    }
}
