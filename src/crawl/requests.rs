//! Targets of a crawl: URLs and their hosts, the IDs in them, and the request of an item.
//!
//! It must not know how a request is sent. Texts that leave the program go through [`redact`].

mod content;
pub(crate) mod flow;
pub(crate) mod host;
pub(crate) mod json_pointer;
pub mod redact;
pub(crate) mod request;
pub(crate) mod shape;
pub(crate) mod takes;
pub(crate) mod targets;
pub(crate) mod template;
pub(crate) mod values;
