//! Checksums of files that are written once: a byte that changes later is noticed. And digests as
//! text: parts that differ in one are of different crawls.

use std::fmt::Write;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// Key of the checksum, the last one of a sealed file.
const CHECKSUM: &str = ",\n  \"crc32\": \"";

/// Return bytes as hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Return the text of a file that holds this JSON object, printed over several lines, and a CRC-32
/// of it as its last value.
pub fn seal(json: &str) -> String {
    let json = json.strip_suffix("\n}").unwrap_or(json);
    format!(
        "{json}{CHECKSUM}{:08x}\"\n}}\n",
        crc32fast::hash(json.as_bytes())
    )
}

/// True if no byte of a sealed file was changed.
pub fn is_sealed(text: &str) -> bool {
    text.rsplit_once(CHECKSUM)
        .is_some_and(|(json, _)| text == seal(json))
}

/// Return the CRC-32 of a file.
///
/// # Errors
/// When it cannot be read.
pub fn crc32_of(path: &Path) -> io::Result<u32> {
    let (mut file, mut sum) = (BufReader::new(File::open(path)?), crc32fast::Hasher::new());
    loop {
        let bytes = file.fill_buf()?;
        if bytes.is_empty() {
            return Ok(sum.finalize());
        }
        sum.update(bytes);
        let length = bytes.len();
        file.consume(length);
    }
}
