//! Several runs: each study's model, judgement and saved form.
//!
//! | module | holds |
//! |---|---|
//! | [`compare`] | paired rounds of two arms, and the verdict that they allow |
//! | [`scale`] | rounds of several sizes, and how throughput grows with them |
//! | [`capacity`] | find the highest rate that a target sustains, by probes |
//! | [`ladder`] | the climb from 6 to 10,000 requests a second and on, beside what was published |

pub mod capacity;
pub mod compare;
pub mod ladder;
pub mod scale;
