//! Terminal: lines no wider than its columns, unless a single word is.

use std::fmt::Write;

use super::{Doc, Kind, Part, Readers, Status, Table, shown_to};
use crate::show::text::{wrapped, write_row};

/// Spaces between two columns of a table.
const GAP: usize = 2;

/// Spaces before the figures of a row, below its first sentence.
const INDENT: usize = 4;

impl Doc {
    /// The parts of the document for a terminal of so many columns: the lead is no part of them.
    pub fn terminal(&self, columns: usize) -> String {
        let mut out = String::new();
        write(&mut out, shown_to(Readers::TERMINAL, &self.blocks), columns);
        let text = out.trim_end();
        if text.is_empty() {
            String::new()
        } else {
            format!("{text}\n")
        }
    }
}

fn write<'a>(out: &mut String, parts: impl Iterator<Item = &'a Part>, columns: usize) {
    let start = out.len();
    for part in parts {
        let stands_apart = !matches!(part, Part::Text(_) | Part::Facts(_));
        if stands_apart && out.len() > start && !out.ends_with("\n\n") {
            out.push('\n');
        }
        write_part(out, part, columns);
        if stands_apart && !out.ends_with("\n\n") {
            out.push('\n');
        }
    }
}

fn write_part(out: &mut String, part: &Part, columns: usize) {
    match part {
        Part::Text(text) => write_indented(out, text, 0, columns),
        Part::Facts(facts) => facts
            .iter()
            .for_each(|(name, value)| write_row(out, name, value, columns)),
        Part::List(sentences) => write_list(out, sentences, columns),
        Part::Tables(tables) => {
            for (n, table) in tables.iter().enumerate() {
                out.push_str(if n > 0 { "\n" } else { "" });
                write_table(out, table, columns);
            }
        }
        // A command that is broken is no command.
        Part::Commands(commands) => write_indented(out, commands, 2, usize::MAX),
        Part::Status(Status {
            title, text, list, ..
        }) => {
            write_indented(out, format!("{title}. {text}").trim_end(), 0, columns);
            write_list(out, list, columns);
        }
        Part::Section(_, heading, parts) => {
            write_indented(out, heading, 0, columns);
            write(out, parts.iter(), columns);
        }
        Part::Plots(_) | Part::Code(..) => {}
    }
}

fn write_list(out: &mut String, sentences: &[String], columns: usize) {
    for sentence in sentences {
        write_hanging(out, &format!("- {sentence}"), 2, columns);
    }
}

/// Write lines; the continuations of a long one are indented further.
fn write_hanging(out: &mut String, text: &str, indent: usize, columns: usize) {
    let room = columns.saturating_sub(indent);
    for line in text.lines() {
        if line.chars().count() <= room {
            write_indented(out, line, indent, columns);
            continue;
        }
        let mut own = indent;
        for part in wrapped(line, room.saturating_sub(GAP)) {
            let _ = writeln!(out, "{:own$}{part}", "");
            own = indent + GAP;
        }
    }
}

fn write_indented(out: &mut String, text: &str, indent: usize, columns: usize) {
    let room = columns.saturating_sub(indent);
    for line in text.lines().flat_map(|line| wrapped(line, room)) {
        let _ = writeln!(out, "{:indent$}{line}", "");
    }
}

fn write_table(out: &mut String, table: &Table, columns: usize) {
    write_indented(out, &table.caption, 2, columns);
    if table.columns.iter().all(|column| column.heading.is_empty()) {
        let names = table.width(0);
        for row in &table.rows {
            let line = format!("{:<names$}  {}", row[0], row[1..].join("  "));
            write_hanging(out, line.trim_end(), GAP, columns);
        }
        return;
    }
    let mut tail = table.of_kinds(&[Kind::Sentences]);
    let lead = tail.first().copied().filter(|first| *first == 0);
    if lead.is_some() {
        tail.remove(0);
    }
    let indent = if lead.is_some() { INDENT } else { GAP };
    let figures = table.of_kinds(&[Kind::Words, Kind::Numbers]);
    let fitting = fitting(table, &figures, columns.saturating_sub(indent));
    if let Some(fitting) = &fitting {
        let headings = table.columns.iter().map(|column| column.heading.clone());
        let line = table.line(&headings.collect::<Vec<_>>(), fitting);
        let _ = writeln!(out, "{:indent$}{line}", "");
    }
    for row in &table.rows {
        if let Some(lead) = lead {
            write_indented(out, &row[lead], GAP, columns);
        }
        match &fitting {
            Some(fitting) if fitting.iter().any(|(at, _)| !row[*at].is_empty()) => {
                let _ = writeln!(out, "{:indent$}{}", "", table.line(row, fitting));
            }
            Some(_) => {}
            None => {
                let named = figures
                    .iter()
                    .filter(|at| !matches!(&*row[**at], "" | "-"))
                    .map(|at| format!("{} {}", table.columns[*at].heading, row[*at]))
                    .collect::<Vec<_>>()
                    .join(", ");
                write_indented(out, named.trim_start(), indent, columns);
            }
        }
        for at in tail.iter().filter(|at| !row[**at].is_empty()) {
            let text = match &*table.columns[*at].heading {
                "" => row[*at].clone(),
                heading => format!("{heading}: {}", row[*at]),
            };
            write_indented(out, &text, indent + GAP, columns);
        }
    }
}

impl Table {
    /// The numbers of the columns of these kinds.
    fn of_kinds(&self, kinds: &[Kind]) -> Vec<usize> {
        let mut columns: Vec<usize> = (0..self.columns.len()).collect();
        columns.retain(|at| kinds.contains(&self.columns[*at].kind));
        columns
    }

    /// Cells of columns of these widths beside each other.
    fn line(&self, row: &[String], columns: &[(usize, usize)]) -> String {
        let line = columns
            .iter()
            .map(|(at, width)| match self.columns[*at].kind {
                Kind::Numbers => format!("{:>width$}", row[*at]),
                _ => format!("{:<width$}", row[*at]),
            })
            .collect::<Vec<_>>()
            .join(&" ".repeat(GAP));
        line.trim_end().to_owned()
    }

    fn width(&self, at: usize) -> usize {
        self.rows
            .iter()
            .map(|row| &row[at])
            .chain([&self.columns[at].heading])
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    }
}

/// The columns of a table that fit beside each other, with their widths; none if even those that
/// never leave do not.
fn fitting(table: &Table, columns: &[usize], room: usize) -> Option<Vec<(usize, usize)>> {
    let mut kept: Vec<(usize, usize)> = columns.iter().map(|at| (*at, table.width(*at))).collect();
    while kept.iter().map(|(_, width)| width + GAP).sum::<usize>() > room.saturating_add(GAP) {
        let (_, place) = kept
            .iter()
            .map(|(at, _)| table.columns[*at].leaves)
            .zip(0..)
            .filter_map(|(at, place)| Some((at?, place)))
            .min()?;
        kept.remove(place);
    }
    Some(kept)
}
