//! A plan or a saved crawl with any flags of `run`: nothing that it names is executed, opened or sent.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    crawlmark::cli::laws::check(bytes);
});
