//! One run: the merged report, the judgement of it, and the directory that it is saved in.
//!
//! | module | holds |
//! |---|---|
//! | [`report`] | the merged result, as it is saved, with its validity |
//! | [`gates`] | thresholds, and whether the run met them |
//! | [`result_dir`] | the directory that a report is saved in |
//! | [`words`] | the run as a document |
//! | `junit` | its thresholds as test cases |
//! | [`cut`] | a part of a run, from one second to another |
//! | [`parts`] | a crawl in parts, on several machines |

pub mod cut;
pub mod gates;
pub(crate) mod junit;
pub mod parts;
pub mod report;
pub mod result_dir;
pub mod words;
