//! Parser of the text between braces: returns an expression.

use super::expression::Expression;
use super::field::Field;
use super::helper::{Arguments, helper};
use super::scan::{self, Token};
use super::value::Value;
use super::{malformed, unsupported};
use crate::stubs::node::ValueProblem;
use serde_json::Value as Json;
use std::iter::Peekable;
use std::slice::Iter;

/// More brackets in each other are a mistake, and each costs stack.
const DEPTH: usize = 16;

/// Reads what stands between the braces.
pub(super) fn parse(tag: &str, parameters: Option<&Json>) -> Result<Expression, ValueProblem> {
    let tokens = scan::tokens(tag)?;
    let mut parser = Parser {
        tokens: tokens.iter().peekable(),
        parameters,
    };
    let expression = parser.call(0)?;
    match parser.tokens.next() {
        None => Ok(expression),
        Some(_) => malformed(format!("`{{{{{tag}}}}}` goes on after its expression")),
    }
}

struct Parser<'t, 'p> {
    tokens: Peekable<Iter<'t, Token<'t>>>,
    parameters: Option<&'p Json>,
}

impl Parser<'_, '_> {
    /// A name and what follows it, up to a closing bracket or the end. At depth 0 a name may also
    /// be a path.
    fn call(&mut self, depth: usize) -> Result<Expression, ValueProblem> {
        if depth > DEPTH {
            return malformed(format!(
                "a tag has more than {DEPTH} brackets in each other"
            ));
        }
        let name = match self.tokens.next() {
            Some(Token::Path(name)) => *name,
            Some(_) => {
                return malformed("a tag begins with a path or a helper");
            }
            None => return malformed("a tag is empty"),
        };
        let arguments = self.arguments(depth)?;
        if let Some(expression) = helper(name, arguments.as_ref())? {
            return Ok(expression);
        }
        if arguments.is_some() || depth > 0 {
            return malformed(format!("there is no helper `{name}`"));
        }
        self.path(name)
    }

    /// Nothing if there are none.
    fn arguments(&mut self, depth: usize) -> Result<Option<Arguments>, ValueProblem> {
        let mut arguments = Arguments {
            positional: Vec::new(),
            named: Vec::new(),
        };
        while let Some(token) = self.tokens.next_if(|token| **token != Token::Close) {
            if let Token::Path(name) = token
                && self
                    .tokens
                    .next_if(|next| **next == Token::Equals)
                    .is_some()
            {
                let value = self
                    .tokens
                    .next()
                    .ok_or_else(|| ValueProblem::Malformed(format!("`{name}=` lacks its value")))?;
                let value = self.argument(value, depth)?;
                arguments.named.push(((*name).to_owned(), value));
            } else if arguments.named.is_empty() {
                let value = self.argument(token, depth)?;
                arguments.positional.push(value);
            } else {
                return malformed("in a tag, put unnamed arguments before named ones");
            }
        }
        let none = arguments.positional.is_empty() && arguments.named.is_empty();
        Ok((!none).then_some(arguments))
    }

    fn argument(&mut self, token: &Token<'_>, depth: usize) -> Result<Expression, ValueProblem> {
        let value = match token {
            Token::Path(path) => return self.path(path),
            Token::Open => {
                let inner = self.call(depth + 1)?;
                return match self.tokens.next() {
                    Some(Token::Close) => Ok(inner),
                    _ => malformed("a bracket in a tag is not closed"),
                };
            }
            Token::Text(text) => Value::owned(text.clone()),
            Token::Number(number) => number_value(number),
            Token::Truth(truth) => Value::Truth(*truth),
            Token::Equals | Token::Close => {
                return malformed("a tag has a sign where a value should be");
            }
        };
        Ok(Expression::Constant(value))
    }

    /// A path; one that leads nowhere is filled in with nothing.
    fn path(&self, path: &str) -> Result<Expression, ValueProblem> {
        let parts = parts(path);
        let missing = Expression::Constant(Value::Missing);
        if path.starts_with(['.', '@']) || matches!(parts.as_slice(), [] | ["this", ..]) {
            return unsupported(format!("the path `{path}` in a template"));
        }
        match parts.as_slice() {
            ["request", rest @ ..] => Ok(Field::parse(rest)?.map_or(missing, Expression::Field)),
            ["parameters", rest @ ..] => self.parameter(path, rest).map(Expression::Constant),
            ["else"] => unsupported("the block helper `else`"),
            _ => Ok(missing),
        }
    }

    fn parameter(&self, path: &str, parts: &[&str]) -> Result<Value<'static>, ValueProblem> {
        let all = self.parameters.cloned();
        let all = all.unwrap_or_else(|| Json::Object(serde_json::Map::new()));
        let found = parts.iter().try_fold(all, |at, part| element(&at, part));
        match found {
            None | Some(Json::Null) => Ok(Value::Missing),
            Some(Json::Bool(truth)) => Ok(Value::Truth(truth)),
            Some(Json::String(text)) => Ok(Value::owned(text)),
            Some(Json::Number(number)) => match number.as_i64() {
                Some(integer) => Ok(Value::Integer(integer)),
                None => Ok(Value::owned(number.to_string())),
            },
            Some(Json::Array(_) | Json::Object(_)) => unsupported(format!(
                "`{path}`, which is more than one value, in a template"
            )),
        }
    }
}

/// The part of this name or number.
fn element(at: &Json, part: &str) -> Option<Json> {
    match at {
        Json::Array(elements) => elements.get(part.parse::<usize>().ok()?).cloned(),
        at => at.get(part).cloned(),
    }
}

/// The parts of a path: between dots and slashes, or in brackets, where there may be dots and
/// slashes.
fn parts(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let bracketed = rest
            .strip_prefix('[')
            .and_then(|inside| inside.split_once(']'));
        if let Some((part, after)) = bracketed {
            parts.push(part);
            rest = after;
        } else {
            let (part, after) = rest.split_at(rest.find(['.', '/']).unwrap_or(rest.len()));
            parts.extend((!part.is_empty()).then_some(part));
            rest = after.get(1..).unwrap_or("");
        }
    }
    parts
}

fn number_value(number: &str) -> Value<'static> {
    match number.parse::<i32>() {
        Ok(integer) => Value::Integer(integer.into()),
        Err(_) => Value::Real(number.parse().unwrap_or_default()),
    }
}
