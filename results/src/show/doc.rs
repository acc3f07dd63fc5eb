//! Documents: findings in parts that a terminal, Markdown and a page each lay out in their own way.
//!
//! A run and each study describe themselves once, as a [`Doc`]; the writers below know nothing of
//! either. Pure functions.
//!
//! The page is in [`page`](super::page).

mod lead;
mod markdown;
mod terminal;

pub use self::lead::{Figure, Lead, Severity, Status};
pub(in crate::show) use self::markdown::{escaped, write_fenced};

/// A document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Doc {
    title: String,
    about: Vec<Vec<String>>,
    lead: Option<Lead>,
    figures: Vec<Figure>,
    blocks: Vec<Block>,
    readers: Readers,
}

/// Part of a document, and the readers who are shown it.
pub(crate) type Block = (Readers, Part);

/// Readers who are shown a part: a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readers(u8);

impl Readers {
    /// Readers at a terminal.
    pub const TERMINAL: Self = Self(1);
    /// Readers of a step summary, which has neither room for everything nor a place for files.
    pub const STEP: Self = Self(2);
    /// Readers of the saved Markdown.
    pub const SUMMARY: Self = Self(4);
    /// Readers of the page.
    pub const PAGE: Self = Self(8);
    /// Readers of all but the page.
    pub const TEXT: Self = Self(7);
    /// Readers of the Markdown and the page, which are kept.
    pub const FILES: Self = Self::SUMMARY.and(Self::PAGE);
    /// Everybody.
    pub const ALL: Self = Self(15);

    /// Return both sets in one.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn include(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl Default for Readers {
    fn default() -> Self {
        Self::ALL
    }
}

/// Part of a document. No text in it is markup, and one without a content is left out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    /// Paragraph.
    Text(String),
    /// Names and values, each of one line or several.
    Facts(Vec<(String, String)>),
    /// List of sentences.
    List(Vec<String>),
    /// Tables, side by side where there is room, without the columns that are empty in every row.
    Tables(Vec<Table>),
    /// Plots that are saved beside the document: the name, the title and the caption of each.
    Plots(Vec<(&'static str, &'static str, String)>),
    /// Finding in a box.
    Status(Status),
    /// Shell commands, a line each, to be copied.
    Commands(String),
    /// Text of another format, such as JSON, below a summary: folded, and on a page only.
    Code(&'static str, String),
    /// Parts under a heading, with an ID for links.
    Section(&'static str, String, Vec<Part>),
}

/// Table: its caption (may be empty), columns, and a cell per column in each row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Heading above the table; none if empty.
    pub caption: String,
    /// Columns from left to right.
    pub columns: Vec<Column>,
    /// Rows from top to bottom.
    pub rows: Vec<Vec<String>>,
    /// True if the last row is the sum of the others.
    pub has_sum: bool,
}

/// Column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub(in crate::show) heading: String,
    pub(in crate::show) kind: Kind,
    /// Order in which a narrow terminal leaves columns out, from 1; never if `None`.
    leaves: Option<u8>,
}

/// Content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::show) enum Kind {
    /// A few words, aligned to the left.
    Words,
    /// Numbers, aligned to the right.
    Numbers,
    /// Sentences: on a line of their own at the terminal.
    Sentences,
    /// Sentences that the terminal leaves out.
    Details,
    /// Values over time, drawn with characters.
    Sparkline,
}

impl Table {
    /// The table without empty columns; none without a row.
    fn filled(mut self) -> Option<Self> {
        for at in (0..self.columns.len()).rev() {
            if self.rows.iter().all(|row| row[at].is_empty()) {
                self.columns.remove(at);
                self.rows.iter_mut().for_each(|row| drop(row.remove(at)));
            }
        }
        (!self.rows.is_empty()).then_some(self)
    }

    /// Return names and values as a table.
    pub(crate) fn of_facts<N: ToString>(facts: &[(N, String)]) -> Self {
        let facts = facts.iter();
        Self {
            columns: vec![Column::words(""), Column::sentences("")],
            rows: facts
                .map(|(name, value)| vec![name.to_string(), value.clone()])
                .collect(),
            ..Self::default()
        }
    }
}

impl Column {
    fn new(heading: impl Into<String>, kind: Kind) -> Self {
        Self {
            heading: heading.into(),
            kind,
            leaves: None,
        }
    }

    /// A column of a few words.
    pub fn words(heading: impl Into<String>) -> Self {
        Self::new(heading, Kind::Words)
    }

    /// A column of numbers.
    pub fn numbers(heading: impl Into<String>) -> Self {
        Self::new(heading, Kind::Numbers)
    }

    /// A column of sentences.
    pub fn sentences(heading: impl Into<String>) -> Self {
        Self::new(heading, Kind::Sentences)
    }

    /// A column of sentences for files only.
    pub fn details(heading: impl Into<String>) -> Self {
        Self::new(heading, Kind::Details)
    }

    /// A column of values over time, drawn with characters.
    pub fn sparkline(heading: impl Into<String>) -> Self {
        Self::new(heading, Kind::Sparkline)
    }

    /// Its class on a page.
    pub(in crate::show) const fn class(&self) -> &'static str {
        match self.kind {
            Kind::Words | Kind::Sparkline => "words",
            Kind::Numbers => "number",
            Kind::Sentences | Kind::Details => "wide",
        }
    }

    /// Return the column, marked as the `order`-th, from 1, that a narrow terminal leaves out.
    pub fn leaving(self, order: u8) -> Self {
        Self {
            leaves: Some(order),
            ..self
        }
    }
}

impl Doc {
    /// An empty document with this title, which the terminal leaves out.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            ..Self::default()
        }
    }

    /// A document of these parts, below its title, lines of facts about it, and its lead.
    pub(crate) fn of(
        title: String,
        about: Vec<Vec<String>>,
        lead: Lead,
        blocks: Vec<Block>,
    ) -> Self {
        Self {
            title,
            about,
            lead: Some(lead),
            figures: Vec::new(),
            blocks: blocks
                .into_iter()
                .filter_map(|(readers, part)| Some((readers, part.filled()?)))
                .collect(),
            readers: Readers::ALL,
        }
    }

    /// Its title.
    pub fn title(&self) -> &str {
        &self.title
    }

    pub(in crate::show) fn about(&self) -> &[Vec<String>] {
        &self.about
    }

    /// Its first finding.
    pub(in crate::show) fn outcome(&self) -> Option<&Status> {
        let lead = self.lead.as_ref().map(|lead| &lead.outcome);
        lead.or_else(|| {
            self.blocks.iter().find_map(|(_, part)| match part {
                Part::Status(status) => Some(status),
                _ => None,
            })
        })
    }

    /// Return the document with main figures, for the top of its page.
    pub fn figured(self, figures: Vec<Figure>) -> Self {
        Self { figures, ..self }
    }

    /// Its main figures.
    pub(in crate::show) fn figures(&self) -> &[Figure] {
        let lead = self.lead.as_ref();
        lead.map_or(&self.figures, |lead| &lead.figures)
    }

    /// Parts that this reader is shown.
    pub(in crate::show) fn shown_to(&self, reader: Readers) -> impl Iterator<Item = &Part> {
        shown_to(reader, &self.blocks)
    }

    /// The last table of those that the terminal is shown, without all else.
    pub(crate) fn main_table(self) -> Self {
        let shown = shown_to(Readers::TERMINAL, &self.blocks);
        shown
            .filter_map(|part| match part {
                Part::Tables(tables) => tables.last().cloned(),
                _ => None,
            })
            .last()
            .map_or_else(Self::default, |table| Self::default().table(table))
    }

    fn with(mut self, part: Part) -> Self {
        self.blocks
            .extend(part.filled().map(|part| (self.readers, part)));
        self
    }

    /// Return the document in a state in which only these readers are shown the parts that are
    /// added from here on.
    pub fn only(self, readers: Readers) -> Self {
        Self { readers, ..self }
    }

    /// Return the document in a state in which the terminal leaves out the parts that are added
    /// from here on.
    pub fn in_files(self) -> Self {
        self.only(Readers::FILES)
    }

    /// Add a paragraph; nothing if it is empty.
    pub fn text(self, text: impl Into<String>) -> Self {
        self.with(Part::Text(text.into()))
    }

    /// Add names and values; nothing if there are none.
    pub fn facts<N: Into<String>>(self, facts: impl IntoIterator<Item = (N, String)>) -> Self {
        let facts = facts.into_iter();
        self.with(Part::Facts(
            facts.map(|(name, value)| (name.into(), value)).collect(),
        ))
    }

    /// Add a list under a heading, which may be empty; nothing if it is empty.
    pub fn list(self, heading: impl Into<String>, sentences: Vec<String>) -> Self {
        if sentences.is_empty() {
            self
        } else {
            self.text(heading).with(Part::List(sentences))
        }
    }

    /// Add a table, beside one right before it; nothing if it has no row.
    pub fn table(mut self, table: Table) -> Self {
        match self.blocks.pop() {
            Some((readers, Part::Tables(mut tables))) if readers == self.readers => {
                tables.push(table);
                self.with(Part::Tables(tables))
            }
            last => {
                self.blocks.extend(last);
                self.with(Part::Tables(vec![table]))
            }
        }
    }

    /// Add a section with a table and a paragraph; nothing if the table has no row.
    pub fn section(self, id: &'static str, heading: &str, table: Table, text: &str) -> Self {
        let Some(table) = table.filled() else {
            return self;
        };
        let parts = vec![Part::Tables(vec![table]), Part::Text(text.to_owned())];
        self.with(Part::Section(id, heading.to_owned(), parts))
    }

    /// Add shell commands under a heading, which may be empty.
    pub fn commands(self, heading: impl Into<String>, commands: &[String]) -> Self {
        self.text(heading).with(Part::Commands(commands.join("\n")))
    }

    /// Add the plot of this name, which is saved beside the document.
    pub fn plot(self, name: &'static str, title: &'static str) -> Self {
        self.with(Part::Plots(vec![(name, title, String::new())]))
    }

    /// Add a finding in a box.
    pub fn status(self, status: Status) -> Self {
        self.with(Part::Status(status))
    }
}

/// Parts of these blocks that this reader is shown.
fn shown_to(reader: Readers, blocks: &[Block]) -> impl Iterator<Item = &Part> {
    blocks
        .iter()
        .filter(move |(readers, _)| readers.include(reader))
        .map(|(_, part)| part)
}

impl Part {
    /// The part; none without a content.
    fn filled(self) -> Option<Self> {
        let (is_empty, part) = match self {
            Self::Text(text) => (text.is_empty(), Self::Text(text)),
            Self::Facts(facts) => (facts.is_empty(), Self::Facts(facts)),
            Self::List(list) => (list.is_empty(), Self::List(list)),
            Self::Plots(plots) => (plots.is_empty(), Self::Plots(plots)),
            Self::Tables(tables) => {
                let tables: Vec<Table> = tables.into_iter().filter_map(Table::filled).collect();
                (tables.is_empty(), Self::Tables(tables))
            }
            Self::Section(id, heading, parts) => {
                let parts: Vec<Self> = parts.into_iter().filter_map(Self::filled).collect();
                (parts.is_empty(), Self::Section(id, heading, parts))
            }
            part => (false, part),
        };
        (!is_empty).then_some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doc() -> Doc {
        let table = Table {
            caption: "Of <all>".to_owned(),
            columns: vec![
                Column::sentences("rung"),
                Column::numbers("rate"),
                Column::words("who|m").leaving(1),
                Column::sentences("limited by"),
                Column::words("always empty"),
                Column::details("there"),
            ],
            has_sum: false,
            rows: [
                ["1. One *star*", "5/s", "a", "waiting", "", "x"],
                ["2. Two", "1,000/s", "bb", "a_b CPU", "", "y"],
            ]
            .map(|row| row.map(str::to_owned).to_vec())
            .to_vec(),
        };
        Doc::new("a `title`")
            .text("It is one line of text.")
            .facts([("rounds", "3 of\n5".to_owned())])
            .table(table)
            .in_files()
            .list("Notes:", vec!["# one".to_owned()])
            .commands("Flags:", &["crawlmark run -c 2".to_owned()])
            .plot("x", "The plot")
    }

    #[test]
    fn the_terminal_shows_as_many_columns_as_there_is_room_for() {
        let wide = "It is one line of text.\n  rounds      3 of\n              5\n\n  Of <all>\n       rate  who|m\n  1. One *star*\
                    \n        5/s  a\n      limited by: waiting\n  2. Two\n    1,000/s  bb\n      limited by: a_b CPU\n";
        assert_eq!(doc().terminal(60), wide);
        let narrow = doc().terminal(12);
        assert!(
            narrow.contains("It is one\nline of\ntext.\n") && !narrow.contains("who"),
            "{narrow}"
        );
        // Too narrow for any table: figures with their names.
        assert!(
            doc().terminal(8).contains("rate\n    5/s,\n"),
            "{}",
            doc().terminal(8)
        );
    }

    #[test]
    fn markdown_holds_everything_and_nothing_is_markup_by_accident() {
        let markdown = doc().markdown();
        for line in [
            "# a \\`title\\`",
            "| rounds | 3 of<br>5 |",
            "Of \\<all\\>",
            "| rung | rate | who\\|m | limited by | there |",
            "|---|---:|---|---|---|",
            "| 1. One \\*star\\* | 5/s | a | waiting | x |",
            "| 2. Two | 1,000/s | bb | a_b CPU | y |",
            "- \\# one",
            "crawlmark run -c 2",
            "- [The plot](plots/x.svg)",
        ] {
            assert!(
                markdown.lines().any(|found| found == line),
                "{line}\n{markdown}"
            );
        }
    }

    #[test]
    fn a_page_holds_everything_and_is_well_formed() {
        let html = doc().html(&[]);
        let page =
            roxmltree::Document::parse(html.trim_start_matches("<!DOCTYPE html>\n")).unwrap();
        let text: String = page.descendants().filter_map(|node| node.text()).collect();
        for words in [
            "a `title`",
            "Of <all>",
            "1. One *star*",
            "# one",
            "crawlmark run -c 2",
        ] {
            assert!(text.contains(words), "{words}\n{html}");
        }
    }
}
