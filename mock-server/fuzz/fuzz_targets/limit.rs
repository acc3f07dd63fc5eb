//! Any text as a limit: what is read is written as a text that is read as the same.
#![no_main]

use crawlmark_mock_server::Limit;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match text.parse::<Limit>() {
        Ok(read) => assert_eq!(read.to_string().parse().as_ref(), Ok(&read), "{read} is read as something else"),
        Err(error) => assert!(!error.to_string().is_empty(), "an error says nothing"),
    }
});
