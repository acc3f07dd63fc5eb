//! A painted chart: a picture and its words.

use super::{Chart, palette};
use crate::show::visible;

/// A picture and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plot {
    /// The name of its file, without `.svg`.
    pub name: &'static str,
    /// Title of the plot.
    pub title: &'static str,
    /// Caption: the plot's figures in this run.
    pub caption: String,
    /// The picture: a whole SVG document, 640 wide.
    pub svg: String,
    /// The picture alone, for a page that has [`style_sheet`], and title and caption as text in
    /// elements with the IDs `NAME-title` and `NAME-caption`.
    pub figure: String,
    /// Values for the script of a page, as JSON; none of a picture of bars.
    pub data: Option<String>,
    /// True if it has nothing to show; a page leaves it out.
    pub is_empty: bool,
}

impl Plot {
    /// Paint a chart.
    pub(in crate::show) fn of(chart: &Chart) -> Self {
        Self {
            name: chart.name,
            title: chart.title,
            caption: visible(&chart.caption).into_owned(),
            svg: chart.svg(),
            figure: chart.figure(),
            data: chart.json(),
            is_empty: chart.panels.is_empty(),
        }
    }
}

/// Return the style sheet that a page with [figures](Plot::figure) has once: the colours as
/// `--paper`, `--text`, `--quiet`, `--grid` and by hue, light and dark, and the rules of the plots.
#[must_use]
pub fn style_sheet() -> String {
    palette::variables() + &palette::style_sheet()
}
