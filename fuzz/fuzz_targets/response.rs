//! Any bytes as a response, cut anywhere: the decoder keeps to its laws.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| crawlmark::crawl::codec::laws::check(bytes));
