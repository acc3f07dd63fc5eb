//! Regular expressions as WireMock means them: Java's, compiled with `DOTALL`, matched against the
//! whole text (`matching/AbstractRegexPattern.java`).
//!
//! Java's dialect and the `regex` crate's are nearly one. Where the same text would mean something
//! else it is translated, or refused: nothing is silently misread.
//!
//! It must not know what the text is that it matches.

use super::node::{Node, Problem};
use fancy_regex::{CompileError, Error, Regex, RegexBuilder};
use std::fmt::Write as _;

/// Regular expression that is to match from the first to the last character: in time linear in the
/// text, or, with look-around, back-references or possessive quantifiers, in [`MAX_STEPS`] at most.
#[derive(Clone, Debug)]
pub(crate) struct WholeRegex(Regex);

impl WholeRegex {
    /// Compile the text at `node`.
    pub(crate) fn read(node: &Node<'_>) -> Result<Self, Problem> {
        let java = node.text()?;
        if java.len() > MAX_PATTERN_BYTES {
            return Err(node.unsupported("so long a regular expression"));
        }
        let regex = translated(java).map_err(|feature| node.unsupported(feature))?;
        // On its own first: `a)|(b` is no expression, though it would make one between the
        // parentheses below.
        compiled(node, &regex)?;
        compiled(node, &format!(r"\A(?:{regex})\z")).map(Self)
    }

    /// True if all of `text` is matched; not if that takes too many steps to find out.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text).unwrap_or(false)
    }
}

/// Steps back that one search may take. Java has no limit, and takes minutes for what goes beyond.
const MAX_STEPS: usize = 100_000;

/// Far longer than anyone writes. A parser may take a hundred times the memory of what it parses.
pub(crate) const MAX_PATTERN_BYTES: usize = 1 << 16;

/// Size of a compiled expression, a tenth of the default: a set may have thousands, and what is
/// larger takes seconds to compile.
const MAX_COMPILED_BYTES: usize = 1 << 20;

fn compiled(node: &Node<'_>, regex: &str) -> Result<Regex, Problem> {
    let built = RegexBuilder::new(regex)
        .dot_matches_new_line(true)
        .backtrack_limit(MAX_STEPS)
        .delegate_size_limit(MAX_COMPILED_BYTES)
        .build();
    built.map_err(|error| {
        if let Error::CompileError(error) = &error
            && let CompileError::InnerError(inner) = &**error
            && inner.size_limit().is_some()
        {
            return node.unsupported("so large a regular expression");
        }
        node.malformed(format!("not a regular expression: {error}"))
    })
}

/// Translate Java's syntax, or name the feature that is not supported.
///
/// `\d \w \s` and their opposites are ASCII in Java, Unicode in the crate. `--` and `~~` within
/// brackets would be read as set operations.
fn translated(java: &str) -> Result<String, &'static str> {
    let mut out = String::with_capacity(java.len());
    let mut brackets = 0_usize;
    let mut rest = java.chars();
    while let Some(char) = rest.next() {
        let ahead = rest.as_str();
        match char {
            '\\' => {
                escape(&mut rest, &mut out)?;
                continue;
            }
            '[' => brackets += 1,
            ']' => brackets = brackets.saturating_sub(1),
            '-' | '~' if brackets > 0 && ahead.starts_with(char) => {
                return Err("`--` or `~~` within the brackets of a regular expression");
            }
            '(' if brackets == 0 && has_foreign_flag(ahead) => return Err(FLAGS),
            '(' if brackets == 0 && FOREIGN_GROUPS.iter().any(|open| ahead.starts_with(open)) => {
                return Err("this group in a regular expression");
            }
            _ => {}
        }
        out.push(char);
    }
    Ok(out)
}

/// Openings that the crate knows and Java does not: conditions, absence, verbs.
const FOREIGN_GROUPS: [&str; 3] = ["?(", "?~", "*"];

/// `U` would be read as another flag of the same name.
const FLAGS: &str = "a regular expression with the flag `d`, `U` or `R`";

/// True if what follows a parenthesis is a group's flags, with one that the crate does not have or
/// reads differently.
fn has_foreign_flag(ahead: &str) -> bool {
    ahead
        .strip_prefix('?')
        .and_then(|ahead| ahead.split([')', ':']).next())
        .filter(|text| {
            text.bytes()
                .all(|byte| byte.is_ascii_alphabetic() || byte == b'-')
        })
        .is_some_and(|flags| flags.contains(['d', 'U', 'R']))
}

/// True if the name of a category follows that has a letter or two.
fn has_short_name(ahead: &str) -> bool {
    let name = ahead
        .strip_prefix('{')
        .and_then(|ahead| ahead.split_once('}'));
    name.is_some_and(|(name, _)| name.len() <= 2)
}

/// Translates what follows a backslash.
fn escape(rest: &mut std::str::Chars<'_>, out: &mut String) -> Result<(), &'static str> {
    match rest.next() {
        Some('d') => out.push_str("[0-9]"),
        Some('D') => out.push_str("[^0-9]"),
        Some('w') => out.push_str("[0-9A-Za-z_]"),
        Some('W') => out.push_str("[^0-9A-Za-z_]"),
        Some('s') => out.push_str(r"[ \t\n\x0B\f\r]"),
        Some('S') => out.push_str(r"[^ \t\n\x0B\f\r]"),
        // Longer names are POSIX classes of ASCII in Java, properties of Unicode in the crate.
        Some(kind @ ('p' | 'P')) if has_short_name(rest.as_str()) => out.extend(['\\', kind]),
        Some(
            known @ ('b'
            | 'B'
            | 'A'
            | 'z'
            | 't'
            | 'n'
            | 'r'
            | 'f'
            | 'a'
            | 'x'
            | 'u'
            | 'k'
            | '1'..='9'),
        ) => out.extend(['\\', known]),
        // Java takes any character that is no letter for itself; the crate does not know all of
        // them.
        Some(char) if !char.is_ascii_alphanumeric() => {
            write!(out, "\\x{{{:x}}}", u32::from(char)).unwrap_or_default();
        }
        Some(_) => return Err("this escape in a regular expression"),
        None => out.push('\\'),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stubs::node::ValueProblem;
    use proptest::prelude::*;
    use serde_json::json;

    fn regex(text: &str) -> Result<WholeRegex, ValueProblem> {
        WholeRegex::read(&Node::root(&json!(text))).map_err(|problem| problem.what)
    }

    #[test]
    fn the_whole_text_is_matched_lines_and_all() {
        let table = [
            ("/items/[0-9]+", "/items/12", true),
            ("a|b", "ab", false),
            (".*", "a\nb", true),
            ("a$", "a\n", false),
            (r"\d+", "12", true),
            // Java's \d, \w and \s are ASCII.
            (r"\d+", "१२", false),
            (r"\w+", "ä", false),
            (r"[\w-]+", "a-b_1", true),
            (r"[^\s]+", "a b", false),
            (r"\/a\.b\-c\=d", "/a.b-c=d", true),
            ("(?i)abc", "ABC", true),
            ("a+?b??", "aa", true),
            (r"a\++", "a++", true),
            ("/ab{0}c", "/ac", true),
            ("(?<id>[a-z]+)", "abc", true),
            (r"\p{Lu}\x41\x{42}+", "ÄABB", true),
        ];
        for (pattern, text, expected) in table {
            assert_eq!(
                regex(pattern).unwrap().is_match(text),
                expected,
                "{pattern} on {text}"
            );
        }
    }

    #[test]
    fn a_search_without_end_comes_to_an_end() {
        assert!(!regex(r"((a+)+)\1b").unwrap().is_match(&"a".repeat(100)));
    }

    #[test]
    fn what_java_alone_knows_is_refused_by_name() {
        for text in [
            "[a--z]",
            r"\R",
            r"\p{Alpha}",
            r"\Qa\E",
            "(a{900}){900}",
            "(?U)a",
            "(?i-d:a)",
            "(?R)a",
            "(?(1)a)",
            "(*FAIL)(?=a)",
            r"(?=a)\Ka",
        ] {
            assert!(
                matches!(regex(text), Err(ValueProblem::Unsupported(_))),
                "{text}: {:?}",
                regex(text)
            );
        }
        assert!(matches!(
            regex(&"a".repeat(1 << 17)),
            Err(ValueProblem::Unsupported(_))
        ));
        for text in ["(", "[a", "*a", "a)|(b", "\\", "(?=a", "a)|(?=b"] {
            assert!(
                matches!(regex(text), Err(ValueProblem::Malformed(_))),
                "{text}: {:?}",
                regex(text)
            );
        }
        assert!(regex("(?im-s:a)(?<dUR>U)").unwrap().is_match("AU"));
        assert!(
            regex("[(?=]").unwrap().is_match("="),
            "within brackets nothing looks around"
        );
    }

    proptest! {
        #[test]
        fn any_text_is_an_expression_or_refused(pattern in "[/ab.*+?{}\\[\\]()|\\\\^$12=!<>]{0,10}", text in "[/ab12]{0,6}") {
            if let Ok(regex) = regex(&pattern) {
                regex.is_match(&text);
            }
        }
    }
}
