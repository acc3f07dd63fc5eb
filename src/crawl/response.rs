//! Responses of either version of HTTP: what is expected of them, what they say, and which outcome
//! that is.
//!
//! It must not read or write a connection.

pub(crate) mod answer;
pub(crate) mod compressed;
pub(crate) mod cookies;
mod date;
pub(crate) mod events;
pub(crate) mod exchange;
pub(crate) mod expect;
pub(crate) mod fields;
pub(crate) mod grpc;
pub(crate) mod head;
pub(crate) mod header_values;
pub mod throttling;
