//! Commands at work while things happen to them, and how they end.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crawlmark_harness::clock::{Clock, duration_ns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::means::{Means, step};
use super::trial::{Act, Incident, Session, Victim};
use crate::processes::{children, is_waiting, pid_of, working_in, zombies};
use crate::scene::PROGRAM;
use crate::target::Target;

/// Only a hang sends nothing for this long: a part whose disk is full tries for a minute to write its
/// end, and a target that refuses most requests is crawled slowly.
const DEADLINE: Duration = Duration::from_mins(2);

/// No session takes so many of them.
const DEADLINES: u64 = 5;

/// Time in which processes end whose parent is gone.
const ORPHANS_END: Duration = Duration::from_secs(5);

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Looks at a supervisor that has nothing to do, and has not waited for a child that ended.
const LOOKS: usize = 100;

/// A command that has ended, or that had to be ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) line: String,
    /// None if it did not end.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Signals that its supervisor got.
    pub(crate) signals: Vec<Signal>,
    /// A child that ended, and for which it did not wait.
    pub(crate) zombie: Option<i32>,
}

/// What a session did, and what happened to it.
#[derive(Debug, Default)]
pub(crate) struct Course {
    pub(crate) ended: Vec<Ended>,
    /// Processes that were left running.
    pub(crate) orphans: Vec<String>,
    pub(crate) dead_shards: u64,
    pub(crate) dead_supervisors: u64,
    /// Incidents that met the target.
    pub(crate) of_target: u64,
    /// Incidents that met anybody.
    pub(crate) happened: u64,
}

struct Running {
    line: String,
    child: Child,
    status: Option<ExitStatus>,
    signals: Vec<Signal>,
    /// Looks at which a child had ended.
    ended: BTreeMap<i32, usize>,
}

impl Running {
    fn start(place: &Path, number: usize, line: &str, session: &Session, user: &str) -> Self {
        let file = |name: &str| File::create(place.join(format!("{name}{number}"))).unwrap();
        let processes = session.processes.map(|most| format!("-u {most}"));
        let limits = session.limit.iter().chain(&processes);
        let begin: String = limits.flat_map(|it| ["ulimit ", it, " && "]).collect();
        let uptime = Means::get().uptime(session.uptime_s);
        let mut command = Command::new("sh");
        command.args([
            "-c",
            &format!("{begin}exec {uptime} {user} \"$0\" \"$@\""),
            PROGRAM,
        ]);
        if !session.steps.is_empty() {
            Means::get().move_clock(&mut command, &moved(place, number));
        }
        command.args(line.split_whitespace()).stdin(Stdio::null());
        command
            .current_dir(place.join("work"))
            .env("RUST_BACKTRACE", "0");
        command.stdout(file("stdout")).stderr(file("stderr"));
        Self {
            line: line.to_owned(),
            child: command.spawn().unwrap(),
            status: None,
            signals: Vec::new(),
            ended: BTreeMap::new(),
        }
    }

    fn pid(&self) -> i32 {
        pid_of(&self.child)
    }

    /// Look at it. True once it has ended.
    fn look(&mut self) -> bool {
        if self.status.is_some() {
            return true;
        }
        if is_waiting(self.pid()) {
            let zombies = zombies(self.pid());
            self.ended.retain(|pid, _| zombies.contains(pid));
            for pid in zombies {
                *self.ended.entry(pid).or_default() += 1;
            }
        }
        self.status = self.child.try_wait().unwrap();
        self.status.is_some()
    }

    fn end(self, place: &Path, number: usize) -> Ended {
        let text = |name: &str| {
            let bytes = fs::read(place.join(format!("{name}{number}"))).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let mut zombies = self.ended.iter().filter(|(_, looks)| **looks > LOOKS);
        Ended {
            zombie: zombies.next().map(|(pid, _)| *pid),
            line: self.line,
            status: self.status,
            stdout: text("stdout"),
            stderr: text("stderr"),
            signals: self.signals,
        }
    }
}

/// The file that the calendar clock of a command follows.
fn moved(place: &Path, number: usize) -> PathBuf {
    place.join(format!("clock{number}"))
}

/// Run `lines` at the same time in `work` of `place`, while the incidents of `session` happen.
pub(crate) fn torment(
    place: &Path,
    seed: u64,
    lines: &[String],
    session: &Session,
    target: &Target,
) -> Course {
    let work = place.join("work").canonicalize().unwrap();
    let user = session
        .processes
        .map_or_else(String::new, |_| Means::get().user(seed, &work));
    let start =
        |(number, line): (usize, &String)| Running::start(place, number, line, session, &user);
    let mut running: Vec<Running> = lines.iter().enumerate().map(start).collect();
    let mut course = Course::default();
    let (mut due, mut steps) = (session.incidents.clone(), session.steps.clone());
    // Who is stopped, and until when.
    let mut frozen: Vec<(i32, u64)> = Vec::new();
    let clock = Clock::start();
    let mut all_ended_ns = None;
    let (mut deadlines, mut requests) = (1, target.requests());
    loop {
        let now_ns = clock.now().0;
        for incident in extract(&mut due, |incident| duration_ns(incident.at) <= now_ns) {
            let frozen_pids = happen(incident, &mut running, target, &mut course);
            if let Act::Freeze(time) = incident.act {
                let until_ns = now_ns + duration_ns(time);
                frozen.extend(frozen_pids.into_iter().map(|pid| (pid, until_ns)));
            }
        }
        for due in extract(&mut steps, |due| duration_ns(due.at) <= now_ns) {
            let number = usize::try_from(due.command).unwrap() % lines.len();
            step(&moved(place, number), due.by_s);
            course.happened += 1;
        }
        for (pid, _) in extract(&mut frozen, |(_, until_ns)| *until_ns <= now_ns) {
            signal(pid, Signal::SIGCONT);
        }
        let still = running
            .iter_mut()
            .filter_map(|run| (!run.look()).then_some(()))
            .count();
        if still == 0 {
            let since_ns = *all_ended_ns.get_or_insert(now_ns);
            let is_over = now_ns - since_ns > duration_ns(ORPHANS_END);
            if frozen.is_empty() && (is_over || working_in(&work).is_empty()) {
                break;
            }
        } else if now_ns > duration_ns(DEADLINE) * deadlines {
            let before = std::mem::replace(&mut requests, target.requests());
            deadlines += 1;
            if requests <= before || deadlines > DEADLINES {
                break;
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
    for pid in working_in(&work) {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        course.orphans.push(format!("{pid} {}", name.trim()));
        signal(pid, Signal::SIGKILL);
    }
    for (number, mut run) in running.into_iter().enumerate() {
        let _ = run.child.wait();
        course.ended.push(run.end(place, number));
    }
    course
}

/// Take out of `all` what is wanted.
fn extract<T>(all: &mut Vec<T>, is_wanted: impl FnMut(&T) -> bool) -> Vec<T> {
    let (wanted, rest) = std::mem::take(all).into_iter().partition(is_wanted);
    *all = rest;
    wanted
}

fn signal(pid: i32, number: Signal) {
    let _ = kill(Pid::from_raw(pid), number);
}

/// One of `all` by a number; none of none.
fn one<T>(all: &[T], number: u64) -> Option<&T> {
    let length = u64::try_from(all.len()).unwrap();
    let index = number.checked_rem(length)?;
    all.get(usize::try_from(index).unwrap())
}

/// Have an incident happen; return the processes that it met.
fn happen(
    incident: Incident,
    running: &mut [Running],
    target: &Target,
    course: &mut Course,
) -> Vec<i32> {
    let number = match incident.act {
        Act::Signal(number) => number,
        Act::Freeze(_) => Signal::SIGSTOP,
    };
    let is_death = number == Signal::SIGKILL;
    let alive: Vec<i32> = running
        .iter()
        .filter(|run| run.status.is_none())
        .map(Running::pid)
        .collect();
    let pids: Vec<i32> = match incident.victim {
        Victim::Shard(which) => {
            let shards: Vec<i32> = alive.iter().flat_map(|pid| children(*pid)).collect();
            one(&shards, which).into_iter().copied().collect()
        }
        Victim::Supervisor(which) => one(&alive, which).into_iter().copied().collect(),
        Victim::TargetProcess(which) => one(&target.processes(), which)
            .into_iter()
            .copied()
            .collect(),
        Victim::Target => target.processes(),
    };
    let met = u64::try_from(pids.len()).unwrap();
    match incident.victim {
        Victim::Shard(_) if is_death => course.dead_shards += met,
        Victim::Supervisor(_) if is_death => course.dead_supervisors += met,
        Victim::TargetProcess(_) | Victim::Target => course.of_target += 1,
        _ => {}
    }
    course.happened += u64::from(met > 0);
    if incident.victim == Victim::Target && is_death {
        target.kill();
        return Vec::new();
    }
    for pid in &pids {
        signal(*pid, number);
    }
    for run in running.iter_mut().filter(|run| pids.contains(&run.pid())) {
        run.signals.push(number);
    }
    pids
}
