//! The place of a trial: its target, its directory, and what its sessions left there.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::laws;
use super::session::{Course, Ended, torment};
use super::trial::{Damage, Kind, Session, Trial};
use crate::target::Target;

/// Sessions without an incident in which a crawl must end.
const CALM: usize = 3;

/// Flags of a target that does nothing bad.
const GOOD_TARGET: &str = "--http auto --processes 1";

/// KiB of a disk that is large enough.
const LARGE: u64 = 256 << 10;

/// How much was done.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    seeds: u64,
    commands: u64,
    incidents: u64,
    dead_shards: u64,
    dead_supervisors: u64,
    damaged_files: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.commands += other.commands;
        self.incidents += other.incidents;
        self.dead_shards += other.dead_shards;
        self.dead_supervisors += other.dead_supervisors;
        self.damaged_files += other.damaged_files;
    }
}

pub(crate) struct Room<'a> {
    trial: &'a Trial,
    target: Target,
    place: TempDir,
    disk: Option<Disk>,
    /// Everything that commands wrote to standard error.
    said: String,
    /// Shards and supervisors that were killed.
    dead: u64,
    /// Results that were killed on their way are named by the next run.
    is_unnamed: bool,
    wrong: Vec<String>,
    tally: Tally,
}

/// A file system of its own, of so many KiB. Dropped, it is gone.
struct Disk(PathBuf);

impl Disk {
    /// None where this user may not make one.
    fn of(kib: u64, place: &Path) -> Option<Self> {
        let size = format!("size={kib}k");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(place);
        let is_made = mount.output().is_ok_and(|made| made.status.success());
        is_made.then(|| Self(place.to_owned()))
    }

    fn grow(&self) {
        let size = format!("remount,size={LARGE}k");
        let _ = Command::new("mount")
            .args(["-o", &size])
            .arg(&self.0)
            .status();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

impl<'a> Room<'a> {
    pub(crate) fn new(trial: &'a Trial) -> Self {
        let place = tempfile::tempdir().unwrap();
        // Other users work in it, too.
        fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
        let work = place.path().join("work");
        fs::create_dir(&work).unwrap();
        Self {
            trial,
            target: Target::start(&trial.target),
            disk: trial.disk.and_then(|kib| Disk::of(kib, &work)),
            place,
            said: String::new(),
            dead: 0,
            is_unnamed: false,
            wrong: Vec::new(),
            tally: Tally {
                seeds: 1,
                ..Tally::default()
            },
        }
    }

    /// Do what the trial says; return what is wrong, and how much was done.
    pub(crate) fn torment(mut self) -> (Vec<String>, Tally) {
        match self.trial.kind {
            Kind::Plain => self.plain(),
            Kind::Saved => self.saved(),
            Kind::Parts { nodes, .. } => self.parts(nodes),
        }
        let unnamed = laws::unnamed(&self.work(), &self.said);
        if !self.is_unnamed {
            self.wrong.extend(unnamed);
        }
        (self.wrong, self.tally)
    }

    fn work(&self) -> PathBuf {
        self.place.path().join("work")
    }

    /// Run lines at the same time, and judge how they ended.
    fn run(&mut self, lines: &[String], session: &Session) -> Course {
        let seed = self.trial.seed;
        let course = torment(self.place.path(), seed, lines, session, &self.target);
        self.wrong.extend(laws::wrong_ends(&course));
        for ended in &course.ended {
            self.said.push_str(&ended.stderr);
            self.is_unnamed |= laws::is_out_of_memory(ended);
        }
        self.dead += course.dead_shards + course.dead_supervisors;
        self.is_unnamed |= course.dead_supervisors > 0;
        self.tally.commands += u64::try_from(lines.len()).unwrap();
        self.tally.incidents += course.happened;
        self.tally.dead_shards += course.dead_shards;
        self.tally.dead_supervisors += course.dead_supervisors;
        course
    }

    /// Run a line to which nothing happens.
    fn calmly(&mut self, line: &str) -> Ended {
        let line = [line.to_owned()];
        self.run(&line, &Session::calm()).ended.remove(0)
    }

    /// Flags that begin the crawl.
    fn flags(&self) -> String {
        let Trial { items, seed, .. } = self.trial;
        let flags = self.trial.flags.replace("{proxy}", &self.target.origin());
        format!(
            "{} --ids 0..{items} --seed {seed} {flags}",
            self.target.url()
        )
    }

    fn plain(&mut self) {
        let trial = self.trial;
        let line = format!("run {} --no-progress --out out", self.flags());
        let course = self.run(&[line], &trial.sessions[0]);
        let out = self.work().join("out");
        self.wrong.extend(laws::wrong_run(&course.ended[0], &out));
        let result = laws::read(&out.join("result.json"));
        let (Some(result), Some(at_target)) = (result, self.target.requests()) else {
            return;
        };
        let sent = laws::count(&result, "/totals/attempts_sent");
        let is_whole = course.of_target == 0 && course.dead_shards == 0;
        let slack = if is_whole { 0 } else { trial.in_flight() * 4 };
        // What a dead shard sent since its last report is not known to the client.
        if course.dead_shards == 0 || sent > at_target {
            let wrong = laws::wrong_counts(sent, at_target, slack);
            self.wrong.extend(wrong);
        }
    }

    fn saved(&mut self) {
        let trial = self.trial;
        let mut known = BTreeMap::new();
        let mut damaged = Vec::new();
        let mut is_countable = trial.spares_target();
        for (number, session) in trial.sessions.iter().enumerate() {
            if self.target.ledger().is_none() {
                self.target.replace(&trial.target);
            }
            let line = self.session_line(number, "");
            let course = self.run(&[line], session);
            let out = self.work().join(format!("out{number}"));
            self.wrong.extend(laws::wrong_run(&course.ended[0], &out));
            if let Some(disk) = &self.disk {
                disk.grow();
            }
            if !self.crawl().join("crawl.json").exists() {
                continue;
            }
            let audit = self.verify(&damaged);
            let saved =
                laws::read(&out.join("result.json")).map(|it| laws::count(&it, "/saved/saved"));
            let finished = laws::count(&audit, "/finished");
            if saved.is_some_and(|saved| saved != finished) {
                self.wrong
                    .push(format!("{saved:?} reported as saved, {finished} are"));
            }
            if is_countable {
                self.judge_requests(&audit);
            }
            known = self.exported(&known);
            if let Some(damage) = session.damage {
                is_countable = false;
                let Some(file) = self.damage(damage) else {
                    continue;
                };
                damaged.push(file.clone());
                match self.exported_damaged(&known, &file) {
                    Some(left) => known = left,
                    None => return,
                }
            }
        }
        self.finish(&known, &damaged);
    }

    fn crawl(&self) -> PathBuf {
        self.work().join("crawl")
    }

    /// What is not taken from a file.
    fn again(&self) -> String {
        let has_proxy = self.trial.flags.contains("{proxy}");
        let proxy = has_proxy.then(|| format!("--proxy {}", self.target.origin()));
        proxy.unwrap_or_default()
    }

    fn session_line(&self, number: usize, flags: &str) -> String {
        let begin = if self.crawl().join("crawl.json").exists() {
            format!("--resume crawl --retry all {}", self.again())
        } else {
            format!("{} --save crawl", self.flags())
        };
        format!("run {begin} {flags} --no-progress --out out{number}")
    }

    /// The audit of the crawl. It finds nothing but what is wrong with `damaged` files.
    fn verify(&mut self, damaged: &[String]) -> Value {
        let ended = self.calmly("verify crawl --json");
        let code = ended.status.and_then(|status| status.code());
        let is_named = damaged
            .iter()
            .any(|name| ended.stdout.contains(name) || ended.stderr.contains(name));
        if code != Some(0) && !is_named {
            self.wrong
                .push(format!("verify: {code:?} {}{}", ended.stdout, ended.stderr));
        }
        serde_json::from_str(&ended.stdout).unwrap_or_default()
    }

    /// Each process that died may have counted one request of each stream that it did not send.
    fn judge_requests(&mut self, audit: &Value) {
        let Some(at_target) = self.target.requests() else {
            return;
        };
        if let Some(sent) = audit["sent"].as_u64() {
            let slack = self.dead * self.trial.in_flight();
            self.wrong
                .extend(laws::wrong_counts(sent, at_target, slack));
        }
    }

    /// What is exported now, by what was before.
    fn exported(&mut self, before: &BTreeMap<u64, Value>) -> BTreeMap<u64, Value> {
        let ended = self.calmly("export crawl");
        if ended.status.and_then(|status| status.code()) != Some(0) {
            self.wrong.push(format!("export: {}", ended.stderr));
            return before.clone();
        }
        let now = laws::records(&ended.stdout, &mut self.wrong);
        self.wrong.extend(laws::wrong_records(before, &now));
        now
    }

    /// Damage a file; its name.
    fn damage(&mut self, damage: Damage) -> Option<String> {
        let mut files = laws::files(&self.crawl());
        files.retain(|path| fs::metadata(path).is_ok_and(|file| file.len() > 0));
        let (Damage::Truncate { file, .. } | Damage::Flip { file, .. }) = damage;
        let length = u64::try_from(files.len()).unwrap();
        let path = files.get(usize::try_from(file.checked_rem(length)?).unwrap())?;
        let mut bytes = fs::read(path).unwrap();
        let place = |number: u64, bytes: &[u8]| {
            let length = u64::try_from(bytes.len()).unwrap();
            usize::try_from(number % length).unwrap()
        };
        match damage {
            Damage::Truncate { length, .. } => bytes.truncate(place(length, &bytes)),
            Damage::Flip { byte, bit, .. } => {
                let index = place(byte, &bytes);
                bytes[index] ^= 1 << bit;
            }
        }
        fs::write(path, bytes).unwrap();
        self.tally.damaged_files += 1;
        Some(path.file_name()?.to_string_lossy().into_owned())
    }

    /// The records that are left of a damaged crawl: they are as they were, or not there. None if the
    /// crawl cannot go on, which names the file.
    fn exported_damaged(
        &mut self,
        known: &BTreeMap<u64, Value>,
        file: &str,
    ) -> Option<BTreeMap<u64, Value>> {
        self.verify(&[file.to_owned()]);
        self.target.replace(GOOD_TARGET);
        let line = self.session_line(90, "--on-throttle honor");
        let ended = self.calmly(&line);
        let code = ended.status.and_then(|status| status.code());
        let is_gone = !self.work().join("out90/result.json").exists();
        let flat: String = ended.stderr.split_whitespace().collect();
        if is_gone && code != Some(0) && !Self::is_nothing_left(&ended) {
            if !flat.contains(file) {
                self.wrong.push(format!(
                    "{file} is damaged, and not named: {}",
                    ended.stderr
                ));
            }
            return None;
        }
        let _ = fs::remove_dir_all(self.work().join("out90"));
        let ended = self.calmly("export crawl");
        if ended.status.and_then(|status| status.code()) != Some(0) {
            if !(ended.stderr.contains(file) || ended.stdout.contains(file)) {
                self.wrong
                    .push(format!("{file} is damaged: export: {}", ended.stderr));
            }
            return None;
        }
        let now = laws::records(&ended.stdout, &mut self.wrong);
        let altered = known.iter().filter(|(id, record)| {
            let now = now.get(id);
            now.is_some_and(|now| now != *record && now["at"] == record["at"])
        });
        let altered = altered.map(|(_, record)| format!("{record} was altered by the damage"));
        self.wrong.extend(altered.take(3));
        Some(now)
    }

    /// True if a session ended because all items are done.
    fn is_nothing_left(ended: &Ended) -> bool {
        ended.stderr.contains("verify --complete")
    }

    /// Go on with nothing in the way, until each item is done.
    fn finish(&mut self, known: &BTreeMap<u64, Value>, damaged: &[String]) {
        self.target.replace(GOOD_TARGET);
        let mut known = known.clone();
        for number in 0..CALM {
            let line = self.session_line(100 + number, "--timeout 10s --on-throttle honor");
            let ended = self.calmly(&line);
            let out = self.work().join(format!("out{}", 100 + number));
            if out.exists() {
                self.is_unnamed = false;
            }
            if !Self::is_nothing_left(&ended) {
                self.wrong.extend(laws::wrong_run(&ended, &out));
            }
            let said = ended.stderr;
            known = self.exported(&known);
            let ended = self.calmly("verify crawl --complete");
            // A count of requests is not made again.
            let mut counts = damaged.iter().filter(|name| name.ends_with("-requests"));
            let is_named = counts.any(|name| ended.stdout.contains(name));
            if is_named || ended.status.and_then(|status| status.code()) == Some(0) {
                break;
            }
            if number + 1 == CALM {
                self.wrong.push(format!(
                    "not complete: {said}{}{}",
                    ended.stdout, ended.stderr
                ));
            }
        }
        if !known.keys().copied().eq(0..self.trial.items) {
            self.wrong.push(format!(
                "{} of {} are exported",
                known.len(),
                self.trial.items
            ));
        }
        let wrong = laws::wrong_segments(&self.crawl(), self.trial.items);
        self.wrong.extend(wrong);
    }

    fn parts(&mut self, nodes: u64) {
        let trial = self.trial;
        let Kind::Parts { slots, .. } = trial.kind else {
            return;
        };
        let is_saved = trial.flags.contains("--save-bodies");
        let save = if is_saved { "--save kept" } else { "" };
        let line = format!(
            "plan {} {save} --nodes {nodes} --slots {slots} --out plan.json",
            self.flags()
        );
        let planned = self.calmly(&line);
        if planned.status.and_then(|status| status.code()) != Some(0) {
            self.wrong.push(format!("plan: {}", planned.stderr));
            return;
        }
        let again = self.again();
        let part = |node: u64| {
            format!("run --plan plan.json --node {node}/{nodes} --into parts --no-progress {again}")
        };
        let lines: Vec<String> = (0..nodes).map(part).collect();
        let course = self.run(&lines, &trial.sessions[0]);
        let mut is_whole = course.dead_shards == 0 && course.of_target == 0;
        for number in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
            is_whole &= !laws::was_sent(&course, number);
        }
        if let Some(disk) = &self.disk {
            disk.grow();
        }
        self.target.replace(GOOD_TARGET);
        for _ in 0..CALM {
            let course = self.run(&lines, &Session::calm());
            if self.judge_parts(&course) {
                break;
            }
        }
        let merged = self.calmly("merge parts --out merged");
        let code = merged.status.and_then(|status| status.code());
        let Some(result) = laws::read(&self.work().join("merged/result.json")) else {
            self.wrong
                .push(format!("merge: {code:?}: {}", merged.stderr));
            return;
        };
        self.wrong
            .extend(laws::wrong_run(&merged, &self.work().join("merged")));
        // A part that is run again begins with what an earlier attempt has saved.
        let before = laws::count(&result, "/finished_before");
        let planned = laws::count(&result, "/ledger/planned") + before;
        let lost = laws::count(&result, "/ledger/lost");
        if planned != trial.items || is_whole && lost > 0 {
            self.wrong.push(format!(
                "of {} items, {before} before: {}",
                trial.items, result["ledger"]
            ));
        }
        if is_saved {
            let ended = self.calmly("verify parts");
            if ended.status.and_then(|status| status.code()) != Some(0) {
                self.wrong
                    .push(format!("verify: {}{}", ended.stdout, ended.stderr));
            }
        }
    }

    /// True if all parts have a result.
    fn judge_parts(&mut self, course: &Course) -> bool {
        let codes: Vec<Option<i32>> = course
            .ended
            .iter()
            .map(|ended| ended.status.and_then(|status| status.code()))
            .collect();
        let is_done = codes.iter().all(|code| *code == Some(0));
        if !is_done {
            let said: Vec<&str> = course.ended.iter().map(|ended| &*ended.stderr).collect();
            self.wrong
                .push(format!("parts: {codes:?}: {}", said.join("")));
        }
        is_done
    }
}
