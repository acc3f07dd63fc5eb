//! Address spaces of processes: which file is mapped where, or which memory has code of its own.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::libc;

/// Processes, and mappings of one, that are known at most.
const MOST_PROCESSES: usize = 10_000;
const MOST_MAPPINGS: usize = 10_000;

/// Files that are kept open at most.
const MOST_OBJECTS: usize = 1_000;

/// The place of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// In a file, by its number: at so many bytes from its beginning.
    File { object: usize, offset: u64 },
    /// In code that the process made, at this address.
    Compiled { process: u32, address: u64 },
    /// Not in code.
    Unknown,
}

impl Place {
    pub(super) const fn is_compiled(&self) -> bool {
        matches!(self, Self::Compiled { .. })
    }

    pub(super) const fn is_known(&self) -> bool {
        !matches!(self, Self::Unknown)
    }
}

/// A range of addresses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Where it begins in its file.
    pub(super) offset: u64,
    /// None of memory without a file.
    pub(super) object: Option<usize>,
}

/// A file with code.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) name: String,
    /// None if it cannot be opened, such as the kernel's `[vdso]`.
    pub(super) file: Option<File>,
}

/// Processes, and the files that are mapped into them.
#[derive(Debug, Default)]
pub(super) struct Spaces {
    processes: BTreeMap<u32, Vec<Mapping>>,
    objects: Vec<Object>,
    by_path: BTreeMap<PathBuf, usize>,
}

impl Spaces {
    /// Read what is mapped into a process that runs; nothing if it is known already.
    pub(super) fn know(&mut self, process: u32) {
        if self.processes.contains_key(&process) || self.processes.len() >= MOST_PROCESSES {
            return;
        }
        self.processes.insert(process, Vec::new());
        let maps = fs::read(format!("/proc/{process}/maps")).unwrap_or_default();
        for line in maps.split(|byte| *byte == b'\n') {
            if let Some((range, path)) = code(line) {
                self.map(process, range, path);
            }
        }
    }

    /// Note what a process maps: start, length, and offset in the file at `path`.
    pub(super) fn map(&mut self, process: u32, [start, length, offset]: [u64; 3], path: &[u8]) {
        self.know(process);
        let object = self.object(process, path);
        let mapping = Mapping {
            start,
            end: start.saturating_add(length),
            offset,
            object,
        };
        if let Some(mappings) = self.processes.get_mut(&process)
            && mappings.len() < MOST_MAPPINGS
        {
            mappings.push(mapping);
        }
    }

    /// Note that a process begins as a copy of another.
    pub(super) fn fork(&mut self, parent: u32, child: u32) {
        self.know(parent);
        let mappings = self.processes.get(&parent).cloned().unwrap_or_default();
        if self.processes.len() < MOST_PROCESSES {
            self.processes.insert(child, mappings);
        }
    }

    /// Return the place of an address.
    pub(super) fn place(&mut self, process: u32, address: u64) -> Place {
        self.know(process);
        // The latest counts.
        match self
            .mappings(process)
            .iter()
            .rev()
            .find(|it| (it.start..it.end).contains(&address))
        {
            None => Place::Unknown,
            Some(Mapping { object: None, .. }) => Place::Compiled { process, address },
            Some(Mapping {
                object: Some(object),
                start,
                offset,
                ..
            }) => Place::File {
                object: *object,
                offset: address - start + offset,
            },
        }
    }

    /// Return what a process has mapped.
    pub(super) fn mappings(&self, process: u32) -> &[Mapping] {
        self.processes.get(&process).map_or(&[], |all| all)
    }

    /// True if a process has code without a file.
    pub(super) fn compiles(&self, process: u32) -> bool {
        self.mappings(process).iter().any(|it| it.object.is_none())
    }

    /// True if any process has, or if none is known yet.
    pub(super) fn may_compile(&self) -> bool {
        self.processes.is_empty() || self.processes.keys().any(|process| self.compiles(*process))
    }

    /// Return a file.
    pub(super) fn of(&self, object: usize) -> Option<&Object> {
        self.objects.get(object)
    }

    /// Return the number of a file; none of memory without one. It is opened while its process
    /// lives, whose file system may be another one.
    fn object(&mut self, process: u32, path: &[u8]) -> Option<usize> {
        // Memory of none is `//anon`, `[heap]`, or shared; the kernel's own page is `[vdso]`.
        let is_kernel = path == b"[vdso]" || path == b"[vsyscall]";
        let is_memory = ["//anon", "/memfd:", "/dev/zero", "/dev/shm/", "/SYSV", "["]
            .iter()
            .any(|start| path.starts_with(start.as_bytes()));
        if path.is_empty() || is_memory && !is_kernel {
            return None;
        }
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        let inside = Path::new("/proc")
            .join(process.to_string())
            .join("root")
            .join(path.strip_prefix("/").unwrap_or(path));
        let known = self.by_path.get(path).copied();
        if known.is_some() || self.objects.len() >= MOST_OBJECTS {
            return known;
        }
        let name = path.file_name().unwrap_or(path.as_os_str());
        self.objects.push(Object {
            name: name.to_string_lossy().into_owned(),
            file: regular(inside).or_else(|| regular(path)),
        });
        let number = self.objects.len() - 1;
        self.by_path.insert(path.to_owned(), number);
        Some(number)
    }
}

/// Open a regular file of others: anything else might never answer.
pub(super) fn regular(path: impl AsRef<Path>) -> Option<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}

/// Parse a line of `/proc/PID/maps`: start, length and offset of what may be executed, and its path.
fn code(line: &[u8]) -> Option<([u64; 3], &[u8])> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let mut next = || std::str::from_utf8(fields.next()?).ok();
    let (range, rights, offset) = (next()?, next()?, next()?);
    let (start, end) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let (start, end, offset) = (number(start)?, number(end)?, number(offset)?);
    // Device and inode, then the path after blanks.
    let path = fields.nth(2).unwrap_or_default().trim_ascii();
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    let length = end.checked_sub(start)?;
    rights
        .contains('x')
        .then_some(([start, length, offset], path))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_of_maps_are_read() {
        for (line, expected) in [
            (
                "7f00-7f10 r-xp 00001000 fe:00 12                        /usr/bin/a b",
                Some(([0x7f00, 0x10, 0x1000], "/usr/bin/a b")),
            ),
            ("7f00-7f10 rw-p 00001000 fe:00 12   /usr/bin/a", None),
            (
                "7f00-7f10 rwxp 00000000 00:00 0 ",
                Some(([0x7f00, 0x10, 0], "")),
            ),
            (
                "7f00-7f10 r-xp 00000000 fe:00 12   /a (deleted)",
                Some(([0x7f00, 0x10, 0], "/a")),
            ),
            ("7f10-7f00 r-xp 00000000 fe:00 12 /a", None),
        ] {
            let expected = expected.map(|(range, path)| (range, path.as_bytes()));
            assert_eq!(code(line.as_bytes()), expected, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_line_does_harm(line in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = code(&line);
        }
    }

    #[test]
    fn the_latest_mapping_counts_and_a_child_begins_with_its_parents() {
        let mut spaces = Spaces::default();
        // Not a process.
        let (parent, child) = (u32::MAX, u32::MAX - 1);
        spaces.map(parent, [100, 100, 0], b"/nowhere/a");
        spaces.map(parent, [150, 10, 1000], b"/nowhere/b");
        spaces.map(parent, [300, 10, 0], b"//anon");
        spaces.fork(parent, child);
        spaces.map(parent, [100, 100, 7], b"/nowhere/c");
        let file = |object, offset| Place::File { object, offset };
        assert_eq!(spaces.place(child, 199), file(0, 99));
        assert_eq!(spaces.place(child, 155), file(1, 1005));
        assert_eq!(spaces.place(parent, 155), file(2, 62));
        let compiled = Place::Compiled {
            process: child,
            address: 300,
        };
        assert_eq!(spaces.place(child, 300), compiled);
        assert_eq!(spaces.place(child, 310), Place::Unknown);
        assert!(spaces.compiles(child));
    }

    #[test]
    fn this_process_knows_its_own_code() {
        let mut spaces = Spaces::default();
        let own = code as *const () as u64;
        let Place::File { object, .. } = spaces.place(std::process::id(), own) else {
            panic!("no file");
        };
        assert!(spaces.of(object).unwrap().file.is_some());
    }
}
