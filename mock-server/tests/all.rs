//! The target from outside: one program, so that the crate is linked once for all of its tests.

mod client;
mod faults;
mod protocols;
mod server;
mod stubs;
