//! Problems with mapping files, as they are reported to the author of the files.
//!
//! It must not read files, nor decide what is wrong.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Reason why stubs cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The directory cannot be read.
    #[error("{} cannot be read: {error}", path.display())]
    Root {
        /// The directory.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// Another layout of the directory.
    #[error(
        "{} has no directory `mappings`; expected mapping files as \
         `mappings/**/*.json` and, beside it, the bodies that they name in `__files`",
        path.display()
    )]
    NoMappings {
        /// The directory.
        path: PathBuf,
    },
    /// Something is wrong with the files.
    #[error("these mapping files cannot be loaded:\n{0}")]
    Wrong(StubProblems),
}

/// Findings in mapping files, each with the path of its file below the directory of mappings.
/// Displayed it is one line each, of the first twenty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StubProblems(pub Vec<(String, String)>);

impl StubProblems {
    /// Most findings displayed.
    const SHOWN: usize = 20;
}

impl fmt::Display for StubProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (file, what)) in self.0.iter().take(Self::SHOWN).enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{file}: {what}")?;
        }
        match self.0.len().checked_sub(Self::SHOWN) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, "\nand {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_report_is_cut() {
        let finding = |number: usize| (format!("{number}.json"), "why".to_owned());
        let report = |count| StubProblems((0..count).map(finding).collect()).to_string();
        assert_eq!(report(2), "0.json: why\n1.json: why");
        assert!(report(20).ends_with("\n19.json: why"));
        assert!(report(25).ends_with("\n19.json: why\nand 5 more"));
    }
}
