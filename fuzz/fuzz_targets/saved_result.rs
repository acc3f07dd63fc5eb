//! Any bytes as `result.json` and `comparison.json`: what is damaged or made up is refused in one
//! line, and what is read can be drawn and told.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| crawlmark_results::run::result_dir::laws::check(bytes));
