//! Results for people to read and look at.
//!
//! | module | holds |
//! |---|---|
//! | [`text`] | text for terminals, and Markdown |
//! | [`plot`] | plots as SVG and PNG |
//! | [`page`] | one HTML page of a result |

pub mod page;
pub mod plot;
pub mod text;
