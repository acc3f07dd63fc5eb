//! The program. Everything is in the library; this turns its result into an exit code.

use std::process::ExitCode;

/// hyper's short-lived buffers cost less from it than from the system's allocator. It starts no thread.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    crawlmark::main()
}
