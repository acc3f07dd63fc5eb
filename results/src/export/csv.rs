//! Seconds and shards as CSV (RFC 4180), a row each. The columns are the figures that
//! `result.json` has of a row, by its names; those of an object in it begin with the object's name.
//! An empty field is what was not measured, and a percentile that is only known to be no less than
//! its value. Each row ends with the run's ID and its verdict: in tables of several runs below each
//! other, an invalid run stays marked.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::run::report::Report;

/// Objects whose figures have the names of their own.
const OWN_NAMES: [&str; 2] = ["ledger", "totals"];

/// Parts of a row that are no figures of it.
const LEFT_OUT: [&str; 6] = ["answers", "at_least", "course", "hdr", "held", "spread"];

/// A table with a column for every figure that any of the rows has.
pub(super) fn table<T: Serialize>(report: &Report, rows: &[T]) -> String {
    let mut columns = Map::new();
    let mut fields = Vec::new();
    for row in rows {
        let mut own = Map::new();
        if let Ok(Value::Object(row)) = serde_json::to_value(row) {
            add_fields(&mut own, "", &row);
        }
        let validity = report.validity.verdict.name();
        columns.extend(own.keys().map(|name| (name.clone(), Value::Null)));
        own.insert("run_id".to_owned(), report.run_id.clone().into());
        own.insert("validity".to_owned(), validity.into());
        fields.push(own);
    }
    let names: Vec<&str> = columns
        .keys()
        .map(String::as_str)
        .chain(["run_id", "validity"])
        .collect();
    let mut out = line(names.iter().map(|name| (*name).to_owned()));
    for row in fields {
        out += &line(
            names
                .iter()
                .map(|name| row.get(*name).map(text).unwrap_or_default()),
        );
    }
    out
}

/// Add the figures of an object, and of those in it.
fn add_fields(out: &mut Map<String, Value>, prefix: &str, object: &Map<String, Value>) {
    let bounds = object.get("at_least").and_then(Value::as_array);
    for (name, value) in object {
        let is_bound = bounds.is_some_and(|bounds| bounds.iter().any(|bound| bound == name));
        match value {
            _ if LEFT_OUT.contains(&&**name) => {}
            Value::Object(inner) if OWN_NAMES.contains(&&**name) => add_fields(out, "", inner),
            Value::Object(inner) => add_fields(out, &format!("{prefix}{name}_"), inner),
            _ if is_bound => drop(out.insert(format!("{prefix}{name}"), Value::Null)),
            value => drop(out.insert(format!("{prefix}{name}"), value.clone())),
        }
    }
}

/// A figure as short as it can be without loss.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(text).collect::<Vec<_>>().join("; "),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| format!("{name} {}", text(value)))
            .collect::<Vec<_>>()
            .join(" "),
        other => other.to_string(),
    }
}

fn line(fields: impl Iterator<Item = String>) -> String {
    fields.map(quoted).collect::<Vec<_>>().join(",") + "\r\n"
}

/// A field as RFC 4180 has it.
fn quoted(field: String) -> String {
    if field.contains(['"', ',', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_quoted_when_it_has_to_be() {
        for (field, shown) in [
            ("a b", "a b"),
            ("a,\"b\"", "\"a,\"\"b\"\"\""),
            ("\n", "\"\n\""),
        ] {
            assert_eq!(quoted(field.to_owned()), shown);
        }
    }
}
