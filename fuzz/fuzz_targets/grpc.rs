//! Any bytes as the response to a call of gRPC, cut anywhere: its messages are the same.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (cuts, body) = bytes.split_at(bytes.len().min(6));
    crawlmark::crawl::grpc_laws::check(cuts, body);
});
