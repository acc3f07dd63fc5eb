//! What was found wrong with mapping files, as it is told to whoever wrote them.
//!
//! It must not read files, nor decide what is wrong.

use super::node::Problem;
use super::text::SyntaxError;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why stubs cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The directory cannot be read.
    #[error("read the directory of stubs {}: {error}", path.display())]
    Root {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is laid out in another way.
    #[error(
        "find stubs in {}: there is no directory `mappings` in it; expected mapping files as \
         `mappings/**/*.json` and, beside it, the bodies that they name in `__files`",
        path.display()
    )]
    NoMappings {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// Something is wrong with the files.
    #[error("load stubs:\n{0}")]
    Wrong(Report),
}

/// What is wrong, file by file. Displayed it is one line each, of the first twenty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report(pub Vec<Finding>);

/// Something that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its path below the directory of mappings.
    pub file: String,
    /// What is wrong.
    pub what: Wrong,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// It cannot be read; here is why.
    #[error("{0}")]
    Unreadable(String),
    /// It is not JSON.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// Something in it is not as it must be, or not served.
    #[error(transparent)]
    Problem(#[from] Problem),
}

impl Report {
    /// How many findings are displayed.
    const SHOWN: usize = 20;
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Finding { file, what }) in self.0.iter().take(Self::SHOWN).enumerate() {
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
        let finding =
            |number: usize| Finding { file: format!("{number}.json"), what: Wrong::Unreadable("why".to_owned()) };
        let report = |count| Report((0..count).map(finding).collect()).to_string();
        assert_eq!(report(2), "0.json: why\n1.json: why");
        assert!(report(20).ends_with("\n19.json: why"));
        assert!(report(25).ends_with("\n19.json: why\nand 5 more"));
    }
}
