//! Templates: texts with `{{tags}}` that are filled in for each request, in the part of Handlebars
//! that stubs use most. They are compiled when a stub is loaded; whatever is not served here is
//! refused then. `reply` compiles and renders.
//!
//! | room | for |
//! |---|---|
//! | `parse` | texts, tags, tokens; the expression of a tag |
//! | `field`, `helper`, `date` | fields of the request; helpers, `now` |
//! | `tests` | templates compared with WireMock's |
//!
//! Served are `request.*`, `parameters.*`, the helpers `now` (and `date`), `randomInt`,
//! `randomValue`, `pickRandom`, `math` and `jsonPath`, sub-expressions of these, comments, and tags
//! escaped with `\`. `{{x}}`, `{{{x}}}` and `{{&x}}` are the same: WireMock's server never escapes.
//!
//! The engine is not a crate's: `handlebars` (6.4) takes 63,000 instructions for an answer that
//! costs 4,400 here, drops the line that a comment stands on, and reads tags whose braces do not
//! match, which Handlebars.java refuses.
//!
//! It must not read a clock or roll dice of its own: the time comes with the [`Occasion`], and what
//! is random is a function of the given draws, so that a run can be repeated.
//!
//! Source: `TemplateEngine`, `HandlebarsOptimizedTemplate`, `RequestTemplateModel` and the helpers
//! of WireMock 3.13, and the grammar of Handlebars.java 4.3.1.

mod date;
mod field;
mod helper;
mod parse;

use super::json_path::{java_double, java_text};
use super::node::ValueProblem;
use super::request::RequestView;
use crate::draw::Draws;
use field::Field;
use helper::Call;
use parse::Piece;
use serde_json::Value as Json;
use std::borrow::Cow;
use std::time::SystemTime;

/// Values that a template is filled in with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occasion<'r> {
    /// The request.
    pub(crate) asked: &'r RequestView<'r>,
    /// Names and values of the variables in the stub's `urlPathTemplate`; empty if it has none. Of
    /// those of one name the last counts.
    pub(crate) path_variables: &'r [(&'r str, &'r str)],
    /// Wall-clock time.
    pub(crate) now: SystemTime,
    /// Scheme of the request.
    pub(crate) scheme: Scheme,
}

/// Scheme of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// In the clear.
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The port of a URL that names none.
    fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A template could not be filled in, because of what the client sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a template failed: {0}")]
pub(crate) struct Failed(String);

/// A text with gaps.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    segments: Vec<Segment>,
    /// Length of the texts between the gaps together, in bytes.
    known_len: usize,
}

#[derive(Clone, Debug)]
enum Segment {
    Text(String),
    Gap(Expression),
}

/// Likely length of a filled gap, in bytes.
const GAP_LEN: usize = 16;

impl Template {
    /// Compiles `text`. `parameters` are the stub's `transformerParameters`: they are filled in at
    /// once.
    ///
    /// # Errors
    ///
    /// A tag is not one, or needs something that is not served here.
    pub(crate) fn compile(text: &str, parameters: Option<&Json>) -> Result<Self, ValueProblem> {
        let mut template = Self {
            segments: Vec::new(),
            known_len: 0,
        };
        for piece in parse::pieces(text)? {
            match piece {
                Piece::Text(text) => template.push_text(text),
                Piece::Tag(tag) => match parse::expression(tag, parameters)? {
                    Expression::Constant(value) => template.push_text(&value.text()),
                    expression => template.segments.push(Segment::Gap(expression)),
                },
            }
        }
        Ok(template)
    }

    fn push_text(&mut self, text: &str) {
        self.known_len += text.len();
        match self.segments.last_mut() {
            Some(Segment::Text(last)) => last.push_str(text),
            _ => self.segments.push(Segment::Text(text.to_owned())),
        }
    }

    /// The text that every rendering has, if it depends on nothing.
    pub(crate) fn constant(&self) -> Option<&str> {
        match self.segments.as_slice() {
            [] => Some(""),
            [Segment::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Fills in the gaps, from first to last. What is missing is filled in with nothing.
    ///
    /// # Errors
    ///
    /// A helper cannot work with what the request has.
    pub(crate) fn render(
        &self,
        occasion: &Occasion<'_>,
        draws: &mut Draws,
    ) -> Result<String, Failed> {
        let mut out = String::with_capacity(self.known_len + GAP_LEN * self.segments.len());
        for segment in &self.segments {
            match segment {
                Segment::Text(text) => out.push_str(text),
                Segment::Gap(expression) => {
                    out.push_str(&expression.evaluate(occasion, draws)?.text());
                }
            }
        }
        Ok(out)
    }
}

/// Expression in a gap of a template.
#[derive(Clone, Debug)]
enum Expression {
    /// Known beforehand.
    Constant(Value<'static>),
    Field(Field),
    Call(Box<Call>),
}

impl Expression {
    fn evaluate<'r>(
        &'r self,
        occasion: &Occasion<'r>,
        draws: &mut Draws,
    ) -> Result<Value<'r>, Failed> {
        match self {
            Self::Constant(value) => Ok(value.clone()),
            Self::Field(field) => Ok(field.value(occasion)),
            Self::Call(call) => call.evaluate(occasion, draws),
        }
    }
}

/// A value in a template.
#[derive(Clone, Debug, PartialEq)]
enum Value<'v> {
    /// There is none.
    Missing,
    Text(Cow<'v, str>),
    Integer(i64),
    Real(f64),
    Truth(bool),
    /// Several values that are written as one text.
    List {
        items: Vec<Cow<'v, str>>,
        written: Cow<'v, str>,
    },
}

impl Value<'_> {
    fn owned(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }

    fn of_json(json: &Json) -> Self {
        match json {
            Json::Null => Self::Missing,
            Json::Bool(truth) => Self::Truth(*truth),
            Json::Array(elements) => Self::List {
                items: elements.iter().map(own_text).collect(),
                written: own_text(json),
            },
            other => other
                .as_i64()
                .map_or_else(|| Self::Text(own_text(other)), Self::Integer),
        }
    }

    /// The value as Java's `toString` writes it; nothing for what is missing.
    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Missing => Cow::Borrowed(""),
            Self::Text(text) | Self::List { written: text, .. } => Cow::Borrowed(text),
            Self::Integer(integer) => Cow::Owned(integer.to_string()),
            Self::Real(real) => Cow::Owned(java_double(*real)),
            Self::Truth(truth) => Cow::Borrowed(if *truth { "true" } else { "false" }),
        }
    }
}

fn own_text(json: &Json) -> Cow<'static, str> {
    Cow::Owned(java_text(json).into_owned())
}

/// The template is not right.
fn malformed<T>(what: impl Into<String>) -> Result<T, ValueProblem> {
    Err(ValueProblem::Malformed(what.into()))
}

/// The template asks for what is not served.
fn unsupported<T>(feature: impl Into<String>) -> Result<T, ValueProblem> {
    Err(ValueProblem::Unsupported(feature.into()))
}

#[cfg(test)]
mod tests;
