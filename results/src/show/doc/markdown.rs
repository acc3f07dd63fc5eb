//! Markdown as GitHub reads it: for a result directory, a step summary, or a comment on a change.

use std::fmt::Write;

use super::{Doc, Kind, Part, Readers};
use crate::show::visible;

impl Doc {
    /// The document as Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut out = format!("# {}\n", escaped(&self.title));
        for part in self.parts(Readers::Files) {
            out.push('\n');
            write_part(&mut out, part);
        }
        out
    }
}

fn write_part(out: &mut String, part: &Part) {
    match part {
        Part::Text(text) => {
            let _ = writeln!(out, "{}", escaped(text));
        }
        Part::Facts(facts) => {
            let _ = writeln!(out, "| | |\n|---|---|");
            for (name, value) in facts {
                let _ = writeln!(out, "| {} | {} |", escaped(name), escaped(value));
            }
        }
        Part::List(heading, sentences) => {
            let _ = writeln!(out, "{}\n", escaped(heading));
            for sentence in sentences {
                let _ = writeln!(out, "- {}", escaped(sentence));
            }
        }
        Part::Table(table) => {
            if !table.caption.is_empty() {
                let _ = writeln!(out, "{}\n", escaped(&table.caption));
            }
            let row =
                |cells: &mut dyn Iterator<Item = String>| format!("| {} |", cells.collect::<Vec<_>>().join(" | "));
            let rule = |kind| if kind == Kind::Numbers { "---:|" } else { "---|" };
            let rule: String = table.columns.iter().map(|column| rule(column.kind)).collect();
            let _ = writeln!(out, "{}\n|{rule}", row(&mut table.columns.iter().map(|column| escaped(&column.heading))));
            for cells in &table.rows {
                let _ = writeln!(out, "{}", row(&mut cells.iter().map(|cell| escaped(cell))));
            }
        }
        Part::Commands(heading, commands) => {
            let _ = writeln!(out, "{}\n\n```sh", escaped(heading));
            for command in commands {
                // A fence ends where a line begins with one.
                let _ = writeln!(out, "{}", command.replace('\n', " "));
            }
            out.push_str("```\n");
        }
        Part::Plot(path, title) => {
            let _ = writeln!(out, "![{}]({path})", escaped(title));
        }
    }
}

/// Text in which nothing is markup, on one line: GitHub takes a backslash before ASCII punctuation for the character itself.
#[must_use]
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let text = visible(text.trim_end());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let is_inside_a_word = before.is_alphanumeric() && rest.peek().is_some_and(|next| next.is_alphanumeric());
        match c {
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '|' | '~' | '#' | '&' | '$' => out.extend(['\\', c]),
            '_' if !is_inside_a_word => out.push_str("\\_"),
            // Names would become calls of people.
            '@' => out.push_str("&#64;"),
            '\n' => out.push_str("<br>"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
        before = c;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_markup() {
        assert_eq!(escaped("a|b `c` <i>\nd"), "a\\|b \\`c\\` \\<i\\><br>d");
        assert_eq!(escaped("service_p99 _so_ @you\u{1b}"), "service_p99 \\_so\\_ &#64;you\\\\u001b");
    }
}
