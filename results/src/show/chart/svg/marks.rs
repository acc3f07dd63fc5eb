//! Marks in the field of a panel: lines, areas, dots, blocks and bands.

use plotters::coord::cartesian::Cartesian2d;
use plotters::drawing::DrawingArea;

use super::{LABEL, Painter, text_width};
use crate::show::chart::backend::{Anchor, DrawnShape, Element, SvgBackend, fine};
use crate::show::chart::palette::Ink;
use crate::show::chart::scale::Scale;
use crate::show::chart::{Block, Dash, Mark, Role, Shape, Step};

/// Field of a panel: its edges, and how values become places in it.
pub(super) struct Field<'a> {
    pub(super) area: DrawingArea<SvgBackend<'a>, Cartesian2d<Scale, Scale>>,
    pub(super) x: Scale,
    pub(super) y: Scale,
    /// Left, right.
    pub(super) across: (f64, f64),
    /// Top, bottom.
    pub(super) down: (f64, f64),
}

impl Field<'_> {
    fn draw(&self, points: &[(f64, f64)], ink: Ink, figure: DrawnShape<'_>) {
        let _ = self.area.draw(&Element {
            points,
            ink,
            figure,
        });
    }

    fn line(&self, points: &[(f64, f64)], ink: Ink, (width, dash): (f64, Dash)) {
        if points.len() > 1 {
            self.draw(points, ink, DrawnShape::Line(width, dash));
        }
    }

    /// A line that keeps a value from the beginning of its step to the end; broken where there is
    /// none.
    fn steps(&self, steps: &[Step], ink: Ink, pen: (f64, Dash)) {
        for run in steps.split(|step| step.value.is_none()) {
            let level = |alike: &[Step]| {
                let (first, last) = alike.first().zip(alike.last())?;
                first
                    .value
                    .map(|value| [(first.from, value), (last.to, value)])
            };
            let points: Vec<(f64, f64)> = run
                .chunk_by(|a, b| a.value == b.value)
                .filter_map(level)
                .flatten()
                .collect();
            self.line(&points, ink, pen);
        }
    }

    /// Draw neighbours above 0 as one area: along their tops, and back along their bases.
    fn areas(&self, steps: &[Step], base: &[f64], ink: Ink) {
        let areas: Vec<(&Step, f64, f64)> = steps
            .iter()
            .zip(base)
            .map(|(step, base)| (step, step.value.unwrap_or(0.0), *base))
            .collect();
        for area in areas
            .chunk_by(|a, b| (a.1 > 0.0) == (b.1 > 0.0))
            .filter(|area| area.iter().any(|one| one.1 > 0.0))
        {
            let tops = area
                .iter()
                .flat_map(|(step, value, base)| [step.from, step.to].map(|x| (x, base + value)));
            let bases = area
                .iter()
                .rev()
                .flat_map(|(step, _, base)| [step.to, step.from].map(|x| (x, *base)));
            let corners: Vec<(f64, f64)> = tops.chain(bases).collect();
            // Only the ends of a level line are corners.
            let levels = corners.chunk_by(|a, b| a.1.total_cmp(&b.1).is_eq());
            let ends: Vec<_> = levels
                .flat_map(|level| level.first().into_iter().chain(level.last()))
                .copied()
                .collect();
            self.draw(&ends, ink, DrawnShape::Area);
        }
    }

    fn dot(&self, at: (f64, f64), ink: Ink, hollow: bool) {
        self.draw(
            &[at],
            ink,
            DrawnShape::Circle(if hollow { 4.5 } else { 3.5 }),
        );
        if hollow {
            self.draw(&[at], Ink::Paper, DrawnShape::Circle(2.75));
        }
    }

    pub(super) fn x_of(&self, value: f64) -> f64 {
        self.across.0 + self.x.place(value) * (self.across.1 - self.across.0)
    }

    pub(super) fn y_of(&self, value: f64) -> f64 {
        self.down.1 - self.y.place(value) * (self.down.1 - self.down.0)
    }
}

impl Painter<'_> {
    /// A part of the field, with edges where it does not end with the field.
    pub(super) fn band(&self, mark: &Mark, field: &Field<'_>) {
        let Shape::Band(from, to) = mark.shape else {
            return;
        };
        let (left, right) = (field.x_of(from), field.x_of(to));
        let (top, bottom) = field.down;
        self.draw(
            &[(left, top), (right, bottom)],
            mark.role.ink(),
            DrawnShape::Rectangle(2.0),
        );
        for x in [left, right]
            .into_iter()
            .filter(|x| *x > field.across.0 && *x < field.across.1)
        {
            self.draw(
                &[(x, top), (x, bottom)],
                Ink::Quiet,
                DrawnShape::Line(1.0, Dash::Dashed),
            );
        }
    }

    pub(super) fn mark(&self, mark: &Mark, field: &Field<'_>) {
        let (ink, pen) = (mark.role.ink(), pen(mark));
        match &mark.shape {
            Shape::Steps(steps) => field.steps(steps, ink, pen),
            Shape::Areas { steps, base } => field.areas(steps, base, ink),
            Shape::Line(points) => field.line(points, ink, pen),
            Shape::Dots(dots) => {
                for dot in dots {
                    if let Some((low, high)) = dot.interval {
                        field.line(
                            &[(dot.at.0, low), (dot.at.0, high)],
                            ink,
                            (2.0, Dash::Solid),
                        );
                    }
                    field.dot(dot.at, ink, dot.hollow);
                }
            }
            Shape::Blocks(blocks) => {
                let corners = |one: &Block| [(one.x.0, one.y.0), (one.x.1, one.y.1)];
                let (cells, bars): (Vec<&Block>, Vec<&Block>) =
                    blocks.iter().partition(|one| one.text.is_empty());
                let cells: Vec<_> = cells
                    .into_iter()
                    .filter(|one| one.x.0 < one.x.1)
                    .map(corners)
                    .collect();
                let height =
                    |[low, high]: [(f64, f64); 2]| fine(field.y_of(low.1) - field.y_of(high.1));
                for row in cells.chunk_by(|a, b| height(*a) == height(*b)) {
                    field.draw(row.as_flattened(), ink, DrawnShape::Cells);
                }
                for one in bars {
                    if one.x.0 < one.x.1 {
                        // Little is not taken for nothing.
                        field.draw(&corners(one), ink, DrawnShape::Rectangle(2.0));
                    }
                    self.behind(&one.text, (field.x_of(one.x.1), one.y), field);
                }
            }
            Shape::Across(y) => {
                let y = field.y_of(*y);
                self.draw(
                    &[(field.across.0, y), (field.across.1, y)],
                    ink,
                    DrawnShape::Line(pen.0, pen.1),
                );
            }
            Shape::Upright(x) => {
                let x = field.x_of(*x);
                self.draw(
                    &[(x, field.down.0), (x, field.down.1)],
                    ink,
                    DrawnShape::Line(pen.0, pen.1),
                );
            }
            Shape::Band(..) => {}
        }
    }

    /// Write the text of a bar behind its end, over the lines of the grid.
    fn behind(&self, text: &str, (x, (from, to)): (f64, (f64, f64)), field: &Field<'_>) {
        if text.is_empty() {
            return;
        }
        let y = f64::midpoint(field.y_of(from), field.y_of(to));
        self.ground(text, (x + 7.0, y));
        self.label(text, (x + 7.0, y), Ink::Text, Anchor::Start);
    }

    /// Cover the lines of the grid behind a text.
    pub(super) fn ground(&self, text: &str, (x, y): (f64, f64)) {
        let width = text_width(text, LABEL) * 0.9;
        self.draw(
            &[(x - 4.0, y - 7.0), (x + width, y + 7.0)],
            Ink::Paper,
            DrawnShape::Rectangle(0.0),
        );
    }
}

/// Width and pattern of a mark's lines.
pub(in crate::show::chart) const fn pen(mark: &Mark) -> (f64, Dash) {
    let width = match (mark.role, &mark.shape) {
        (Role::Asked, Shape::Steps(_)) => 5.0,
        (Role::Asked, Shape::Line(_)) => 3.0,
        (_, Shape::Across(_) | Shape::Upright(_)) => 1.5,
        _ => 2.0,
    };
    (width, mark.dash)
}
