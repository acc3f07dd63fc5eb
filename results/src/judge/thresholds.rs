//! Limits from which on a reading is a finding, each with its reason. All are in one place;
//! changing one changes what `valid` means, which the changelog has to say.

/// CPU over time of a shard. One that uses more has no room left: what it measures is partly its
/// own queueing.
pub(crate) const CPU_USE: f64 = 0.85;

/// Part of its time that a shard was ready to run and had no CPU. In that time answers lay unread,
/// and it is counted as the target's. An undisturbed paced shard waits for one or two parts in a
/// hundred of its time, one that shares its CPU for a third and more.
pub(crate) const RUN_DELAY: f64 = 0.05;

/// Part of the periods of the client's CPU quota in which it was stopped: what is under way then is
/// late by up to a period, so with more the 99th percentile is the quota's.
pub(crate) const THROTTLED_PERIODS: f64 = 0.01;

/// Least number of such periods: one may be that of what follows the last request.
pub(crate) const LEAST_THROTTLED: u64 = 2;

/// Part of the CPUs that the shards could run on, below which they used little: a target that had
/// all of their CPU time as well would be a third faster at most, so the shards did not set the
/// pace, however long they waited for a CPU.
pub(crate) const LITTLE_CPU: f64 = 0.25;

/// Part of the shards' time in which there was no room for more results: as [`RUN_DELAY`], the
/// client set the pace then.
pub(crate) const STORAGE: f64 = 0.05;

/// Lateness of a paced run's requests, at the 99th percentile: below 2 ms it is lost in the noise
/// of a network.
pub(crate) const SCHED_LAG_US: f64 = 2_000.0;

/// Limit on the lateness of a paced run's requests, at the 99th percentile, as a part of the median
/// service time: beside answers that take a second, 50 ms change nothing.
pub(crate) const SCHED_LAG_OF_SERVICE: f64 = 0.1;

/// Time for which answers lay unread in the client, at the 99th percentile. It is in the latency of
/// each, so the limit is that of requests that were sent late, beside [`SCHED_LAG_OF_SERVICE`].
pub(crate) const RECEIVE_DELAY_US: f64 = SCHED_LAG_US;

/// Lateness of a single look. So long a gap is no queueing but a process, or a machine, that was
/// stopped; it also makes as many attempts slow as there were connections, however rare it is.
pub(crate) const FREEZE_US: f64 = 100_000.0;

/// Part of a CPU's time that the machine below gave to others. It is missing at random moments, so
/// it lengthens times of the tail first.
pub(crate) const STEAL: f64 = 0.02;

/// A run must be as long as this for its stolen time to be judged, s: it is counted in hundredths
/// of a second, and two of them are no proof of anything.
pub(crate) const SHORTEST_FOR_STEAL_S: f64 = 1.0;

/// Limit on the difference between the times that the same work takes before and after the run, as
/// a part of the shorter one. In 80 readings of 40 short runs on a virtual machine of two cores
/// that were busy with other things, too, all but two were within 7 %, and these within 10 %.
pub(crate) const SPEED: f64 = 0.15;

/// Part of the responses that waited for a retransmission, as the kernel says of their connections:
/// from this on, the 99.9th percentile is one of them.
pub(crate) const RETRANSMITS: f64 = 0.001;

/// Requests, or connections, that were late for a reason, from which on that is no single accident.
pub(crate) const LEAST_LATE: u64 = 3;

/// Factor: connections that wait for a retransmission so many times as often as later requests do
/// are not held up by loss on the way.
pub(crate) const MORE_OFTEN: f64 = 4.0;

/// Connections that the target closed, from which on their requests show a limit.
pub(crate) const LEAST_CLOSED: u64 = 5;

/// Requests after which a target closes a connection, up to which that costs: an opened connection
/// for each so many is half a percent of the requests. nginx's default is 1,000.
pub(crate) const KEEP_ALIVE: u64 = 200;

/// Time for looking up a name before the run that is long, s: no name server that works takes it.
pub(crate) const LOOKUP_S: f64 = 1.0;

/// Part of an open loop's requests that were due, or would have been without throttle pauses, and
/// never went: with so many, the 99th percentile is not known.
pub(crate) const DROPPED: f64 = 0.01;

/// A wait before a request was sent, as a part of its response time, both at the 99th percentile:
/// with more, the response times tell of the client's limits rather than of the target.
pub(crate) const WAIT_OF_RESPONSE: f64 = 0.1;

/// The least such wait that matters, us: opening a connection to this machine takes less.
pub(crate) const WAIT_US: f64 = 2_000.0;

/// Part of the requests or of the time from which on a finding is about most of the run: it comes
/// before findings of the same severity about less.
pub(crate) const MOST: f64 = 0.5;

/// Part of the attempts that failed. From this on, the run measured how fast it failed.
pub(crate) const MOST_FAILED: f64 = 0.5;

/// Part of the attempts that failed, from which on that is to be known first: whatever else is found
/// is about the rest of them.
pub(crate) const MANY_FAILED: f64 = 0.05;

/// Part of the attempts that failed, from which on a reader has to know: a rate counts them as if
/// they were good, and the 99th percentile of an open loop's response times, which are to tell what
/// all of its users would have waited, leaves them out.
pub(crate) const FAILED: f64 = 0.01;

/// Part of a closed loop's attempts that were cut off at the end, from which on a reader has to
/// know. Each connection has one request under way when the run ends, so a short run of many
/// connections, or of a slow target, always cuts some off. With this part, a connection had fewer
/// than nine answers, and the rate depends on those that are missing. In an open loop the limit is
/// [`FAILED`].
pub(crate) const CUT_OFF_CLOSED: f64 = 0.1;

/// Part of the run without a good answer while requests failed. From this on, its rate is not that
/// of a working target.
pub(crate) const DEAD: f64 = 1.0 / 3.0;

/// The least such time, s: where failures count, the series has whole seconds.
pub(crate) const LEAST_DEAD_S: f64 = 2.0;

/// Part of the run without a good answer while requests failed, from which on a reader has to know.
/// Where each failure takes a timeout or a backoff, the share of the attempts that failed hides it:
/// the rate of the working target is higher by this part, which is more than runs of the same plan
/// differ by. A smaller part may be a single failure of a slow run.
pub(crate) const PARTLY_DEAD: f64 = 0.1;

/// The least such time, s: a second of the series.
pub(crate) const LEAST_PARTLY_DEAD_S: f64 = 1.0;

/// Factor: a target that is silent for this many times its slowest good answer has stopped
/// answering.
pub(crate) const LONGER_THAN_SLOWEST: f64 = 2.0;

/// Responses that a silence at the end of the run lacks, at the run's mean rate. By chance, a
/// Poisson process has a gap of ten mean ones once in 22,000 (e^10) gaps.
pub(crate) const MOST_MISSED: f64 = 10.0;

/// Part of a second in which the target had asked for a pause, from which on it is no time without
/// an answer.
pub(crate) const PAUSED: f64 = 0.5;

/// Part of the attempts that were throttled, of a run that does not do as it is told. With more
/// than this, the run measured how fast it was refused.
pub(crate) const THROTTLED: f64 = 0.5;

/// Part of the attempts that brought an item, below which a run that was mostly throttled says
/// nothing of the target's answers, however patient it was.
pub(crate) const HARDLY_ANY: f64 = 0.1;

/// A run shorter than this is too short to be judged by parts of its time, s: starting up is much
/// of it.
pub(crate) const SHORTEST_S: f64 = 0.2;

/// Part of the requests that were not found, from which on that is a finding: more than stray
/// links.
pub(crate) const NOT_FOUND: f64 = 0.1;

/// Part of the time that a limit held from which on it is named.
pub(crate) const NOTABLE: f64 = 0.1;

/// Part of the requested rate from which on it is reached: the start of a run costs some of it.
pub(crate) const REACHED: f64 = 0.8;

/// Part of the requested rate that must have been answered: slow answers make a short run longer.
pub(crate) const ANSWERED_PART: f64 = 0.5;

/// Length of all stalls over that of as many of the longest, from which on they are as long as each
/// other to a reader: their ends are known to a bin of 20 ms.
pub(crate) const ALIKE: f64 = 0.95;

/// Part of the rate that twice the connections add, below which the rate does not grow with them.
pub(crate) const GROWS: f64 = 1.15;

/// Time at the target of a request that is alone, over that of those of the run, above which none
/// of these waited for another one.
pub(crate) const QUEUES: f64 = 0.75;

/// Part of the mean response time from which on that part is named.
pub(crate) const MOST_OF_TIME: f64 = 0.6;

/// Least time of a request that is alone, us: of a shorter one, wake-ups and the network are more
/// than the work, so that the number worked on at a time is not known.
pub(crate) const WORK_US: f64 = 2_000.0;

/// Part of an experiment's requests that may fail.
pub(crate) const FEW_FAIL: f64 = 0.05;

/// From so many requests at a time on they are several.
pub(crate) const SEVERAL: f64 = 1.5;

/// So many at a time make the time of a request that is alone that of a single worker: one that
/// spends more of it elsewhere cannot be told from a limit before work that runs in parallel, and
/// one that takes less would answer more requests, so that something else sets the rate.
pub(crate) const ONE: std::ops::Range<f64> = 0.8..1.2;

/// Part of the time of a request that is alone at the full rate, below which the median at a third
/// of it falls behind a limit that delays: that is the part of the work in the time between two
/// requests.
pub(crate) const UNHURRIED: f64 = 0.8;

/// Part of that time that the median keeps behind a single worker; between the two, neither is
/// known.
pub(crate) const AS_SLOW: f64 = 0.9;

/// CPUs that a target uses for each request that it works on at a time, from which on its work may
/// set its rate, and no limit is told that delays: beside other programs a single worker is slower
/// at one time than at another, as behind a limit.
pub(crate) const BUSY: f64 = 0.5;

/// Mean service time over that of a request that is alone, of requests that come in waves of the
/// number that the target works on: 1 of workers, which are all free; behind a limit that delays
/// 1.2 with two and up to 1.5 with many, because each waits for those of its wave.
pub(crate) const IN_WAVES: f64 = 1.2;

/// The same of workers at the most: 1.2 is a limit before work of two and a half times between two
/// requests as well.
pub(crate) const TOGETHER: f64 = 1.13;

/// Least time to look for a clock in, s: twenty periods of the slowest. All responses of a shorter
/// run are in step with it.
pub(crate) const CLOCKED_S: f64 = 2.0;

/// Shortest experiment in which a tick of 10 ms is looked for: 50 of them.
pub(crate) const CLOCKED_EXPERIMENT_S: f64 = 0.5;

/// Least responses to look for a clock in.
pub(crate) const CLOCKED: u64 = 50;

/// Mean resultant length of responses from which on they are in step with a clock. CPU quotas have
/// 0.83 and more, ticks 0.97, targets without a clock 0.09 at most.
pub(crate) const IN_STEP: f64 = 0.6;

/// The shortest service time over the longest: with less, times are no whole periods.
pub(crate) const SPREAD: f64 = 0.5;

/// Part of the requests that were refused, from which on a limit is looked for.
pub(crate) const REFUSED: f64 = 0.1;

/// Variance over mean of the good responses of seconds, up to which they are even. Those of nginx'
/// limits have 0.003 at most; if requests fail at random it is the part that fails.
pub(crate) const EVEN: f64 = 0.005;

/// Seconds that this takes.
pub(crate) const EVEN_SECONDS: usize = 5;

/// Variance over mean of the requests of seconds, above which they are not even themselves.
pub(crate) const UNEVEN: f64 = 0.05;

/// Least good responses of a second, and of a burst.
pub(crate) const BURST: f64 = 5.0;

/// Part of the good responses of a second that a burst has at least.
pub(crate) const BURST_SHARE: f64 = 0.04;

/// Part of the mean service time that the target's threads waited for a CPU. Of a healthy server at
/// full load it is a sixteenth; of one beside another program on its CPU nearly half.
pub(crate) const TARGET_WAITS: f64 = 0.25;

/// The least such wait, us: less is lost in the noise of a network.
pub(crate) const TARGET_WAITS_US: f64 = 200.0;

/// Part of a CPU that a thread of the target uses, or of all its CPUs that its processes use, from
/// which on there is no room left.
pub(crate) const TARGET_FULL: f64 = 0.9;

/// Part of the connections that wait to be accepted, in the mean, of a target that serves few of
/// them at a time.
pub(crate) const WAIT_TO_BE_ACCEPTED: f64 = 0.4;

/// Part of the time from first to last byte that is left where acknowledgements are not delayed, if
/// that was what the target waited for: 0.02 of 43 ms were measured.
pub(crate) const AT_ONCE: f64 = 0.5;

/// Part of the periods of a CPU quota in which it stopped the target, from which on it is named
/// whatever a request waited: that of an event loop is shared by many.
pub(crate) const MOSTLY_THROTTLED: f64 = 0.5;

/// Responses per second below which experiments of two seconds have too few to judge by.
pub(crate) const ANSWERED_PER_S: f64 = 10.0;

/// Times from first to last byte that may be a delayed acknowledgement, us: Linux delays one by 40
/// ms, and by up to two ticks of its clock more.
pub(crate) const DELAYED_ACK_US: std::ops::Range<f64> = 35_000.0..60_000.0;

/// Part of the slowest responses with a value from which on that is what they have in common.
pub(crate) const EXPLAINS: f64 = 0.2;

/// Factor by which this part exceeds that of the others.
pub(crate) const TIMES_ITS_SHARE: f64 = 3.0;

/// Part of the values that are named that may be by chance.
pub(crate) const FALSE_TRAITS: f64 = 0.01;

/// Part of the responses above which none of them are the slowest: as many took as long.
pub(crate) const MOST_SLOW: f64 = 0.3;

/// Minutes in which a second has to be slow.
pub(crate) const RECURS: usize = 3;
