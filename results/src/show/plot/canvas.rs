//! A plot's sheet: the head with title, caption and keys, and the few shapes that everything is drawn with.
//!
//! Sizes are in pixels of a sheet 640 wide, which a phone shows at two thirds and a page as it is; the file counts in
//! quarters of them, for the backend knows whole numbers only.

use plotters::prelude::{Circle, DrawingArea, IntoDrawingArea, PathElement, Rectangle, SVGBackend, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontStyle, IntoFont, ShapeStyle, TextStyle};

use super::Plot;
use super::palette::{Ink, style_sheet};
use crate::show::visible;

/// The width of a sheet.
pub(super) const WIDTH: f64 = 640.0;

/// Left and right of everything.
const MARGIN: f64 = 16.0;

/// Units of the file in a pixel.
const FINE: f64 = 4.0;

/// The backend writes a font's size divided by this.
const BACKEND_FONT: f64 = 1.24;

/// Width of a character over its size: that of the widest common sans-serif, so that nothing is cut in another.
const CHARACTER: f64 = 0.56;

/// Above the keys, where the words of the head are left away.
const GAP: f64 = 4.0;

const TITLE: f64 = 18.0;
const CAPTION: f64 = 14.0;
/// The size of keys, ticks and units.
pub(super) const LABEL: f64 = 13.0;

/// Head of a plot, above the panels.
pub(super) struct Head<'a> {
    /// The file's name without its ending.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// One sentence about this run.
    pub(super) caption: String,
    pub(super) keys: Vec<Key<'a>>,
}

/// Key of a line or an area: label and mark.
#[derive(Clone, Copy)]
pub(super) struct Key<'a> {
    pub(super) label: &'a str,
    pub(super) mark: Mark,
}

impl<'a> Key<'a> {
    pub(super) const fn new(label: &'a str, mark: Mark) -> Self {
        Self { label, mark }
    }
}

/// Mark that is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Mark {
    /// A line of this width.
    Line(Ink, f64),
    /// A filled area.
    Area(Ink),
    /// A dot.
    Dot(Ink),
    /// A circle with nothing in it.
    Ring(Ink),
}

/// Style of a text.
#[derive(Clone, Copy)]
pub(super) struct Lettering {
    pub(super) size: f64,
    pub(super) ink: Ink,
    pub(super) weight: FontStyle,
    /// Part of the text that lies at its place.
    pub(super) hold: HPos,
}

impl Lettering {
    /// Return the style of a label, held by this part.
    pub(super) const fn label(ink: Ink, hold: HPos) -> Self {
        Self { size: LABEL, ink, weight: FontStyle::Normal, hold }
    }
}

/// Surface that shapes are drawn on.
pub(super) struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, plotters::coord::Shift>,
}

/// Draws a plot: the head, and below it `draw`, which is given the canvas and the height at which it may begin, in a sheet
/// that has `height` more.
pub(super) fn sheet(mut head: Head<'_>, height: f64, draw: impl FnOnce(&Canvas<'_>, f64)) -> Plot {
    head.caption = visible(&head.caption).into_owned();
    let lines = wrapped(&head.caption, WIDTH - 2.0 * MARGIN, CAPTION);
    let key_places = key_places(&head.keys);
    let keys_top = 42.0 + lines.len() as f64 * 18.0;
    let top = keys_top + key_places.last().map_or(0.0, |(_, y)| y + 22.0);
    let whole = top + height;
    let mut svg = String::new();
    {
        let canvas =
            Canvas { area: SVGBackend::with_string(&mut svg, (unsigned(WIDTH), unsigned(whole))).into_drawing_area() };
        canvas.area([0.0, 0.0, WIDTH, whole], Ink::Paper);
        let bold = Lettering { size: TITLE, ink: Ink::Text, weight: FontStyle::Bold, hold: HPos::Left };
        canvas.text(head.title, (MARGIN, 24.0), bold);
        let quiet = Lettering { size: CAPTION, ..Lettering::label(Ink::Quiet, HPos::Left) };
        for (line, y) in lines.iter().zip(std::iter::successors(Some(47.0), |y| Some(y + 18.0))) {
            canvas.text(line, (MARGIN, y), quiet);
        }
        for (key, (x, y)) in head.keys.iter().zip(&key_places) {
            canvas.key(*key, (*x, keys_top + y + 8.0));
        }
        draw(&canvas, top);
        // Ends the file; a string takes everything.
        let _ = canvas.area.present();
    }
    let body = body(&svg);
    let figure = without_words(&body, &head, [keys_top - GAP, whole], lines.len());
    let svg = with_words(&body, &head, whole);
    Plot { name: head.name, title: head.title, caption: head.caption, svg, figure }
}

/// Return the place of each key, in rows from left to right, counted from the first one.
pub(super) fn key_places(keys: &[Key<'_>]) -> Vec<(f64, f64)> {
    let (mut x, mut y) = (MARGIN, 0.0);
    let place = |key: &Key<'_>| {
        let width = 34.0 + text_width(key.label, LABEL) + 18.0;
        if x + width - 18.0 > WIDTH - MARGIN && x > MARGIN {
            (x, y) = (MARGIN, y + 20.0);
        }
        let place = (x, y);
        x += width;
        place
    };
    keys.iter().map(place).collect()
}

/// Return the shapes that the backend drew, without its own head, which is its first line.
fn body(svg: &str) -> String {
    let body = svg.split_once('\n').map_or("", |(_, body)| body);
    // What it writes of every shape although it goes without saying is a third of a heat map.
    body.replace(" opacity=\"1\"", "").replace(" stroke=\"none\"", "")
}

/// The file with what the backend cannot write: who it is for and in which colours.
fn with_words(body: &str, head: &Head<'_>, height: f64) -> String {
    let (fine_width, fine_height) = (WIDTH * FINE, (height * FINE).round());
    let (title, caption) = (escaped(head.title), escaped(&head.caption));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{}\" \
         viewBox=\"0 0 {fine_width} {fine_height}\" role=\"img\" class=\"crawlmark-plot\">\n\
         <title>{title}</title>\n<desc>{caption}</desc>\n<style>{}</style>\n{body}",
        fine_height / FINE,
        style_sheet(),
    )
}

/// The part between two heights for a page that has title and caption as text of its own, in elements with the IDs
/// `NAME-title` and `NAME-caption`, and the style sheet once for all plots. The ground, the title and the lines of the
/// caption are what is drawn first.
fn without_words(body: &str, head: &Head<'_>, [top, bottom]: [f64; 2], lines: usize) -> String {
    const END: &str = "</text>";
    let drawn = body.match_indices(END).nth(lines).map_or("", |(at, _)| &body[at + END.len()..]);
    let (width, top, height) = (WIDTH * FINE, (top * FINE).round(), ((bottom - top) * FINE).round());
    let name = head.name;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{}\" \
         viewBox=\"0 {top} {width} {height}\" role=\"img\" class=\"crawlmark-plot\" \
         aria-labelledby=\"{name}-title\" aria-describedby=\"{name}-caption\">{drawn}",
        height / FINE,
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// About as wide as the text is at most.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * CHARACTER
}

fn wrapped(text: &str, width: f64, size: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            // A number stays with its unit.
            Some(line) if line.ends_with(|c: char| c.is_ascii_digit()) => {
                if text_width(line, size) + text_width(word, size) + size * CHARACTER > width {
                    let number = line.rfind(' ').map(|at| line.split_off(at + 1)).unwrap_or_default();
                    line.truncate(line.trim_end().len());
                    lines.push(format!("{number} {word}").trim_start().to_owned());
                } else {
                    line.push(' ');
                    line.push_str(word);
                }
            }
            Some(line) if text_width(line, size) + text_width(word, size) + size * CHARACTER <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[expect(clippy::cast_possible_truncation, reason = "a sheet has a few thousand units")]
fn fine(px: f64) -> i32 {
    (px * FINE).round() as i32
}

fn unsigned(px: f64) -> u32 {
    u32::try_from(fine(px)).unwrap_or(0)
}

impl Canvas<'_> {
    /// A filled rectangle: left, top, right, bottom.
    pub(super) fn area(&self, [left, top, right, bottom]: [f64; 4], ink: Ink) {
        let corners = [(fine(left), fine(top)), (fine(right), fine(bottom))];
        let _ = self.area.draw(&Rectangle::new(corners, ink.light().filled()));
    }

    /// A line through these places.
    pub(super) fn line(&self, places: &[(f64, f64)], ink: Ink, width: f64) {
        let places: Vec<_> = places.iter().map(|(x, y)| (fine(*x), fine(*y))).collect();
        let style = ShapeStyle { color: ink.light().to_rgba(), filled: false, stroke_width: unsigned(width) };
        let _ = self.area.draw(&PathElement::new(places, style));
    }

    /// A dot.
    pub(super) fn dot(&self, (x, y): (f64, f64), ink: Ink) {
        let _ = self.area.draw(&Circle::new((fine(x), fine(y)), fine(3.5), ink.light().filled()));
    }

    /// A circle with nothing in it.
    pub(super) fn ring(&self, (x, y): (f64, f64), ink: Ink) {
        for (radius, ink) in [(4.5, ink), (2.75, Ink::Paper)] {
            let _ = self.area.draw(&Circle::new((fine(x), fine(y)), fine(radius), ink.light().filled()));
        }
    }

    /// A text whose middle is at this height.
    pub(super) fn text(&self, text: &str, (x, y): (f64, f64), lettering: Lettering) {
        let Lettering { size, ink, weight, hold } = lettering;
        let font = ("system-ui, sans-serif", size * FINE * BACKEND_FONT).into_font().style(weight);
        let colour = ink.light();
        let style = TextStyle::from(font).color(&colour).pos(Pos::new(hold, VPos::Center));
        let _ = self.area.draw(&Text::new(visible(text), (fine(x), fine(y)), style));
    }

    /// A sample of a mark and what it is; `y` is its middle.
    pub(super) fn key(&self, key: Key<'_>, (x, y): (f64, f64)) {
        match key.mark {
            Mark::Line(ink, width) => self.line(&[(x, y), (x + 28.0, y)], ink, width),
            Mark::Dot(ink) => self.dot((x + 18.0, y), ink),
            Mark::Ring(ink) => self.ring((x + 18.0, y), ink),
            Mark::Area(ink) => self.area([x + 8.0, y - 6.0, x + 28.0, y + 6.0], ink),
        }
        self.text(key.label, (x + 34.0, y), Lettering::label(Ink::Text, HPos::Left));
    }
}
