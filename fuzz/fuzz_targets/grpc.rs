//! Any bytes as the response to a call of gRPC, cut anywhere: its messages are the same.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], &[u8])| crawlmark::crawl::grpc_laws::check(input.0, input.1));
