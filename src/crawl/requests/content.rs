//! Hash of what a crawl asks for: the sessions of a saved crawl, each of which reads its request file
//! again, ask for the same.
//!
//! Values of secret headers and parameters are left out, for they may be renewed between sessions.

use std::hash::Hasher;

use sha2::{Digest, Sha256};

/// Hasher whose results are the same in each process.
#[derive(Debug, Default)]
pub(super) struct ContentHasher(Sha256);

impl Hasher for ContentHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest = self.0.clone().finalize();
        let first = digest.first_chunk().copied().unwrap_or_default();
        u64::from_be_bytes(first)
    }
}
