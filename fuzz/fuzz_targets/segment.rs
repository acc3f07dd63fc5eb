//! Any bytes as a segment of a saved crawl, and as its frames: what is damaged or cut is told, and
//! takes no memory.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| crawlmark::dataset::laws::check_segment(bytes));
