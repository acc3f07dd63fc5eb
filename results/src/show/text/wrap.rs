//! Lines no wider than a terminal.

use std::fmt::Write;

use crawlmark_harness::units::grouped;

/// `line` cut between words so that no part is wider than `columns`, unless a single word is.
pub fn wrapped(line: &str, columns: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = line;
    while rest.chars().count() > columns {
        let spaces = || rest.match_indices(' ').map(|(at, _)| at);
        let fitting = || spaces().take_while(|at| rest[..*at].chars().count() <= columns);
        // Rather not between a number and its unit.
        let at = fitting()
            .filter(|at| !rest[..*at].ends_with(|c: char| c.is_ascii_digit()))
            .last()
            .or_else(|| fitting().last());
        let Some(at) = at.or_else(|| spaces().next()) else {
            break;
        };
        parts.push(rest[..at].trim_end());
        rest = rest[at..].trim_start();
    }
    parts.push(rest);
    parts
}

/// Cut the middle out of a line of more than `most` characters: what a message says about what it
/// repeats (a URL, a value, what a file or a program holds) stands before and after it.
pub fn shortened(line: &str, most: usize) -> String {
    let count = line.chars().count();
    if count <= most {
        return line.to_owned();
    }
    let [start, end] = [most / 2, count - most / 2].map(|number| {
        line.char_indices()
            .nth(number)
            .map_or(line.len(), |(at, _)| at)
    });
    let left_out = grouped((count - most) as u64);
    format!(
        "{} ... ({left_out} characters) ... {}",
        &line[..start],
        &line[end..]
    )
}

/// Writes a named value, in as many lines of so many columns as it needs: those after the first
/// begin where the value does.
pub fn write_row(out: &mut String, name: &str, value: &str, columns: usize) {
    const NAME: usize = 14;
    let mut name = name;
    for line in value
        .lines()
        .flat_map(|line| wrapped(line, columns.saturating_sub(NAME)))
    {
        let _ = writeln!(out, "  {name:<11} {line}");
        name = "";
    }
}

/// Return the sentence with a capital at its beginning.
pub fn capital(text: &str) -> String {
    let mut rest = text.chars();
    match rest.next() {
        Some(first) => first.to_uppercase().chain(rest).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_between_words() {
        assert_eq!(
            wrapped("one two  three four", 9),
            ["one two", "three", "four"]
        );
        assert_eq!(wrapped("one", 2), ["one"]);
        assert_eq!(
            wrapped("seventeen is a word", 4),
            ["seventeen", "is a", "word"]
        );
        assert_eq!(wrapped("", 5), [""]);
    }
}
