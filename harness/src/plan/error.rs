//! Limits of a plan, and its errors by the flag that has to change.

use std::time::Duration;

use super::choices::{Arrivals, MAX_RETRIES, Pacing};
use super::objective::RequestObjective;
use crate::units::IdRange;

/// The most shards that a run may have: well above any machine's cores, well below the limit on
/// descriptors.
pub const MAX_SHARDS: u32 = 1024;

/// The most connections, over all shards: more than any machine has ports and descriptors for. Each
/// takes some kilobytes before it is opened.
pub const MAX_CONNECTIONS: u32 = 1_000_000;

/// The most requests of an open loop that a shard may be asked for in a second: several times what
/// one core sends. What is not sent is counted one by one.
pub const MAX_ARRIVALS_PER_S: u64 = 1_000_000;

/// Reason why a plan makes no sense. Each message names the flag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// No ID.
    #[error("--ids {0} holds no ID: write A..B with B above A")]
    NoIds(IdRange),
    /// Finished IDs that are not of the plan, or out of order.
    #[error(
        "finished IDs {finished} are outside --ids {ids}, or overlap others: check the saved crawl with crawlmark verify"
    )]
    Finished {
        /// The first range that is wrong.
        finished: IdRange,
        /// All IDs of the plan.
        ids: IdRange,
    },
    /// Every ID is finished.
    #[error("all IDs of --ids {0} are finished: there is nothing left to crawl")]
    NothingLeft(IdRange),
    /// Part of a recording.
    #[error(
        "--arrivals replay cannot be resumed, because its requests have recorded times: replay all of them again"
    )]
    FinishedReplay,
    /// No shard, or more than [`MAX_SHARDS`].
    #[error("--shards {0} is out of range: 1 to {MAX_SHARDS}")]
    Shards(u32),
    /// A shard would have no connection.
    #[error(
        "--connections {connections} is less than --shards {shards}: each shard needs at least one connection"
    )]
    Connections {
        /// As asked.
        connections: u32,
        /// As asked or resolved.
        shards: u32,
    },
    /// More than [`MAX_CONNECTIONS`].
    #[error("--connections {0} is out of range: 1 to {MAX_CONNECTIONS}")]
    TooManyConnections(u32),
    /// No stream, or more requests in flight than [`MAX_CONNECTIONS`].
    #[error(
        "--streams {streams} with --connections {connections} is out of range: 1 to {MAX_CONNECTIONS} requests in flight, \
         which is their product"
    )]
    Streams {
        /// As asked.
        streams: u32,
        /// As asked.
        connections: u32,
    },
    /// A shard would have no burst.
    #[error(
        "--burst {burst} is less than --shards {shards}: each shard admits at least one request at a time"
    )]
    Burst {
        /// As asked.
        burst: u64,
        /// As asked or resolved.
        shards: u32,
    },
    /// A burst that no run sends.
    #[error(
        "--burst {0} is more than 1,000,000,000,000: use a smaller one, or remove --rate and --burst for no limit"
    )]
    HugeBurst(u64),
    /// No time for it, or too much.
    #[error(
        "--rate {0} ends with a ramp until the end of the run, and needs its length: add --duration, with at most a day for the ramp"
    )]
    RampTime(String),
    /// Stages that end at another time than the run.
    #[error(
        "the stages of --rate {rate} last {length:?}, and --duration is {duration:?}: remove --duration, or remove the time of the last \
         stage, which then lasts until the end"
    )]
    StagesEnd {
        /// As asked.
        rate: String,
        /// Time of all stages.
        length: Duration,
        /// As asked.
        duration: Duration,
    },
    /// A stage that the run does not reach.
    #[error(
        "the last stage of --rate {rate} begins after {length:?}, and --duration is {duration:?}: use a longer --duration, or fewer stages"
    )]
    StageNever {
        /// As asked.
        rate: String,
        /// Time of the stages before it.
        length: Duration,
        /// As asked.
        duration: Duration,
    },
    /// Nothing says when requests are to arrive.
    #[error(
        "--arrivals {0} needs a --rate, which schedules the requests: add one, for example --rate 100"
    )]
    ArrivalsWithoutRate(Arrivals),
    /// More than a shard could ever send.
    #[error(
        "--rate {0}/s with --arrivals is more than {MAX_ARRIVALS_PER_S}/s per shard, the limit: use a lower rate or more shards"
    )]
    ArrivalsTooFast(u64),
    /// Shards that would wait for each other.
    #[error(
        "--arrivals waves needs one shard, which waits for all requests of a wave: --shards {0} is too many, use -s 1"
    )]
    Waves(u32),
    /// Items without a recorded time, or the reverse.
    #[error("--arrivals replay needs a recorded time for each item: {times} of {items} have one")]
    Recorded {
        /// Items of the plan.
        items: u64,
        /// Times that it has.
        times: u64,
    },
    /// Requests that may not be dropped, or a time that none would be sent in.
    #[error(
        "--deadline {deadline:?} needs at least 1ms, and --arrivals constant or poisson: with {arrivals}, requests are not dropped"
    )]
    Deadline {
        /// As asked.
        deadline: Duration,
        /// As asked.
        arrivals: Arrivals,
    },
    /// A response time in a closed loop.
    #[error(
        "--objective '{0}' needs an open loop: add --arrivals constant and a --rate, or bound the service time"
    )]
    NoResponseTimes(RequestObjective),
    /// Requests that may not be dropped.
    #[error(
        "--queue {queue} needs --arrivals constant or poisson: with {arrivals} no request is dropped"
    )]
    Queue {
        /// As asked.
        queue: u32,
        /// As asked.
        arrivals: Arrivals,
    },
    /// Retries on top of nothing.
    #[error(
        "--retries-on-top needs --arrivals constant or poisson: with {0}, there is no schedule to add retries to"
    )]
    RetriesOnTop(Arrivals),
    /// A burst where none can be.
    #[error(
        "--burst is for budgets: with --arrivals {0} each request has its own time, and a late one is sent at once"
    )]
    BurstOfArrivals(Arrivals),
    /// Nothing to wait for.
    #[error(
        "--pacing {0} needs a --rate, a --per-host-rate or --adaptive: without them no request waits for its time"
    )]
    PacingOfNothing(Pacing),
    /// Nothing would be measured.
    #[error("--warmup {} leaves nothing of --duration {} to measure: use a shorter warm-up or a longer run", humantime::format_duration(*.warmup), humantime::format_duration(*.duration))]
    Warmup {
        /// As asked.
        warmup: Duration,
        /// As asked or resolved.
        duration: Duration,
    },
    /// Longer than an hour.
    #[error("--grace {} is out of range: at most 1h", humantime::format_duration(*.0))]
    Grace(Duration),
    /// Zero or beyond an hour.
    #[error("--timeout {} is out of range: 1ms to 1h", humantime::format_duration(*.0))]
    Timeout(Duration),
    /// Zero.
    #[error("--duration {} is out of range: at least 1ms", humantime::format_duration(*.0))]
    Duration(Duration),
    /// A shard would have no connection to a host.
    #[error(
        "--per-host-connections {connections} is less than --shards {shards}: each shard needs at least one"
    )]
    PerHostConnections {
        /// As asked.
        connections: u32,
        /// As asked or resolved.
        shards: u32,
    },
    /// More than [`MAX_RETRIES`].
    #[error("--retries {0} is out of range: 0 to {MAX_RETRIES}")]
    Retries(u32),
    /// More retries than first attempts.
    #[error("--retry-budget {0}% is out of range: 0% to 100% of first requests")]
    RetryBudget(u32),
    /// Below a millisecond or beyond a year.
    #[error("--max-pause {} is out of range: 1ms to a year", humantime::format_duration(*.0))]
    MaxPause(Duration),
    /// Too short to tell silence from a busy machine.
    #[error("--shard-deadline {} is out of range: at least 1s", humantime::format_duration(*.0))]
    ShardDeadline(Duration),
}
