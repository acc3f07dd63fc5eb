//! Layout of a document as a page: its head, its hero, what stands open, and its sections folded.

use std::collections::BTreeMap;

use super::colours::tint;
use super::hero::Hero;
use super::markup::{self, Html, fits};
use crate::run::report::Validity;
use crate::show::chart::Plot;
use crate::show::doc::{Doc, Kind, Part, Readers, Status, Table};

/// Sections that stand open, by their IDs.
const OPEN: [&str; 4] = ["thresholds", "ranks", "functions", "reproduce"];

/// The section of the shards, and their picture.
const SHARDS: &str = "shards";

/// The section that the checks stand before.
const LAST: &str = "reproduce";

/// A page in the making.
pub(super) struct Layout<'a> {
    pub(super) doc: &'a Doc,
    pub(super) hero: &'a Hero,
    /// Facts for the head of the page.
    pub(super) meta: Vec<String>,
    /// Data of the charts, as JSON; none without charts.
    pub(super) data: Option<&'a str>,
    /// Contents of the sections in a few words, by their IDs.
    pub(super) hints: BTreeMap<&'static str, String>,
    /// True if shards differ so much that their picture is shown.
    pub(super) is_uneven: bool,
    /// Checks that were made; none of a document that is no run.
    pub(super) checks: Option<&'a Validity>,
    /// What the page of a run that goes on has; none of one that is over. It has no details yet.
    pub(super) live: Option<&'a str>,
}

impl Doc {
    /// The document as a page. Its findings and those of its plots that are among `plots`, by their
    /// names, stand open; its tables are folded.
    pub fn html(&self, plots: &[Plot]) -> String {
        let hero = Hero::of_doc(self);
        let layout = Layout {
            doc: self,
            hero: &hero,
            meta: Vec::new(),
            data: None,
            hints: BTreeMap::new(),
            is_uneven: false,
            checks: None,
            live: None,
        };
        layout.page(plots, |html| {
            hero.write(html);
            for group in groups(self) {
                if let Group::Open(part) = group {
                    write_part(html, part, plots);
                }
            }
        })
    }
}

impl Doc {
    /// What stands on a page that shows the document while something goes on: all of it, open, with
    /// those of its plots that are among `plots`.
    pub fn live(&self, plots: &[Plot]) -> String {
        markup::fragment(|html| {
            Hero::of_doc(self).write(html);
            for group in groups(self) {
                match group {
                    Group::Open(part) => write_part(html, part, plots),
                    Group::Folded(_, _, parts) => {
                        for part in parts {
                            write_part(html, part, plots);
                        }
                    }
                }
            }
        })
    }
}

/// Parts of a document that a page shows together.
enum Group<'a> {
    Open(&'a Part),
    /// A heading, and what is folded below it.
    Folded(Option<&'static str>, &'a str, Vec<&'a Part>),
}

/// The parts of a document on a page, but for what the hero shows. What is written right below a
/// table belongs to it, and what stands before commands is their heading.
fn groups(doc: &Doc) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let parts = doc.shown_to(Readers::PAGE).filter(|part| match part {
        Part::Status(status) => !doc
            .outcome()
            .is_some_and(|first| std::ptr::eq(first, status)),
        _ => true,
    });
    for part in parts {
        let group = match (part, groups.pop()) {
            (Part::Text(_), Some(Group::Folded(id, heading, mut parts)))
                if matches!(parts[..], [Part::Tables(_), ..]) =>
            {
                parts.push(part);
                Group::Folded(id, heading, parts)
            }
            (Part::Commands(_), Some(Group::Open(Part::Text(heading)))) => {
                Group::Folded(None, heading, vec![part])
            }
            (part, last) => {
                groups.extend(last);
                match part {
                    Part::Section(id, heading, parts) => {
                        Group::Folded(Some(*id), heading, parts.iter().collect())
                    }
                    Part::Tables(tables) => Group::Folded(None, caption(tables), vec![part]),
                    Part::Facts(_) => Group::Folded(None, "Facts", vec![part]),
                    Part::Commands(_) => Group::Folded(None, "Commands", vec![part]),
                    part => Group::Open(part),
                }
            }
        };
        groups.push(group);
    }
    groups
}

/// The heading of tables side by side.
fn caption(tables: &[Table]) -> &str {
    tables
        .iter()
        .map(|table| &*table.caption)
        .find(|caption| !caption.is_empty())
        .unwrap_or("All figures")
}

impl<'a> Layout<'a> {
    /// That of a page of something that goes on, of which a reader has what `seen` says.
    pub(super) fn live(seen: &'a str, data: &'a str, doc: &'a Doc, hero: &'a Hero) -> Self {
        Self {
            doc,
            hero,
            meta: Vec::new(),
            data: Some(data),
            hints: BTreeMap::new(),
            is_uneven: false,
            checks: None,
            live: Some(seen),
        }
    }
}

impl Layout<'_> {
    /// The page; `open` writes what stands above the folded sections.
    pub(super) fn page(&self, plots: &[Plot], open: impl FnOnce(&mut Html)) -> String {
        let title = format!(
            "{} \u{b7} {} \u{b7} crawlmark",
            self.hero.headline,
            self.doc.title()
        );
        let head = markup::Head {
            title: &title,
            tint: self.hero.tint(),
            data: self.data,
            is_live: self.live.is_some(),
        };
        markup::document(&head, |html| {
            self.write_top(html);
            let attributes = [("id", "main"), ("data-seen", self.live.unwrap_or(""))];
            let main = &attributes[..=usize::from(self.live.is_some())];
            html.with("main", main, |html| {
                open(html);
                if self.live.is_none() {
                    self.write_details(html, plots);
                }
            });
            html.element("footer", |html| {
                let facts = self.doc.about().iter().flatten().cloned();
                let source: Vec<String> = [self.doc.title().to_owned()]
                    .into_iter()
                    .chain(facts)
                    .collect();
                html.with("span", &[("id", "source")], |html| {
                    html.text(&source.join(" \u{b7} "));
                });
                html.text(if self.live.is_some() {
                    " \u{b7} this page shows a run that goes on"
                } else {
                    " \u{b7} this page loads nothing"
                });
            });
            html.with("div", &[("class", "toast"), ("role", "status")], |_| {});
            html.with("pre", &[("id", "text"), ("hidden", "hidden")], |html| {
                html.text(&self.hero.summary());
            });
        })
    }

    fn write_top(&self, html: &mut Html) {
        html.classed("header", "top", |html| {
            html.classed("span", "brand", |html| {
                html.raw(markup::BRAND);
                html.text("crawlmark");
            });
            html.classed("span", "run", |html| {
                html.text(self.doc.title());
            });
            html.classed("span", "gap", |_| {});
            html.button("copy", "Copy summary");
            if self.data.is_some() {
                html.button("save", "Save as slide");
            }
            html.button("theme", "Light or dark");
            html.classed("div", "meta", |html| {
                // Of a run that goes on, the document knows no end.
                let about = self
                    .doc
                    .about()
                    .iter()
                    .flatten()
                    .filter(|_| self.live.is_none());
                for fact in self.meta.iter().chain(about) {
                    html.element("span", |html| html.text(fact));
                }
            });
        });
    }

    /// The sections, folded.
    fn write_details(&self, html: &mut Html, plots: &[Plot]) {
        html.classed("div", "head", |html| {
            html.say("h2", "Details");
        });
        for group in groups(self.doc) {
            if let Group::Folded(id, heading, parts) = group {
                let is_open = id.is_some_and(|id| OPEN.contains(&id));
                if id == Some(LAST) {
                    self.write_checks(html);
                }
                let hint = id.and_then(|id| self.hints.get(id)).map_or("", |hint| hint);
                html.folded(id, [heading, hint], is_open, |html| {
                    for part in parts {
                        write_part(html, part, plots);
                    }
                    if id == Some(SHARDS) && self.is_uneven {
                        html.plots(plots.iter().filter(|plot| {
                            plot.name == SHARDS && fits(plot, self.data.map_or(0, str::len))
                        }));
                    }
                });
            }
        }
    }
}

impl Layout<'_> {
    /// The checks that were made, and those that could not be, each with the reason.
    fn write_checks(&self, html: &mut Html) {
        let Some(checks) = self.checks.filter(|checks| !checks.checked.is_empty()) else {
            return;
        };
        let hint = format!(
            "{} made, {} not possible",
            checks.checked.len(),
            checks.unavailable.len()
        );
        html.folded(Some("checks"), ["Checks", &hint], false, |html| {
            html.classed("ul", "checks", |html| {
                for check in &checks.checked {
                    html.say("li", &format!("\u{2713} {check}"));
                }
            });
            let missing = checks.unavailable.iter();
            let missing =
                missing.map(|(check, why)| format!("Not made: {check}, because {}.", why.reason()));
            write_list(html, &missing.collect::<Vec<_>>());
        });
    }
}

fn write_part(html: &mut Html, part: &Part, plots: &[Plot]) {
    match part {
        Part::Text(text) => html.element("p", |html| html.sentences(text)),
        Part::Facts(facts) => write_table(html, &Table::of_facts(facts)),
        Part::List(sentences) => write_list(html, sentences),
        Part::Tables(tables) => match &**tables {
            [table] => write_table(html, table),
            tables => html.classed("div", "tables", |html| {
                for table in tables {
                    write_table(html, table);
                }
            }),
        },
        Part::Plots(listed) => {
            html.plots(
                plots
                    .iter()
                    .filter(|plot| listed.iter().any(|(name, ..)| *name == plot.name))
                    .filter(|plot| !plot.is_empty),
            );
        }
        Part::Status(status) => write_status(html, status),
        Part::Commands(commands) => html.copyable("commands", &format!("{commands}\n")),
        Part::Code(summary, text) => html.details(summary, |html| {
            html.with("pre", &[("tabindex", "0")], |html| html.say("code", text));
        }),
        Part::Section(_, heading, parts) => {
            html.say("h3", heading);
            for part in parts {
                write_part(html, part, plots);
            }
        }
    }
}

fn write_list(html: &mut Html, sentences: &[String]) {
    if !sentences.is_empty() {
        html.element("ul", |html| {
            for sentence in sentences {
                html.element("li", |html| html.sentences(sentence));
            }
        });
    }
}

/// Write a finding that is not the first.
fn write_status(html: &mut Html, status: &Status) {
    html.classed("ol", "findings", |html| {
        html.with("li", &[("class", tint(status.severity))], |html| {
            html.with("span", &[("class", "n"), ("aria-hidden", "true")], |html| {
                html.text(status.severity.symbol());
            });
            html.element("div", |html| {
                html.element("h3", |html| html.sentences(&status.title));
                html.say_unless_empty("p", &status.text);
                write_list(html, &status.list);
            });
        });
    });
}

/// Write a table in a box of its own, which is wider inside than the page where it must be.
fn write_table(html: &mut Html, table: &Table) {
    // Readers without a pointer scroll it by keys, so it takes the focus.
    let region = [
        ("class", "scroll"),
        ("role", "region"),
        ("tabindex", "0"),
        ("aria-label", &*table.caption),
    ];
    html.with("div", &region, |html| {
        html.element("table", |html| {
            html.say_unless_empty("caption", &table.caption);
            if table
                .columns
                .iter()
                .any(|column| !column.heading.is_empty())
            {
                html.element("thead", |html| {
                    html.element("tr", |html| write_headings(html, table));
                });
            }
            html.element("tbody", |html| {
                for (n, row) in table.rows.iter().enumerate() {
                    let is_sum = table.has_sum && n + 1 == table.rows.len();
                    let class = [("class", "sum")];
                    html.with("tr", if is_sum { &class } else { &[] }, |html| {
                        write_row(html, table, row);
                    });
                }
            });
        });
    });
}

fn write_headings(html: &mut Html, table: &Table) {
    for column in &table.columns {
        html.with(
            "th",
            &[("scope", "col"), ("class", column.class())],
            |html| html.text(&column.heading),
        );
    }
}

fn write_row(html: &mut Html, table: &Table, row: &[String]) {
    for (n, (column, cell)) in table.columns.iter().zip(row).enumerate() {
        let class = ("class", column.class());
        match (n, column.kind) {
            (0, _) => html.with("th", &[class, ("scope", "row")], |html| {
                html.sentences(cell);
            }),
            (_, Kind::Sparkline) => html.with("td", &[class], |html| html.say("code", cell)),
            _ => html.with("td", &[class], |html| html.sentences(cell)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::doc::Column;

    #[test]
    fn a_table_says_what_its_rows_and_columns_are_of() {
        let table = Table {
            caption: "Of <what>".to_owned(),
            columns: vec![Column::words("name"), Column::numbers("count")],
            rows: vec![
                vec!["a".to_owned(), "1".to_owned()],
                vec!["all".to_owned(), "1".to_owned()],
            ],
            has_sum: true,
        };
        let page = Doc::new("").table(table.clone()).html(&[]);
        let document = roxmltree::Document::parse(page.split_once('\n').unwrap().1).unwrap();
        let found = |tag: &str, scope: Option<&str>| {
            document
                .descendants()
                .filter(|node| node.has_tag_name(tag) && node.attribute("scope") == scope)
                .map(|node| node.text().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(found("caption", None), ["Of <what>"]);
        assert_eq!(
            (found("th", Some("col")), found("th", Some("row"))),
            (vec!["name", "count"], vec!["a", "all"])
        );
        assert_eq!(found("td", None), ["1", "1"]);
        assert_eq!(
            document
                .descendants()
                .filter(|node| node.attribute("class") == Some("sum"))
                .count(),
            1
        );
        assert!(
            !Doc::new("")
                .table(Table {
                    rows: Vec::new(),
                    ..table
                })
                .html(&[])
                .contains("<table")
        );
    }
}
