//! Any bytes as the header of a segment of a saved crawl.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| crawlmark::dataset::laws::check_header(bytes));
