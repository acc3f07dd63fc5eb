//! Page: one file that needs nothing beside it, with the plots in it.

use super::{Column, Doc, Part, Readers, Table};
use crate::show::page::frame::{self, Html};
use crate::show::plot::Plot;

impl Doc {
    /// The document as a page; plots of the document that are among `plots`, by their names, stand where it has them.
    #[must_use]
    pub fn html(&self, plots: &[Plot]) -> String {
        frame::document(&self.title, |html| {
            html.element("header", |html| html.say("h1", &self.title));
            for part in self.parts(Readers::Files) {
                write_part(html, part, plots);
            }
        })
    }
}

fn write_part(html: &mut Html, part: &Part, plots: &[Plot]) {
    match part {
        Part::Text(text) => html.element("p", |html| html.lines(text)),
        Part::Facts(facts) => {
            let columns = vec![Column::words(""), Column::sentences("")];
            let rows = facts.iter().map(|(name, value)| vec![name.clone(), value.clone()]).collect();
            Table { columns, rows, ..Table::default() }.write(html);
        }
        Part::List(heading, sentences) => {
            html.say("p", heading);
            html.element("ul", |html| sentences.iter().for_each(|sentence| html.say("li", sentence)));
        }
        Part::Table(table) => table.write_stacking(html),
        Part::Commands(heading, commands) => {
            html.say("p", heading);
            html.copyable("commands", &(commands.join("\n") + "\n"));
        }
        Part::Plot(path, _) => {
            let is_meant = |plot: &&Plot| {
                path.strip_prefix("plots/").and_then(|path| path.strip_suffix(".svg")) == Some(plot.name)
            };
            html.plots(plots.iter().find(is_meant).map_or(&[], std::slice::from_ref));
        }
    }
}
