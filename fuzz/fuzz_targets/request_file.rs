//! Any bytes as a file of requests: it is read or refused in one line, and what is read can be
//! sent.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| crawlmark::request_file_laws::check(bytes));
