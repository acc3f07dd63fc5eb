//! Any bytes as a checkpoint of a saved crawl, and as what its checksum protects.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| crawlmark::dataset::laws::check_checkpoint(bytes));
