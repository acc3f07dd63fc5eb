//! Any bytes as a mapping file: they are stubs or an error, and stubs can be asked for anything.
#![no_main]

use crawlmark_mock_server::{Mappings, OnUnsupported};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    match Mappings::parse(text, OnUnsupported::Skip) {
        Ok(mappings) => {
            let _ = mappings.skipped().to_string();
            mappings.rehearse();
        }
        Err(error) => assert!(!error.to_string().is_empty(), "an error says nothing"),
    }
});
