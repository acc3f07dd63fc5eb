//! Markdown as GitHub reads it: for a result directory, a step summary, or a comment on a change.

use std::fmt::Write;

use super::{Doc, Figure, Kind, Lead, Part, Readers, Status, Table, shown_to};
use crate::show::text::grouped;
use crate::show::{visible, xml};

/// Layout for a place of its own.
#[derive(Debug, Clone, Copy)]
struct Layout {
    reader: Readers,
    /// Level of the title.
    level: usize,
    /// Rows of a table, and items of a list, at most.
    rows: usize,
    /// Characters of a text at most.
    characters: usize,
}

impl Doc {
    /// The document as Markdown.
    pub fn markdown(&self) -> String {
        self.laid_out(Layout {
            reader: Readers::SUMMARY,
            level: 1,
            rows: usize::MAX,
            characters: usize::MAX,
        })
    }

    /// The document for GitHub's `$GITHUB_STEP_SUMMARY`, which refuses more than 1 MiB as a whole:
    /// every list has an end that says how much it leaves out, and every text a greatest length.
    pub fn step_summary(&self) -> String {
        self.laid_out(Layout {
            reader: Readers::STEP,
            level: 2,
            rows: 50,
            characters: 600,
        })
    }

    fn laid_out(&self, layout: Layout) -> String {
        let mut out = format!(
            "{} {}\n",
            "#".repeat(layout.level),
            layout.text(&self.title)
        );
        for facts in &self.about {
            let shown = facts.iter().take(layout.rows).map(|fact| layout.text(fact));
            let _ = writeln!(
                out,
                "\n{}",
                shown
                    .chain(layout.more(facts.len()))
                    .collect::<Vec<_>>()
                    .join(", ")
            );
        }
        if let Some(lead) = &self.lead {
            layout.write_lead(&mut out, lead);
        }
        layout.write(&mut out, shown_to(layout.reader, &self.blocks));
        out
    }
}

impl Layout {
    fn write<'a>(self, out: &mut String, parts: impl Iterator<Item = &'a Part>) {
        for part in parts {
            out.push('\n');
            self.write_part(out, part);
        }
    }

    /// Text in which nothing is markup, cut between words where it is too long.
    fn text(self, text: &str) -> String {
        let Some((at, _)) = text.char_indices().nth(self.characters) else {
            return escaped(text);
        };
        let whole = text[..at].rfind(char::is_whitespace);
        // A word that is as long is cut.
        let at = whole.filter(|whole| *whole > at / 2).unwrap_or(at);
        escaped(&format!("{} \u{2026}", text[..at].trim_end()))
    }

    fn write_lead(self, out: &mut String, lead: &Lead) {
        let [first, last] = lead.statuses();
        out.push('\n');
        self.write_status(out, first);
        out.push_str("\n| | | |\n|---|---:|---|\n");
        for Figure {
            name,
            value,
            detail,
        } in &lead.figures
        {
            let _ = writeln!(
                out,
                "| {} | {} | {} |",
                self.text(name),
                self.text(value),
                self.text(detail)
            );
        }
        out.push('\n');
        self.write_status(out, last);
    }

    fn write_part(self, out: &mut String, part: &Part) {
        match part {
            Part::Text(text) => {
                let _ = writeln!(out, "{}", self.text(text));
            }
            Part::Facts(facts) => self.write_table(out, &Table::of_facts(facts)),
            Part::List(sentences) => self.write_list(out, sentences),
            Part::Tables(tables) => {
                for (n, table) in tables.iter().enumerate() {
                    out.push_str(if n > 0 { "\n" } else { "" });
                    self.write_table(out, table);
                }
            }
            Part::Plots(plots) => {
                for (name, title, caption) in plots {
                    let (title, caption) = (self.text(title), self.text(caption));
                    let apart = if caption.is_empty() { "" } else { ": " };
                    let _ = writeln!(out, "- [{title}](plots/{name}.svg){apart}{caption}");
                }
            }
            Part::Status(status) => self.write_status(out, status),
            Part::Commands(commands) => write_fenced(out, "sh", commands),
            Part::Section(_, heading, parts) => {
                let level = self.level + 1;
                let _ = writeln!(out, "{} {}", "#".repeat(level), self.text(heading));
                Self { level, ..self }.write(out, parts.iter());
            }
            Part::Code(..) => {}
        }
    }

    fn write_heading(self, out: &mut String, heading: &str) {
        if !heading.is_empty() {
            let _ = writeln!(out, "{}\n", self.text(heading));
        }
    }

    fn write_list(self, out: &mut String, sentences: &[String]) {
        for sentence in sentences.iter().take(self.rows) {
            let _ = writeln!(out, "- {}", self.text(sentence));
        }
        if let Some(more) = self.more(sentences.len()) {
            let _ = writeln!(out, "- {more}");
        }
    }

    /// A note on those of so many that are left out; none when all of them are there.
    fn more(self, all: usize) -> Option<String> {
        let more = all.saturating_sub(self.rows);
        (more > 0).then(|| format!("and {} more", grouped(more as u64)))
    }

    fn write_status(
        self,
        out: &mut String,
        Status {
            severity,
            title,
            text,
            list,
            details,
            ..
        }: &Status,
    ) {
        let mut said = format!("**{}**\n", self.text(title));
        if !text.is_empty() {
            let _ = writeln!(said, "\n{}", self.text(text));
        }
        if !list.is_empty() {
            said.push('\n');
            self.write_list(&mut said, list);
        }
        match severity.alert() {
            Some(alert) => {
                let _ = writeln!(out, "> [!{alert}]");
                said.lines().for_each(|line| out.extend(["> ", line, "\n"]));
            }
            None => out.push_str(&said),
        }
        if let Some((summary, sentences)) = details {
            out.push('\n');
            write_details(out, summary, |out| {
                for sentence in sentences {
                    let _ = writeln!(out, "\n{}", self.text(sentence));
                }
            });
        }
    }

    fn write_table(self, out: &mut String, table: &Table) {
        self.write_heading(out, &table.caption);
        let columns = &table.columns;
        write_row(out, columns.iter().map(|column| self.text(&column.heading)));
        let rule = columns.iter().map(|column| match column.kind {
            Kind::Numbers => "---:|",
            _ => "---|",
        });
        let _ = writeln!(out, "|{}", rule.collect::<String>());
        for cells in table.rows.iter().take(self.rows) {
            let cells = columns.iter().zip(cells);
            write_row(
                out,
                cells.map(|(column, cell)| match column.kind {
                    // Of characters that are no markup.
                    Kind::Sparkline => format!("`{cell}`"),
                    _ => self.text(cell),
                }),
            );
        }
        if let Some(more) = self.more(table.rows.len()) {
            let cells = columns.iter().skip(1).map(|_| String::new());
            write_row(out, [more].into_iter().chain(cells));
        }
    }
}

/// Write parts that stay folded.
fn write_details(out: &mut String, summary: &str, inside: impl FnOnce(&mut String)) {
    let _ = writeln!(out, "<details><summary>{}</summary>", xml::escaped(summary));
    inside(out);
    out.push_str("\n</details>\n");
}

/// Write lines between fences, which are longer than any in the text.
pub(in crate::show) fn write_fenced(out: &mut String, language: &str, text: &str) {
    let text = visible(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let _ = writeln!(out, "{fence}{language}\n{}\n{fence}", text.trim_end());
}

/// Text in which nothing is markup, on one line: GitHub takes a backslash before ASCII punctuation
/// for the character itself.
pub(in crate::show) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let text = visible(text.trim_end());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let is_inside_a_word =
            before.is_alphanumeric() && rest.peek().is_some_and(|next| next.is_alphanumeric());
        match c {
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '|' | '~' | '#' | '&' | '$' => {
                out.extend(['\\', c]);
            }
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

fn write_row(out: &mut String, cells: impl Iterator<Item = String>) {
    let _ = writeln!(out, "| {} |", cells.collect::<Vec<_>>().join(" | "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_markup() {
        assert_eq!(escaped("a|b `c` <i>\nd"), "a\\|b \\`c\\` \\<i\\><br>d");
        assert_eq!(
            escaped("service_p99 _so_ @you\u{1b}"),
            "service_p99 \\_so\\_ &#64;you\\\\u001b"
        );
    }

    #[test]
    fn a_text_is_cut_between_words() {
        let text = "checked: shard exits, totals, response validity, h\u{f6}chste Zeit";
        for characters in 10..text.chars().count() {
            let layout = Layout {
                reader: Readers::STEP,
                level: 1,
                rows: 1,
                characters,
            };
            let cut = layout.text(text);
            let kept = cut.strip_suffix(" \u{2026}").unwrap();
            let rest = text.strip_prefix(kept).unwrap();
            assert!(
                rest.starts_with(' ') && kept.chars().count() <= characters,
                "{cut}"
            );
        }
        let word = "x".repeat(30);
        let layout = Layout {
            reader: Readers::STEP,
            level: 1,
            rows: 1,
            characters: 20,
        };
        assert_eq!(layout.text(&word), format!("{} \u{2026}", "x".repeat(20)));
    }
}
