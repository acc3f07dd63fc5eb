//! Any bytes as a result of another tool, or as a file of a history: refused in one line that names the
//! line of the file, or shown.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| crawlmark_results::run::result_dir::laws::check_import(bytes));
