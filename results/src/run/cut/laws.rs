//! Laws that hold for any line whatever: a log is foreign by the time it is read. Fuzzing calls it,
//! and so does a test, so that it cannot rot.
//!
//! Must not depend on how a line is read: checks nothing but the result of reading.

use std::io::Write;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::LineReader;
use crawlmark_harness::stats::Bounds;

/// First bytes of a deflated histogram.
const COOKIE: [u8; 4] = [0x1c, 0x84, 0x93, 0x14];

/// Checks all laws on any bytes: as the lines of a log, and as what a line's histogram inflates to,
/// where a checksum would else hide what is behind it.
///
/// # Panics
///
/// If one is broken.
pub fn check(bytes: &[u8]) {
    let bounds = Bounds::for_timeout(Duration::from_secs(1));
    let mut reader = LineReader::new(bounds);
    for line in String::from_utf8_lossy(bytes).lines() {
        check_line(&mut reader, line, bounds);
    }
    check_line(&mut reader, &around(bytes), bounds);
}

/// A line around what its histogram inflates to.
fn around(plain: &[u8]) -> String {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail.
    let _ = encoder.write_all(plain);
    let deflated = encoder.finish().unwrap_or_default();
    let length = u32::try_from(deflated.len()).unwrap_or(u32::MAX);
    let packed = [&COOKIE[..], &length.to_be_bytes(), &deflated].concat();
    format!(
        "Tag=shard-0.service,0.000,1.000,1.0,{}",
        STANDARD.encode(packed)
    )
}

fn check_line(reader: &mut LineReader, line: &str, bounds: Bounds) {
    let first = reader.read(line);
    assert_eq!(
        reader.read(line),
        first,
        "the second reading of {line} differs"
    );
    if let Ok(Some(entry)) = first {
        let cells = bounds.histogram().distinct_values();
        assert!(
            entry
                .cells
                .iter()
                .all(|(cell, count)| *cell < cells && *count > 0),
            "an impossible cell in {line}"
        );
        assert!(
            entry.cells.is_sorted_by(|a, b| a.0 < b.0),
            "a cell comes twice in {line}"
        );
        assert_eq!(
            entry.cells.iter().map(|(_, count)| *count).sum::<u64>(),
            entry.count,
            "{line}"
        );
        assert!(
            line.len() <= reader.longest_line(),
            "{line} is longer than a line may be"
        );
    }
}
