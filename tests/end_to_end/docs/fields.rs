//! Pages of the reference for each JSON file, from its schema.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

/// Opening of each page.
const GENERATED: &str = "<!-- Generated from the schema: UPDATE_DOCS=1 cargo test -p crawlmark --test end_to_end docs:: -->\n\n";

fn schemas(directory: &Path) -> Vec<(String, Value)> {
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    // The result comes first; the others by their names.
    files.sort_by_key(|file| (!file.ends_with("result-1.schema.json"), file.clone()));
    let name = |file: &Path| {
        file.file_name()
            .unwrap()
            .to_string_lossy()
            .trim_end_matches(".schema.json")
            .to_owned()
    };
    files
        .iter()
        .map(|file| {
            (
                name(file),
                serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap(),
            )
        })
        .collect()
}

/// Path below the reference and text of each page.
pub(super) fn pages(directory: &Path) -> Vec<(String, String)> {
    schemas(directory)
        .into_iter()
        .map(|(name, schema)| (format!("json/{}.md", file_of(&name)), page(&name, &schema)))
        .collect()
}

/// `result-1` is of `result`.
fn file_of(name: &str) -> &str {
    name.rsplit_once('-').map_or(name, |(file, _)| file)
}

fn page(name: &str, schema: &Value) -> String {
    let file = file_of(name);
    // What is printed and not saved has the name of its command.
    let title = if file == "watch" {
        "watch --json".to_owned()
    } else {
        format!("{file}.json")
    };
    let id = schema["properties"]["schema"]["const"]
        .as_str()
        .map(|id| format!("Format `{id}`. "))
        .unwrap_or_default();
    let mut text = format!(
        "{GENERATED}# {title}\n\n{}\n\n{id}Schema: [`{name}.schema.json`](https://github.com/crawlmark/crawlmark/blob/main/results/schema/{name}.schema.json).\n",
        description(schema),
    );
    text.push_str(&table(schema, schema));
    let definitions = schema["$defs"].as_object().cloned().unwrap_or_default();
    for (name, definition) in &definitions {
        let _ = writeln!(text, "\n## {name}");
        let words = description(definition);
        if !words.is_empty() {
            let _ = writeln!(text, "\n{words}");
        }
        text.push_str(&table(schema, definition));
    }
    text
}

/// Description of a schema, in one line.
fn description(schema: &Value) -> String {
    schema["description"]
        .as_str()
        .unwrap_or_default()
        .replace('\n', " ")
        .replace('|', "\\|")
        .replace('<', "\\<")
}

/// Fields of an object, those of objects within it by paths; of anything else its type.
fn table(root: &Value, schema: &Value) -> String {
    let mut rows = Vec::new();
    fields(root, schema, "", &mut rows);
    if rows.is_empty() {
        let kind = kind(schema);
        return if kind.is_empty() {
            String::new()
        } else {
            format!("\nType: {kind}.\n")
        };
    }
    format!(
        "\n| field | type | meaning |\n|---|---|---|\n{}",
        rows.concat()
    )
}

fn fields(root: &Value, schema: &Value, prefix: &str, rows: &mut Vec<String>) {
    for branch in ["oneOf", "anyOf", "allOf"]
        .iter()
        .filter_map(|key| schema[key].as_array())
        .flatten()
    {
        fields(root, branch, prefix, rows);
    }
    let empty = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (name, field) in properties {
        let path = format!("{prefix}{name}");
        let may = if required.contains(&name.as_str()) {
            ""
        } else {
            " *(may be absent)*"
        };
        rows.push(format!(
            "| `{path}` | {} | {}{may} |\n",
            kind(field),
            words(root, field)
        ));
        fields(root, field, &format!("{path}."), rows);
        fields(root, &field["items"], &format!("{path}[]."), rows);
    }
    if schema["additionalProperties"]["properties"].is_object() {
        fields(
            root,
            &schema["additionalProperties"],
            &format!("{prefix}*."),
            rows,
        );
    }
}

/// Words of a field: its own, those of its definition, or those of its items.
fn words(root: &Value, field: &Value) -> String {
    let own = description(field);
    if !own.is_empty() {
        return own;
    }
    let name = field["$ref"]
        .as_str()
        .and_then(|name| name.strip_prefix("#/$defs/"));
    let inner = name
        .map(|name| description(&root["$defs"][name]))
        .filter(|words| !words.is_empty());
    let branches = field["oneOf"].as_array().into_iter().flatten();
    let mut others = branches
        .chain(field.get("items"))
        .map(|other| words(root, other));
    inner
        .or_else(|| others.find(|words| !words.is_empty()))
        .unwrap_or_default()
}

fn kind(field: &Value) -> String {
    if let Some(name) = field["$ref"]
        .as_str()
        .and_then(|name| name.strip_prefix("#/$defs/"))
    {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(value) = field.get("const") {
        return format!("`{}`", value.to_string().trim_matches('"'));
    }
    if let Some(values) = field["enum"].as_array() {
        let values = values
            .iter()
            .map(|value| format!("`{}`", value.to_string().trim_matches('"')));
        return values.collect::<Vec<_>>().join(", ");
    }
    if let Some(branches) = ["oneOf", "anyOf", "allOf"]
        .iter()
        .find_map(|key| field[*key].as_array())
    {
        let mut kinds: Vec<String> = branches
            .iter()
            .map(kind)
            .filter(|kind| !kind.is_empty())
            .collect();
        kinds.dedup();
        return kinds.join(" or ");
    }
    let one = |name: &str| match name {
        "array" => {
            let of = kind(&field["items"]);
            if of.is_empty() || of == "object" {
                "array".to_owned()
            } else {
                format!("array of {of}")
            }
        }
        "object"
            if field["additionalProperties"].is_object() && !field["properties"].is_object() =>
        {
            let of = kind(&field["additionalProperties"]);
            if of.is_empty() || of == "object" {
                "object".to_owned()
            } else {
                format!("object of {of}")
            }
        }
        other => other.to_owned(),
    };
    match &field["type"] {
        Value::String(name) => one(name),
        Value::Array(names) => names
            .iter()
            .filter_map(Value::as_str)
            .map(one)
            .collect::<Vec<_>>()
            .join(" or "),
        _ => String::new(),
    }
}
