//! Any bytes as the records of an index of a saved crawl, which its checksum protects.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| crawlmark::dataset::laws::check_records(bytes));
