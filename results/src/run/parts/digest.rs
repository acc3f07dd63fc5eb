//! SHA-256 in hexadecimal digits: parts that differ in one are of different crawls.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Return the SHA-256 of a text.
#[must_use]
pub fn of_text(text: &str) -> String {
    hexadecimal(&Sha256::digest(text.as_bytes()))
}

/// Return bytes as hexadecimal digits.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
