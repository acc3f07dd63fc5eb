//! Properties of a connection that hold for any bytes. Called by fuzzing and by a test.

use crawlmark_harness::clock::Nanos;

use super::connection::{Connection, MOST_QUEUED};
use super::request::Output;
use crate::crawl::connect::failure::Failure;

/// A frame of settings without any: what a target begins with.
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

/// All that a stream shows of its response.
type Seen = (
    Option<Result<(), Failure>>,
    Option<u16>,
    Vec<(String, Vec<u8>)>,
    Vec<u8>,
);

/// Check that a connection with requests on three streams takes any bytes, and the same in whatever
/// parts they come.
///
/// # Panics
/// When it does not.
pub fn check(bytes: &[u8]) {
    let bytes = [&SETTINGS[..], bytes].concat();
    let whole = receive(&bytes, bytes.len());
    for size in [1, 7, 50] {
        assert_eq!(receive(&bytes, size), whole, "in parts of {size}");
    }
}

/// Receive bytes in parts of a size.
fn receive(bytes: &[u8], size: usize) -> (Vec<Seen>, Option<Failure>, Vec<u8>) {
    let mut connection = Connection::new(3, None);
    for at in 0..3 {
        let mut output = Output::default();
        output.block.push(0x82);
        if at == 2 {
            output.body = vec![0; MOST_QUEUED].into();
        }
        connection.begin(at, &mut output);
    }
    let (mut sent, mut unread) = (Vec::new(), Vec::new());
    for part in bytes.chunks(size) {
        unread.extend_from_slice(part);
        match connection.receive(&unread, Nanos(1)) {
            Ok(used) => drop(unread.drain(..used)),
            Err(failure) => {
                connection.fail(failure);
                break;
            }
        }
        let all: usize = connection.streams.iter().map(|it| it.content.len()).sum();
        assert!(all <= bytes.len(), "more content than was sent");
    }
    connection.queue_content();
    sent.extend_from_slice(connection.queued());
    assert!(sent.len() <= 2 * bytes.len() + 3 * MOST_QUEUED);
    let seen = connection.streams.iter().map(|stream| {
        let fields = stream.trailers.iter().chain([&stream.fields]);
        let fields = fields.flat_map(|fields| fields.iter());
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_vec()));
        let content = stream.content.clone();
        (stream.end.clone(), stream.status, fields.collect(), content)
    });
    (seen.collect(), connection.end.clone(), sent)
}
