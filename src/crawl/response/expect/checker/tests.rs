//! Answers and what is expected of them: tables, and laws that hold for any body.

use proptest::prelude::*;

use super::*;
use crate::crawl::response::grpc::CallFailure;
use crate::crawl::response::head::facts;

fn head(status: u16, kind: &str) -> HeadFacts {
    facts(status, &[("content-type", kind)])
}

fn checker(texts: &[&str]) -> Rc<Checker> {
    let list = texts.iter().map(|text| text.parse().unwrap());
    Rc::new(Checker::new(
        Expectations::new(list).unwrap(),
        HeadUse::default(),
        HeaderValues::default(),
    ))
}

/// The verdict on a body that comes in parts of `cut` bytes.
fn judge(
    checker: &Rc<Checker>,
    head: &HeadFacts,
    id: u64,
    (body, cut): (&[u8], usize),
) -> CheckResult {
    let mut expected = Expected::new(checker);
    // Whatever response came before.
    expected.restart(id + 1, None);
    expected.take(b"another one");
    expected.verdict(head);
    expected.restart(id, None);
    body.chunks(cut).for_each(|part| expected.take(part));
    let verdict = expected.verdict(head);
    assert!(expected.bytes.capacity() <= KEPT_BYTES && expected.compressed.capacity() == 0);
    verdict
}

/// True if a body with status 200 is as expected.
fn is_met(checker: &Rc<Checker>, kind: &str, body: &[u8]) -> bool {
    judge(checker, &head(200, kind), 0, (body, 7)).body == BodyCheck::AsExpected
}

fn item(seed: u64, id: u64) -> Vec<u8> {
    let mut body = Vec::new();
    items::write_body(seed, id, &mut body);
    body
}

#[test]
fn the_bodies_of_a_shard_are_bounded_together() {
    const ROOM: usize = 40 << 20;
    let checker = checker(&["json"]);
    checker.room.set(ROOM);
    let head = head(200, "application/json");
    let part = vec![b' '; 1 << 20];
    let mut all: Vec<Box<Expected>> = (0..8).map(|_| Expected::new(&checker)).collect();
    for one in &mut all {
        one.restart(0, None);
    }
    for _ in 0..16 {
        for one in &mut all {
            one.take(&part);
        }
        let kept = all.iter().map(|one| one.bytes.capacity()).sum::<usize>();
        assert!(kept <= ROOM, "{kept}");
    }
    let refused = BodyCheck::Unreadable(Unreadable::NoRoom);
    let is_refused = |one: &mut Box<Expected>| one.verdict(&head).body == refused;
    let count = all
        .iter_mut()
        .filter_map(|one| is_refused(one).then_some(()))
        .count();
    assert!((1..8).contains(&count), "{count}");
    // Room comes back when a response has ended, or its connection.
    assert_eq!(checker.room.get(), ROOM);
    all[0].restart(0, None);
    all[0].take(&vec![b' '; 3 << 20]);
    assert!(checker.room.get() < ROOM);
    drop(all);
    assert_eq!(checker.room.get(), ROOM);
    assert!(is_met(&checker, "application/json", b"1"));
}

#[test]
fn a_value_is_there_or_not_in_json_alone() {
    for (pointer, body, there) in [
        ("/a", r#"{"a": 0}"#, Some(true)),
        ("/a", r#"{"a": null}"#, Some(false)),
        ("/a", r#"{"b": 1}"#, Some(false)),
        ("/a/*/e", r#"{"a": [{}, {"e": 1}]}"#, Some(true)),
        ("/a/*/e", r#"{"a": [{}, {"e": null}]}"#, Some(false)),
        (
            "/a/*/b/*",
            r#"{"a": [{"b": []}, {"b": [null, 1]}]}"#,
            Some(true),
        ),
        ("/a/*", r#"{"a": []}"#, Some(false)),
        ("/a/*/e", r#"{"a": {"*": {"e": 1}}}"#, Some(true)),
        ("/a/*b", r#"{"a": {"*b": 1}}"#, Some(true)),
        ("/a", "<html>", None),
        ("/a", "", None),
        ("/a", "{", None),
    ] {
        let [value, none] = ["", "not "].map(|not| {
            let checker = checker(&[&format!("{not}json:{pointer}")]);
            is_met(&checker, "text/html", body.as_bytes())
        });
        assert_eq!(
            (value, none),
            (there == Some(true), there == Some(false)),
            "{pointer} {body}"
        );
    }
    // An empty list is one, and names no errors.
    for body in [r#"{"a": []}"#, r#"{"a": [ ]}"#] {
        for expect in ["json:/a", "not json:/a"] {
            let checker = checker(&[expect]);
            assert!(is_met(&checker, "text/html", body.as_bytes()), "{expect}");
        }
    }
    // A mark of byte order is no part of the text.
    for (body, is_met_by) in [("\u{feff}{}", true), ("x{}", false)] {
        let checker = checker(&[r"regex:^\{"]);
        assert_eq!(is_met(&checker, "text/html", body.as_bytes()), is_met_by);
    }
}

#[test]
fn json_is_one_value_under_its_content_type() {
    let checker = checker(&["json"]);
    for kind in [
        "Application/JSON; charset=utf-8",
        "text/json",
        "image/x+JSON ;a",
    ] {
        assert!(is_met(&checker, kind, b"{\"id\": [1, 2]}"), "{kind}");
    }
    for kind in ["text/html", "application/json-seq", "", "json"] {
        assert!(!is_met(&checker, kind, b"{\"id\": [1, 2]}"), "{kind}");
    }
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    for body in [
        b"1".as_slice(),
        b" null\r\n",
        "\u{feff}1".as_bytes(),
        b"\"\\ud83d\\ude00\"",
        b"{\"a\":1,\"a\":2}",
        &deep,
        "\"\u{e9}\"".as_bytes(),
    ] {
        assert!(
            is_met(&checker, "application/json", body),
            "{}",
            String::from_utf8_lossy(body)
        );
    }
    let cut = &deep[..150_000];
    for body in [b"".as_slice(), b"{}{}", b"{\"a\":1,}", b"\"\xff\"", cut] {
        assert!(
            !is_met(&checker, "application/json", body),
            "{}",
            String::from_utf8_lossy(body)
        );
    }
    let untyped = facts(200, &[]);
    assert_eq!(
        judge(&checker, &untyped, 0, (b"{}", 1)).body,
        BodyCheck::Wrong
    );
}

#[test]
fn a_body_too_long_to_be_kept_is_wrong_and_its_memory_given_back() {
    let longest = Expectations::MAX_READ;
    let mut body = vec![b' '; longest + 1];
    body[0] = b'1';
    for (text, kind) in [("json", "application/json"), ("regex:^(1|$)", "")] {
        let checker = checker(&[text]);
        let judge = |body| judge(&checker, &head(200, kind), 0, (body, 1 << 16)).body;
        assert_eq!(judge(&body[..longest]), BodyCheck::AsExpected, "{text}");
        assert_eq!(judge(&body), BodyCheck::Wrong, "{text}");
        assert_eq!(judge(&body[..9]), BodyCheck::AsExpected, "{text}");
    }
    // A length is counted, and only the start kept.
    let checker = checker(&["len:16777217-"]);
    assert!(is_met(&checker, "", &body));
    assert!(!is_met(&checker, "", &body[1..]));
}

#[test]
fn the_start_of_a_wrong_body_is_kept_whatever_is_expected() {
    let long = [&[b'x'; MAX_EXCERPT][..], b"y"].concat();
    for text in ["len:13", "len:0-5", "json", "regex:absent", "items:7"] {
        let checker = checker(&[text]);
        for body in [&b"hello world"[..], &long, &item(7, 0)[..9]] {
            assert_eq!(
                judge(&checker, &head(200, "application/json"), 0, (body, 7)).body,
                BodyCheck::Wrong,
                "{text}"
            );
            assert_eq!(
                checker.last_bad(),
                &body[..body.len().min(MAX_EXCERPT)],
                "{text}"
            );
        }
    }
}

#[test]
fn statuses_are_successes_unless_listed() {
    let is_good = |texts: &[&str], status| {
        judge(
            &checker(texts),
            &head(status, "application/json"),
            0,
            (b"1", 1),
        )
        .has_good_status
    };
    for texts in [&[][..], &["items:7"], &["json"], &["len:1"]] {
        let good: Vec<u16> = (200..600)
            .filter(|status| is_good(texts, *status))
            .collect();
        assert_eq!(good, (200..300).collect::<Vec<_>>(), "{texts:?}");
    }
    for texts in [&["status:200,404"][..], &["json", "status:200,404"]] {
        let good: Vec<u16> = (200..600)
            .filter(|status| is_good(texts, *status))
            .collect();
        assert_eq!(good, [200, 404], "{texts:?}");
    }
}

#[test]
fn calls_are_judged_by_their_end_and_their_messages() {
    use crate::crawl::response::fields::lent;
    const GRPC: &str = "application/grpc+proto";
    let (cut, none) = (Unreadable::CutMessage, Unreadable::NoStatus);
    let failure = CallFailure {
        status: 5,
        pushback: None,
    };
    let (message, half) = (&b"\0\0\0\0\x02ab"[..], &b"\0\0\0\0\x02a"[..]);
    for (kind, body, status, expected) in [
        (GRPC, message, "0", BodyCheck::AsExpected),
        ("APPLICATION/GRPC; a=b", b"", "0", BodyCheck::AsExpected),
        (GRPC, half, "0", BodyCheck::Unreadable(cut)),
        (GRPC, message, "", BodyCheck::Unreadable(none)),
        // What a call says of itself is the reason for all that is missing.
        (GRPC, half, "5", BodyCheck::Failed(failure)),
        ("application/grpc-web", message, "0", BodyCheck::Wrong),
        ("text/html", b"<html>", "", BodyCheck::Wrong),
        ("", message, "5", BodyCheck::Wrong),
    ] {
        let mut expected_call = Expected::new(&checker(&["grpc"]));
        // Whatever call came before.
        for (body, status) in [(half, "9"), (body, status)] {
            expected_call.restart(0, None);
            body.chunks(2).for_each(|part| expected_call.take(part));
            let end = [("grpc-status", status.as_bytes())];
            lent(end.into_iter(), |fields| expected_call.end_call(fields));
        }
        let verdict = expected_call.verdict(&head(200, kind));
        assert_eq!(verdict.body, expected, "{kind} {body:?} {status}");
    }
}

/// Bodies near to what is expected below, and others.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let json = any::<(u64, String)>().prop_map(|(id, text)| {
        serde_json::json!({ "id": id % 100, "text": text, "list": [1, null, 2.5] })
            .to_string()
            .into_bytes()
    });
    prop_oneof![
        json,
        Just(item(7, 5)),
        any::<Vec<u8>>(),
        "\\PC{0,60}".prop_map(String::into_bytes)
    ]
}

const LISTS: [&[&str]; 9] = [
    &[],
    &["items:7"],
    &["json"],
    &["regex:\"id\":\\d+"],
    &["regex:(?s-u)^..$"],
    &["len:10-60"],
    &["items:7", "len:1-"],
    &["json", "regex:\"id\":[0-9]\\b", "len:0-50"],
    &["status:404", "json"],
];

proptest! {
    #[test]
    fn a_body_is_good_however_it_is_cut_and_bad_when_a_byte_differs(
        seed: u64, id: u64, cut in 1..200_usize, wrong: prop::sample::Index, flip in 1..=255_u8, also_whole: bool,
    ) {
        let items = format!("items:{seed}");
        let checker = if also_whole { checker(&[&items, "len:1-"]) } else { checker(&[&items]) };
        let mut body = item(seed, id);
        let judge = |body: &[u8]| judge(&checker, &head(200, ""), id, (body, cut)).body;
        prop_assert_eq!(judge(&body), BodyCheck::AsExpected);
        prop_assert_eq!(judge(&body[..body.len() - 1]), BodyCheck::Wrong);
        prop_assert_eq!(judge(&[&body[..], b"x"].concat()), BodyCheck::Wrong);
        let at = wrong.index(body.len());
        body[at] ^= flip;
        prop_assert_eq!(judge(&body), BodyCheck::Wrong);
    }

    #[test]
    fn cutting_a_body_changes_nothing(
        list in prop::sample::select(LISTS.to_vec()), body in body(), cuts: Vec<prop::sample::Index>, status in 200..600_u16,
    ) {
        let checker = checker(list);
        let head = head(status, "application/json");
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).chain([body.len()]).collect();
        ends.sort_unstable();
        let mut expected = Expected::new(&checker);
        expected.restart(5, None);
        let mut from = 0;
        for end in ends {
            expected.take(&body[from..end]);
            from = end;
        }
        prop_assert_eq!(expected.verdict(&head), judge(&checker, &head, 5, (&body, usize::MAX)));
    }

    #[test]
    fn several_hold_when_each_does(body in body(), mask in 1..32_u8, length in 0..60_usize) {
        let longest = format!("len:0-{length}");
        let all = ["json", "regex:[0-9]", "regex:t", "items:7", longest.as_str()];
        let texts: Vec<&str> = (0..5).filter(|bit| mask >> bit & 1 == 1).map(|bit| all[bit]).collect();
        let head = head(200, "application/json");
        let each = texts.iter().all(|text| judge(&checker(&[text]), &head, 5, (&body, 9)).body == BodyCheck::AsExpected);
        prop_assert_eq!(judge(&checker(&texts), &head, 5, (&body, 9)).body == BodyCheck::AsExpected, each);
    }
}
