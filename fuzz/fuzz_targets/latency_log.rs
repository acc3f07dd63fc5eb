//! Any bytes as `latency.hlog`, and as what one of its histograms inflates to: what is damaged or
//! made up is refused, and takes no more memory than a whole one.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| crawlmark_results::run::cut::laws::check(bytes));
