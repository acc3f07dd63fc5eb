//! The files that hold bodies: WireMock's `__files`, next to `mappings`. They are read when stubs
//! are loaded or, by each process, changed; never while serving.
//!
//! It must not hand out anything from outside that folder, whatever a stub names.

use bytes::Bytes;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Source of body files.
#[derive(Clone, Debug)]
pub(crate) enum Files {
    /// Nowhere, as for stubs that come without a folder.
    None,
    /// In this folder, which need not exist until a stub names a file.
    Under(PathBuf),
}

impl Files {
    /// The content of the file `name`, a path in the folder with `/` between its parts. A `/` in
    /// front means the folder itself, as it does for WireMock.
    pub(crate) fn read(&self, name: &str) -> Result<Bytes, String> {
        let Self::Under(root) = self else {
            return Err(format!(
                "there is no folder of body files that could hold `{name}`"
            ));
        };
        let outside = || format!("`{name}` is outside the folder of body files");
        let relative = Path::new(name.trim_start_matches('/'));
        if !relative
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        {
            return Err(outside());
        }
        let path = root.join(relative);
        let unreadable = |error: io::Error| {
            format!("the body file `{}` cannot be read: {error}", path.display())
        };
        // Links are followed before the comparison, so one that leads out is seen to do so.
        let real = path.canonicalize().map_err(unreadable)?;
        if !real.starts_with(root.canonicalize().map_err(unreadable)?) {
            return Err(outside());
        }
        if !real.is_file() {
            return Err(unreadable(io::Error::other("it is not a regular file")));
        }
        std::fs::read(real).map(Bytes::from).map_err(unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_what_is_inside_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("__files");
        std::fs::create_dir_all(root.join("deep")).unwrap();
        std::fs::write(folder.path().join("secret"), "secret").unwrap();
        std::fs::write(root.join("deep/body.json"), "{}").unwrap();
        symlink(folder.path().join("secret"), root.join("out")).unwrap();
        symlink(folder.path(), root.join("up")).unwrap();
        symlink("deep/body.json", root.join("in")).unwrap();
        let files = Files::Under(root.clone());
        for name in [
            "deep/body.json",
            "/deep/body.json",
            "./deep/body.json",
            "in",
        ] {
            assert_eq!(files.read(name).unwrap(), "{}", "{name}");
        }
        for name in [
            "../secret",
            "deep/../../secret",
            "out",
            "up/secret",
            "deep/..",
        ] {
            assert!(
                files
                    .read(name)
                    .is_err_and(|error| error.contains("outside")),
                "{name}"
            );
        }
        for name in ["", "deep", "missing", "/etc/passwd", "a\0b"] {
            let error = files.read(name).unwrap_err();
            assert!(
                error.starts_with(&format!("the body file `{}", root.display())),
                "{name}: {error}"
            );
        }
        assert!(
            Files::None
                .read("in")
                .is_err_and(|error| error.contains("no folder"))
        );
    }
}
