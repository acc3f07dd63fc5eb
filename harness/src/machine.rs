//! Readings of the machine: counters of the kernel, and the speed of the CPU at the moment.
//!
//! The counters are read from a directory like `/proc`, which is handed in, so that tests have
//! files of their own. Read by each shard for its CPU and by the supervisor for everything else, at
//! the start and the end of what is measured. A reading that the machine does not give is absent,
//! never 0. Nothing here judges what was read.

pub(crate) mod cgroup;
mod speed;
mod text;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::cgroup::{Cgroup, Hierarchies, Throttling};
pub use self::speed::probe_speed_since;

/// The unit of [`CpuTicks`].
const TICK: Duration = Duration::from_millis(10);

/// The kernel's files: `/proc` unless another directory was handed in.
#[derive(Debug, Clone)]
pub struct Proc {
    root: PathBuf,
}

impl Default for Proc {
    fn default() -> Self {
        Self::in_directory("/proc")
    }
}

/// Time of a CPU, or of all of them, in ticks of the kernel's (a hundredth of a second each) since
/// it booted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTicks {
    /// In which it had work and the machine below gave it to others.
    pub stolen: u64,
    /// Total, idle time included.
    pub all: u64,
}

impl CpuTicks {
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            stolen: self.stolen + other.stolen,
            all: self.all + other.all,
        }
    }

    /// Return the ticks added since `earlier`.
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            stolen: self.stolen.saturating_sub(earlier.stolen),
            all: self.all.saturating_sub(earlier.all),
        }
    }
}

/// Counters of the whole machine since it booted, by name; of its network, in this namespace; of
/// the nearest CPU quota that applies to this process. Without those that it does not give.
pub type Counters = BTreeMap<String, u64>;

/// Periods of this process's CPU quota in which it ran: a [counter](Counters).
pub const QUOTA_PERIODS: &str = "quota_periods";

/// Periods of them in which the quota stopped it.
pub const QUOTA_THROTTLED_PERIODS: &str = "quota_throttled_periods";

/// Time for which it was stopped, µs.
pub const QUOTA_THROTTLED_US: &str = "quota_throttled_us";

/// The name of each counter; its file, the start of its line, and its name there.
const COUNTERS: [(&str, [&str; 3]); 5] = [
    ("cpu_pressure_us", ["pressure/cpu", "some ", "total"]),
    ("listen_drops", ["net/netstat", "TcpExt:", "ListenDrops"]),
    (
        "listen_overflows",
        ["net/netstat", "TcpExt:", "ListenOverflows"],
    ),
    ("tcp_retransmits", ["net/snmp", "Tcp:", "RetransSegs"]),
    ("tcp_timeouts", ["net/netstat", "TcpExt:", "TCPTimeouts"]),
];

/// Return how much each counter has grown since `earlier`.
pub(crate) fn growth(now: &Counters, earlier: &Counters) -> Counters {
    now.iter()
        .filter_map(|(name, count)| Some((name.clone(), count.saturating_sub(*earlier.get(name)?))))
        .collect()
}

impl Proc {
    /// Files like those in `/proc`.
    pub fn in_directory(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The time of CPU number `cpu`, of all CPUs when none is named.
    pub fn cpu_ticks(&self, cpu: Option<usize>) -> Option<CpuTicks> {
        text::cpu_ticks(&self.read("stat")?, cpu)
    }

    /// CPU time that everything on the machine has used since it booted.
    pub fn busy(&self) -> Option<Duration> {
        let tick_ms = u64::try_from(TICK.as_millis()).ok()?;
        Some(Duration::from_millis(
            text::busy_ticks(&self.read("stat")?)?.saturating_mul(tick_ms),
        ))
    }

    /// Read the machine's counters.
    pub fn counters(&self) -> Counters {
        let known = COUNTERS.iter().filter_map(|(name, [file, line, counter])| {
            let count = text::counter(&self.read(file)?, line, counter)?;
            Some(((*name).to_owned(), count))
        });
        let quota = self
            .throttling()
            .map(|it| {
                [
                    (QUOTA_PERIODS, it.periods),
                    (QUOTA_THROTTLED_PERIODS, it.throttled_periods),
                    (QUOTA_THROTTLED_US, it.throttled_ns / 1_000),
                ]
            })
            .into_iter()
            .flatten();
        known
            .chain(quota.map(|(name, count)| (name.to_owned(), count)))
            .collect()
    }

    /// Read the throttling of this process by a CPU quota; none without one.
    fn throttling(&self) -> Option<Throttling> {
        let hierarchies = Hierarchies::parse(&self.read("self/mountinfo")?);
        Cgroup::of_process(&hierarchies, &self.read("self/cgroup")?).throttling()
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.root.join(file)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::proc_with;

    #[test]
    fn a_machine_that_says_everything_is_read() {
        let (_directory, proc) = proc_with(&[
            (
                "stat",
                "cpu  40 0 20 900 0 0 0 40 0 0\ncpu0 30 0 10 440 0 0 0 20 7 0\ncpu1 10 0 10 460 0 0 0 20 0 0\nintr 5\n",
            ),
            (
                "pressure/cpu",
                "some avg10=1.50 avg60=0.33 avg300=0.10 total=123456\nfull avg10=0.00 total=9\n",
            ),
            (
                "net/snmp",
                "Ip: Forwarding\nIp: 1\nTcp: RtoMin ActiveOpens RetransSegs InErrs\nTcp: 200 12 7 0\n",
            ),
            (
                "net/netstat",
                "TcpExt: ListenOverflows ListenDrops TCPTimeouts\nTcpExt: 3 4 5\nIpExt: InOctets\nIpExt: 8\n",
            ),
        ]);
        let counters = [
            ("cpu_pressure_us", 123_456),
            ("listen_drops", 4),
            ("listen_overflows", 3),
            ("tcp_retransmits", 7),
            ("tcp_timeouts", 5),
        ];
        let counters = Counters::from(counters.map(|(name, count)| (name.to_owned(), count)));
        assert_eq!(proc.counters(), counters);
        let before = Counters::from([("tcp_retransmits".to_owned(), 4)]);
        let grown = Counters::from([("tcp_retransmits".to_owned(), 3)]);
        assert_eq!(growth(&counters, &before), grown);
        assert_eq!(
            proc.cpu_ticks(None),
            Some(CpuTicks {
                stolen: 40,
                all: 1_000
            })
        );
        // Time of guests is in that of users already.
        assert_eq!(
            proc.cpu_ticks(Some(0)),
            Some(CpuTicks {
                stolen: 20,
                all: 500
            })
        );
        assert_eq!(proc.cpu_ticks(Some(2)), None);
        assert_eq!(
            proc.busy(),
            Some(Duration::from_millis(600)),
            "user and system"
        );
    }

    #[test]
    fn the_quota_of_this_process_is_read_of_either_version() {
        let v1 = [
            ("cg/pod/cpu.cfs_quota_us", "20000\n"),
            (
                "cg/pod/cpu.stat",
                "nr_periods 34\nnr_throttled 33\nthrottled_time 2100000\n",
            ),
            ("self/cgroup", "2:cpuacct:/\n1:cpu:/pod\n0::/\n"),
        ];
        let v2 = [
            ("cg/pod/cpu.max", "20000 100000\n"),
            (
                "cg/pod/cpu.stat",
                "usage_usec 9\nnr_periods 34\nnr_throttled 33\nthrottled_usec 2100\n",
            ),
            ("self/cgroup", "0::/pod/app\n"),
        ];
        let counters = [
            ("quota_periods", 34),
            ("quota_throttled_periods", 33),
            ("quota_throttled_us", 2_100),
        ];
        let counters = Counters::from(counters.map(|(name, count)| (name.to_owned(), count)));
        for (files, system) in [(v1, "cgroup cgroup rw,cpu"), (v2, "cgroup2 cgroup rw")] {
            let (directory, proc) = proc_with(&files);
            let at = directory.path().join("cg");
            fs::create_dir_all(at.join("pod/app")).unwrap();
            let mount = format!("30 25 0:26 / {} rw - {system}\n", at.display());
            fs::write(directory.path().join("self/mountinfo"), mount).unwrap();
            assert_eq!(proc.counters(), counters);
        }
    }

    #[test]
    fn what_a_machine_does_not_say_is_absent_and_not_nothing() {
        let (_directory, proc) = proc_with(&[]);
        assert_eq!(proc.counters(), Counters::default());
        assert_eq!((proc.cpu_ticks(None), proc.busy()), (None, None));
        let (_directory, proc) = proc_with(&[
            ("stat", "cpu  40 0 20 900\n"),
            ("pressure/cpu", "some avg10=0.00\n"),
            ("net/snmp", "Tcp: RtoMin RetransSegs\nTcp: 200\n"),
            ("net/netstat", "TcpExt: TCPTimeouts\n"),
        ]);
        assert_eq!(proc.counters(), Counters::default());
        assert_eq!(proc.cpu_ticks(None), None);
    }
}
