//! A chart as SVG, for files and for pages: what [`draw`](super::draw) draws, within its words and
//! its style sheet.

use plotters::drawing::IntoDrawingArea;

use super::Chart;
use super::backend::{Svg, UNIT};
use super::draw::draw;
use super::layout::{Layout, WIDTH};
use super::palette::style_sheet;
use crate::show::xml::escaped;

/// Fonts of the texts: Inter where it is installed, or else that of the system.
const FONTS: &str =
    "Inter, system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";

impl Chart {
    /// Return the chart as a file that stands alone.
    pub(in crate::show) fn svg(&self) -> String {
        let words = format!(
            "<title>{}</title>\n<desc>{}</desc>\n<style>{}</style>\n",
            escaped(self.title),
            escaped(&self.caption()),
            style_sheet()
        );
        let (height, drawn) = self.drawn(false);
        root(height, "", &(words + &drawn))
    }

    /// Return the chart for a page that has the [style sheet](style_sheet()), title and caption as
    /// text in elements with the IDs `NAME-title` and `NAME-caption`.
    pub(in crate::show) fn figure(&self) -> String {
        let name = self.name;
        let labels =
            format!(" aria-labelledby=\"{name}-title\" aria-describedby=\"{name}-caption\"");
        let (height, drawn) = self.drawn(true);
        root(height, &labels, &drawn)
    }

    /// Draw the panels, between their words unless a page has these; returns the height, CSS pixels,
    /// too.
    fn drawn(&self, on_page: bool) -> (f64, String) {
        let layout = Layout::of(self, on_page);
        let size = [WIDTH, layout.height].map(|px| (px * f64::from(UNIT)).ceil());
        let backend = Svg::new(size.map(whole).into());
        let area = backend.clone().into_drawing_area();
        // A text cannot fail to be written to.
        let _ = draw(&layout, &area, &backend, UNIT);
        (layout.height, ground(layout.height) + &backend.elements())
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a sheet has some ten thousand units"
)]
const fn whole(units: f64) -> u32 {
    units as u32
}

fn root(height: f64, attributes: &str, content: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"{FONTS}\" role=\"img\" class=\"crawlmark-plot\"{attributes}>\n{content}</svg>\n"
    )
}

fn ground(height: f64) -> String {
    format!("<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n")
}
