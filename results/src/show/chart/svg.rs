//! A chart as SVG, for files and for pages: what [`draw`](super::draw) draws, within its words and
//! its style sheet.

use plotters::drawing::IntoDrawingArea;
use plotters::style::FontStyle;
use plotters::style::text_anchor::HPos;

use super::Chart;
use super::backend::{Svg, UNIT};
use super::draw::{Canvas, Layout, Lettering, MARGIN, WIDTH};
use super::palette::{Ink, style_sheet};
use crate::show::text::wrapped;
use crate::show::xml::escaped;

/// The most characters of a line of the caption.
const COLUMNS: usize = 96;

/// Where the words of a file begin and how far apart they are, CSS pixels.
const TITLE_Y: f64 = 26.0;
const CAPTION_Y: f64 = 22.0;
const BELOW: f64 = 20.0;

impl Chart {
    /// Return the chart as a file that stands alone.
    pub(in crate::show) fn svg(&self) -> String {
        let words = format!(
            "<title>{}</title>\n<desc>{}</desc>\n<style>{}</style>\n",
            escaped(self.title),
            escaped(&self.caption),
            style_sheet()
        );
        let caption = wrapped(&self.caption, COLUMNS);
        let (height, drawn) = self.drawn(&caption);
        root(height, "", &(words + &drawn))
    }

    /// Return the chart for a page that has the [style sheet](style_sheet()), title and caption as
    /// text in elements with the IDs `NAME-title` and `NAME-caption`.
    pub(in crate::show) fn figure(&self) -> String {
        let name = self.name;
        let labels =
            format!(" aria-labelledby=\"{name}-title\" aria-describedby=\"{name}-caption\"");
        let (height, drawn) = self.drawn(&[]);
        root(height, &labels, &drawn)
    }

    /// Draw the panels, below the title if there is a caption; returns the height, CSS pixels, too.
    fn drawn(&self, caption: &[&str]) -> (f64, String) {
        let last = TITLE_Y + CAPTION_Y * caption.len() as f64;
        let top = if caption.is_empty() {
            4.0
        } else {
            last + BELOW
        };
        let layout = Layout::of(self, top);
        let size = [WIDTH, layout.height].map(|px| (px * f64::from(UNIT)).ceil());
        let backend = Svg::new(size.map(whole).into());
        let area = backend.clone().into_drawing_area();
        let canvas = Canvas {
            area: &area,
            groups: &backend,
            unit: UNIT,
        };
        let lettering = |size, weight, ink| Lettering {
            size,
            weight,
            ink,
            anchor: HPos::Left,
        };
        let words = caption.iter().enumerate().map(|(n, line)| {
            let y = TITLE_Y + CAPTION_Y * (n + 1) as f64;
            canvas.letters(
                line,
                [MARGIN, y],
                &lettering(13.0, FontStyle::Normal, Ink::Quiet),
            )
        });
        let head = Some(self.title)
            .filter(|_| !caption.is_empty())
            .map(|text| {
                let look = lettering(18.0, FontStyle::Bold, Ink::Text);
                canvas.letters(text, [MARGIN, TITLE_Y], &look)
            });
        // A text cannot fail to be written to.
        let _ = head
            .into_iter()
            .chain(words)
            .collect::<Result<Vec<()>, _>>();
        let _ = canvas.chart(&layout);
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
         font-family=\"Inter, system-ui, sans-serif\" role=\"img\" class=\"crawlmark-plot\"{attributes}>\n{content}</svg>\n"
    )
}

fn ground(height: f64) -> String {
    format!("<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n")
}
