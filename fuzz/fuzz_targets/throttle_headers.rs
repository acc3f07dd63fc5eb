//! Any bytes as an answer's status and header fields: what is malformed, absurd or contradictory
//! neither stops a crawl nor speeds it up.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| crawlmark::crawl::throttling::laws::check(text));
