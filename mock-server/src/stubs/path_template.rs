//! Templates of paths, `/items/{id}` and `/files/**` (`common/url/PathTemplate.java`).
//!
//! It must not know about queries: it is given paths.

use super::node::{Node, Problem};
use super::whole_regex::MAX_PATTERN_BYTES;
use regex::Regex;

/// A template, compiled.
#[derive(Clone, Debug)]
pub(crate) struct PathTemplate {
    regex: Regex,
    /// The names of the groups of `regex`, in order. Wildcards are named by their number from 0.
    names: Vec<String>,
}

impl PathTemplate {
    /// Reads the text at `node`. Any text is a template; `{name}` stands for anything but a slash,
    /// `**` for anything.
    pub(crate) fn read(node: &Node<'_>) -> Result<Self, Problem> {
        let template = node.text()?;
        if template.len() > MAX_PATTERN_BYTES {
            return Err(node.unsupported("so long a template"));
        }
        let mut regex = r"\A".to_owned();
        let mut names = Vec::new();
        let mut wildcards = 0;
        let mut rest = template;
        while let Some((text, symbol, after)) = next_symbol(rest) {
            regex.push_str(&regex::escape(text));
            match symbol {
                Symbol::Variable(name) => {
                    regex.push_str("([^/]+)");
                    names.push(name.replace(['.', ';', '*'], ""));
                }
                Symbol::Wildcard => {
                    regex.push_str("(?s:(.*?))");
                    names.push(wildcards.to_string());
                    wildcards += 1;
                }
            }
            rest = after;
        }
        regex.push_str(&regex::escape(rest));
        regex.push_str(r"\z");
        match Regex::new(&regex) {
            Ok(regex) => Ok(Self { regex, names }),
            Err(_) => Err(node.unsupported("so large a template")),
        }
    }

    /// True if the path is one of the template's.
    pub(crate) fn is_match(&self, path: &str) -> bool {
        self.regex.is_match(path)
    }

    /// Return the text in the path for each variable, as it was sent; none when the path is not one
    /// of the template's. Of variables of one name the last counts, so look from the end.
    pub(crate) fn variables<'t>(&'t self, path: &'t str) -> Option<Vec<(&'t str, &'t str)>> {
        let groups = self.regex.captures(path)?;
        let values = groups
            .iter()
            .skip(1)
            .map(|group| group.map_or("", |group| group.as_str()));
        Some(self.names.iter().map(String::as_str).zip(values).collect())
    }
}

enum Symbol<'t> {
    Variable(&'t str),
    Wildcard,
}

/// The text up to the next symbol, the symbol, and what is behind it.
fn next_symbol(template: &str) -> Option<(&str, Symbol<'_>, &str)> {
    template.char_indices().find_map(|(index, _)| {
        let (text, from) = template.split_at(index);
        if let Some(after) = from.strip_prefix("**") {
            return Some((text, Symbol::Wildcard, after));
        }
        let (name, after) = from.strip_prefix('{')?.split_once('}')?;
        (!name.is_empty()).then_some((text, Symbol::Variable(name), after))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn template(text: &str) -> PathTemplate {
        PathTemplate::read(&Node::root(&json!(text))).unwrap()
    }

    #[test]
    fn variables_and_wildcards() {
        type Variables = &'static [(&'static str, &'static str)];
        let table: [(&str, &str, Option<Variables>); 12] = [
            ("/items/{id}", "/items/12", Some(&[("id", "12")])),
            ("/items/{id}", "/items/", None),
            ("/items/{id}", "/items/1/2", None),
            (
                "/items/{id}/x/{other}",
                "/items/a%20b/x/2",
                Some(&[("id", "a%20b"), ("other", "2")]),
            ),
            ("/{a}-{b}", "/x-y-z", Some(&[("a", "x-y"), ("b", "z")])),
            ("/files/**", "/files/a/b", Some(&[("0", "a/b")])),
            ("/**/x/**", "/a/x/b", Some(&[("0", "a"), ("1", "b")])),
            ("/files/**", "/files/", Some(&[("0", "")])),
            ("/v1.0/{.id*}", "/v1.0/3", Some(&[("id", "3")])),
            ("/v1.0", "/v1x0", None),
            ("/{}", "/{}", Some(&[])),
            ("/{", "/{", Some(&[])),
        ];
        for (text, path, expected) in table {
            let template = template(text);
            assert_eq!(
                template.variables(path).as_deref(),
                expected,
                "{text} on {path}"
            );
            assert_eq!(
                template.is_match(path),
                expected.is_some(),
                "{text} on {path}"
            );
        }
    }
}
