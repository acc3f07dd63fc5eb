//! The definition of truth, tier V: whole runs in virtual time over connections in memory, against a target whose every
//! answer is scripted. What a report must say then follows from arithmetic, to the millisecond.
//!
//! | row | run | what the report must say |
//! |---|---|---|
//! | V2 | closed loop, 10 in flight, a stall of 1 s | p99.9 1 ms, 10 slow, not corrected and so labelled |
//! | V6 | everything that takes time at once | each attempt's response is the sum of its parts |
//! | V7 | 100/s, burst 10, 10 s, greedy | 1,010 admitted, and in no window more than burst and rate allow |
//! | V8 | the same, 1, 2, 3 and 7 shards | together what one limiter admits |
//! | V9 | 100/s for 10 s at a limit of 80/s | throttled: what burst and rate of the limit do not admit |
//!
//! Tests are named after their row. The clock is tokio's, paused: nothing here waits, and nothing depends on the machine.

mod rehearsal;
mod script;
mod target;
mod v;
