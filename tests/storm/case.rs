//! One run of a command in which one call fails, and what it must leave.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crawlmark_harness::clock::{Clock, duration_ns};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::calls::{CALLS, Call, all_calls, calls_made, is_impossible, unsynced};
use crate::processes::working_in;
use crate::scene::{PROGRAM, Scene, Stage};

/// Only a hang takes this long.
const DEADLINE: Duration = Duration::from_secs(40);

/// Time in which processes end whose parent is gone.
const ORPHANS_END: Duration = Duration::from_secs(5);

/// A failure of the `n`-th call.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) scene: &'static Scene,
    pub(crate) call: &'static Call,
    error: &'static str,
    n: usize,
    /// Each process fails once; else the first process alone.
    is_family: bool,
    /// What an untouched run leaves in the files that are always the same.
    same: Arc<Vec<Option<Vec<u8>>>>,
}

/// What a run did.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// True if the call was made, and failed.
    pub(crate) is_hit: bool,
    pub(crate) code: Option<i32>,
    pub(crate) wrong: Vec<String>,
}

/// An end of the traced program.
struct Ended {
    status: Option<ExitStatus>,
    stdout: String,
    stderr: String,
    trace: String,
    orphans: Vec<String>,
}

impl Case {
    /// Every case of a command, by a run in which nothing fails.
    pub(crate) fn all_of(scene: &'static Scene, stage: &Stage) -> Vec<Self> {
        let place = stage.place(scene);
        let ended = trace(stage, scene, place.path(), &["-f", "-e", &all_calls()]);
        let code = ended.status.and_then(|status| status.code());
        assert_eq!(code, Some(scene.code), "{}: {}", scene.name, ended.stderr);
        assert_eq!(unsynced(&ended.trace), [""; 0], "{}", scene.name);
        let made = calls_made(&ended.trace);
        let same = Arc::new(scene.same_files(&place.path().join("work")));
        let mut cases = Vec::new();
        for call in CALLS {
            let Some(made) = made.get(call.name) else {
                continue;
            };
            for (is_family, numbers) in [(false, &made.first), (true, &made.others)] {
                for n in numbers.iter().copied() {
                    cases.extend(call.errors.iter().map(|error| Self {
                        scene,
                        call,
                        error,
                        n,
                        is_family,
                        same: Arc::clone(&same),
                    }));
                }
            }
        }
        cases
    }

    /// A name that is like no other's.
    pub(crate) fn name(&self) -> String {
        let Self {
            scene,
            call,
            error,
            n,
            is_family,
            ..
        } = self;
        let who = if *is_family {
            "each process"
        } else {
            "first process"
        };
        format!("{}, {} {n} of {who}: {error}", scene.name, call.name)
    }

    /// Run it.
    pub(crate) fn run(&self, stage: &Stage) -> Verdict {
        let place = stage.place(self.scene);
        let work = place.path().join("work");
        let (call, error, n) = (self.call.name, self.error, self.n);
        let only = format!("trace={call}");
        let inject = format!("inject={call}:error={error}:when={n}");
        let mut flags = vec!["-e", &only, "-e", &inject];
        if self.is_family {
            flags.extend(["-f", "--seccomp-bpf"]);
        }
        let ended = trace(stage, self.scene, place.path(), &flags);
        let hits = hits(&ended.trace);
        let code = ended.status.and_then(|status| status.code());
        if hits.iter().any(|hit| is_impossible(hit)) {
            return Verdict {
                code,
                ..Verdict::default()
            };
        }
        let mut wrong = self.wrong_end(&ended, &work);
        let is_done = code == Some(self.scene.code);
        if is_done && self.scene.same_files(&work) != *self.same {
            wrong.push(format!(
                "not as without a failure: one of {:?}",
                self.scene.same
            ));
        }
        wrong.extend(self.scene.wrong(stage, &work, is_done));
        if !wrong.is_empty() {
            wrong.push(hits.join("\n  "));
            wrong.push(format!(
                "{:?} {}{}",
                ended.status, ended.stdout, ended.stderr
            ));
        }
        Verdict {
            is_hit: !hits.is_empty(),
            code,
            wrong,
        }
    }

    /// What is wrong with how it ended.
    fn wrong_end(&self, ended: &Ended, work: &Path) -> Vec<String> {
        let Some(status) = ended.status else {
            return vec!["no end".to_owned()];
        };
        let mut wrong = Vec::new();
        let code = status.code();
        if !code.is_some_and(|code| (0..=5).contains(&code)) {
            wrong.push(format!("end {code:?}, signal {:?}", status.signal()));
        }
        let said = format!("{} {}", ended.stdout, ended.stderr);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        if said.contains("panicked") {
            wrong.push("a panic".to_owned());
        }
        if code != Some(self.scene.code) && code != Some(4) {
            let mut errors = (1..=133).map(Errno::from_raw);
            let number = errors
                .find(|error| format!("{error:?}") == self.error)
                .unwrap() as i32;
            if !said.contains(&format!("os error {number}")) && !said.contains(self.error) {
                wrong.push("the message does not name the cause".to_owned());
            }
        }
        for entry in fs::read_dir(work).unwrap() {
            let name = entry.unwrap().file_name().to_string_lossy().into_owned();
            let flat: String = ended.stderr.split_whitespace().collect();
            if name.contains(".partial") && !flat.contains(&name) {
                wrong.push(format!("{name} is left, and not named"));
            }
        }
        wrong.extend(
            ended
                .orphans
                .iter()
                .map(|orphan| format!("left running: {orphan}")),
        );
        wrong
    }
}

/// Run the command of `scene` under `strace` with these flags, in `work` of `place`.
fn trace(stage: &Stage, scene: &Scene, place: &Path, flags: &[&str]) -> Ended {
    let work = place.join("work");
    let file = |name: &str| File::create(place.join(name)).unwrap();
    let mut strace = Command::new("strace");
    strace
        .args(["-qq", "-y", "-e", "signal=none", "-o"])
        .arg(place.join("trace"));
    strace
        .args(flags)
        .arg(PROGRAM)
        .args(stage.words(scene.line));
    strace
        .current_dir(&work)
        .stdin(Stdio::null())
        .env("RUST_BACKTRACE", "0");
    let mut child = strace
        .stdout(file("stdout"))
        .stderr(file("stderr"))
        .spawn()
        .unwrap();
    // What the system never does may well hang: such a run is not judged, and does not go on.
    let mut is_judged = true;
    let status = wait(DEADLINE, || {
        let trace = fs::read_to_string(place.join("trace")).unwrap_or_default();
        is_judged = !hits(&trace).iter().any(|hit| is_impossible(hit));
        let ended = child.try_wait().unwrap();
        ended.map(Some).or((!is_judged).then_some(None))
    });
    let status = status.flatten();
    let work = work.canonicalize().unwrap();
    if status.is_some() && is_judged {
        let _ = wait(ORPHANS_END, || working_in(&work).is_empty().then_some(()));
    }
    let mut orphans = Vec::new();
    for pid in working_in(&work) {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        orphans.push(format!("{pid} {}", name.trim()));
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
    let _ = child.kill();
    let _ = child.wait();
    let text = |name: &str| {
        String::from_utf8_lossy(&fs::read(place.join(name)).unwrap_or_default()).into_owned()
    };
    Ended {
        status,
        stdout: text("stdout"),
        stderr: text("stderr"),
        trace: text("trace"),
        orphans,
    }
}

/// The calls that were made to fail.
fn hits(trace: &str) -> Vec<&str> {
    let lines = trace.lines();
    lines.filter(|line| line.contains("(INJECTED)")).collect()
}

/// Look until there is something to see, or the time is over.
pub(crate) fn wait<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let clock = Clock::start();
    while clock.now().0 < duration_ns(limit) {
        if let Some(seen) = look() {
            return Some(seen);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}
