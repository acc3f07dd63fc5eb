//! Stubs from files: `mappings/**/*.json` below a directory, as WireMock lays them out
//! (`standalone/JsonFileMappingsSource.java`). They are loaded once, before any process of the
//! target exists, and are part of its configuration. The problems of all files are reported
//! together.
//!
//! It must not know what a stub's fields mean, nor how stubs change at run time.

use super::node::parse_json;
use super::node::{Node, ValueProblem, place};
use super::reply::Files;
use super::set::{Stubs, derived_id};
use super::stub::Stub;
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;
use walkdir::WalkDir;

/// No mapping file is larger than this: 64 MiB.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Fate of a stub that asks for what is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnUnsupported {
    /// Report an error.
    Refuse,
    /// Leave the stub out, and count it.
    Skip,
}

/// Stubs that were loaded from WireMock's mapping files. A clone is another handle to them.
#[derive(Clone, Debug)]
pub struct Mappings(Arc<Loaded>);

#[derive(Debug)]
struct Loaded {
    stubs: Arc<Stubs>,
    skipped: StubProblems,
    files: Files,
    /// Directory that they are below, if they are files.
    root: Option<PathBuf>,
}

impl Mappings {
    /// Loads `mappings/**/*.json` below `root`, with the bodies that they name in `__files` beside
    /// it. No stubs at all is no error.
    ///
    /// Stubs are added file by file in the order of their paths, within a file as they come; among
    /// stubs of one priority the last one added answers. WireMock takes files as the file system
    /// lists them, which is no order to rely on.
    ///
    /// # Errors
    ///
    /// There are no such files, or something in them is not as WireMock's format asks, or is not
    /// served here; all of it is said at once, with file and JSON pointer. With
    /// [`OnUnsupported::Skip`], stubs that are right and not served are no error.
    pub fn load(root: &Path, on_unsupported: OnUnsupported) -> Result<Self, LoadError> {
        let mappings = root.join("mappings");
        if !mappings.is_dir() {
            return Err(LoadError::NoMappings(root.to_owned()));
        }
        let mut loader = Loader::new(Files::Under(root.join("__files")), on_unsupported);
        loader.root = Some(root.to_owned());
        let walk = WalkDir::new(&mappings).follow_links(true);
        for entry in walk.sort_by_file_name() {
            let place = match &entry {
                Ok(entry) => entry.path(),
                Err(error) => error.path().unwrap_or(&mappings),
            };
            let name = place
                .strip_prefix(&mappings)
                .unwrap_or(place)
                .to_string_lossy();
            match &entry {
                Err(error) => loader.wrong(&name, error),
                Ok(entry) if entry.path().is_dir() || !name.ends_with(".json") => {}
                Ok(entry) => match read_file(entry.path()) {
                    Ok(text) => loader.document(&name, &text),
                    Err(why) => loader.wrong(&name, &why),
                },
            }
        }
        loader.finish()
    }

    /// Reads stubs from the text of one mapping file. Bodies in files cannot be had that way.
    ///
    /// # Errors
    ///
    /// As for [`Mappings::load`].
    pub fn parse(text: &[u8], on_unsupported: OnUnsupported) -> Result<Self, LoadError> {
        let mut loader = Loader::new(Files::None, on_unsupported);
        loader.document("mapping.json", text);
        loader.finish()
    }

    /// Number of stubs there are.
    pub fn len(&self) -> usize {
        self.stubs().len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Return what the stubs ask for that were left out because it is not served, one of each.
    pub fn skipped(&self) -> &StubProblems {
        &self.0.skipped
    }

    /// Asks all stubs for one thing and another, and has each of them answer. There is nothing to
    /// see: a fuzzer of mapping files wants to know that it comes to an end.
    #[cfg(any(test, fuzzing))]
    pub fn rehearse(&self) {
        super::fuzzing::rehearse(self.stubs());
    }

    pub(crate) fn stubs(&self) -> &Arc<Stubs> {
        &self.0.stubs
    }

    pub(crate) fn files(&self) -> &Files {
        &self.0.files
    }

    pub(crate) fn root(&self) -> Option<&Path> {
        self.0.root.as_deref()
    }
}

/// Progress of reading mapping files.
struct Loader {
    files: Files,
    root: Option<PathBuf>,
    on_unsupported: OnUnsupported,
    stubs: Vec<Stub>,
    /// Place where each id was met first.
    ids: HashMap<Uuid, String>,
    skipped: StubProblems,
    wrong: StubProblems,
}

impl Loader {
    fn new(files: Files, on_unsupported: OnUnsupported) -> Self {
        Self {
            files,
            root: None,
            on_unsupported,
            stubs: Vec::new(),
            ids: HashMap::new(),
            skipped: StubProblems::default(),
            wrong: StubProblems::default(),
        }
    }

    /// Reads one file: a stub, or a collection of them when it has `mappings`.
    fn document(&mut self, file: &str, text: &[u8]) {
        let document = match parse_json(text) {
            Ok(document) => document,
            Err(error) => return self.wrong(file, &error),
        };
        let root = Node::root(&document);
        let Some(mappings) = root.get("mappings") else {
            return self.stub(file, None, &root);
        };
        if let Err(problem) = root.only("mappings meta $schema", &[]) {
            self.wrong(file, &problem);
        }
        match mappings.list(|stub| Ok(stub.clone())) {
            Ok(stubs) => {
                for (index, stub) in stubs.iter().enumerate() {
                    self.stub(file, Some(index), stub);
                }
            }
            Err(problem) => self.wrong(file, &problem),
        }
    }

    /// Reads a stub that is a whole file, or the one of that index in it.
    fn stub(&mut self, file: &str, index: Option<usize>, node: &Node<'_>) {
        let default_id = derived_id(&format!("{file} #{}", index.unwrap_or(0)));
        let mut stub = match Stub::read(node, default_id, &self.files) {
            Ok(stub) => stub,
            // A stub may be left out if what is wrong with it is that it asks for too much.
            Err(problem)
                if matches!(problem.what, ValueProblem::Unsupported(_))
                    && self.on_unsupported == OnUnsupported::Skip =>
            {
                return self.skipped.add(file, &problem);
            }
            Err(problem) => return self.wrong(file, &problem),
        };
        if let Some(there) = self.ids.get(&stub.id) {
            let what = format!("the id {} is already taken by the stub at {there}", stub.id);
            return self.wrong(file, &node.malformed(what));
        }
        let place = format!("{file}, {}", place(node.pointer()));
        self.ids.insert(stub.id, place);
        // A name that is not UTF-8 cannot be found again by this one.
        let is_own = index.is_none() && !file.contains(char::REPLACEMENT_CHARACTER);
        stub.file = is_own.then(|| file.to_owned());
        self.stubs.push(stub);
    }

    fn wrong(&mut self, file: &str, what: &dyn ToString) {
        self.wrong.add(file, what);
    }

    fn finish(self) -> Result<Mappings, LoadError> {
        if !self.wrong.0.is_empty() {
            return Err(LoadError::Wrong(self.wrong));
        }
        Ok(Mappings(Arc::new(Loaded {
            stubs: Arc::new(Stubs::new(self.stubs)),
            skipped: self.skipped,
            files: self.files,
            root: self.root,
        })))
    }
}

/// Reads a file that may be anything; or says why not.
fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    // Opening a pipe would wait for its writer.
    if !path.is_file() {
        return Err("this is not a regular file".to_owned());
    }
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text))
        .map_err(|error| error.to_string())?;
    if text.len() as u64 > MAX_FILE_BYTES {
        let most = MAX_FILE_BYTES >> 20;
        return Err(format!(
            "larger than {most} MiB; split it into several files"
        ));
    }
    Ok(text)
}

/// Reason why stubs cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Another layout of the directory.
    #[error(
        "{} has no directory `mappings`; expected mapping files as \
         `mappings/**/*.json` and, beside it, the bodies that they name in `__files`",
        _0.display()
    )]
    NoMappings(PathBuf),
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

    fn add(&mut self, file: &str, what: &dyn ToString) {
        self.0.push((file.to_owned(), what.to_string()));
    }
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
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use std::fs;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// A directory with these files in it.
    fn directory(files: &[(&str, &str)]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn load_all(root: &TempDir, on_unsupported: OnUnsupported) -> Result<Mappings, LoadError> {
        Mappings::load(root.path(), on_unsupported)
    }

    #[test]
    fn files_are_read_in_the_order_of_their_paths() {
        let root = directory(&[
            (
                "mappings/b.json",
                "{'name': 'b'} // single quotes and a comment",
            ),
            (
                "mappings/a/z.json",
                r#"{"mappings": [{"name": "z0"}, {"name": "z1"}], "meta": {"total": 2}}"#,
            ),
            (
                "mappings/a/deep/er/c.json",
                r#"{"name": "c", "response": {"status": 418}}"#,
            ),
            ("mappings/notes.txt", "no JSON"),
            ("mappings/UPPER.JSON", "no JSON either, by WireMock's rule"),
            ("__files/body.json", "not a stub"),
        ]);
        let loaded = load_all(&root, OnUnsupported::Refuse).unwrap();
        let names: Vec<_> = loaded
            .stubs()
            .iter()
            .map(|stub| stub.json["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["b", "z1", "z0", "c"], "the last added comes first");
        assert_eq!(loaded.skipped(), &StubProblems::default());
        let again = load_all(&root, OnUnsupported::Refuse).unwrap();
        let ids = |loaded: &Stubs| loaded.iter().map(|stub| stub.id).collect::<Vec<_>>();
        assert_eq!(ids(loaded.stubs()), ids(again.stubs()));
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once_by_place() {
        let root = directory(&[
            ("mappings/a.json", "{\n  \"request\": {,}\n}"),
            (
                "mappings/b.json",
                r#"{"mappings": [{"request": {"urlPaht": "/"}}, {"response": {"status": "x"}}], "x": 1}"#,
            ),
            (
                "mappings/c.json",
                r#"{"response": {"proxyBaseUrl": "http://example.org"}}"#,
            ),
            (
                "mappings/d.json",
                r#"{"id": "6d3d5c8e-3a0f-4f9e-9d6e-0c2b8c1f7a55"}"#,
            ),
            (
                "mappings/e.json",
                r#"{"mappings": [{}, {"uuid": "6d3d5c8e-3a0f-4f9e-9d6e-0c2b8c1f7a55"}]}"#,
            ),
            ("mappings/f.json", "[]"),
            ("mappings/g.json", ""),
            ("mappings/h.json", r#"{"mappings": {}}"#),
        ]);
        fs::write(root.path().join("mappings/i.json"), b"\"\xff\"").unwrap();
        symlink("nowhere", root.path().join("mappings/j.json")).unwrap();
        symlink("/dev/null", root.path().join("mappings/k.json")).unwrap();
        symlink(".", root.path().join("mappings/loop")).unwrap();
        let error = load_all(&root, OnUnsupported::Refuse)
            .unwrap_err()
            .to_string();
        let expected = [
            "a.json: line 2, column 15: ",
            "b.json: /x: ",
            "b.json: /mappings/0/request/urlPaht: ",
            "b.json: /mappings/1/response/status: ",
            "c.json: /response/proxyBaseUrl: ",
            "e.json: /mappings/1: the id 6d3d5c8e-3a0f-4f9e-9d6e-0c2b8c1f7a55 ",
            "f.json: ",
            "g.json: the whole document: ",
            "h.json: /mappings: ",
            "i.json: not UTF-8: ",
            "j.json: ",
            "k.json: ",
            "loop: ",
        ];
        let lines: Vec<&str> = error.lines().skip(1).collect();
        assert_eq!(lines.len(), expected.len(), "{error}");
        for (line, expected) in lines.iter().zip(expected) {
            assert!(line.contains(expected), "{line}\nshould have: {expected}");
        }
    }

    /// Mappings that hold every field and every operator.
    fn seed() -> Value {
        json!({"mappings": [
            {
                "id": "6d3d5c8e-3a0f-4f9e-9d6e-0c2b8c1f7a55", "name": "n", "priority": 1, "persistent": true,
                "scenarioName": "s", "requiredScenarioState": "Started", "newScenarioState": "x", "metadata": {},
                "request": {
                    "method": "GET", "urlPathTemplate": "/a/{id}/**", "pathParameters": {"id": {"matches": "[0-9]{1,3}"}},
                    "queryParameters": {"q": {"hasExactly": [{"equalTo": "x", "caseInsensitive": true}]}},
                    "headers": {"Accept": {"or": [{"contains": "j"}, {"absent": true}]}},
                    "cookies": {"c": {"not": {"doesNotMatch": "a|b+?"}}},
                    "basicAuth": {"username": "u", "password": "p"},
                    "bodyPatterns": [
                        {"equalToJson": "{\"a\": [1, {}]}", "ignoreArrayOrder": true, "ignoreExtraElements": true},
                        {"matchesJsonPath": {"expression": "$.a[*]", "contains": "1"}},
                    ],
                },
            },
            {"request": {"method": "PUT", "urlPattern": "/\\d+(x|y)?[^a-z&&[^b]]*"}, "response": {
                "transformers": ["response-template"], "body": "{{request.path.a}} {{math 1 '/' request.query.q}} {{randomInt}}",
                "headers": {"X": ["{{now}}"]}, "delayDistribution": {"type": "lognormal", "median": 5, "sigma": 0.5},
            }},
        ], "meta": {}})
    }

    proptest! {
        #[test]
        fn values_changed_at_random_are_no_panic(
            at in any::<prop::sample::Index>(),
            other in prop::sample::select(vec![
                json!(null), json!(-1), json!(1e300), json!(""), json!("("), json!("**{a}{"), json!([]), json!([[]]),
                json!({}), json!({"": {}}), json!({"not": {"absent": 1}}), json!(true), json!("é\u{0}"),
            ]),
        ) {
            fn places(value: &Value, here: &str, found: &mut Vec<String>) {
                found.push(here.to_owned());
                let below: Vec<(String, &Value)> = match value {
                    Value::Array(list) => list.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect(),
                    Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), value)).collect(),
                    _ => Vec::new(),
                };
                for (key, value) in below {
                    places(value, &format!("{here}/{key}"), found);
                }
            }
            let mut mapping = seed();
            let mut found = Vec::new();
            places(&mapping, "", &mut found);
            *mapping.pointer_mut(&found[at.index(found.len())]).unwrap() = other;
            if let Ok(loaded) = Mappings::parse(mapping.to_string().as_bytes(), OnUnsupported::Skip) {
                loaded.rehearse();
            }
        }
    }
}
