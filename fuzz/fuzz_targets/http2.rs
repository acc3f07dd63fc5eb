//! Any bytes as a connection of HTTP/2, cut anywhere: the client keeps to its laws.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| crawlmark::crawl::http2_laws::check(bytes));
