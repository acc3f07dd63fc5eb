//! Results for people to read and look at.
//!
//! | module | holds |
//! |---|---|
//! | [`text`] | text for terminals, and Markdown |
//! | [`plot`] | plots as SVG and PNG |
//! | [`chart`] | description of a chart, and its painter |
//! | [`page`] | one HTML page of a result |
//! | [`visible()`] | text without characters that hide or reorder |

pub mod chart;
pub mod doc;
pub mod page;
pub mod plot;
pub mod text;
mod visible;

pub use self::visible::visible;
