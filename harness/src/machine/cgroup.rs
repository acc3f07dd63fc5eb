//! CPU quota, throttling and pressure of a cgroup, v1 and v2.
//!
//! Where the hierarchies are mounted is read from `mountinfo`. A quota may stand above the cgroup
//! of the process, as at a pod or a slice: the nearest one counts.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A mounted hierarchy of cgroups.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hierarchy {
    /// Path within the hierarchy that is mounted.
    root: PathBuf,
    /// Where.
    at: PathBuf,
    /// Controllers; none in v2.
    controllers: Option<Vec<String>>,
}

/// The hierarchies of this machine.
#[derive(Debug)]
pub(crate) struct Hierarchies(Vec<Hierarchy>);

/// Throttling by a quota, cumulative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Throttling {
    pub(crate) throttled_ns: u64,
    pub(crate) periods: u64,
    pub(crate) throttled_periods: u64,
}

impl Hierarchies {
    /// Parse a `/proc/PID/mountinfo`.
    pub(crate) fn parse(mountinfo: &str) -> Self {
        Self(mountinfo.lines().filter_map(Hierarchy::parse).collect())
    }

    /// Return the directory of a process for a controller (v1), or in the unified hierarchy (v2),
    /// given its `/proc/PID/cgroup`.
    fn directory(&self, membership: &str, controller: Option<&str>) -> Option<Place<'_>> {
        let path = membership.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let is_it = match controller {
                Some(wanted) => controllers.split(',').any(|own| own == wanted),
                None => controllers.is_empty(),
            };
            is_it.then_some(path)
        })?;
        self.place(Path::new(path), controller)
    }

    /// Return the directory of a path as in `/proc/PID/cgroup`.
    fn place(&self, path: &Path, controller: Option<&str>) -> Option<Place<'_>> {
        let hierarchy = self.0.iter().find(|it| it.has(controller))?;
        let below = path.strip_prefix(&hierarchy.root).ok()?;
        // Without a slash at its end.
        let directory: PathBuf = hierarchy.at.join(below).components().collect();
        let is_there = !below.starts_with("..") && directory.is_dir();
        is_there.then_some(Place {
            directory,
            top: &hierarchy.at,
            is_v2: controller.is_none(),
        })
    }

    /// Return the path within its hierarchy of a directory, or of such a path.
    pub(crate) fn path(&self, given: &Path) -> PathBuf {
        let within = self.0.iter().find_map(|hierarchy| {
            let below = given.strip_prefix(&hierarchy.at).ok()?;
            Some(hierarchy.root.join(below))
        });
        within.unwrap_or_else(|| Path::new("/").join(given))
    }

    /// Return the processes in a cgroup and below it.
    pub(crate) fn members(&self, path: &Path) -> Vec<i32> {
        let kinds = [None, Some("cpuacct"), Some("cpu"), Some("pids")];
        kinds
            .iter()
            .filter_map(|kind| self.place(path, *kind))
            .map(|place| members(&place.directory))
            .max_by_key(Vec::len)
            .unwrap_or_default()
    }
}

impl Hierarchy {
    fn parse(line: &str) -> Option<Self> {
        let (mount, system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, at) = (mount.next()?, mount.next()?);
        let mut system = system.split(' ');
        let controllers = match system.next()? {
            "cgroup2" => None,
            "cgroup" => Some(system.nth(1)?.split(',').map(str::to_owned).collect()),
            _ => return None,
        };
        Some(Self {
            root: root.into(),
            at: at.into(),
            controllers,
        })
    }

    fn has(&self, controller: Option<&str>) -> bool {
        match (&self.controllers, controller) {
            (Some(own), Some(wanted)) => own.iter().any(|own| own == wanted),
            (None, None) => true,
            _ => false,
        }
    }
}

fn members(directory: &Path) -> Vec<i32> {
    let own = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    let mut all: Vec<i32> = own.lines().filter_map(|pid| pid.parse().ok()).collect();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            all.extend(members(&entry.path()));
        }
    }
    all
}

/// A directory of a hierarchy.
struct Place<'a> {
    directory: PathBuf,
    top: &'a Path,
    is_v2: bool,
}

impl Place<'_> {
    /// Return the nearest directory with a CPU quota, upwards from this one.
    fn with_quota(&self) -> Option<&Path> {
        self.directory
            .ancestors()
            .take_while(|directory| directory.starts_with(self.top))
            .find(|directory| has_quota(directory, self.is_v2))
    }
}

fn has_quota(directory: &Path, is_v2: bool) -> bool {
    let file = if is_v2 { "cpu.max" } else { "cpu.cfs_quota_us" };
    let quota = fs::read_to_string(directory.join(file))
        .unwrap_or_default()
        .split_whitespace()
        .next()
        .map(str::parse::<u64>);
    matches!(quota, Some(Ok(1..)))
}

/// Files of a cgroup that are read over and over.
#[derive(Debug, Default)]
pub(crate) struct Cgroup {
    /// Path of the cgroup that the files are of.
    pub(crate) path: Option<String>,
    stat: Option<File>,
    pressure: Option<File>,
    /// CPU usage, of a target that is a cgroup.
    pub(crate) usage: Option<File>,
}

impl Cgroup {
    /// Open the files of the cgroup of a process, given its `/proc/PID/cgroup`.
    pub(crate) fn of_process(hierarchies: &Hierarchies, membership: &str) -> Self {
        let [all, cpu] =
            [None, Some("cpu")].map(|controller| hierarchies.directory(membership, controller));
        Self::open(all.as_ref(), cpu.as_ref())
    }

    /// Open the files of a cgroup.
    pub(crate) fn named(hierarchies: &Hierarchies, path: &Path) -> Self {
        let place = |controller| hierarchies.place(path, controller);
        let usage = match place(Some("cpuacct")) {
            Some(place) => open(&place.directory, "cpuacct.usage"),
            None => place(None).and_then(|place| open(&place.directory, "cpu.stat")),
        };
        Self {
            usage,
            ..Self::open(place(None).as_ref(), place(Some("cpu")).as_ref())
        }
    }

    fn open(unified: Option<&Place<'_>>, cpu: Option<&Place<'_>>) -> Self {
        // That of the cgroup of all, which has no type, is the machine's.
        let pressure = unified
            .filter(|place| place.directory.join("cgroup.type").exists())
            .and_then(|place| open(&place.directory, "cpu.pressure"));
        let quota = [cpu, unified]
            .into_iter()
            .flatten()
            .find_map(Place::with_quota);
        let own = cpu.or(unified);
        let shown = quota.or(own.map(|place| &*place.directory));
        Self {
            path: shown.map(|path| path.display().to_string()),
            stat: quota.and_then(|directory| open(directory, "cpu.stat")),
            pressure,
            usage: None,
        }
    }

    /// Read the throttling; none without a quota.
    pub(crate) fn throttling(&self) -> Option<Throttling> {
        throttling(&read(self.stat.as_ref()?)?)
    }

    /// Read the pressure, us.
    pub(crate) fn pressure_us(&self) -> Option<u64> {
        pressure_us(&read(self.pressure.as_ref()?)?)
    }

    /// Read the CPU time of a target that is a cgroup, ns.
    pub(crate) fn usage_ns(&self) -> Option<u64> {
        let text = read(self.usage.as_ref()?)?;
        text.trim()
            .parse()
            .ok()
            .or_else(|| Some(value(&text, "usage_usec")?.saturating_mul(1_000)))
    }
}

fn open(directory: &Path, file: &str) -> Option<File> {
    File::open(directory.join(file)).ok()
}

/// Read a file that is open, from its beginning.
pub(crate) fn read(file: &File) -> Option<String> {
    let mut buffer = [0; 4096];
    let length = file.read_at(&mut buffer, 0).ok()?;
    String::from_utf8(buffer.get(..length)?.to_vec()).ok()
}

/// Parse a `cpu.stat`: `throttled_time` is ns (v1), `throttled_usec` µs (v2).
fn throttling(stat: &str) -> Option<Throttling> {
    Some(Throttling {
        throttled_ns: value(stat, "throttled_time")
            .or_else(|| Some(value(stat, "throttled_usec")?.saturating_mul(1_000)))?,
        periods: value(stat, "nr_periods")?,
        throttled_periods: value(stat, "nr_throttled")?,
    })
}

fn value(stat: &str, name: &str) -> Option<u64> {
    stat.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(own, _)| *own == name)?
        .1
        .trim()
        .parse()
        .ok()
}

/// Parse a file of pressure: the total of the line `some`.
pub(crate) fn pressure_us(text: &str) -> Option<u64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split_once("total=")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn throttling_of_v1_is_read_where_the_nearest_quota_is() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path().display();
        write(
            root.path(),
            &[
                ("cpu/pod/cpu.cfs_quota_us", "20000\n"),
                (
                    "cpu/pod/cpu.stat",
                    "nr_periods 100\nnr_throttled 40\nthrottled_time 1234567\n",
                ),
                ("cpu/pod/app/cpu.cfs_quota_us", "-1\n"),
                (
                    "cpu/pod/app/cpu.stat",
                    "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
                ),
                ("cpuacct/pod/app/cpuacct.usage", "987654321\n"),
                ("cpuacct/pod/app/cgroup.procs", "12\n13\n"),
                ("cpuacct/pod/app/below/cgroup.procs", "14\n"),
                ("unified/pod/app/cgroup.type", "domain\n"),
                (
                    "unified/pod/app/cpu.pressure",
                    "some avg10=0.00 avg60=0.00 avg300=0.00 total=77\nfull avg10=0.00 total=5\n",
                ),
            ],
        );
        let hierarchies = Hierarchies::parse(&format!(
            "30 25 0:26 / {at}/cpu rw,relatime shared:1 - cgroup cgroup rw,cpu\n\
             31 25 0:27 / {at}/cpuacct rw - cgroup cgroup rw,cpuacct\n\
             32 25 0:28 / {at}/unified rw - cgroup2 cgroup2 rw\n\
             33 25 0:29 / /tmp rw - tmpfs tmpfs rw\n"
        ));
        let membership = "2:cpuacct:/pod/app\n1:cpu:/pod/app\n0::/pod/app\n";
        let of_process = Cgroup::of_process(&hierarchies, membership);
        let named = Cgroup::named(&hierarchies, Path::new("/pod/app"));
        for cgroup in [&of_process, &named] {
            assert_eq!(
                cgroup.throttling(),
                Some(Throttling {
                    throttled_ns: 1_234_567,
                    periods: 100,
                    throttled_periods: 40,
                })
            );
            assert_eq!(cgroup.pressure_us(), Some(77));
            assert_eq!(cgroup.path, Some(format!("{at}/cpu/pod")));
        }
        assert_eq!(of_process.usage_ns(), None);
        assert_eq!(named.usage_ns(), Some(987_654_321));
        let directory = root.path().join("cpu/pod/app");
        assert_eq!(hierarchies.path(&directory), Path::new("/pod/app"));
        assert_eq!(
            hierarchies.path(Path::new("pod/app")),
            Path::new("/pod/app")
        );
        let mut members = hierarchies.members(Path::new("/pod/app"));
        members.sort_unstable();
        assert_eq!(members, [12, 13, 14]);
    }

    #[test]
    fn v2_is_read_below_the_part_that_is_mounted() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path().display();
        write(
            root.path(),
            &[
                ("app/cpu.max", "max 100000\n"),
                ("cpu.max", "50000 100000\n"),
                (
                    "cpu.stat",
                    "usage_usec 5\nnr_periods 7\nnr_throttled 3\nthrottled_usec 42\n",
                ),
                ("app/cpu.stat", "usage_usec 8\nuser_usec 3\n"),
            ],
        );
        let hierarchies =
            Hierarchies::parse(&format!("1 2 0:3 /box {at} rw - cgroup2 cgroup rw\n"));
        let place = hierarchies.directory("0::/box/app\n", None);
        let cgroup = Cgroup::open(place.as_ref(), None);
        let read = cgroup.throttling().unwrap();
        assert_eq!(
            (read.throttled_ns, read.periods, read.throttled_periods),
            (42_000, 7, 3)
        );
        assert_eq!(cgroup.pressure_us(), None);
        let named = Cgroup::named(&hierarchies, Path::new("/box/app"));
        assert_eq!(named.usage_ns(), Some(8_000));
        // Another cgroup namespace.
        assert!(hierarchies.directory("0::/../other\n", None).is_none());
    }

    #[test]
    fn without_a_quota_nothing_is_throttled_and_nothing_read() {
        let root = tempfile::tempdir().unwrap();
        write(
            root.path(),
            &[("cpu.max", "max 100000\n"), ("cpu.stat", "usage_usec 5\n")],
        );
        let at = root.path().display();
        let hierarchies = Hierarchies::parse(&format!("1 2 0:3 / {at} rw - cgroup2 cgroup rw\n"));
        let cgroup = Cgroup::open(hierarchies.directory("0::/\n", None).as_ref(), None);
        assert_eq!(cgroup.throttling(), None);
    }
}
