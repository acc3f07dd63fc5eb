//! The definition of truth, tier V: whole runs in virtual time over connections in memory, against
//! a target whose every answer is scripted. What a report must say then follows from arithmetic, to
//! the millisecond.
//!
//! | row | run | what the report must say |
//! |---|---|---|
//! | V1 | 1000/s for 30 s, 1 ms, a stall of 1 s | response p95 1, p99 701, p99.9 971, max 1001 ms, 901 above 100 ms |
//! | V2 | closed loop, 10 in flight, a stall of 1 s | p99.9 1 ms, 10 slow, not corrected and so labelled |
//! | V3 | as V1, 8 ms, 10 connections | response p99 948, service p99 8 ms, and that connections were what was waited for |
//! | V4 | as V1, no stall, the client blocked for 300 ms | service 1 ms, response p99.5 151, p99.9 271 ms, and that the client was late |
//! | V5 | as V1, ended 0.5 s into the stall | 10,500 scheduled = 10,000 done and 500 censored; p99 is a lower bound |
//! | V6 | everything that takes time at once | each attempt's response is the sum of its parts |
//! | V7 | 100/s, burst 10, 10 s, greedy | 1,010 admitted, and in no window more than burst and rate allow |
//! | V8 | the same, 1, 2, 3 and 7 shards | together what one limiter admits |
//! | V9 | 100/s for 10 s at a limit of 80/s | throttled: what burst and rate of the limit do not admit |
//! | V11 | 1000/s for 12 s, 1 ms, a stall of 1 s, p99 < 250 ms | broken in an open loop; not in a closed one, which is labelled |
//! | V12 | as V4, p99.5 < 100 ms | undecided: the client broke it; with a stall of 1 s as well it is broken |
//! | V13 | 300 requests at 150/s, the last of which take 1.5 s | the rate was sent, in a closed and an open loop |
//! | V10 | Poisson 100/s into one exponential server of 200/s | response p50 6.93, p90 23.0, p99 46.1 ms |
//!
//! Tests are named after their row. The clock is tokio's, paused: nothing here waits, and nothing
//! depends on the machine.

mod open;
mod rehearsal;
mod script;
mod target;
mod v;
