//! A saved result, read back.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::foreign::one_line;
use super::{RESULT, foreign};
use crate::run::report::{Report, SCHEMA};

/// Reason why there is no result to read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Nothing has this name.
    #[error("{0} does not exist: name a directory that `crawlmark run` saved")]
    Missing(PathBuf),
    /// The directory is none of ours.
    #[error("{0} holds no result.json: name a directory that `crawlmark run` saved")]
    NoResult(PathBuf),
    /// The file cannot be read.
    #[error("{path} cannot be read: {error}. Name a directory that `crawlmark run` saved")]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// Another format.
    #[error(
        "{path} has the format `{found}`, and `{wanted}` is needed. Name a file of that format, or use the command and version that wrote this one"
    )]
    Schema {
        /// The file.
        path: PathBuf,
        /// Format that the file names.
        found: String,
        /// Format that this version reads.
        wanted: &'static str,
    },
    /// A damaged file, or no result at all.
    #[error("{path} is not a result of crawlmark: {}. Name a directory that it saved, or restore the file", one_line(.error))]
    Json {
        /// The file.
        path: PathBuf,
        /// Error, with its position.
        error: serde_json::Error,
    },
    /// A value is one that no run can have.
    #[error("{path} cannot be used: {wrong}. The file is damaged or made up")]
    Bounds {
        /// The file.
        path: PathBuf,
        /// The field, and what is wrong with it.
        wrong: String,
    },
}

impl ReadError {
    /// The error of a file or directory that cannot be read.
    pub fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| Self::Io {
            path: path.to_owned(),
            error,
        }
    }
}

/// Field that every version of a format has.
#[derive(serde::Deserialize)]
struct Versioned {
    schema: String,
}

/// Reads the result in a directory, or a `result.json` by its own name. Fields that are not known
/// are passed over.
///
/// # Errors
/// When there is none, or it is not of [`SCHEMA`].
pub fn read(path: &Path) -> Result<Report, ReadError> {
    let (file, text) = read_text(path, RESULT)?;
    parse_report(&file, &text)
}

/// Parses the text of a result; `path` is for errors.
///
/// # Errors
/// As [`read`].
pub fn parse_report(path: &Path, text: &str) -> Result<Report, ReadError> {
    let report = parse(path, text, SCHEMA)?;
    foreign::check(&report).map_err(|wrong| ReadError::Bounds {
        path: path.to_owned(),
        wrong,
    })?;
    Ok(report)
}

/// Read a file of another format in a directory, or by its own name.
pub(crate) fn read_saved<T: DeserializeOwned>(
    path: &Path,
    name: &str,
    schema: &'static str,
) -> Result<T, ReadError> {
    let (file, text) = read_text(path, name)?;
    parse(&file, &text, schema)
}

/// Return the file `name` of a directory, or the file that is named itself.
///
/// # Errors
/// When nothing has that name, or the system refuses to look.
pub fn file_of(path: &Path, name: &str) -> Result<PathBuf, ReadError> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(path.join(name)),
        Ok(_) => Ok(path.to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(ReadError::Missing(path.to_owned()))
        }
        Err(error) => Err(ReadError::io(path)(error)),
    }
}

fn read_text(path: &Path, name: &str) -> Result<(PathBuf, String), ReadError> {
    let file = file_of(path, name)?;
    let text = foreign::read_text(&file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ReadError::NoResult(path.to_owned()),
        _ => ReadError::io(&file)(error),
    })?;
    Ok((file, text))
}

/// Parse the text of a file.
pub(crate) fn parse<T: DeserializeOwned>(
    file: &Path,
    text: &str,
    wanted: &'static str,
) -> Result<T, ReadError> {
    let broken = |error| ReadError::Json {
        path: file.to_owned(),
        error,
    };
    let Versioned { schema: found } = foreign::from_str(text).map_err(broken)?;
    if found != wanted {
        // Its writer chose it.
        let found = foreign::short(&found);
        return Err(ReadError::Schema {
            path: file.to_owned(),
            found,
            wanted,
        });
    }
    serde_json::from_str(text).map_err(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_result_is_told_by_its_name() {
        let place = tempfile::tempdir().unwrap();
        let complaint = |path: &Path| read(path).unwrap_err().to_string();
        assert!(complaint(&place.path().join("nowhere")).contains("nowhere does not exist"));
        assert!(complaint(place.path()).contains("holds no result.json"));
        let file = place.path().join(RESULT);
        for (text, says) in [
            ("{}", "is not a result of crawlmark: missing field `schema`"),
            ("{\"schema\": \"other/2\"}", "has the format `other/2`"),
            (
                "{\"schema\": \"crawlmark.result/1\"}",
                "is not a result of crawlmark: missing field",
            ),
            (
                "{\"schema\"",
                "is not a result of crawlmark: EOF while parsing",
            ),
            (
                "# Notes",
                "is not a result of crawlmark: expected value at line 1 column 1. Name a directory that it saved",
            ),
            (
                "{\"a\": 1e999}",
                "is not a result of crawlmark: number out of range at line 1",
            ),
        ] {
            fs::write(&file, text).unwrap();
            assert!(
                complaint(place.path()).contains(says),
                "{}",
                complaint(place.path())
            );
            assert_eq!(complaint(&file), complaint(place.path()));
        }
    }
}
