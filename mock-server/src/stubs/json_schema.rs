//! `matchesJsonSchema` (`matching/MatchesJsonSchemaPattern.java`): a schema of drafts 4 to 2020-12.
//!
//! It must not fetch anything: a schema refers to itself, or is refused.

use super::json_pattern::json_operand;
use super::node::{Node, Problem};
#[cfg(feature = "json-schema")]
use jsonschema::{Draft, Validator};
use serde_json::Value;
#[cfg(feature = "json-schema")]
use std::sync::Arc;

/// Drafts by the names that WireMock has for them.
#[cfg(feature = "json-schema")]
const DRAFTS: [(&str, Draft); 5] = [
    ("V4", Draft::Draft4),
    ("V6", Draft::Draft6),
    ("V7", Draft::Draft7),
    ("V201909", Draft::Draft201909),
    ("V202012", Draft::Draft202012),
];

/// A schema, compiled.
#[cfg(feature = "json-schema")]
#[derive(Clone, Debug)]
pub(crate) struct JsonSchema(Arc<Validator>);

#[cfg(feature = "json-schema")]
impl JsonSchema {
    /// Reads `{"matchesJsonSchema": .., "schemaVersion": "V202012"}`. The schema may be JSON, or a
    /// text that holds JSON; a `$schema` in it counts before the version beside it.
    pub(crate) fn read(node: &Node<'_>, operand: &Node<'_>) -> Result<Self, Problem> {
        let schema = json_operand(operand)?;
        if has_nullable(&schema) {
            return Err(operand.unsupported("`nullable` in a JSON schema"));
        }
        let mut options = jsonschema::options();
        let draft = node.read("schemaVersion", |version| {
            version.choice("version", &DRAFTS)
        })?;
        if let Some(draft) = draft.filter(|_| schema.get("$schema").is_none()) {
            options = options.with_draft(draft);
        }
        let schema = options
            .build(&schema)
            .map_err(|error| operand.malformed(format!("not a JSON schema: {error}")))?;
        Ok(Self(Arc::new(schema)))
    }

    /// True if `text` is JSON of the schema. What is no JSON is a text; so is, if need be, what is
    /// neither array nor object.
    pub(crate) fn is_match(&self, text: &str, json: Option<&Value>) -> bool {
        let is_text = || self.0.is_valid(&Value::String(text.to_owned()));
        match json {
            None => is_text(),
            Some(json) => {
                self.0.is_valid(json)
                    || (!json.is_object() && !json.is_array() && !json.is_string() && is_text())
            }
        }
    }
}

/// A keyword of `OpenAPI`, which WireMock reads and the standard does not have.
#[cfg(feature = "json-schema")]
fn has_nullable(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            fields.contains_key("nullable") || fields.values().any(has_nullable)
        }
        Value::Array(elements) => elements.iter().any(has_nullable),
        _ => false,
    }
}

/// Refuse a schema, in a build that has no validator.
#[cfg(any(test, not(feature = "json-schema")))]
fn without_validator(operand: &Node<'_>) -> Problem {
    operand.unsupported("`matchesJsonSchema` in a build without `--features json-schema`")
}

/// No schema: this build has no validator.
#[cfg(not(feature = "json-schema"))]
#[derive(Clone, Debug)]
pub(crate) enum JsonSchema {}

#[cfg(not(feature = "json-schema"))]
impl JsonSchema {
    pub(crate) fn read(_: &Node<'_>, operand: &Node<'_>) -> Result<Self, Problem> {
        json_operand(operand)?;
        Err(without_validator(operand))
    }

    pub(crate) fn is_match(&self, _: &str, _: Option<&Value>) -> bool {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_build_without_schemas_names_the_feature_that_has_them() {
        let pattern = json!({"matchesJsonSchema": {"type": "object"}});
        let node = Node::root(&pattern);
        let operand = node.get("matchesJsonSchema").unwrap();
        let refusal =
            "`matchesJsonSchema` in a build without `--features json-schema` is not supported";
        assert_eq!(without_validator(&operand).what.to_string(), refusal);
        let read = JsonSchema::read(&node, &operand);
        assert_eq!(
            read.err()
                .map(|problem| problem.what.to_string())
                .as_deref(),
            REFUSED.then_some(refusal)
        );
    }

    const REFUSED: bool = cfg!(not(feature = "json-schema"));
}
