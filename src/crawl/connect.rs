//! Connections: their ends, how they are opened, and where they rest.
//!
//! It must not know what the bytes on them mean.

pub(crate) mod connect_to;
pub(crate) mod dial;
pub(crate) mod failure;
pub(crate) mod local_ips;
pub(crate) mod peers;
pub(crate) mod pool;
pub mod proxy;
pub(crate) mod receive_stamps;
pub(crate) mod stream;
pub(crate) mod tcp_info;
pub mod tls;
