//! The program. Everything is in the library; this turns its result into an exit code.

use std::process::ExitCode;

/// Allocator of the program: cheaper than the system's for the bundled target's short-lived
/// buffers. It starts no thread.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    crawlmark::main()
}
