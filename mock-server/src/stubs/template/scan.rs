//! Scanner: splits a template into texts and tags, and a tag into tokens.
//!
//! It must not know what a tag means.

use super::{malformed, unsupported};
use crate::stubs::node::ValueProblem;

/// A part of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    /// Taken as it is.
    Text(&'t str),
    /// Text between the braces.
    Tag(&'t str),
}

/// A part of a tag.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'t> {
    /// A path or the name of a helper: `request.query.[a b]`.
    Path(&'t str),
    /// A text in quotes, without them.
    Text(String),
    /// A number as it is written.
    Number(&'t str),
    /// `true` or `false`.
    Truth(bool),
    Equals,
    Open,
    Close,
}

const START: &str = "{{";
const END: &str = "}}";

/// Takes a template apart.
///
/// Only what lies between the first `{{` and the last `}}` is looked at: without both there are no
/// tags, and a `\` before the first tag is text.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece<'_>>, ValueProblem> {
    let (Some(first), Some(last)) = (text.find(START), text.rfind(END)) else {
        return Ok(vec![Piece::Text(text)]);
    };
    let end = last + END.len();
    if end < first {
        return malformed("the template has `}}` only before `{{`");
    }
    let mut pieces = vec![Piece::Text(&text[..first])];
    let mut rest = &text[first..end];
    while !rest.is_empty() {
        rest = next(rest, &mut pieces)?;
    }
    pieces.push(Piece::Text(&text[end..]));
    Ok(pieces)
}

/// Takes the first piece off `rest`; returns what follows.
fn next<'t>(rest: &'t str, pieces: &mut Vec<Piece<'t>>) -> Result<&'t str, ValueProblem> {
    if let Some(escaped) = rest
        .strip_prefix('\\')
        .filter(|escaped| escaped.starts_with(START))
    {
        let end = escaped
            .find(END)
            .map(|end| end + END.len())
            .filter(|end| !escaped[1..*end].contains(START));
        let end = end.ok_or_else(|| {
            ValueProblem::Malformed(format!("`\\{}` escapes no whole tag", excerpt(escaped)))
        })?;
        pieces.push(Piece::Text(&escaped[..end]));
        return Ok(&escaped[end..]);
    }
    let Some(inside) = rest.strip_prefix(START) else {
        let start = rest.find(START).unwrap_or(rest.len());
        let start = if rest[..start].ends_with('\\') {
            start - 1
        } else {
            start
        };
        pieces.push(Piece::Text(&rest[..start]));
        return Ok(&rest[start..]);
    };
    if let Some(comment) = inside.strip_prefix('!') {
        let close = if comment.starts_with("--") {
            "--}}"
        } else {
            END
        };
        let end = inside.find(close).ok_or_else(|| unclosed(rest))?;
        return Ok(&inside[end + close.len()..]);
    }
    refuse_blocks(inside)?;
    let (inside, close) = match inside.strip_prefix('{') {
        Some(inside) => (inside, "}}}"),
        None => (inside.strip_prefix('&').unwrap_or(inside), END),
    };
    let end = end_of_tag(inside).ok_or_else(|| unclosed(rest))?;
    let braces = inside[end..]
        .bytes()
        .take(4)
        .take_while(|byte| *byte == b'}')
        .count();
    if braces != close.len() {
        return malformed(format!(
            "the tag `{}` is not closed by as many braces as open it: write a space before a brace that follows it",
            excerpt(rest)
        ));
    }
    pieces.push(Piece::Tag(&inside[..end]));
    Ok(&inside[end + close.len()..])
}

/// Tags that are no expressions.
fn refuse_blocks(inside: &str) -> Result<(), ValueProblem> {
    let name = |rest: &str| {
        rest.split(|char: char| char.is_whitespace() || char == '}')
            .next()
            .unwrap_or("")
            .to_owned()
    };
    let feature = match inside.chars().next() {
        Some('#' | '/' | '^') => format!("the block helper `{}`", name(inside)),
        Some('>') => "a partial template".to_owned(),
        Some('~') => "trimming with `~`".to_owned(),
        Some('=') => "another pair of delimiters".to_owned(),
        Some('*') => "a decorator".to_owned(),
        Some('{') if inside.starts_with(START) => "a raw block".to_owned(),
        _ => return Ok(()),
    };
    unsupported(feature)
}

/// Return the start of the closing braces. Those in quotes or brackets are not they.
fn end_of_tag(inside: &str) -> Option<usize> {
    let mut at = 0;
    while at < inside.len() {
        let rest = &inside[at..];
        if rest.starts_with(END) {
            return Some(at);
        }
        at += match rest.as_bytes()[0] {
            quote @ (b'"' | b'\'') => quoted(rest, char::from(quote))?,
            b'[' => rest.find(']')? + 1,
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
    }
    None
}

/// The length of a text in quotes, both included. A quote after `\` does not end it.
fn quoted(rest: &str, quote: char) -> Option<usize> {
    let mut at = 1;
    loop {
        at += rest[at..].find(quote)? + 1;
        if !rest[..at - 1].ends_with('\\') || at == 2 {
            return Some(at);
        }
    }
}

/// Takes a tag apart.
pub(super) fn tokens(tag: &str) -> Result<Vec<Token<'_>>, ValueProblem> {
    let mut tokens = Vec::new();
    let mut rest = tag.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '=' => (Token::Equals, 1),
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '"' | '\'' => {
                let length = quoted(rest, first).ok_or_else(|| unclosed(rest))?;
                let text = rest[1..length - 1].replace(&format!("\\{first}"), &first.to_string());
                (Token::Text(text), length)
            }
            '-' | '0'..='9' => number(rest).ok_or_else(|| unknown(rest))?,
            _ if is_start(first) || matches!(first, '[' | '.') => {
                path(rest).ok_or_else(|| unknown(rest))?
            }
            _ => return Err(unknown(rest)),
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn number(rest: &str) -> Option<(Token<'_>, usize)> {
    let unsigned = rest.strip_prefix('-').unwrap_or(rest);
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let mut length = digits(unsigned);
    if let Some(fraction) = unsigned[length..].strip_prefix('.')
        && digits(fraction) > 0
    {
        length += 1 + digits(fraction);
    }
    let length = rest.len() - unsigned.len() + length;
    rest[..length]
        .ends_with(|char: char| char.is_ascii_digit())
        .then(|| (Token::Number(&rest[..length]), length))
}

fn path(rest: &str) -> Option<(Token<'_>, usize)> {
    let mut length = 0;
    while let Some(char) = rest[length..].chars().next() {
        // A part in brackets may have anything in it, and begins where a part can begin.
        if char == '[' && (length == 0 || rest[..length].ends_with(['.', '/', '-'])) {
            length += rest[length..].find(']').filter(|end| *end > 1)? + 1;
        } else if is_start(char) || char.is_ascii_digit() || matches!(char, '.' | '/' | '-') {
            length += char.len_utf8();
        } else {
            break;
        }
    }
    let token = match &rest[..length] {
        "true" => Token::Truth(true),
        "false" => Token::Truth(false),
        path => Token::Path(path),
    };
    (length > 0).then_some((token, length))
}

fn is_start(char: char) -> bool {
    char.is_alphabetic() || matches!(char, '_' | '$' | '@' | ':')
}

fn unclosed(tag: &str) -> ValueProblem {
    // What a JSON body makes of double quotes.
    let hint = if tag.contains("\\\"") {
        ": in JSON, quote with ' instead of \""
    } else {
        ""
    };
    ValueProblem::Malformed(format!("`{}` is not closed{hint}", excerpt(tag)))
}

fn unknown(rest: &str) -> ValueProblem {
    ValueProblem::Malformed(format!("a tag has no place for `{}`", excerpt(rest)))
}

/// Enough of a text to find it again.
fn excerpt(text: &str) -> String {
    const LEN: usize = 40;
    let line = text.lines().next().unwrap_or("");
    match line.char_indices().nth(LEN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
    }

    #[test]
    fn what_is_no_tag_is_refused() {
        let malformed = |text: &str| malformed(text);
        let unsupported = |text: &str| unsupported(text);
        for (given, expected) in [
            ("}} {{", malformed("the template has `}}` only before `{{`")),
            ("{{!-- a }}", malformed("`{{!-- a }}` is not closed")),
            ("{{a 'b}}", malformed("`{{a 'b}}` is not closed")),
            (
                r"{{a}}\{{{b}}}",
                malformed(r"`\{{{b}}}` escapes no whole tag"),
            ),
            (
                "{{#each a}}x{{/each}}",
                unsupported("the block helper `#each`"),
            ),
            ("{{^a}}{{/a}}", unsupported("the block helper `^a`")),
            ("{{> a}}", unsupported("a partial template")),
            ("{{~a~}}", unsupported("trimming with `~`")),
            ("{{{{raw}}}}", unsupported("a raw block")),
        ] {
            assert_eq!(joined(given), expected, "{given}");
        }
        for given in [r#"{"a":{{b}}}"#, "{{{a}}", "{{a}}}}"] {
            let fault = joined(given).unwrap_err().to_string();
            assert!(
                fault.contains("is not closed by as many braces as open it"),
                "{given}: {fault}"
            );
        }
    }

    #[test]
    fn tags_are_taken_apart() {
        let given = r#" now a.[b c]/d-1=-1.5 "x\"y" 'é' (true 7) "#;
        assert_eq!(
            tokens(given),
            Ok(vec![
                Token::Path("now"),
                Token::Path("a.[b c]/d-1"),
                Token::Equals,
                Token::Number("-1.5"),
                Token::Text("x\"y".to_owned()),
                Token::Text("é".to_owned()),
                Token::Open,
                Token::Truth(true),
                Token::Number("7"),
                Token::Close,
            ])
        );
        for given in ["a + b", r"a=\'b\'", "a | b", "-", "[]"] {
            assert!(tokens(given).is_err(), "{given}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_taken_apart_or_refused(text in r#"([{}\\'"\[\]!&-]|\{\{|\}\}|--|a|é| )*"#) {
            if let Ok(pieces) = pieces(&text) {
                for piece in pieces {
                    if let Piece::Tag(tag) = piece {
                        let _ = tokens(tag);
                    }
                }
            }
            let _ = tokens(&text);
        }
    }
}
