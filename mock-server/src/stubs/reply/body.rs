//! The body of a stub's answer, from the first of its four fields that is present.

use super::files::Files;
use super::{Templates, fields, json};
use crate::draw::Draws;
use crate::setting::BASE64;
use crate::stubs::node::{Node, Problem};
use crate::stubs::template::{Failed, Occasion, Template};
use base64::Engine;
use bytes::Bytes;
use serde_json::Value;

/// A body.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// Same for all requests.
    Static(Bytes),
    /// Made for each request.
    Templated(Template),
}

impl Body {
    /// Takes the first that is there of `body`, `jsonBody`, `base64Body` and `bodyFileName`. An
    /// empty `body` is there.
    pub(super) fn read(
        node: &Node<'_>,
        files: &Files,
        templates: &Templates<'_>,
    ) -> Result<Self, Problem> {
        if let Some(field) = node.get("body") {
            return Self::of_text(&field, &fields::text(&field)?, templates);
        }
        if let Some(field) = node.get("jsonBody") {
            return Self::of_text(&field, &json::text(field.value()), templates);
        }
        if let Some(field) = node.get("base64Body") {
            let bytes = BASE64
                .decode(field.text()?)
                .map_err(|error| field.malformed(format!("no base64: {error}")))?;
            return Ok(Self::Static(bytes.into()));
        }
        match node.get("bodyFileName") {
            Some(field) => Self::of_file(&field, files, templates),
            None => Ok(Self::Static(Bytes::new())),
        }
    }

    fn of_text(field: &Node<'_>, text: &str, templates: &Templates<'_>) -> Result<Self, Problem> {
        let Templates::On(parameters) = templates else {
            return Ok(Self::of_constant(text));
        };
        let template = Template::compile(text, *parameters).map_err(|what| field.problem(what))?;
        // What has no tags, or only tags that are the same for all, is the same for all.
        Ok(template
            .constant()
            .map(Self::of_constant)
            .unwrap_or(Self::Templated(template)))
    }

    fn of_constant(text: &str) -> Self {
        Self::Static(Bytes::copy_from_slice(text.as_bytes()))
    }

    fn of_file(
        field: &Node<'_>,
        files: &Files,
        templates: &Templates<'_>,
    ) -> Result<Self, Problem> {
        let name = fields::text(field)?;
        if name.contains("{{") {
            return Err(
                field.unsupported(format!("a body file whose name is a template (`{name}`)"))
            );
        }
        let bytes = files.read(&name).map_err(|error| field.malformed(error))?;
        if !templates.in_files() {
            return Ok(Self::Static(bytes));
        }
        let text = str::from_utf8(&bytes).map_err(|error| {
            field.malformed(format!(
                "`{name}` is to be a template, but is not UTF-8: {error}"
            ))
        })?;
        Self::of_text(field, text, templates)
    }

    pub(super) fn render(
        &self,
        occasion: &Occasion<'_>,
        draws: &mut Draws,
    ) -> Result<Bytes, Failed> {
        match self {
            Self::Static(bytes) => Ok(bytes.clone()),
            Self::Templated(template) => template.render(occasion, draws).map(Bytes::from),
        }
    }
}

impl Templates<'_> {
    /// True if files are templates: not if the parameter `disableBodyFileTemplating` says so.
    fn in_files(&self) -> bool {
        match self {
            Self::Off => false,
            Self::On(parameters) => {
                let disabled =
                    parameters.and_then(|parameters| parameters.get("disableBodyFileTemplating"));
                disabled.and_then(Value::as_bool) != Some(true)
            }
        }
    }
}
