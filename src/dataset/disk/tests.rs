//! A disk in memory that fails at any operation, and whose power may be cut then.
//!
//! An operation that fails is done in part: of an append, any number of bytes. What a power cut
//! leaves of bytes that were not synced is any length of them, and any part of that; of names, any
//! state of each since they were last synced.

use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::io::{self, Cursor, Read, Seek};
use std::path::PathBuf;
use std::rc::Rc;

use super::Disk;

/// Bytes that are lost or kept together.
const SECTOR: usize = 16;

/// A disk. Its copies are the same disk.
#[derive(Clone)]
pub(in crate::dataset) struct Simulated(Rc<RefCell<State>>);

struct State {
    random: Random,
    files: Vec<SimulatedFile>,
    names: BTreeMap<String, usize>,
    /// Each file that a name had since the names were synced, and before that; none for no file.
    past: BTreeMap<String, Vec<Option<usize>>>,
    /// Operations until one fails.
    until_fault: Option<usize>,
    /// True once one failed: its process must not go on.
    has_failed: bool,
}

#[derive(Default)]
struct SimulatedFile {
    bytes: Vec<u8>,
    /// Bytes that a power cut leaves at least.
    durable: Vec<u8>,
}

/// Source of numbers that look random: xorshift64 (Marsaglia, 2003).
pub(in crate::dataset) struct Random(u64);

impl Random {
    /// Create the source of this seed.
    pub(in crate::dataset) const fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// Return a number below `bound`.
    pub(in crate::dataset) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound.max(1)
    }
}

impl Simulated {
    /// Create an empty disk.
    pub(in crate::dataset) fn new(seed: u64) -> Self {
        Self(Rc::new(RefCell::new(State {
            random: Random::new(seed),
            files: Vec::new(),
            names: BTreeMap::new(),
            past: BTreeMap::new(),
            until_fault: None,
            has_failed: false,
        })))
    }

    /// Let an operation fail after so many more; none for no failure.
    pub(in crate::dataset) fn fail_after(&self, operations: Option<usize>) {
        self.0.borrow_mut().until_fault = operations;
    }

    /// Begin another process, and return true if an operation of the last one failed.
    pub(in crate::dataset) fn take_failure(&self) -> bool {
        std::mem::take(&mut self.0.borrow_mut().has_failed)
    }

    /// Cut the power, and restore it.
    pub(in crate::dataset) fn cut_power(&self) {
        let State {
            random,
            files,
            names,
            past,
            ..
        } = &mut *self.0.borrow_mut();
        for (name, past) in std::mem::take(past) {
            let survivor = past
                .get(random.below(past.len() + 1))
                .copied()
                .unwrap_or_else(|| names.get(&name).copied());
            match survivor {
                Some(file) => drop(names.insert(name, file)),
                None => drop(names.remove(&name)),
            }
        }
        for file in files {
            file.bytes.truncate(
                file.durable.len() + random.below(file.bytes.len() - file.durable.len() + 1),
            );
            file.reach_disk(random);
            file.bytes.clone_from(&file.durable);
        }
    }

    /// Count an operation. An error says that it fails, and a number below `parts` how much of it
    /// is done nevertheless.
    fn begin(&self, parts: usize) -> (RefMut<'_, State>, Result<(), usize>) {
        let mut state = self.0.borrow_mut();
        assert!(!state.has_failed, "an operation after one that failed");
        let fails = state.until_fault == Some(0);
        state.until_fault = state.until_fault.and_then(|left| left.checked_sub(1));
        state.has_failed = fails;
        let done = if fails {
            Err(state.random.below(parts))
        } else {
            Ok(())
        };
        (state, done)
    }
}

impl SimulatedFile {
    /// Bring some of the bytes that are not on the disk there.
    fn reach_disk(&mut self, random: &mut Random) {
        let start = self.durable.len();
        for sector in self.bytes[start..].chunks(SECTOR) {
            let survives = random.below(2) == 0;
            self.durable
                .extend(sector.iter().map(|byte| if survives { *byte } else { 0 }));
        }
    }
}

impl State {
    fn name(&mut self, name: &str, file: Option<usize>) {
        let before = match file {
            Some(file) => self.names.insert(name.to_owned(), file),
            None => self.names.remove(name),
        };
        self.past.entry(name.to_owned()).or_default().push(before);
    }

    fn file(&mut self, name: &str) -> io::Result<usize> {
        self.names
            .get(name)
            .copied()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Error of an operation that was to fail.
fn failure(done: Result<(), usize>) -> io::Result<()> {
    done.map_err(|_| io::ErrorKind::StorageFull.into())
}

impl Disk for Simulated {
    type File = usize;

    fn create(&self, name: &str) -> io::Result<usize> {
        let (mut state, done) = self.begin(2);
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if done != Err(0) {
            state.files.push(SimulatedFile::default());
            let file = state.files.len() - 1;
            state.name(name, Some(file));
        }
        failure(done).map(|()| state.files.len() - 1)
    }

    fn append(&self, file: &mut usize, bytes: &[u8]) -> io::Result<()> {
        let (mut state, done) = self.begin(bytes.len());
        let written = &bytes[..done.err().unwrap_or(bytes.len())];
        state.files[*file].bytes.extend_from_slice(written);
        failure(done)
    }

    fn sync(&self, file: &usize) -> io::Result<()> {
        let (mut state, done) = self.begin(1);
        let State { random, files, .. } = &mut *state;
        let SimulatedFile { bytes, durable } = &mut files[*file];
        match done {
            Ok(()) => durable.extend_from_slice(&bytes[durable.len()..]),
            // As Linux does: what could not be written counts as written from now on.
            Err(_) => files[*file].reach_disk(random),
        }
        failure(done)
    }

    fn sync_names(&self) -> io::Result<()> {
        let (mut state, done) = self.begin(1);
        failure(done)?;
        state.past.clear();
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (mut state, done) = self.begin(2);
        let file = state.file(from)?;
        if done != Err(0) {
            state.name(to, Some(file));
            state.name(from, None);
        }
        failure(done)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let (mut state, done) = self.begin(2);
        state.file(name)?;
        if done != Err(0) {
            state.name(name, None);
        }
        failure(done)
    }

    fn open(&self, name: &str) -> io::Result<impl Read + Seek> {
        let (mut state, done) = self.begin(1);
        failure(done)?;
        let file = state.file(name)?;
        Ok(Cursor::new(state.files[file].bytes.clone()))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let (state, done) = self.begin(1);
        failure(done)?;
        Ok(state.names.keys().cloned().collect())
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(name)
    }
}
