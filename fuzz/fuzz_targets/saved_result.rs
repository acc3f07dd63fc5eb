//! Any bytes as `result.json` and `comparison.json`: what is damaged or made up is refused in one
//! line, and what is read can be drawn and told.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../results/tests/laws.rs"]
#[expect(dead_code, reason = "others of its laws are another target's and a test's")]
mod laws;

fuzz_target!(|bytes: &[u8]| laws::check(bytes));
