//! What stands beside the marks of a panel: grid, labels of both axes, rows of text under the ticks,
//! names at the ends of lines, and notes.

use plotters::style::text_anchor::HPos;
use plotters_backend::DrawingBackend;

use super::draw::{Canvas, Drawn, FieldArea, Pen, Surface};
use super::layout::{
    APART, CELL, FIRST_CELL, LABEL_LINE, LONGEST, MARGIN, NUMBER, Placed, SWATCH, WIDTH, name_face,
    notes, ticks, y_ticks,
};
use super::palette::Ink;
use super::{Face, Mark, Note, Range, RowName, Shape};

/// The most ticks of a horizontal axis; those without room for their labels have none.
const ACROSS: usize = 8;

/// From the lower end of a field to the base line of the labels under it.
const UNDER: f64 = 20.0;

/// Parts of a stack from which on each has a sample of its colour beside its name.
const STACK: usize = 3;

/// From the middle of a line of labels to its base line.
const HALF: f64 = 4.0;

/// From the top of a field to the base line of the name of a band, at one of these places where no
/// line across is nearer to the middle of its letters than this.
const BAND: [f64; 3] = [12.0, 28.0, 44.0];
const BESIDE: f64 = 9.0;

/// Height of a line of the name of a row.
const NAME_LINE: f64 = 16.0;

/// Letters of a unit that is a part of the last label.
const SHORT_UNIT: usize = 3;

impl<DB: DrawingBackend, S: Surface> Canvas<'_, DB, S> {
    pub(super) fn grid(&self, placed: &Placed<'_>, field: &FieldArea<DB>) -> Drawn<DB> {
        let (across, up) = (placed.x.ends(), placed.y.ends());
        let look = Pen::thin(Ink::Grid);
        if matches!(placed.panel.y.range, Range::Rows(..)) {
            for (x, _) in ticks(&placed.panel.x, placed.x, ACROSS) {
                self.stroke(field, vec![(x, up.start), (x, up.end)], look)?;
            }
            return Ok(());
        }
        for (y, _) in y_ticks(placed.panel, placed.y, placed.height) {
            self.stroke(field, vec![(across.start, y), (across.end, y)], look)?;
        }
        Ok(())
    }

    /// Draw the labels of both axes, and a line below the field.
    pub(super) fn axes(&self, placed: &Placed<'_>, field: &FieldArea<DB>) -> Drawn<DB> {
        let Placed {
            panel,
            left,
            top,
            width,
            height,
            ..
        } = placed;
        if placed.is_named {
            let place = [[MARGIN, top - 10.0]];
            let label = Face::Label.fitted(&panel.y.label, WIDTH - 2.0 * MARGIN);
            self.say(&label, Face::Label, Ink::Quiet, HPos::Left, &place)?;
        }
        if let Range::Rows(names) = &panel.y.range {
            self.row_names(names, left - MARGIN - APART, field)?;
        } else {
            for (tick, label) in y_ticks(panel, placed.y, *height) {
                let [_, y] = self.px_of(field, (0.0, tick));
                let place = [[left - APART, y + HALF]];
                self.say(&label, Face::Label, Ink::Quiet, HPos::Right, &place)?;
            }
            let bottom = top + height;
            self.thin([*left, bottom], [left + width, bottom], Ink::Rule)?;
        }
        if !panel.cells.is_empty() {
            return self.cells(placed, field);
        }
        if panel.x.is_hidden() {
            return Ok(());
        }
        self.label_x(placed, field)
    }

    /// Label the horizontal axis: the last tick, which has the unit, and as many others as there is
    /// room for.
    fn label_x(&self, placed: &Placed<'_>, field: &FieldArea<DB>) -> Drawn<DB> {
        let axis = &placed.panel.x;
        let y = placed.top + placed.height + UNDER;
        let is_short = axis.label.chars().count() <= SHORT_UNIT;
        let mut labels = ticks(axis, placed.x, ACROSS);
        labels.retain(|(_, label)| !label.is_empty());
        if let Some((_, last)) = labels.last_mut()
            && is_short
            && !axis.label.is_empty()
        {
            *last = format!("{last} {}", axis.label);
        }
        for (tick, label) in labels.into_iter().rev() {
            let half = Face::Label.width(&label) / 2.0;
            let [x, _] = self.px_of(field, (tick, 0.0));
            // It may be wider than the margin, and ends with the sheet.
            let middle = x.min(WIDTH - 5.0 - half).max(5.0 + half);
            self.say(
                &label,
                Face::Label,
                Ink::Quiet,
                HPos::Center,
                &[[middle, y]],
            )?;
        }
        if !is_short {
            let place = [[placed.left + placed.width + APART, y]];
            self.say(&axis.label, Face::Label, Ink::Quiet, HPos::Left, &place)?;
        }
        Ok(())
    }

    /// Write the rows of text under the ticks; the first one names them.
    fn cells(&self, placed: &Placed<'_>, field: &FieldArea<DB>) -> Drawn<DB> {
        let (panel, bottom) = (placed.panel, placed.top + placed.height);
        let ticks = ticks(&panel.x, placed.x, ACROSS);
        let centres: Vec<f64> = ticks
            .iter()
            .map(|(tick, _)| self.px_of(field, (*tick, 0.0))[0])
            .collect();
        let room = centres
            .windows(2)
            .map(|two| two[1] - two[0])
            .fold(f64::INFINITY, f64::min)
            - APART;
        for (n, row) in panel.cells.iter().enumerate() {
            let y = bottom + FIRST_CELL + CELL * n as f64 + if n > 0 { 4.0 } else { 0.0 };
            let (face, ink) = if n == 0 {
                (Face::Value, Ink::Text)
            } else {
                (Face::Label, Ink::Text)
            };
            if n == 1 {
                let ends = [MARGIN, placed.left + placed.width].map(|x| [x, y - 17.0]);
                self.thin(ends[0], ends[1], Ink::Grid)?;
            }
            let (name, at) = (&row.name, [[MARGIN, y]]);
            self.say(name, Face::Label, Ink::Quiet, HPos::Left, &at)?;
            for (text, x) in row.texts.iter().zip(&centres) {
                let text = face.fitted(text, room);
                self.say(&text, face, ink, HPos::Center, &[[*x, y]])?;
            }
        }
        Ok(())
    }

    /// Write the names of rows in two lines each, as many as there is room for.
    fn row_names(&self, rows: &[RowName], px: f64, field: &FieldArea<DB>) -> Drawn<DB> {
        let face = name_face(rows);
        for (n, row) in rows.iter().enumerate() {
            let [_, y] = self.px_of(field, (0.0, n as f64 + 0.5));
            let number = if row.number.is_empty() { 0.0 } else { NUMBER };
            let mut lines = face.lines(
                &row.name,
                px - number,
                1 + usize::from(row.detail.is_empty()),
            );
            let names = lines.len();
            lines.extend(
                Some(Face::Label.fitted(&row.detail, px - number)).filter(|it| !it.is_empty()),
            );
            let first = y + HALF - (lines.len().saturating_sub(1)) as f64 * NAME_LINE / 2.0;
            let (text, at) = (&row.number, [[MARGIN, first]]);
            self.say(text, Face::Value, Ink::Quiet, HPos::Left, &at)?;
            for (line, text) in lines.iter().enumerate() {
                let (face, ink) = if line < names {
                    (face, Ink::Text)
                } else {
                    (Face::Label, Ink::Quiet)
                };
                let at = [[MARGIN + number, first + line as f64 * NAME_LINE]];
                self.say(text, face, ink, HPos::Left, &at)?;
            }
        }
        Ok(())
    }

    /// Write the name of each mark where it ends, so far apart that none lies on another; beside the
    /// parts of a stack, with a sample.
    pub(super) fn names_at_ends(&self, placed: &Placed<'_>, field: &FieldArea<DB>) -> Drawn<DB> {
        let has_samples = placed
            .ends
            .iter()
            .filter(|mark| matches!(mark.shape, Shape::Areas(_)))
            .count()
            >= STACK;
        let mut labels: Vec<(f64, &Mark)> = Vec::new();
        // The uppermost part of a stack first.
        for mark in placed.ends.iter().rev() {
            if let Some(end) = mark.ending() {
                labels.push((self.px_of(field, end)[1] + HALF, mark));
            }
        }
        labels.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let heights = apart(
            labels.iter().map(|(y, _)| *y).collect(),
            [placed.top + 10.0, placed.top + placed.height + HALF],
        );
        let x = placed.left + placed.width + APART;
        for (y, (_, mark)) in heights.into_iter().zip(labels) {
            let is_area = has_samples && matches!(mark.shape, Shape::Areas(_));
            let (at, ink) = if is_area {
                (x + SWATCH, Ink::Text)
            } else {
                (x, mark.role.words())
            };
            let name = Face::Label.fitted(&mark.legend, LONGEST);
            if is_area {
                self.rectangle([x, y - 9.5, 10.0, 10.0], mark.role.ink())?;
            }
            self.say(&name, Face::Label, ink, HPos::Left, &[[at, y]])?;
        }
        Ok(())
    }

    /// Write the names of bands and of lines across the field, and the notes.
    pub(super) fn notes(
        &self,
        placed: &Placed<'_>,
        field: &FieldArea<DB>,
        is_first: bool,
    ) -> Drawn<DB> {
        let (across, up) = (placed.x.ends(), placed.y.ends());
        for note in placed.panel.marks.iter().flat_map(notes) {
            self.note(note, self.px_of(field, note.at))?;
        }
        let across_at: Vec<f64> = placed
            .panel
            .marks
            .iter()
            .filter_map(|mark| match mark.shape {
                Shape::Across(y) => Some(self.px_of(field, (across.start, y))[1]),
                _ => None,
            })
            .collect();
        for mark in &placed.panel.marks {
            let (at, away) = match mark.shape {
                Shape::Across(y) => (self.px_of(field, (across.start, y)), [4.0, 16.0]),
                Shape::Upright(x) => (self.px_of(field, (x, up.end)), [-6.0, 12.0]),
                Shape::Band(from, to) => {
                    let [left, right] = [from, to].map(|x| self.px_of(field, (x, up.end)));
                    let top = left[1];
                    let down = BAND
                        .into_iter()
                        .find(|down| {
                            let middle = top + down - HALF;
                            across_at.iter().all(|y| (y - middle).abs() > BESIDE)
                        })
                        .unwrap_or(BAND[0]);
                    ([f64::midpoint(left[0], right[0]), top], [0.0, down])
                }
                _ => continue,
            };
            // The same line or band is in the panels below, too.
            if mark.legend.is_empty() || !(is_first || matches!(mark.shape, Shape::Across(_))) {
                continue;
            }
            let note = Note::new(&*mark.legend, (0.0, 0.0), away).of(mark.role, Face::Label);
            self.note(&note, at)?;
        }
        Ok(())
    }

    /// Write a note beside a place, CSS pixels.
    fn note(&self, note: &Note, [x, y]: [f64; 2]) -> Drawn<DB> {
        let [right, down] = note.away;
        let anchor = match right {
            _ if right > 0.0 => HPos::Left,
            _ if right < 0.0 => HPos::Right,
            _ => HPos::Center,
        };
        // Above in the place of below, and the reverse.
        let turned = 2.0 * HALF - down;
        let places = [down, turned].map(|down| [x + right, y + down]);
        self.say(&note.text, note.face, note.role.words(), anchor, &places)
    }
}

/// Heights of labels, the uppermost first, moved until each has a line of its own between these
/// ends.
fn apart(mut heights: Vec<f64>, [top, bottom]: [f64; 2]) -> Vec<f64> {
    let mut least = top;
    for y in &mut heights {
        *y = y.max(least);
        least = *y + LABEL_LINE;
    }
    let mut most = bottom;
    for y in heights.iter_mut().rev() {
        *y = y.min(most);
        most = *y - LABEL_LINE;
    }
    heights
}
