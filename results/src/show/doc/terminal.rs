//! Terminal: lines no wider than its columns, unless a single word is.

use std::fmt::Write;

use super::{Doc, Kind, Part, Readers, Table};
use crate::show::text::{wrapped, write_row};

/// Spaces between two columns of a table.
const GAP: usize = 2;

/// Spaces before the figures of a row, below its first sentence.
const INDENT: usize = 4;

impl Doc {
    /// The document for a terminal of so many columns; a pipe has as many as it takes.
    #[must_use]
    pub fn terminal(&self, columns: usize) -> String {
        let mut out = String::new();
        for part in self.parts(Readers::Everywhere) {
            let stands_apart = !matches!(part, Part::Text(_) | Part::Facts(_));
            if stands_apart && !out.is_empty() && !out.ends_with("\n\n") {
                out.push('\n');
            }
            write_part(&mut out, part, columns);
            if stands_apart {
                out.push('\n');
            }
        }
        out.truncate(out.trim_end().len());
        out + "\n"
    }
}

fn write_part(out: &mut String, part: &Part, columns: usize) {
    match part {
        Part::Text(text) => write_indented(out, text, (0, columns)),
        Part::Facts(facts) => facts.iter().for_each(|(name, value)| write_row(out, name, value, columns)),
        Part::List(heading, sentences) => {
            write_indented(out, heading, (0, columns));
            for sentence in sentences {
                write_indented(out, &format!("- {sentence}"), (2, columns));
            }
        }
        Part::Table(table) => write_table(out, table, columns),
        Part::Commands(heading, commands) => {
            write_indented(out, heading, (0, columns));
            // A command that is broken is no command.
            for command in commands {
                write_indented(out, command, (2, usize::MAX));
            }
        }
        Part::Plot(..) => {}
    }
}

fn write_indented(out: &mut String, text: &str, (indent, columns): (usize, usize)) {
    for line in text.lines().flat_map(|line| wrapped(line, columns.saturating_sub(indent))) {
        let _ = writeln!(out, "{:indent$}{line}", "");
    }
}

fn write_table(out: &mut String, table: &Table, columns: usize) {
    if !table.caption.is_empty() {
        write_indented(out, &table.caption, (2, columns));
    }
    let of_kind = |wanted: &[Kind]| -> Vec<usize> {
        (0..table.columns.len()).filter(|at| wanted.contains(&table.columns[*at].kind)).collect()
    };
    let sentences = of_kind(&[Kind::Sentences]);
    let (lead, tail) = match sentences.split_first() {
        Some((0, tail)) => (Some(0), tail.to_vec()),
        _ => (None, sentences),
    };
    let indent = if lead.is_some() { INDENT } else { GAP };
    let figures = fitting(table, of_kind(&[Kind::Words, Kind::Numbers]), columns.saturating_sub(indent));
    let line = |row: &[String], figures: &[(usize, usize)]| {
        let cells = figures.iter().map(|(at, width)| match table.columns[*at].kind {
            Kind::Numbers => format!("{:>width$}", row[*at]),
            _ => format!("{:<width$}", row[*at]),
        });
        cells.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
    };
    if let Some(figures) = &figures {
        let headings: Vec<String> = table.columns.iter().map(|column| column.heading.clone()).collect();
        let _ = writeln!(out, "{:indent$}{}", "", line(&headings, figures));
    }
    for row in &table.rows {
        if let Some(lead) = lead.filter(|lead| !row[*lead].is_empty()) {
            write_indented(out, &row[lead], (GAP, columns));
        }
        if let Some(figures) = figures.as_ref().filter(|figures| figures.iter().any(|(at, _)| !row[*at].is_empty())) {
            let _ = writeln!(out, "{:indent$}{}", "", line(row, figures));
        } else if figures.is_none() {
            let named = of_kind(&[Kind::Words, Kind::Numbers]).into_iter().filter(|at| !matches!(&*row[*at], "" | "-"));
            let named: Vec<String> = named.map(|at| format!("{} {}", table.columns[at].heading, row[at])).collect();
            write_indented(out, named.join(", ").trim_start(), (indent, columns));
        }
        for at in tail.iter().filter(|at| !row[**at].is_empty()) {
            let text = match &*table.columns[*at].heading {
                "" => row[*at].clone(),
                heading => format!("{heading}: {}", row[*at]),
            };
            write_indented(out, &text, (indent + GAP, columns));
        }
    }
}

/// The columns of a table that fit beside each other, with their widths; none if even those that never leave do not.
fn fitting(table: &Table, columns: Vec<usize>, room: usize) -> Option<Vec<(usize, usize)>> {
    let width = |at: usize| {
        let cells = table.rows.iter().map(|row| row[at].chars().count());
        cells.chain([table.columns[at].heading.chars().count()]).max().unwrap_or(0)
    };
    let mut kept: Vec<(usize, usize)> = columns.into_iter().map(|at| (at, width(at))).collect();
    while kept.iter().map(|(_, width)| width + GAP).sum::<usize>() > room.saturating_add(GAP) {
        let leaving = |(place, (at, _)): (usize, &(usize, usize))| Some((table.columns[*at].leaves?, place));
        let (_, place) = kept.iter().enumerate().filter_map(leaving).min()?;
        kept.remove(place);
    }
    Some(kept)
}
