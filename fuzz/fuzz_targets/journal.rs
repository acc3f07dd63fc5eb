//! Any bytes as the journal that a capacity search is resumed from.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| crawlmark_harness::results::laws::check_journal(bytes));
