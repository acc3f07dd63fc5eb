//! The decoder on its corpus, cut anywhere; its bounds; and laws on any bytes.

mod corpus;
mod oracle;

use proptest::prelude::*;

use self::corpus::{ResponseCase, corpus};
use super::laws::{Heard, ResponseEnd, check, check_sequence, decode};
use super::*;

fn heard(case: &ResponseCase) -> Heard {
    decode(case.request, [case.bytes.as_bytes()])
}

#[test]
fn each_response_is_read_as_listed() {
    for case in &corpus() {
        let heard = heard(case);
        let status = heard.head.as_ref().map_or(0, |(status, _)| *status);
        let content = String::from_utf8_lossy(&heard.content);
        assert_eq!(
            (status, &*content, heard.end),
            (case.status, case.content, case.end),
            "{:?}",
            case.bytes
        );
    }
}

#[test]
fn a_head_that_repeats_is_framed_by_its_own_request() {
    struct Repeats;
    impl Sink for Repeats {
        fn head(&mut self, _: u16, _: HeaderFields<'_>) -> Repetition {
            Repetition::Allowed
        }
        fn repeated_head(&mut self) {}
        fn content(&mut self, _: &[u8]) {}
    }
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n";
    let mut decoder = Decoder::new(RequestKind::Other);
    for request in [
        RequestKind::Other,
        RequestKind::Other,
        RequestKind::Head,
        RequestKind::Head,
        RequestKind::Other,
    ] {
        decoder.restart_for(request);
        let used = decoder.decode(head, &mut Repeats).unwrap();
        assert_eq!(
            (used, decoder.is_done()),
            (head.len(), request == RequestKind::Head),
            "{request:?}"
        );
    }
}

#[test]
fn a_malformed_line_is_reported_at_its_end_though_the_connection_goes_on() {
    for case in &corpus() {
        let ResponseEnd::Malformed(why) = case.end else {
            continue;
        };
        // Up to the end of a line, or all of it: nothing has to follow.
        let (mut decoder, mut sink, mut kept) = (Decoder::new(case.request), Ignore, Vec::new());
        let lines = case.bytes.split_inclusive('\n').chain(["\n"]);
        let found = lines.map(str::as_bytes).find_map(|line| {
            kept.extend_from_slice(line);
            match decoder.decode(&kept, &mut sink) {
                Ok(used) => {
                    kept.drain(..used);
                    None
                }
                Err(why) => Some(why),
            }
        });
        assert_eq!(found, Some(why), "{:?}", case.bytes);
    }
}

struct Ignore;

impl Sink for Ignore {
    fn head(&mut self, _: u16, _: HeaderFields<'_>) -> Repetition {
        Repetition::Refused
    }
    fn repeated_head(&mut self) {}
    fn content(&mut self, _: &[u8]) {}
}

/// Read `start` and then `part` as often as it takes until the decoder refuses, and return the
/// reason and the bytes read.
fn refused(start: &str, part: &str) -> (Malformed, usize) {
    let (mut decoder, mut kept, mut read) = (
        Decoder::new(RequestKind::Other),
        start.as_bytes().to_vec(),
        start.len(),
    );
    while read < 1 << 20 {
        match decoder.decode(&kept, &mut Ignore) {
            Ok(used) => drop(kept.drain(..used)),
            Err(why) => return (why, read),
        }
        kept.extend_from_slice(part.as_bytes());
        read += part.len();
    }
    panic!("{start:?} and then {part:?} is read for ever");
}

#[test]
fn what_is_no_content_has_bounds() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\n";
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    const INTERIM: &str = "HTTP/1.1 100\r\n\r\n";
    let chunk = |line: &str| [CHUNKED, line].concat();
    let long_line = ["a: ", &"x".repeat(9_000), "\r\n"].concat();
    let long_interim = [INTERIM.trim_end(), "\r\n", &long_line, "\r\n"].concat();
    for (start, part, why, bytes) in [
        ("", INTERIM, Malformed::TooManyInterim, 65 * INTERIM.len()),
        ("", "\r\n", Malformed::TooManyInterim, 65 * 2),
        ("", "\n", Malformed::TooManyInterim, 65),
        (
            HEAD,
            "a: b\r\n",
            Malformed::Head(httparse::Error::TooManyHeaders),
            HEAD.len() + (MOST_FIELDS + 2) * 6,
        ),
        (HEAD, "a", Malformed::HeadTooLong, MOST_HEAD_BYTES),
        (
            HEAD,
            &long_line,
            Malformed::HeadTooLong,
            MOST_HEAD_BYTES + long_line.len(),
        ),
        (
            "",
            &long_interim,
            Malformed::HeadTooLong,
            MOST_HEAD_BYTES + long_interim.len(),
        ),
        (CHUNKED, "0", Malformed::LongChunkSize, CHUNKED.len() + 17),
        (
            &chunk("1;"),
            "x",
            Malformed::ChunkExtensions,
            CHUNKED.len() + (16 << 10) + 2,
        ),
        (
            CHUNKED,
            "1;a=b\r\nx\r\n",
            Malformed::ChunkExtensions,
            CHUNKED.len() + (16 << 10) * 10 / 3 + 10,
        ),
        (
            CHUNKED,
            "000000000000001   \t  \r\nx\r\n",
            Malformed::Padding,
            CHUNKED.len() + (128 << 10) * 26 / 17 + 26,
        ),
        (
            &chunk("0\r\n"),
            "a: b\r\n",
            Malformed::Trailers,
            CHUNKED.len() + 3 + (MOST_FIELDS + 1) * 6,
        ),
        (
            &chunk("0\r\n"),
            "a",
            Malformed::Trailers,
            CHUNKED.len() + 3 + (16 << 10),
        ),
    ] {
        let (found, read) = refused(start, part);
        assert_eq!(found, why, "{part:.20?}");
        assert!(
            read <= bytes && read + 2 * part.len() + 1 > bytes,
            "{part:.20?}: {read} of {bytes} bytes"
        );
    }
}

#[test]
fn a_repeated_head_is_recognised_and_any_other_parsed() {
    struct Count(u32);
    impl Sink for Count {
        fn head(&mut self, status: u16, _: HeaderFields<'_>) -> Repetition {
            if status == 429 {
                Repetition::Refused
            } else {
                Repetition::Allowed
            }
        }
        fn repeated_head(&mut self) {
            self.0 += 1;
        }
        fn content(&mut self, _: &[u8]) {}
    }
    let recognised = |responses: &[&str]| {
        let (mut decoder, mut count) = (Decoder::new(RequestKind::Other), Count(0));
        for response in responses {
            decoder.restart();
            assert_eq!(
                decoder.decode(response.as_bytes(), &mut count),
                Ok(response.len()),
                "{response:?}"
            );
        }
        count.0
    };
    let repeated = |first: &str, next: &str| recognised(&[first, next]) == 1;
    let sized = |fields: &str, body: &str| {
        format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}{fields}\r\n\r\n{body}",
            body.len()
        )
    };
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    assert!(repeated(
        &sized("\r\na: b", "ok"),
        &sized("\r\na: b", "longer than before")
    ));
    assert!(repeated(&sized("", ""), &sized("", "")) && repeated(chunked, chunked));
    assert!(!repeated(
        &sized("\r\na: b", "ok"),
        &sized("\r\na: c", "ok")
    ));
    let refused = "HTTP/1.1 429 \r\ncontent-length: 0\r\n\r\n";
    assert!(!repeated(refused, refused));
}

#[test]
fn a_field_that_is_folded_at_any_space_is_read_as_the_whole_line() {
    let whole = "HTTP/1.1 200 OK\r\nx-a: one two  three\r\ncontent-length: 2 \r\nconnection: x,  close\r\n\r\nok";
    let read = |bytes: &str| decode(RequestKind::Other, [bytes.as_bytes()]);
    let first_field = whole.find("x-a").unwrap();
    for (at, _) in whole.match_indices(' ').filter(|(at, _)| *at > first_field) {
        for fold in ["\r\n ", "\r\n\t", "\n ", "\r\n \r\n "] {
            let folded = [&whole[..at], fold, &whole[at + 1..]].concat();
            let (mut heard, mut expected) = (read(&folded), read(whole));
            for head in [&mut heard, &mut expected]
                .into_iter()
                .filter_map(|heard| heard.head.as_mut())
            {
                // One or more spaces, or a tab, stand for each fold.
                for (_, value) in &mut head.1 {
                    let words = value
                        .split(u8::is_ascii_whitespace)
                        .filter(|word| !word.is_empty());
                    *value = words.collect::<Vec<_>>().join(&b' ');
                }
            }
            assert_eq!(heard, expected, "{folded:?}");
            check_sequence(
                RequestKind::Other,
                &[
                    folded.as_bytes(),
                    whole.as_bytes(),
                    folded.as_bytes(),
                    folded.as_bytes(),
                ],
            );
        }
    }
}

/// A response of the corpus with some of its bytes replaced by others that matter.
pub(crate) fn near_responses() -> impl Strategy<Value = (RequestKind, Vec<u8>)> {
    near_pairs().prop_map(|(request, _, bytes)| (request, bytes))
}

/// A response of the corpus, the same with some bytes replaced, and once more with others.
fn near_pairs() -> impl Strategy<Value = (RequestKind, Vec<u8>, Vec<u8>)> {
    let one = || {
        (
            any::<prop::sample::Index>(),
            0..3_usize,
            "(\r\n|[\r\n\0 :;,]|[0-9a-f]|.){0,2}",
        )
    };
    let edits = || prop::collection::vec(one(), 0..4);
    (prop::sample::select(corpus()), edits(), edits()).prop_map(|(case, first, second)| {
        let changed = |mut bytes: Vec<u8>, list: Vec<(prop::sample::Index, usize, String)>| {
            for (at, removed, added) in list {
                let at = at.index(bytes.len() + 1);
                let end = (at + removed).min(bytes.len());
                bytes.splice(at..end, added.bytes());
            }
            bytes
        };
        let bytes = changed(case.bytes.as_bytes().to_vec(), first);
        (case.request, bytes.clone(), changed(bytes, second))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn laws_hold_near_responses((request, bytes) in near_responses(), cut: u8) {
        check(&[&[u8::from(request == RequestKind::Head), cut][..], &bytes].concat());
    }

    #[test]
    fn a_response_is_read_alike_after_any_other((request, first, next) in near_pairs()) {
        check_sequence(request, &[&first, &next, &first]);
    }

    #[test]
    fn laws_hold_for_any_bytes(bytes: Vec<u8>) {
        check(&bytes);
    }
}
