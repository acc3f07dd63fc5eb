//! Stubs from files: `mappings/**/*.json` below a directory, as WireMock lays them out
//! (`standalone/JsonFileMappingsSource.java`). The problems of all files are reported together.
//!
//! It must not know what a stub's fields mean.

use super::node::{Node, Problem, ValueProblem};
use super::report::{LoadError, StubProblems};
use super::scenario::ScenarioNames;
use super::set::{Stubs, derived_id};
use super::stub::{Stub, StubPlace};
use super::text;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// The directory of mapping files below the root.
const MAPPINGS: &str = "mappings";

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

/// Stubs as they were loaded.
#[derive(Debug)]
pub(crate) struct Loaded<R> {
    /// The stubs.
    pub(crate) stubs: Stubs<R>,
    /// Number of stubs left out.
    pub(crate) skipped: usize,
    /// Reasons.
    pub(crate) warnings: StubProblems,
}

/// Loads all stubs below `root`. No stubs at all is no error.
///
/// Stubs are added file by file in the order of their paths, within a file as they come; among
/// stubs of one priority the last one added answers. WireMock takes files as the file system lists
/// them, which is no order to rely on.
///
/// `read_reply` reads what is under a stub's `response`, or makes an answer when that is absent.
pub(crate) fn load<R>(
    root: &Path,
    on_unsupported: OnUnsupported,
    read_reply: impl Fn(Option<&Node<'_>>) -> Result<R, Problem>,
) -> Result<Loaded<R>, LoadError> {
    fs::read_dir(root).map_err(|error| LoadError::Root {
        path: root.to_owned(),
        error,
    })?;
    let mappings = root.join(MAPPINGS);
    if !mappings.is_dir() {
        return Err(LoadError::NoMappings {
            path: root.to_owned(),
        });
    }
    let mut reading = LoadProgress::new(on_unsupported, read_reply);
    let mut files = Vec::new();
    reading.list(&mappings, &mut Vec::new(), &mut files);
    files.sort();
    for path in &files {
        let name = path
            .strip_prefix(&mappings)
            .unwrap_or(path)
            .to_string_lossy();
        match read_file(path) {
            Ok(text) => reading.document(&name, &text),
            Err(why) => reading.finding(&name, &why),
        }
    }
    reading.finish()
}

/// Reads the text of one mapping file without any file.
pub(crate) fn parse<R>(
    text: &[u8],
    on_unsupported: OnUnsupported,
    read_reply: impl Fn(Option<&Node<'_>>) -> Result<R, Problem>,
) -> Result<Loaded<R>, LoadError> {
    let mut reading = LoadProgress::new(on_unsupported, read_reply);
    reading.document("mapping.json", text);
    reading.finish()
}

/// Progress of reading mapping files.
struct LoadProgress<R, F> {
    on_unsupported: OnUnsupported,
    read_reply: F,
    stubs: Vec<Stub<R>>,
    names: ScenarioNames,
    /// Place where each id was met first.
    ids: HashMap<Uuid, String>,
    skipped: usize,
    warnings: StubProblems,
    wrong: StubProblems,
}

impl<R, F: Fn(Option<&Node<'_>>) -> Result<R, Problem>> LoadProgress<R, F> {
    fn new(on_unsupported: OnUnsupported, read_reply: F) -> Self {
        Self {
            on_unsupported,
            read_reply,
            stubs: Vec::new(),
            names: ScenarioNames::default(),
            ids: HashMap::new(),
            skipped: 0,
            warnings: StubProblems::default(),
            wrong: StubProblems::default(),
        }
    }

    /// Lists the mapping files below `directory`. `above` are the directories that led here, for
    /// links may lead back.
    fn list(&mut self, directory: &Path, above: &mut Vec<PathBuf>, files: &mut Vec<PathBuf>) {
        let listed = fs::canonicalize(directory).and_then(|real| {
            let entries: io::Result<Vec<_>> = fs::read_dir(directory)?
                .map(|entry| Ok(entry?.path()))
                .collect();
            Ok((real, entries?))
        });
        let name = || directory.to_string_lossy();
        let (real, entries) = match listed {
            Ok((real, _)) if above.contains(&real) => {
                let why = "this directory holds a link to itself or to one above it".to_owned();
                return self.finding(&name(), &why);
            }
            Ok(listed) => listed,
            Err(error) => return self.finding(&name(), &error),
        };
        above.push(real);
        for path in entries {
            if path.is_dir() {
                self.list(&path, above, files);
            } else if path
                .file_name()
                .is_some_and(|name| name.as_encoded_bytes().ends_with(b".json"))
            {
                files.push(path);
            }
        }
        above.pop();
    }

    /// Reads one file: a stub, or a collection of them when it has `mappings`.
    fn document(&mut self, file: &str, text: &[u8]) {
        let document = match text::parse(text) {
            Ok(document) => document,
            Err(error) => return self.finding(file, &error),
        };
        let root = Node::root(&document);
        let Some(mappings) = root.get("mappings") else {
            return self.stub(file, &root, (StubPlace::Document, 0));
        };
        for problem in root
            .unknown_fields("mappings meta $schema")
            .into_iter()
            .flatten()
        {
            self.finding(file, &problem);
        }
        match mappings.elements() {
            Ok(stubs) => (0..)
                .zip(stubs)
                .for_each(|(index, stub)| self.stub(file, &stub, (StubPlace::Element, index))),
            Err(problem) => self.finding(file, &problem),
        }
    }

    fn stub(&mut self, file: &str, node: &Node<'_>, (place, index): (StubPlace, usize)) {
        let id = derived_id(&format!("{file} #{index}"));
        match Stub::read((node, place), id, &mut self.names, &self.read_reply) {
            Ok(stub) => self.add(file, node, stub),
            Err(problems) => self.refuse(file, problems),
        }
    }

    fn add(&mut self, file: &str, node: &Node<'_>, stub: Stub<R>) {
        let here = format!(
            "{file}, {}",
            if node.pointer().is_empty() {
                "the whole document"
            } else {
                node.pointer()
            }
        );
        if let Some(there) = self.ids.get(&stub.id) {
            let what = format!("the id {} is already taken by the stub at {there}", stub.id);
            self.finding(file, &node.malformed(what));
        } else {
            self.ids.insert(stub.id, here);
            self.stubs.push(stub);
        }
    }

    /// A stub may be left out if all that is wrong with it is that it asks for too much.
    fn refuse(&mut self, file: &str, problems: Vec<Problem>) {
        let can_skip = problems
            .iter()
            .all(|problem| matches!(problem.what, ValueProblem::Unsupported(_)));
        let findings = problems
            .into_iter()
            .map(|problem| (file.to_owned(), problem.to_string()));
        if can_skip && self.on_unsupported == OnUnsupported::Skip {
            self.skipped += 1;
            self.warnings.0.extend(findings);
        } else {
            self.wrong.0.extend(findings);
        }
    }

    fn finding(&mut self, file: &str, what: &dyn ToString) {
        self.wrong.0.push((file.to_owned(), what.to_string()));
    }

    fn finish(self) -> Result<Loaded<R>, LoadError> {
        if !self.wrong.0.is_empty() {
            return Err(LoadError::Wrong(self.wrong));
        }
        let stubs = Stubs::new(self.stubs, self.names);
        Ok(Loaded {
            stubs,
            skipped: self.skipped,
            warnings: self.warnings,
        })
    }
}

/// Reads a file that may be anything; or says why not.
fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let kind = fs::metadata(path).map_err(|error| error.to_string())?;
    // Opening a pipe would wait for its writer.
    if !kind.is_file() {
        return Err("this is not a regular file".to_owned());
    }
    let mut text = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut text)
        .map_err(|error| error.to_string())?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(format!(
            "larger than {} MiB; split it into several files",
            MAX_FILE_BYTES >> 20
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stubs::request::testing::Request;
    use proptest::prelude::*;
    use serde_json::{Value, json};
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

    /// Answers are the status that stubs name; other fields of a response are not served.
    fn status(response: Option<&Node<'_>>) -> Result<i64, Problem> {
        let Some(response) = response else {
            return Ok(200);
        };
        match response.get("proxyBaseUrl") {
            Some(proxy) => Err(proxy.unsupported("`proxyBaseUrl`")),
            None => response
                .get("status")
                .map_or(Ok(200), |status| status.integer()),
        }
    }

    fn load_all(root: &TempDir, on_unsupported: OnUnsupported) -> Result<Loaded<i64>, LoadError> {
        load(root.path(), on_unsupported, status)
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
            .stubs
            .iter()
            .map(|stub| stub.json["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["b", "z1", "z0", "c"], "the last added comes first");
        let found = Request::get("/")
            .see(|asked| loaded.stubs.find(asked, |_, _| true))
            .map(|stub| stub.reply);
        assert_eq!(
            (found, loaded.skipped, loaded.warnings),
            (Some(200), 0, StubProblems::default())
        );
        let again = load_all(&root, OnUnsupported::Refuse).unwrap();
        let ids = |loaded: &Stubs<i64>| loaded.iter().map(|stub| stub.id).collect::<Vec<_>>();
        assert_eq!(ids(&loaded.stubs), ids(&again.stubs));
    }

    #[test]
    fn no_stubs_are_fine_and_no_directory_is_not() {
        let empty = directory(&[("mappings/.keep", "")]);
        assert_eq!(
            load_all(&empty, OnUnsupported::Refuse).unwrap().stubs.len(),
            0
        );
        let bare = directory(&[("some.json", "{}")]);
        let error = load_all(&bare, OnUnsupported::Refuse).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("expected mapping files as `mappings/**/*.json`"),
            "{error}"
        );
        let missing =
            load(&bare.path().join("missing"), OnUnsupported::Refuse, status).unwrap_err();
        assert!(matches!(missing, LoadError::Root { .. }), "{missing}");
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
            "/loop: this directory holds a link to itself",
            "a.json: line 2, column 15: ",
            "b.json: /x: unknown field `x`; known here: mappings, meta",
            "b.json: /mappings/0/request/urlPaht: unknown field `urlPaht`; did you mean urlPath",
            "b.json: /mappings/1/response/status: expected a whole number, found a text",
            "c.json: /response/proxyBaseUrl: `proxyBaseUrl` is not supported",
            "e.json: /mappings/1: the id 6d3d5c8e-3a0f-4f9e-9d6e-0c2b8c1f7a55 is already taken by the stub at d.json, the",
            "f.json: the whole document: expected an object, found an array",
            "g.json: line 1, column 1: there is no value",
            "h.json: /mappings: expected an array, found an object",
            "i.json: line 1, column 2: this byte is not UTF-8",
            "j.json: No such file",
            "k.json: this is not a regular file",
        ];
        let lines: Vec<&str> = error.lines().skip(1).collect();
        assert_eq!(lines.len(), expected.len(), "{error}");
        for (line, expected) in lines.iter().zip(expected) {
            assert!(line.contains(expected), "{line}\nshould have: {expected}");
        }
    }

    #[test]
    fn what_asks_for_too_much_can_be_left_out_but_not_what_is_wrong() {
        let too_much = r#"{"response": {"proxyBaseUrl": "x"}, "request": {"port": 1}}"#;
        let both = r#"{"response": {"proxyBaseUrl": "x"}, "request": {"urlPth": "/"}}"#;
        let root = directory(&[
            ("mappings/a.json", too_much),
            ("mappings/b.json", r#"{"name": "b"}"#),
        ]);
        let loaded = load_all(&root, OnUnsupported::Skip).unwrap();
        assert_eq!(
            (loaded.stubs.len(), loaded.skipped, loaded.warnings.0.len()),
            (1, 1, 2)
        );
        assert_eq!(
            loaded.warnings.to_string(),
            "a.json: /request/port: `port` is not supported\na.json: /response/proxyBaseUrl: `proxyBaseUrl` is not supported"
        );
        assert!(load_all(&root, OnUnsupported::Refuse).is_err());
        fs::write(root.path().join("mappings/c.json"), both).unwrap();
        let LoadError::Wrong(report) = load_all(&root, OnUnsupported::Skip).unwrap_err() else {
            panic!()
        };
        assert_eq!(report.0.len(), 2, "{report}");
    }

    #[test]
    fn nesting_is_refused_before_it_can_hurt() {
        let not = format!("{}{{}}{}", r#"{"not":"#.repeat(480), "}".repeat(480));
        let text = format!(r#"{{"request": {{"cookies": {{"a": {not}}}}}}}"#);
        let error = parse(text.as_bytes(), OnUnsupported::Refuse, |_| Ok(())).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("nested deeper than 64 is not supported"),
            "{error}"
        );
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
                    "basicAuth": {"username": "u", "password": "p"}, "host": {"matchesPathTemplate": "{x}"},
                    "bodyPatterns": [
                        {"equalToJson": "{\"a\": [1, {}]}", "ignoreArrayOrder": true, "ignoreExtraElements": true},
                        {"binaryEqualTo": "YQ=="},
                    ],
                },
            },
            {"request": {"method": {"oneOf": ["PUT"]}, "urlPattern": "/\\d+(x|y)?[^a-z&&[^b]]*"}, "response": {}},
        ], "meta": {}})
    }

    /// Reads it, and asks what was read for a request. What comes of it does not matter.
    fn try_out(text: &[u8]) {
        if let Ok(loaded) = parse(text, OnUnsupported::Skip, |_| Ok(())) {
            let request = Request {
                body: r#"{"a": [{}, 1]}"#,
                ..Request::get("/a/1/b?q=X")
            };
            request.see(|asked| loaded.stubs.find(asked, |_, _| true).is_some());
        }
    }

    #[test]
    fn the_seed_is_right() {
        assert_eq!(
            parse(
                seed().to_string().as_bytes(),
                OnUnsupported::Refuse,
                |_| Ok(())
            )
            .unwrap()
            .stubs
            .len(),
            2
        );
    }

    proptest! {
        #[test]
        fn junk_is_no_panic(text in prop::collection::vec(any::<u8>(), 0..300)) {
            try_out(&text);
        }

        #[test]
        fn bytes_changed_at_random_are_no_panic(
            edits in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(&b"{}[]\"'\\/*+?.,:()|^$0a\xff\xc3 "[..]), 0..3_u8), 1..12),
        ) {
            let mut text = seed().to_string().into_bytes();
            for (index, byte, edit) in edits {
                let index = index.index(text.len());
                match edit {
                    0 => text[index] = byte,
                    1 => text.insert(index, byte),
                    _ => { text.remove(index); }
                }
            }
            try_out(&text);
        }

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
            try_out(mapping.to_string().as_bytes());
        }
    }
}
