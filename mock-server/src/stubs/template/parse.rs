//! Parser of templates: splits a text into texts and tags, and reads the expression of a tag.
//!
//! It must not know what helpers do.

use super::field::Field;
use super::helper::{self, Arguments};
use super::{Expression, Value, malformed, unsupported};
use crate::stubs::node::ValueProblem;
use regex::Regex;
use serde_json::Value as Json;
use std::iter::Peekable;
use std::sync::LazyLock;
use std::vec::IntoIter;

/// A part of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    /// Taken as it is.
    Text(&'t str),
    /// Text between the braces.
    Tag(&'t str),
}

/// A part of a tag.
#[derive(Debug, PartialEq)]
enum Token<'t> {
    /// A path or the name of a helper: `request.query.[a b]`.
    Path(&'t str),
    Value(Value<'static>),
    /// `=`, `(` or `)`.
    Sign(&'t str),
}

type Pattern = LazyLock<Result<Regex, regex::Error>>;

/// A tag behind `\`, a comment, or a tag with its braces. Braces in quotes or brackets are not its
/// end.
static PIECE: Pattern = LazyLock::new(|| {
    Regex::new(
        r#"(?xs)
        \\(?<escaped>\{\{[^{}]*\}\})
        | \{\{! (?: --.*?-- | (?:[^-}].*?)? ) \}\}
        | \{\{ (?<open>[{&]?)
            (?<tag>(?: "(?:\\"|[^"])*" | '(?:\\'|[^'])*' | \[[^\]]*\] | [^"'\[}] | \}[^}] )*?)
            (?<close>\}{2,4})"#,
    )
});

/// A quote after `\` does not end a text. A part of a path in brackets may have anything in it.
static TOKEN: Pattern = LazyLock::new(|| {
    Regex::new(
        r#"(?xs)\A (?:
        (?<sign>[=()])
        | "(?<double>(?:\\"|[^"])*)" | '(?<single>(?:\\'|[^'])*)'
        | (?<number>-?[0-9]+(?:\.[0-9]+)?)
        | (?<path>(?: [\p{Alphabetic}_$@:.] | \[[^\]]+\] )
            (?: [\p{Alphabetic}_$@:0-9] | [./-]+(?:\[[^\]]+\])? )*) )"#,
    )
});

fn pattern(pattern: &'static Pattern) -> Result<&'static Regex, ValueProblem> {
    pattern
        .as_ref()
        .map_err(|error| ValueProblem::Malformed(error.to_string()))
}

/// Takes a template apart.
///
/// Only what lies between the first `{{` and the last `}}` is looked at: without both there are no
/// tags, and a `\` before the first tag is text.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece<'_>>, ValueProblem> {
    let (Some(first), Some(last)) = (text.find("{{"), text.rfind("}}")) else {
        return Ok(vec![Piece::Text(text)]);
    };
    let Some(tags) = text.get(first..last + 2) else {
        return malformed("the template has `}}` only before `{{`");
    };
    let mut pieces = vec![Piece::Text(&text[..first])];
    let mut at = 0;
    for found in pattern(&PIECE)?.captures_iter(tags) {
        let whole = found.get_match();
        let text = &tags[at..whole.start()];
        if text.contains("{{") || (text.ends_with('\\') && found.name("escaped").is_none()) {
            return incomplete(text);
        }
        pieces.push(Piece::Text(text));
        at = whole.end();
        if let Some(escaped) = found.name("escaped") {
            pieces.push(Piece::Text(escaped.as_str()));
        } else if let Some(tag) = found.name("tag") {
            if let Some(sigil) = tag.as_str().chars().next()
                && "#/^>~=*{!".contains(sigil)
            {
                return unsupported(format!("the tag `{}`", excerpt(whole.as_str())));
            }
            let braces = if &found["open"] == "{" { 3 } else { 2 };
            if found["close"].len() != braces {
                return malformed(format!(
                    "the tag `{}` is not closed by as many braces as open it: write a space before a brace that follows it",
                    excerpt(whole.as_str())
                ));
            }
            pieces.push(Piece::Tag(tag.as_str()));
        }
    }
    if tags[at..].contains("{{") {
        return incomplete(&tags[at..]);
    }
    pieces.push(Piece::Text(&tags[at..]));
    pieces.push(Piece::Text(&text[last + 2..]));
    Ok(pieces)
}

fn incomplete<T>(text: &str) -> Result<T, ValueProblem> {
    // What a JSON body makes of double quotes.
    let hint = if text.contains("\\\"") {
        ": in JSON, quote with ' instead of \""
    } else {
        ""
    };
    malformed(format!("`{}` is not a whole tag{hint}", excerpt(text)))
}

/// Reads what stands between the braces.
pub(super) fn expression(tag: &str, parameters: Option<&Json>) -> Result<Expression, ValueProblem> {
    let mut parser = Parser {
        tokens: tokens(tag)?.into_iter().peekable(),
        parameters,
    };
    let expression = parser.call(0)?;
    match parser.tokens.next() {
        None => Ok(expression),
        Some(_) => malformed(format!("`{{{{{tag}}}}}` goes on after its expression")),
    }
}

fn tokens(tag: &str) -> Result<Vec<Token<'_>>, ValueProblem> {
    let mut tokens = Vec::new();
    let mut rest = tag.trim_start();
    while !rest.is_empty() {
        let Some(found) = pattern(&TOKEN)?.captures(rest) else {
            return malformed(format!("a tag has no place for `{}`", excerpt(rest)));
        };
        let part = |name| found.name(name).map(|part| part.as_str());
        tokens.push(if let Some(path) = part("path") {
            match path {
                "true" => Token::Value(Value::Truth(true)),
                "false" => Token::Value(Value::Truth(false)),
                path => Token::Path(path),
            }
        } else if let Some(text) = part("double") {
            Token::Value(Value::owned(text.replace("\\\"", "\"")))
        } else if let Some(text) = part("single") {
            Token::Value(Value::owned(text.replace("\\'", "'")))
        } else if let Some(number) = part("number") {
            Token::Value(match number.parse::<i32>() {
                Ok(integer) => Value::Integer(integer.into()),
                Err(_) => Value::Real(number.parse().unwrap_or_default()),
            })
        } else {
            Token::Sign(part("sign").unwrap_or_default())
        });
        rest = rest[found.get_match().len()..].trim_start();
    }
    Ok(tokens)
}

/// More brackets in each other are a mistake, and each costs stack.
const DEPTH: usize = 16;

struct Parser<'t, 'p> {
    tokens: Peekable<IntoIter<Token<'t>>>,
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
        let Some(Token::Path(name)) = self.tokens.next() else {
            return malformed("a tag begins with a path or a helper");
        };
        let mut arguments = Arguments::default();
        while let Some(token) = self.tokens.next_if(|token| *token != Token::Sign(")")) {
            if let Token::Path(name) = token
                && self.tokens.next_if_eq(&Token::Sign("=")).is_some()
            {
                let value = self.argument(depth)?;
                arguments.named.push((name.to_owned(), value));
            } else if arguments.named.is_empty() {
                let value = self.value(token, depth)?;
                arguments.positional.push(value);
            } else {
                return malformed("in a tag, put unnamed arguments before named ones");
            }
        }
        let is_path = depth == 0 && arguments.is_empty();
        match helper::call(name, arguments)? {
            Some(call) => Ok(Expression::Call(Box::new(call))),
            None if is_path => self.path(name),
            None => unsupported(format!("the helper `{name}`")),
        }
    }

    fn argument(&mut self, depth: usize) -> Result<Expression, ValueProblem> {
        match self.tokens.next() {
            Some(token) => self.value(token, depth),
            None => malformed("a tag ends where a value should be"),
        }
    }

    fn value(&mut self, token: Token<'_>, depth: usize) -> Result<Expression, ValueProblem> {
        match token {
            Token::Path(path) => self.path(path),
            Token::Value(value) => Ok(Expression::Constant(value)),
            Token::Sign("(") => {
                let inner = self.call(depth + 1)?;
                match self.tokens.next() {
                    Some(Token::Sign(")")) => Ok(inner),
                    _ => malformed("a bracket in a tag is not closed"),
                }
            }
            Token::Sign(sign) => malformed(format!("a tag has `{sign}` where a value should be")),
        }
    }

    /// A path; one that leads nowhere is filled in with nothing.
    fn path(&self, path: &str) -> Result<Expression, ValueProblem> {
        let missing = Expression::Constant(Value::Missing);
        match parts(path).as_slice() {
            ["request", rest @ ..] => Ok(Field::parse(rest)?.map_or(missing, Expression::Field)),
            ["parameters", rest @ ..] => self.parameter(path, rest).map(Expression::Constant),
            // `this`, `else`, a helper without arguments.
            [] | [_] | ["this", ..] => unsupported(format!("`{path}` in a template")),
            _ if path.starts_with(['.', '@']) => unsupported(format!("`{path}` in a template")),
            _ => Ok(missing),
        }
    }

    fn parameter(&self, path: &str, parts: &[&str]) -> Result<Value<'static>, ValueProblem> {
        let all = self.parameters.unwrap_or(&Json::Null);
        let found = parts.iter().try_fold(all, |at, part| match at {
            Json::Array(elements) => elements.get(part.parse::<usize>().ok()?),
            at => at.get(part),
        });
        match found {
            Some(Json::Array(_) | Json::Object(_)) => unsupported(format!(
                "`{path}`, which is more than one value, in a template"
            )),
            found => Ok(found.map_or(Value::Missing, Value::of_json)),
        }
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
        let (part, after) =
            bracketed.unwrap_or_else(|| rest.split_at(rest.find(['.', '/']).unwrap_or(rest.len())));
        parts.extend((!part.is_empty()).then_some(part));
        rest = after.strip_prefix(['.', '/']).unwrap_or(after);
    }
    parts
}

/// Enough of a text to find it again.
fn excerpt(text: &str) -> String {
    text.lines().next().unwrap_or("").chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(text: &str) -> Result<String, ValueProblem> {
        let shown = pieces(text)?.into_iter().map(|piece| match piece {
            Piece::Text(text) => text.to_owned(),
            Piece::Tag(tag) => format!("<{tag}>"),
        });
        Ok(shown.collect())
    }

    #[test]
    fn texts_and_tags_are_told_apart() {
        for (given, expected) in [
            ("", ""),
            ("plain }} text", "plain }} text"),
            ("only {{ opened", "only {{ opened"),
            ("a{{b}}c", "a<b>c"),
            ("{{{ b }}} {{& b}}", "< b > < b>"),
            (r#"{"a":{"b":"{{c}}"}}"#, r#"{"a":{"b":"<c>"}}"#),
            ("{{a '}}' \"}}\" [}}]}}", "<a '}}' \"}}\" [}}]>"),
            (r"{{a}}\{{b}}{{c}}", "<a>{{b}}<c>"),
            (r"\{{a}}", r"\<a>"),
            (r"{{a '\'}}'}}", r"<a '\'}}'>"),
            ("{{a}}{{! b }}{{!-- {{c}} --}}d", "<a>d"),
            ("{{a}} \\ {{b}}", "<a> \\ <b>"),
        ] {
            assert_eq!(joined(given), Ok(expected.to_owned()), "{given}");
        }
        for given in [
            "}} {{",
            "{{a 'b}}",
            r"{{a}}\{{{b}}}",
            r#"{"a":{{b}}}"#,
            "{{{a}}",
            "{{a}}}}",
        ] {
            let refused = matches!(joined(given), Err(ValueProblem::Malformed(_)));
            assert!(refused, "{given}");
        }
        for given in [
            "{{!-- a }}",
            "{{#each a}}x{{/each}}",
            "{{^a}}{{/a}}",
            "{{> a}}",
            "{{~a~}}",
            "{{{{raw}}}}",
        ] {
            let refused = matches!(joined(given), Err(ValueProblem::Unsupported(_)));
            assert!(refused, "{given}");
        }
    }
}
