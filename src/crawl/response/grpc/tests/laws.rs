//! Properties of the reader of calls that hold for any bytes. Called by fuzzing and by a test.

use super::CallReader;
use crate::crawl::response::compressed::Unreadable;
use crate::crawl::response::fields::{HeaderFields, lent};

/// Number of messages of a body in these parts, and what is wrong with a call that ends with them.
fn read<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> (u64, Option<Unreadable>) {
    let mut reader = CallReader::default();
    let messages = parts.into_iter().map(|part| reader.take(part)).sum();
    let ok = [("grpc-status", &b"0"[..])];
    lent(ok.into_iter(), |fields: HeaderFields<'_>| {
        reader.end(fields)
    });
    (messages, reader.unreadable.or(reader.flaw()))
}

/// Check that a body has the same messages in whatever parts it comes: of the sizes in `cuts`, and
/// byte by byte; and that a call's message is read whatever its bytes are.
///
/// # Panics
/// When it does not.
pub fn check(cuts: &[u8], body: &[u8]) {
    let whole = read([body]);
    assert!(whole.0 <= (body.len() / super::PREFIX) as u64);
    assert_eq!(read(body.chunks(1)), whole, "byte by byte");
    let (mut parts, mut rest) = (Vec::new(), body);
    for cut in cuts {
        let (part, others) = rest.split_at(rest.len().min(usize::from(*cut)));
        parts.push(part);
        rest = others;
    }
    parts.push(rest);
    assert_eq!(read(parts), whole, "in parts of {cuts:?}");
    let failed = [("grpc-status", &b"2"[..]), ("grpc-message", body)];
    let mut reader = CallReader::default();
    let message = lent(failed.into_iter(), |fields| reader.end(fields));
    assert!(message.is_some_and(|message| message.len() <= body.len()));
}
