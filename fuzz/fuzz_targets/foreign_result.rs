//! Any bytes as a result of another tool, or as a file of a history: refused in one line that names the
//! line of the file, or shown.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../results/tests/laws.rs"]
#[expect(dead_code, reason = "one of its laws is another target's")]
mod laws;

fuzz_target!(|bytes: &[u8]| laws::check_import(bytes));
