//! Results for people to read and look at.
//!
//! | module | holds |
//! |---|---|
//! | [`doc`] | documents, laid out for a terminal and as Markdown |
//! | [`page`] | documents as pages, with interactive charts of a run |
//! | [`plot`] | the plots of runs and studies, as SVG and PNG |
//! | [`chart`] | description of a chart, its colours, and its painter (`chart/svg.rs`) |
//! | `figures` | what people ask for first of a run, for page and Markdown |
//! | `line`, `histogram` | lines for a terminal as data; times drawn with characters |
//! | [`text`] | numbers and sentences |
//! | `xml`, `junit` | text escaped for XML and HTML; test cases as `JUnit` XML |
//! | [`visible()`] | text without characters that hide or reorder |

pub mod chart;
pub mod doc;
pub(crate) mod figures;
pub(crate) mod histogram;
pub(crate) mod junit;
pub mod line;
pub mod page;
pub mod plot;
pub mod text;
mod visible;
pub(crate) mod xml;

pub use self::visible::visible;
