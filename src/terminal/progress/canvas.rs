//! Canvas of the live view: the lines above the cursor of a terminal, each time drawn over those of the last time.
//!
//! The cursor stands at the start of the line below at all times, and is never hidden: whatever ends the program, and
//! whatever else is printed, finds a clean line.

use std::io;

use console::{StyledObject, Term, style};

use super::frame::Size;
use super::text::{Line, Tone};

/// The lines above the cursor.
#[derive(Debug)]
pub(super) struct Canvas {
    terminal: Term,
    /// The widths of the lines that were drawn last.
    drawn: Vec<usize>,
}

impl Canvas {
    /// On standard error.
    pub(super) fn new() -> Self {
        Self { terminal: Term::buffered_stderr(), drawn: Vec::new() }
    }

    /// The terminal's size now.
    pub(super) fn size(&self) -> Size {
        let (rows, columns) = self.terminal.size();
        Size { rows: rows.into(), columns: columns.into() }
    }

    /// Draws `lines`, which fit a terminal of that size, over those drawn before.
    pub(super) fn draw(&mut self, lines: &[Line], size: Size) -> io::Result<()> {
        // One write: a terminal must not show half of it.
        self.terminal.move_cursor_up(rows_up(&self.drawn, size))?;
        for line in lines {
            self.terminal.clear_line()?;
            self.terminal.write_line(&painted(line))?;
        }
        self.terminal.clear_to_end_of_screen()?;
        self.drawn = lines.iter().map(Line::width).collect();
        self.terminal.flush()
    }
}

/// Return the number of rows from the cursor up to the first of the drawn lines. A terminal that has become narrower has
/// wrapped them; rows that have scrolled off its top cannot be reached.
fn rows_up(drawn: &[usize], size: Size) -> usize {
    let rows: usize = drawn.iter().map(|width| width.div_ceil(size.columns.max(1)).max(1)).sum();
    rows.min(size.rows.saturating_sub(1))
}

/// With colours where the terminal has them and nobody set `NO_COLOR`.
fn painted(line: &Line) -> String {
    let painted = |(text, tone)| {
        let text: StyledObject<&str> = style(text).for_stderr();
        match tone {
            Tone::Plain => text,
            Tone::Quiet => text.dim(),
            Tone::Warning => text.yellow(),
            Tone::Failure => text.red(),
        }
        .to_string()
    };
    line.pieces().map(painted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_narrower_terminal_broke_is_drawn_over_as_far_as_it_can_be_reached() {
        let up = |drawn: &[usize], columns, rows| rows_up(drawn, Size { rows, columns });
        assert_eq!(up(&[], 80, 24), 0);
        assert_eq!(up(&[79, 0, 40], 80, 24), 3);
        assert_eq!(up(&[79, 0, 40], 40, 24), 4);
        assert_eq!(up(&[79, 0, 40], 39, 24), 6);
        assert_eq!(up(&[79, 0, 40], 39, 4), 3);
        assert_eq!(up(&[79], 0, 0), 0);
    }
}
