//! Files below a directory that others may write to as well. No symbolic link below it is followed,
//! so that nothing outside is written, and a file is new or replaced as a whole.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat, renameat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

/// Permissions of files, before the umask, that are no secret.
const SHARED: u32 = 0o666;

/// Permissions of files that hold what was crawled.
pub const PRIVATE: u32 = 0o600;

/// Ending of a file's name until it is whole.
pub const PARTIAL: &str = ".partial";

/// Make a directory and those above it, unless they exist, with these permissions before the umask.
///
/// # Errors
/// When the system refuses. That it cannot be looked at is told so: made without a look, what exists
/// and could not be looked at is only "File exists".
pub fn make_directory(path: &Path, mode: u32) -> io::Result<()> {
    match path.metadata() {
        Ok(found) if found.is_dir() => Ok(()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => DirBuilder::new().recursive(true).mode(mode).create(path),
    }
}

/// A directory to write files below, by their names in it or by their paths. Symbolic links on the
/// way to it are followed.
#[derive(Debug, Clone)]
pub struct Root {
    path: PathBuf,
    mode: u32,
}

impl Root {
    /// A directory, which is made if it does not exist.
    pub fn new(path: &Path) -> Self {
        Self::with_mode(path, SHARED)
    }

    /// A directory whose new files have these permissions, before the umask. Directories may be
    /// entered by those who may read.
    pub fn with_mode(path: &Path, mode: u32) -> Self {
        let path = path.to_owned();
        Self { path, mode }
    }

    /// Make a directory below it, unless it exists.
    ///
    /// # Errors
    /// When a part of `name` is a symbolic link, or the system refuses.
    pub fn directory(&self, name: impl AsRef<Path>) -> io::Result<()> {
        // Of a file in it, whose name does not matter.
        self.folder(&name.as_ref().join("x")).map(drop)
    }

    /// Create a file that does not exist.
    ///
    /// # Errors
    /// As [`directory`](Self::directory), and when it exists.
    pub fn create(&self, name: impl AsRef<Path>) -> io::Result<File> {
        let (folder, name) = self.folder(name.as_ref())?;
        self.open_in(&folder, name, OFlag::O_EXCL)
    }

    /// Open a file for reading and writing, which is made if it does not exist.
    ///
    /// # Errors
    /// As [`directory`](Self::directory).
    pub fn open(&self, name: impl AsRef<Path>) -> io::Result<File> {
        let (folder, name) = self.folder(name.as_ref())?;
        self.open_in(&folder, name, OFlag::empty())
    }

    /// Have `write` write a file, then give it its name: it is seen whole or not at all.
    ///
    /// # Errors
    /// As [`directory`](Self::directory), and that of `write`.
    pub fn replace(
        &self,
        name: impl AsRef<Path>,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<File> {
        let (folder, name) = self.folder(name.as_ref())?;
        let temporary = temporary()?;
        let mut file = self.open_in(&folder, temporary.as_ref(), OFlag::O_EXCL)?;
        let written =
            write(&mut file).and_then(|()| Ok(renameat(&folder, &*temporary, &folder, name)?));
        if written.is_err() {
            let _ = unlinkat(&folder, &*temporary, UnlinkatFlags::NoRemoveDir);
        }
        written.map(|()| file)
    }

    /// Open the directory of a file, whose parts are made where they do not exist.
    fn folder<'a>(&self, name: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
        let mode = self.mode | (self.mode & 0o444) >> 2;
        // The working directory has no name in `x` alone.
        let root = Path::new(".").join(&self.path);
        // As a place alone: a directory that one may write to need not be readable.
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        make_directory(&root, mode)?;
        let mut folder = openat(AT_FDCWD, &root, flags, Mode::empty())?;
        let below = name.strip_prefix(&self.path).unwrap_or(name);
        let mut parts = below.components().peekable();
        while let Some(Component::Normal(part)) = parts.next() {
            if parts.peek().is_none() {
                return Ok((folder, part));
            }
            match mkdirat(&folder, part, Mode::from_bits_truncate(mode)) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(error) => return Err(error.into()),
            }
            let opened = openat(&folder, part, flags | OFlag::O_NOFOLLOW, Mode::empty());
            folder = opened.map_err(|error| match error {
                Errno::ENOTDIR | Errno::ELOOP => io::Error::new(
                    io::ErrorKind::NotADirectory,
                    format!("{} is a symbolic link or no directory", part.display()),
                ),
                error => error.into(),
            })?;
        }
        let why = format!("{} is no name of a file in a directory", name.display());
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }

    fn open_in(&self, folder: &OwnedFd, name: &OsStr, flags: OFlag) -> io::Result<File> {
        let flags = flags | OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = openat(folder, name, flags, Mode::from_bits_truncate(self.mode))?;
        Ok(file.into())
    }
}

/// Return a name for a file that is not whole, which nobody can guess. It does not hold the name that
/// the file will have, which may be as long as names can be.
///
/// # Errors
/// When the system has no random number.
pub fn temporary() -> io::Result<String> {
    Ok(format!(".{:016x}{PARTIAL}", random()?))
}

/// Return a number that nobody can guess, for a name that nobody else has taken.
///
/// # Errors
/// When the system has none.
pub fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn no_link_below_the_root_is_followed_and_nothing_outside_is_written() {
        let place = tempfile::tempdir().unwrap();
        let [inside, outside] = ["inside", "outside"].map(|name| place.path().join(name));
        fs::create_dir_all(inside.join("real")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "theirs").unwrap();
        symlink(&outside, inside.join("linked")).unwrap();
        symlink(outside.join("file"), inside.join("file")).unwrap();
        symlink(outside.join("new"), inside.join("real/dangling")).unwrap();
        let root = Root::new(&inside);
        for name in [
            "linked/new",
            "linked/a/b",
            "../outside/new",
            "/tmp",
            "",
            ".",
        ] {
            root.create(name).unwrap_err();
            root.open(name).unwrap_err();
            root.replace(name, |file| file.write_all(b"mine"))
                .unwrap_err();
        }
        root.directory("linked/a").unwrap_err();
        for name in ["file", "real/dangling"] {
            root.create(name).unwrap_err();
            root.open(name).unwrap_err();
            // The link itself is replaced.
            root.replace(name, |file| file.write_all(b"mine")).unwrap();
            assert_eq!(fs::read(inside.join(name)).unwrap(), b"mine");
            assert!(!inside.join(name).is_symlink());
        }
        assert_eq!(fs::read(outside.join("file")).unwrap(), b"theirs");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    }

    #[test]
    fn a_file_has_the_longest_name_that_there_is() {
        let place = tempfile::tempdir().unwrap();
        let name = "n".repeat(255);
        Root::new(place.path()).replace(&name, |_| Ok(())).unwrap();
        assert!(place.path().join(name).is_file());
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_nothing() {
        let place = tempfile::tempdir().unwrap();
        let root = Root::new(&place.path().join("a"));
        fs::create_dir_all(place.path().join("a/taken/there")).unwrap();
        root.replace("taken", |_| Ok(())).unwrap_err();
        root.replace("b", |_| Err(io::ErrorKind::StorageFull.into()))
            .unwrap_err();
        assert_eq!(fs::read_dir(place.path().join("a")).unwrap().count(), 1);
    }

    #[test]
    fn files_and_directories_have_the_mode_of_their_root() {
        let place = tempfile::tempdir().unwrap();
        for (mode, directory) in [(0o600, 0o700), (0o640, 0o750), (0o400, 0o500)] {
            let at = place.path().join(mode.to_string());
            let root = Root::with_mode(&at, mode | 0o200);
            root.replace("b/c", |_| Ok(())).unwrap();
            for (path, mode) in [
                (at.clone(), directory | 0o200),
                (at.join("b"), directory | 0o200),
                (at.join("b/c"), mode | 0o200),
            ] {
                let is = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
                assert_eq!(is, mode, "{}", path.display());
            }
        }
    }
}
