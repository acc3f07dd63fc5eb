//! Progress of a run: a view that is drawn in place on a terminal, lines elsewhere. Called from the
//! supervisor's loop; starts no thread.
//!
//! | room | for |
//! |---|---|
//! | `gauge` | figures read from the run |
//! | `news` | facts so far, the gravest first |
//! | `text` | number formats and words |
//! | `view`, `canvas` | the view for a given size, drawn in place |
//! | `lines` | progress where there is no terminal |

mod canvas;
mod gauge;
mod lines;
mod news;
mod text;
mod view;

#[cfg(test)]
mod tests;

use std::time::Duration;

use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::supervisor::Live;
use crawlmark_harness::target_usage::TargetNow;
use crawlmark_results::run::report::IntervalRow;

use self::canvas::Canvas;
use self::gauge::{Gauge, Now};
use self::lines::Lines;
use self::view::view;

/// From one picture to the next: as often as the eye follows numbers.
const EVERY: Duration = Duration::from_millis(250);

/// Display of the progress of a run.
#[derive(Debug)]
pub(crate) enum Progress {
    /// Not at all.
    Silent,
    /// A line now and then.
    Lines(Box<Lines>),
    /// A few lines, drawn over themselves.
    View(Box<View>),
}

/// The live view.
#[derive(Debug)]
pub(crate) struct View {
    gauge: Gauge,
    canvas: Canvas,
    next: Duration,
}

impl Progress {
    /// A view when standard error is a terminal that one can draw on, else lines.
    pub(crate) fn fitting(plan: &RunPlan) -> Self {
        match Canvas::fitting() {
            Some(canvas) => Self::View(Box::new(View {
                gauge: Gauge::new(plan),
                canvas,
                next: Duration::from_nanos(1),
            })),
            None => Self::Lines(Box::new(Lines::begin(plan))),
        }
    }

    /// Show the state of the run, its last seconds, and what its target used in the last one. What is printed next starts on a clean line,
    /// at any time.
    pub(crate) fn show(&mut self, live: &Live, seconds: &[IntervalRow], target: Option<TargetNow>) {
        match self {
            Self::Silent => {}
            Self::Lines(lines) => lines.show(live),
            Self::View(view) => view.show(live, seconds, target),
        }
    }
}

impl View {
    /// Draws how the run stands, unless it has only just done so. What is over is removed: the end
    /// of the run takes its place.
    fn show(&mut self, live: &Live, seconds: &[IntervalRow], target: Option<TargetNow>) {
        let is_due = live.elapsed >= self.next;
        if is_due {
            self.next = live.elapsed + EVERY;
        }
        let screen = self.canvas.screen();
        if live.is_over() {
            self.canvas.draw(&[], screen);
        } else if is_due {
            let now = Now {
                target,
                ..self.gauge.read(live)
            };
            self.canvas.draw(&view(&now, seconds, screen), screen);
        }
    }
}
