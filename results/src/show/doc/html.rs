//! Page: one file that needs nothing beside it, with the plots in it.

use super::markup::{self, Html};
use super::{Doc, Figure, Kind, Lead, Part, Readers, Status, Table, shown_to};
use crate::show::chart::Plot;

impl Doc {
    /// The document as a page; plots of the document that are among `plots`, by their names, stand
    /// where it has them.
    pub fn html(&self, plots: &[Plot]) -> String {
        markup::document(&self.title, |html| {
            html.element("header", |html| {
                html.say("h1", &self.title);
                for facts in &self.about {
                    let facts = facts.join(" \u{b7} ");
                    html.with("p", &[("class", "quiet")], |html| html.text(&facts));
                }
            });
            let parts = shown_to(Readers::PAGE, &self.blocks);
            let sections = parts.filter_map(|part| match part {
                Part::Section(id, heading, _) => Some((*id, &**heading)),
                _ => None,
            });
            html.contents(&sections.collect::<Vec<_>>());
            if let Some(lead) = &self.lead {
                write_lead(html, lead);
            }
            shown_to(Readers::PAGE, &self.blocks).for_each(|part| write_part(html, part, plots));
        })
    }
}

fn write_lead(html: &mut Html, lead: &Lead) {
    let [first, last] = lead.statuses();
    write_status(html, first);
    html.with("dl", &[("class", "figures"), ("id", "figures")], |html| {
        for Figure {
            name,
            value,
            detail,
        } in &lead.figures
        {
            html.element("div", |html| {
                html.say("dt", name);
                html.say("dd", value);
                html.with("dd", &[("class", "of")], |html| html.sentences(detail));
            });
        }
    });
    write_status(html, last);
}

fn write_part(html: &mut Html, part: &Part, plots: &[Plot]) {
    match part {
        Part::Text(text) => html.element("p", |html| html.sentences(text)),
        Part::Facts(facts) => write_table(html, &Table::of_facts(facts)),
        Part::List(sentences) => write_list(html, sentences),
        Part::Tables(tables) => match &**tables {
            [table] => write_table(html, table),
            tables => html.with("div", &[("class", "tables")], |html| {
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
        Part::Section(id, heading, parts) => html.section(id, heading, |html| {
            for part in parts {
                write_part(html, part, plots);
            }
        }),
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

fn write_status(
    html: &mut Html,
    Status {
        id,
        severity,
        title,
        text,
        list,
        details,
    }: &Status,
) {
    let class = ("class", severity.class());
    let (tag, heading, attributes) = match id {
        Some(id) => ("section", "h2", vec![("id", *id), class]),
        None => ("div", "h3", vec![class]),
    };
    html.with(tag, &attributes, |html| {
        html.element(heading, |html| {
            html.with(
                "span",
                &[("class", "symbol"), ("aria-hidden", "true")],
                |html| html.text(severity.symbol()),
            );
            html.element("span", |html| html.sentences(title));
        });
        html.say_unless_empty("p", text);
        write_list(html, list);
        if let Some((summary, sentences)) = details {
            html.details(summary, |html| {
                for sentence in sentences {
                    html.say("p", sentence);
                }
            });
        }
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
    use super::super::Column;
    use super::*;

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
            let nodes = document
                .descendants()
                .filter(|node| node.has_tag_name(tag) && node.attribute("scope") == scope);
            nodes.map(|node| node.text().unwrap()).collect::<Vec<_>>()
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
