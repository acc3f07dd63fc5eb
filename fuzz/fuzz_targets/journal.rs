//! Any bytes as the journal that a capacity search is resumed from.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| crawlmark_results::run::result_dir::laws::check_journal(bytes));
