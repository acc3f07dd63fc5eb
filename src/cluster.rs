//! A crawl on several machines: this task's part of it, and what its attempt writes to the
//! directory that all parts share.
//!
//! Called by `run --plan`. The files that the merge reads are described in
//! [`crawlmark_results::run::parts`].
//!
//! | room | for |
//! |---|---|
//! | `node` | number of the part, given or from a scheduler's environment |
//! | `attempt` | directory of an attempt, its frames and status, and its publication |
//! | `slots` | shares of the budget, which one attempt at a time holds |
//! | `tolerance` | second tries where a shared file system fails |
//! | `digest` | SHA-256 of this program |

pub(crate) mod attempt;
pub(crate) mod digest;
pub(crate) mod node;
pub(crate) mod slots;
pub(crate) mod tolerance;
