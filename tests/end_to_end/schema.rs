//! `result.json` is what its JSON Schema says, in every kind of run; and the schema can say no.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};

use boon::{Compiler, Draft, SchemaIndex, Schemas};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::command::json as read_json;
use crate::report::{Report, holds};
use crate::run::{ended, start};
use crate::target::Target;

fn result() -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    read_json(&root.join("results/schema/result-1.schema.json"))
}

/// A JSON schema, compiled.
pub(crate) struct Schema {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Schema {
    /// Compile a schema, which must be one.
    fn new(schema: Value) -> Self {
        let (mut compiler, mut schemas) = (Compiler::new(), Schemas::new());
        compiler.set_default_draft(Draft::V2020_12);
        compiler.add_resource("urn:schema", schema).unwrap();
        let index = compiler.compile("urn:schema", &mut schemas).unwrap();
        Self { schemas, index }
    }

    /// The violation of it.
    pub(crate) fn complaint(&self, value: &Value) -> Option<String> {
        let checked = self.schemas.validate(value, self.index);
        checked.err().map(|error| format!("{error:#}"))
    }
}

/// The schema of a saved file, with no other fields than those that it describes.
pub(crate) fn of(name: &str) -> Arc<Schema> {
    static KNOWN: LazyLock<Mutex<BTreeMap<String, Arc<Schema>>>> = LazyLock::new(Mutex::default);
    let validator = || {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let file = root.join(format!("results/schema/{name}-1.schema.json"));
        let mut schema = read_json(&file);
        close(&mut schema);
        Arc::new(Schema::new(schema))
    };
    let mut known = KNOWN.lock().unwrap();
    known
        .entry(name.to_owned())
        .or_insert_with(validator)
        .clone()
}

fn close(schema: &mut Value) {
    match schema {
        Value::Object(entries) => {
            let fields = entries.iter_mut().filter(|(name, _)| *name != "latency");
            fields.for_each(|(_, inner)| close(inner));
            if entries.get("properties").is_some_and(Value::is_object) {
                let rest = entries.entry("unevaluatedProperties");
                rest.or_insert(json!(false));
            }
        }
        Value::Array(entries) => entries.iter_mut().for_each(close),
        _ => {}
    }
}

#[test]
fn runs_and_the_example_fit_the_schema() {
    let schema = result();
    let version = json!(crawlmark_results::run::report::SCHEMA);
    holds(&schema, &json!({"/properties/schema/const": version}));
    let target = Target::start("");
    let flags = "--ids 0..500 --shards 2 -c 8 --name some-name --tag a=b --tag c=d=e";
    let ended = ended(&format!("{} {flags}", target.url()));
    let report = ended.report(0);
    let printed = (&*ended.stdout, &*ended.stderr);
    assert_eq!(printed, (&*ended.file("result.json"), ""));
    report.holds(&json!({
        "/tags": {"a": "b", "c": "d=e"}, "/name": "some-name", "/plan/target": target.url(),
        "/budget": null, "/witness": null,
    }));
    // A field that a reader does not know yet is no fault; a missing one or a wrong type is.
    let mut known = report.json().clone();
    for place in ["", "/plan", "/latency/service", "/shards/0"] {
        known.pointer_mut(place).unwrap()["from_the_future"] = json!([1, "two"]);
    }
    let schema = Schema::new(schema);
    assert_eq!(schema.complaint(&known), None);
    for place in [
        "",
        "/plan",
        "/ledger",
        "/totals",
        "/shards/0",
        "/intervals/0",
    ] {
        for key in report.at(place).as_object().unwrap().keys() {
            let mut other = report.json().clone();
            other.pointer_mut(place).unwrap()[key] = json!([{"a": 0.5}]);
            let complaint = schema.complaint(&other);
            assert_ne!(complaint, None, "{place}/{key} may be anything");
        }
    }
    let mut fields = report.at("/ledger").as_object().unwrap().keys();
    assert!(fields.all(|key| {
        let mut other = report.json().clone();
        let ledger = other.pointer_mut("/ledger").unwrap();
        ledger.as_object_mut().unwrap().remove(key);
        schema.complaint(&other).is_some()
    }));
    // Reading checks the schema, the sums, and that the program itself takes it.
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/example/result.json");
    Report::read(&example);
    // A run without a good response.
    let target = Target::start("--latency 600s --processes 1");
    let run = start(&format!(
        "{} --ids 0..9 --rate 1/h --burst 2 --shards 2 -c 2",
        target.url()
    ));
    target.wait_for_requests(1);
    run.signal(Signal::SIGTERM);
    run.end()
        .report(143)
        .holds(&json!({"/ledger/ok": 0, "/latency/service/p50_us": null}));
}

/// The JSON files below a directory.
fn json_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(json_below(&path));
        } else if path.extension().is_some_and(|ending| ending == "json") {
            found.push(path);
        }
    }
    found
}

#[test]
fn every_committed_result_fits_its_schema() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    let mut read = 0;
    for path in json_below(&results) {
        let json = read_json(&path);
        let named = json["schema"].as_str().unwrap_or_default();
        let name = named.strip_prefix("crawlmark.").unwrap_or_default();
        let Some(name) = name.strip_suffix("/1") else {
            continue;
        };
        let complaint = of(name).complaint(&json);
        assert_eq!(complaint, None, "{}", path.display());
        read += 1;
    }
    assert!(read >= 6, "{read} results");
}
