//! The climb: what each rung measured beside what was published for it, on an axis that goes up by tens.
//!
//! The first rung lies at the bottom, so that the bars are steps. It is looked at in a README, on a phone, too: its letters
//! are larger than those of other plots, and every bar has its figure at its end.

use plotters::style::FontStyle;
use plotters::style::text_anchor::HPos;

use super::Plot;
use super::canvas::{Canvas, Head, Lettering, WIDTH, sheet, text_width};
use super::palette::Ink;
use super::scale::{Scale, short};
use crate::show::text::decimal;
use crate::studies::ladder::{Ladder, RungReport};
use crate::studies::ladder::{ladder_headline, published};

/// Left and right of everything.
const MARGIN: f64 = 16.0;

/// Left end of the bars: right of the numbers of the rungs.
const LEFT: f64 = 52.0;

/// A rung: its name, two bars, and the space to the next one.
const ROW: f64 = 68.0;

/// From the top of a rung to the middle of its name, of its bars, and their heights.
const NAME_AT: f64 = 12.0;
const MEASURED: [f64; 2] = [25.0, 42.0];
const PUBLISHED: [f64; 2] = [46.0, 55.0];

/// Above the rungs, for the words that say which bar is which; below, for the axis.
const ABOVE: f64 = 14.0;
const BELOW: f64 = 34.0;

const NAME: f64 = 17.0;
const VALUE: f64 = 16.0;
const SMALL: f64 = 14.0;

/// Width of bold letters as a multiple of others.
const BOLD: f64 = 1.12;

/// Between a bar and its figure.
const GAP: f64 = 7.0;

const MEASURED_INK: Ink = Ink::Blue;
const PUBLISHED_INK: Ink = Ink::Orange;

/// The picture of a climb.
#[must_use]
pub fn climb(ladder: &Ladder) -> Plot {
    let head = Head {
        name: "climb",
        title: "The ladder: from one at a time to all the CPU can do",
        caption: ladder_headline(ladder),
        keys: Vec::new(),
    };
    let axis = Axis::of(&ladder.rungs);
    let height = ABOVE + ladder.rungs.len() as f64 * ROW + BELOW;
    sheet(head, height, |canvas, top| {
        let (top, bottom) = (top + ABOVE, top + height - BELOW);
        axis.draw(canvas, [top, bottom]);
        for (n, rung) in ladder.rungs.iter().enumerate() {
            let from_top = (ladder.rungs.len() - 1 - n) as f64;
            draw(canvas, rung, (&axis, top + from_top * ROW, Words::of_rung(n)));
        }
    })
}

/// Labels of a rung's bars: once, on the lowest one, where there is room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Words {
    Told,
    Known,
}

impl Words {
    const fn of_rung(n: usize) -> Self {
        if n == 0 { Self::Told } else { Self::Known }
    }

    /// Return the texts behind the bars: the measured rate, its limit, and the published rate.
    fn about(self, rung: &RungReport) -> [String; 3] {
        let measured = format!("{}/s", decimal(rung.reading.ok_per_s));
        let (limit, published) = (rung.limit.by.name(), published(rung.published));
        match self {
            Self::Told => {
                [format!("{measured} here,"), format!("limited by {limit}"), format!("{published} as published")]
            }
            Self::Known => [measured, limit.to_owned(), published],
        }
    }
}

/// The axis: rates, each line ten times the one before.
struct Axis {
    scale: Scale,
    right: f64,
}

impl Axis {
    /// One on which every bar has room for what stands behind it.
    fn of(rungs: &[RungReport]) -> Self {
        let rates = || rungs.iter().flat_map(|rung| [rung.reading.ok_per_s, rung.published.high_per_s]);
        let rates = rates().filter(|rate| *rate > 0.0);
        let (low, high) = rates.fold((1.0_f64, 10.0_f64), |(low, high), rate| (low.min(rate), high.max(rate)));
        let scale = Scale::Log(10f64.powf(low.log10().floor()), high);
        let room = |(n, rung): (usize, &RungReport)| {
            let [value, limit, there] = Words::of_rung(n).about(rung);
            let behind = [
                (rung.reading.ok_per_s, text_width(&value, VALUE) * BOLD + GAP + text_width(&limit, SMALL)),
                (rung.published.high_per_s, text_width(&there, SMALL)),
            ];
            // Where the axis may end at most, for this bar's words to end with the sheet.
            let ends = behind.map(|(rate, width)| {
                let place = scale.place(rate).max(0.01);
                LEFT + (WIDTH - MARGIN - GAP - width - LEFT) / place
            });
            ends[0].min(ends[1])
        };
        let right = rungs.iter().enumerate().map(room).fold(WIDTH - MARGIN, f64::min).max(LEFT + 100.0);
        Self { scale, right }
    }

    fn x_of(&self, rate: f64) -> f64 {
        LEFT + self.scale.place(rate) * (self.right - LEFT)
    }

    fn draw(&self, canvas: &Canvas<'_>, [top, bottom]: [f64; 2]) {
        let Scale::Log(low, high) = self.scale else { return };
        let decades =
            std::iter::successors(Some(low), |rate| Some(rate * 10.0)).take_while(|rate| *rate <= high * 1.001);
        for rate in decades {
            let x = self.x_of(rate);
            canvas.line(&[(x, top), (x, bottom)], Ink::Grid, 1.0);
            let label = format!("{}/s", short(rate));
            canvas.text(&label, (x, bottom + 14.0), lettering(Ink::Quiet, SMALL, HPos::Center));
        }
    }
}

fn draw(canvas: &Canvas<'_>, rung: &RungReport, (axis, top, words): (&Axis, f64, Words)) {
    let bold = |ink, size, hold| Lettering { weight: FontStyle::Bold, ..lettering(ink, size, hold) };
    let middle = |[from, to]: [f64; 2]| top + f64::midpoint(from, to);
    canvas.text(&rung.rung.to_string(), (LEFT - 14.0, top + MEASURED[0] + 4.0), bold(Ink::Quiet, 26.0, HPos::Right));
    on_paper(canvas, &rung.name, (LEFT, top + NAME_AT), lettering(Ink::Text, NAME, HPos::Left));
    let bar = |rate: f64, [from, to]: [f64; 2], ink| {
        let right = axis.x_of(rate).max(LEFT + 2.0);
        canvas.area([LEFT, top + from, right, top + to], ink);
        right + GAP
    };
    let [value, limit, there] = words.about(rung);
    let x = bar(rung.reading.ok_per_s, MEASURED, MEASURED_INK);
    on_paper(canvas, &value, (x, middle(MEASURED)), bold(Ink::Text, VALUE, HPos::Left));
    let x = x + text_width(&value, VALUE) * BOLD + GAP;
    on_paper(canvas, &limit, (x, middle(MEASURED)), lettering(Ink::Quiet, SMALL, HPos::Left));
    let x = bar(rung.published.high_per_s, PUBLISHED, PUBLISHED_INK);
    on_paper(canvas, &there, (x, middle(PUBLISHED)), lettering(Ink::Quiet, SMALL, HPos::Left));
}

const fn lettering(ink: Ink, size: f64, hold: HPos) -> Lettering {
    Lettering { size, ink, weight: FontStyle::Normal, hold }
}

/// A text that covers the lines of the grid.
fn on_paper(canvas: &Canvas<'_>, text: &str, (x, y): (f64, f64), lettering: Lettering) {
    let (width, half) = (text_width(text, lettering.size) * 0.9, lettering.size * 0.55);
    canvas.area([x - 2.0, y - half, x + width, y + half], Ink::Paper);
    canvas.text(text, (x, y), lettering);
}
