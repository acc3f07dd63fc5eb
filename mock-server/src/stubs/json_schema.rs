//! `matchesJsonSchema` (`matching/MatchesJsonSchemaPattern.java`): a schema of drafts 4 to 2020-12.
//!
//! It must not fetch or open anything: a schema refers to itself, or is refused.

use super::json_pattern::json_operand;
use super::node::{Node, Problem};
use boon::{Compiler, Draft, SchemaIndex, Schemas, UrlLoader};
use serde_json::Value;
use std::error::Error;

/// Drafts by the names that WireMock has for them.
const DRAFTS: [(&str, Draft); 5] = [
    ("V4", Draft::V4),
    ("V6", Draft::V6),
    ("V7", Draft::V7),
    ("V201909", Draft::V2019_09),
    ("V202012", Draft::V2020_12),
];

/// Address of the one schema that there is; nothing is behind it.
const ADDRESS: &str = "urn:stub";

/// A schema, compiled.
pub(crate) struct JsonSchema {
    schemas: Schemas,
    index: SchemaIndex,
}

/// Loader of other schemas: none are loaded.
struct Refused;

impl UrlLoader for Refused {
    fn load(&self, url: &str) -> Result<Value, Box<dyn Error>> {
        Err(format!("`{url}` is another document, which is not loaded").into())
    }
}

impl JsonSchema {
    /// Reads `{"matchesJsonSchema": .., "schemaVersion": "V202012"}`. The schema may be JSON, or a
    /// text that holds JSON; a `$schema` in it counts before the version beside it.
    pub(crate) fn read(node: &Node<'_>, operand: &Node<'_>) -> Result<Self, Problem> {
        let schema = json_operand(operand)?;
        if has_nullable(&schema) {
            return Err(operand.unsupported("`nullable` in a JSON schema"));
        }
        let draft = node.read("schemaVersion", |version| {
            version.choice("version", &DRAFTS)
        })?;
        let mut compiler = Compiler::new();
        compiler.use_loader(Box::new(Refused));
        compiler.set_default_draft(draft.unwrap_or(Draft::V2020_12));
        let mut schemas = Schemas::new();
        let wrong = |error| operand.malformed(format!("not a JSON schema: {error:#}"));
        compiler.add_resource(ADDRESS, schema).map_err(wrong)?;
        let index = compiler.compile(ADDRESS, &mut schemas).map_err(wrong)?;
        Ok(Self { schemas, index })
    }

    /// True if `text` is JSON of the schema. What is no JSON is a text; so is, if need be, what is
    /// neither array nor object.
    pub(crate) fn is_match(&self, text: &str, json: Option<&Value>) -> bool {
        match json {
            Some(json) if self.is_valid(json) => true,
            Some(Value::Object(_) | Value::Array(_) | Value::String(_)) => false,
            _ => self.is_valid(&Value::String(text.to_owned())),
        }
    }

    fn is_valid(&self, json: &Value) -> bool {
        self.schemas.validate(json, self.index).is_ok()
    }
}

/// A keyword of `OpenAPI`, which WireMock reads and the standard does not have.
fn has_nullable(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            fields.contains_key("nullable") || fields.values().any(has_nullable)
        }
        Value::Array(elements) => elements.iter().any(has_nullable),
        _ => false,
    }
}
