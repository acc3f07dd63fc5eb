//! Progress of a run on a terminal, drawn in place.

use std::time::Duration;

use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::supervisor::Live;
use crawlmark_results::run::report::IntervalRow;

use super::canvas::Canvas;
use super::fold::Fold;
use super::frame::frame;
use super::gauge::Gauge;
use super::sparkline::Glyphs;
use crate::terminal::shown;

/// From one picture to the next: as often as the eye follows numbers.
const EVERY: Duration = Duration::from_millis(200);

/// The live view.
#[derive(Debug)]
pub(crate) struct Bars {
    gauge: Gauge,
    fold: Fold,
    canvas: Canvas,
    glyphs: Glyphs,
    next: Duration,
}

impl Bars {
    pub(super) fn new(plan: &RunPlan, glyphs: Glyphs) -> Self {
        Self {
            gauge: Gauge::new(plan),
            fold: Fold::default(),
            canvas: Canvas::new(),
            glyphs,
            next: Duration::from_nanos(1),
        }
    }

    /// Draws how the run stands, unless it has only just done so.
    pub(super) fn show(&mut self, live: &Live, seconds: &[IntervalRow]) {
        let now = live.elapsed;
        let is_due = now >= self.next;
        self.next = if is_due { now + EVERY } else { self.next };
        if is_due || live.is_over() {
            let size = self.canvas.size();
            let lines: Vec<_> = frame(
                &self.gauge.read(live),
                seconds,
                &mut self.fold,
                (size, self.glyphs),
            )
            .into_iter()
            .map(|line| line.in_characters(|text| shown(text, self.glyphs)))
            .collect();
            // The terminal may be closed; that must not stop a run.
            let _ = self.canvas.draw(&lines, size);
        }
    }
}
