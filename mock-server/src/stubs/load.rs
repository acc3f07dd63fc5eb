//! Stubs from files: `mappings/**/*.json` below a directory, as WireMock lays them out
//! (`standalone/JsonFileMappingsSource.java`). All that is wrong with all of them is said at once.
//!
//! It must not know what a stub's fields mean.

use super::node::{Fault, Node, Problem};
use super::scenario::ScenarioNames;
use super::set::{Stubs, derived_id};
use super::stub::{Place, Stub};
use super::text::{self, SyntaxError};
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// The directory of mapping files below the root.
const MAPPINGS: &str = "mappings";

/// No mapping file is larger than this: 64 MiB.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// What becomes of a stub that asks for what is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnUnsupported {
    /// It is an error.
    Refuse,
    /// It is left out, and [`Loaded::skipped`] says so.
    Skip,
}

/// What was loaded.
#[derive(Debug)]
pub(crate) struct Loaded<R> {
    /// The stubs.
    pub(crate) stubs: Stubs<R>,
    /// How many stubs were left out.
    pub(crate) skipped: usize,
    /// Why.
    pub(crate) warnings: Report,
}

/// Why stubs cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
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

/// What is wrong, file by file. Displayed it is one line each, of the first [`Report::SHOWN`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report(pub(crate) Vec<Finding>);

/// Something that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Its path below the directory of mappings.
    pub(crate) file: String,
    /// What is wrong.
    pub(crate) what: Wrong,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Wrong {
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

/// Loads all stubs below `root`. No stubs at all is no error.
///
/// Stubs are added file by file in the order of their paths, within a file as they come; among stubs of one priority
/// the last one added answers. WireMock takes files as the file system lists them, which is no order to rely on.
///
/// `read_reply` reads what is under a stub's `response`, or makes an answer when that is absent.
pub(crate) fn load<R>(
    root: &Path,
    on_unsupported: OnUnsupported,
    read_reply: impl Fn(Option<&Node<'_>>) -> Result<R, Problem>,
) -> Result<Loaded<R>, LoadError> {
    fs::read_dir(root).map_err(|error| LoadError::Root { path: root.to_owned(), error })?;
    let mappings = root.join(MAPPINGS);
    if !mappings.is_dir() {
        return Err(LoadError::NoMappings { path: root.to_owned() });
    }
    let mut reading = Reading::new(on_unsupported, read_reply);
    let mut files = Vec::new();
    reading.list(&mappings, &mut Vec::new(), &mut files);
    files.sort();
    for path in &files {
        let name = path.strip_prefix(&mappings).unwrap_or(path).to_string_lossy();
        match read_file(path) {
            Ok(text) => reading.document(&name, &text),
            Err(why) => reading.finding(&name, Wrong::Unreadable(why)),
        }
    }
    reading.finish()
}

/// Reads the text of one mapping file without any file, and with answers that are not looked at.
pub(crate) fn parse_mapping_text(text: &[u8], on_unsupported: OnUnsupported) -> Result<Loaded<()>, LoadError> {
    let mut reading = Reading::new(on_unsupported, |_: Option<&Node<'_>>| Ok(()));
    reading.document("mapping.json", text);
    reading.finish()
}

/// What has been read so far.
struct Reading<R, F> {
    on_unsupported: OnUnsupported,
    read_reply: F,
    stubs: Vec<Stub<R>>,
    names: ScenarioNames,
    /// Where each id was met first.
    ids: HashMap<Uuid, String>,
    skipped: usize,
    warnings: Report,
    wrong: Report,
}

impl<R, F: Fn(Option<&Node<'_>>) -> Result<R, Problem>> Reading<R, F> {
    fn new(on_unsupported: OnUnsupported, read_reply: F) -> Self {
        Self {
            on_unsupported,
            read_reply,
            stubs: Vec::new(),
            names: ScenarioNames::default(),
            ids: HashMap::new(),
            skipped: 0,
            warnings: Report::default(),
            wrong: Report::default(),
        }
    }

    /// Lists the mapping files below `directory`. `above` are the directories that led here, for links may lead back.
    fn list(&mut self, directory: &Path, above: &mut Vec<PathBuf>, files: &mut Vec<PathBuf>) {
        let listed = fs::canonicalize(directory).and_then(|real| {
            let entries: io::Result<Vec<_>> = fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect();
            Ok((real, entries?))
        });
        let name = || directory.to_string_lossy();
        let (real, entries) = match listed {
            Ok((real, _)) if above.contains(&real) => {
                let why = "this directory holds a link to itself or to one above it".to_owned();
                return self.finding(&name(), Wrong::Unreadable(why));
            }
            Ok(listed) => listed,
            Err(error) => return self.finding(&name(), Wrong::Unreadable(error.to_string())),
        };
        above.push(real);
        for path in entries {
            if path.is_dir() {
                self.list(&path, above, files);
            } else if path.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(b".json")) {
                files.push(path);
            }
        }
        above.pop();
    }

    /// Reads one file: a stub, or a collection of them when it has `mappings`.
    fn document(&mut self, file: &str, text: &[u8]) {
        let document = match text::parse(text) {
            Ok(document) => document,
            Err(error) => return self.finding(file, error.into()),
        };
        let root = Node::root(&document);
        let Some(mappings) = root.get("mappings") else { return self.stub(file, &root, (Place::Document, 0)) };
        for problem in root.unknown_fields(&["mappings", "meta", "$schema"]).into_iter().flatten() {
            self.finding(file, problem.into());
        }
        match mappings.elements() {
            Ok(stubs) => (0..).zip(stubs).for_each(|(index, stub)| self.stub(file, &stub, (Place::Element, index))),
            Err(problem) => self.finding(file, problem.into()),
        }
    }

    fn stub(&mut self, file: &str, node: &Node<'_>, (place, index): (Place, usize)) {
        let id = derived_id(&format!("{file} #{index}"));
        match Stub::read((node, place), id, &mut self.names, &self.read_reply) {
            Ok(stub) => self.add(file, node, stub),
            Err(problems) => self.refuse(file, problems),
        }
    }

    fn add(&mut self, file: &str, node: &Node<'_>, stub: Stub<R>) {
        let here = format!("{file}, {}", if node.pointer().is_empty() { "the whole document" } else { node.pointer() });
        match self.ids.get(&stub.id) {
            Some(there) => {
                let what = format!("the id {} is already taken by the stub at {there}", stub.id);
                self.finding(file, node.malformed(what).into());
            }
            None => {
                self.ids.insert(stub.id, here);
                self.stubs.push(stub);
            }
        }
    }

    /// A stub may be left out if all that is wrong with it is that it asks for too much.
    fn refuse(&mut self, file: &str, problems: Vec<Problem>) {
        let can_skip = problems.iter().all(|problem| matches!(problem.what, Fault::Unsupported(_)));
        let findings =
            problems.into_iter().map(|problem| Finding { file: file.to_owned(), what: Wrong::Problem(problem) });
        if can_skip && self.on_unsupported == OnUnsupported::Skip {
            self.skipped += 1;
            self.warnings.0.extend(findings);
        } else {
            self.wrong.0.extend(findings);
        }
    }

    fn finding(&mut self, file: &str, what: Wrong) {
        self.wrong.0.push(Finding { file: file.to_owned(), what });
    }

    fn finish(self) -> Result<Loaded<R>, LoadError> {
        if !self.wrong.0.is_empty() {
            return Err(LoadError::Wrong(self.wrong));
        }
        let stubs = Stubs::new(self.stubs, self.names);
        Ok(Loaded { stubs, skipped: self.skipped, warnings: self.warnings })
    }
}

/// Reads a file that may be anything; or says why not.
fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let kind = fs::metadata(path).map_err(|error| error.to_string())?;
    // Opening a pipe would wait for whoever writes to it.
    if !kind.is_file() {
        return Err("this is not a regular file".to_owned());
    }
    let mut text = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("larger than {} MiB; split it into several files", MAX_FILE_BYTES >> 20));
    }
    Ok(text)
}
