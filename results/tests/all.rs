//! Results from outside: one program, so that the crate is linked once for all of its tests.

mod capacity;
mod capacity_search;
mod capacity_truth;
mod contest;
mod export;
mod foreign_results;
mod overlay;
mod page;
mod parts;
mod pictures;
mod plots;
mod recut;
mod rehearsal;
mod report;
mod scaling;
mod scenarios;
mod truth_c;
mod truth_s;
