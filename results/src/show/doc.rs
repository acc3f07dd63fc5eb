//! Documents: findings in parts that a terminal, Markdown and a page each lay out in their own way.
//!
//! A study describes its finding once, as a [`Doc`]; the three writers below know nothing of studies. Pure functions.

mod html;
mod markdown;
mod terminal;

pub(crate) use self::markdown::escaped;

/// A document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Doc {
    title: String,
    parts: Vec<(Readers, Part)>,
    readers: Readers,
}

/// Readers who are shown a part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Readers {
    /// At the terminal, in Markdown and on the page.
    #[default]
    Everywhere,
    /// In Markdown and on the page, which are kept.
    Files,
}

/// Part of a document. No text in it is markup.
#[derive(Debug, Clone, PartialEq)]
enum Part {
    /// Paragraph.
    Text(String),
    /// Names and values, each of one line or several.
    Facts(Vec<(String, String)>),
    /// List of sentences under a heading.
    List(String, Vec<String>),
    /// Table.
    Table(Table),
    /// Shell commands under a heading.
    Commands(String, Vec<String>),
    /// Plot that is saved beside the document: its path, and its title.
    Plot(&'static str, &'static str),
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
    heading: String,
    kind: Kind,
    /// Order in which a narrow terminal leaves columns out, from 1; never if `None`.
    leaves: Option<u8>,
}

/// Content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A few words, aligned to the left.
    Words,
    /// Numbers, aligned to the right.
    Numbers,
    /// Sentences: on a line of their own at the terminal.
    Sentences,
    /// Sentences that the terminal leaves out.
    Details,
}

impl Column {
    fn new(heading: impl Into<String>, kind: Kind) -> Self {
        Self { heading: heading.into(), kind, leaves: None }
    }

    /// A column of a few words.
    #[must_use]
    pub fn words(heading: impl Into<String>) -> Self {
        Self::new(heading, Kind::Words)
    }

    /// A column of numbers.
    #[must_use]
    pub fn numbers(heading: impl Into<String>) -> Self {
        Self::new(heading, Kind::Numbers)
    }

    /// A column of sentences.
    #[must_use]
    pub fn sentences(heading: impl Into<String>) -> Self {
        Self::new(heading, Kind::Sentences)
    }

    /// A column of sentences for files only.
    #[must_use]
    pub fn details(heading: impl Into<String>) -> Self {
        Self::new(heading, Kind::Details)
    }

    /// Its heading.
    pub(in crate::show) fn heading(&self) -> &str {
        &self.heading
    }

    /// Its class on a page.
    pub(in crate::show) const fn class(&self) -> &'static str {
        match self.kind {
            Kind::Words => "words",
            Kind::Numbers => "number",
            Kind::Sentences | Kind::Details => "wide",
        }
    }

    /// Return the column, marked as the `order`-th, from 1, that a narrow terminal leaves out.
    #[must_use]
    pub fn leaving(self, order: u8) -> Self {
        Self { leaves: Some(order), ..self }
    }
}

impl Doc {
    /// An empty document with this title, which the terminal leaves out.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    fn with(mut self, part: Part) -> Self {
        self.parts.push((self.readers, part));
        self
    }

    /// Add a paragraph.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.with(Part::Text(text.into()))
    }

    /// Add names and values; nothing if there are none.
    #[must_use]
    pub fn facts<N: Into<String>>(self, facts: impl IntoIterator<Item = (N, String)>) -> Self {
        let facts: Vec<_> = facts.into_iter().map(|(name, value)| (name.into(), value)).collect();
        if facts.is_empty() { self } else { self.with(Part::Facts(facts)) }
    }

    /// Add a list under a heading; nothing if it is empty.
    #[must_use]
    pub fn list(self, heading: impl Into<String>, sentences: Vec<String>) -> Self {
        if sentences.is_empty() { self } else { self.with(Part::List(heading.into(), sentences)) }
    }

    /// Add a table without the columns that are empty in every row; nothing if it has no row.
    #[must_use]
    pub fn table(self, mut table: Table) -> Self {
        for at in (0..table.columns.len()).rev() {
            if table.rows.iter().all(|row| row[at].is_empty()) {
                table.columns.remove(at);
                table.rows.iter_mut().for_each(|row| drop(row.remove(at)));
            }
        }
        if table.rows.is_empty() { self } else { self.with(Part::Table(table)) }
    }

    /// Add shell commands under a heading.
    #[must_use]
    pub fn commands(self, heading: impl Into<String>, commands: Vec<String>) -> Self {
        self.with(Part::Commands(heading.into(), commands))
    }

    /// Add a plot that is saved as `path`, relative to the document.
    #[must_use]
    pub fn plot(self, path: &'static str, title: &'static str) -> Self {
        self.with(Part::Plot(path, title))
    }

    /// Return the document in a state in which the terminal leaves out the parts that are added from here on.
    #[must_use]
    pub fn in_files(self) -> Self {
        Self { readers: Readers::Files, ..self }
    }

    fn parts(&self, of: Readers) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |(readers, _)| of == Readers::Files || *readers == of).map(|(_, part)| part)
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
            rows: [["1. One *star*", "5/s", "a", "waiting", "", "x"], ["2. Two", "1,000/s", "bb", "a_b CPU", "", "y"]]
                .map(|row| row.map(str::to_owned).to_vec())
                .to_vec(),
        };
        Doc::new("a `title`")
            .text("It is one line of text.")
            .facts([("rounds", "3 of\n5".to_owned())])
            .table(table)
            .in_files()
            .list("Notes:", vec!["# one".to_owned()])
            .commands("Flags:", vec!["crawlmark run -c 2".to_owned()])
            .plot("plots/x.svg", "The plot")
    }

    #[test]
    fn the_terminal_shows_as_many_columns_as_there_is_room_for() {
        let wide = "It is one line of text.\n  rounds      3 of\n              5\n\n  Of <all>\n       rate  who|m\n  1. One *star*\
                    \n        5/s  a\n      limited by: waiting\n  2. Two\n    1,000/s  bb\n      limited by: a_b CPU\n";
        assert_eq!(doc().terminal(60), wide);
        let narrow = doc().terminal(12);
        assert!(narrow.contains("It is one\nline of\ntext.\n") && !narrow.contains("who"), "{narrow}");
        // Too narrow for any table: figures with their names.
        assert!(doc().terminal(8).contains("rate\n    5/s,\n"), "{}", doc().terminal(8));
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
            "![The plot](plots/x.svg)",
        ] {
            assert!(markdown.lines().any(|found| found == line), "{line}\n{markdown}");
        }
    }

    #[test]
    fn a_page_holds_everything_and_is_well_formed() {
        let html = doc().html(&[]);
        let page = roxmltree::Document::parse(html.trim_start_matches("<!DOCTYPE html>\n")).unwrap();
        let text: String = page.descendants().filter_map(|node| node.text()).collect();
        // A narrow page writes each cell under its row's name, so it names its column; a cell without a heading does not.
        let named = page.descendants().filter_map(|node| node.attribute("data-column"));
        assert_eq!(named.collect::<Vec<_>>(), ["rung", "rate", "who|m", "limited by", "there"].repeat(2));
        for words in ["a `title`", "Of <all>", "1. One *star*", "# one", "crawlmark run -c 2"] {
            assert!(text.contains(words), "{words}\n{html}");
        }
    }
}
