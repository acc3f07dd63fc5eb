//! Canvas of the live view: the lines above the cursor of a terminal, each time drawn over those of
//! the last time.
//!
//! The cursor stands at the start of the line below at all times, and is never hidden: whatever
//! ends the program, and whatever else is printed, finds a clean line.

use std::io;

use console::Term;
use crawlmark_results::show::line::{Display, Line};

use super::view::Screen;
use crate::terminal::print::{display, painted};

/// The lines above the cursor.
#[derive(Debug)]
pub(super) struct Canvas {
    terminal: Term,
    /// Number of lines that were drawn last.
    drawn: usize,
    /// The terminal then.
    before: Screen,
}

impl Canvas {
    /// On standard error; none unless it is a terminal that one can draw on.
    pub(super) fn fitting() -> Option<Self> {
        let terminal = Term::buffered_stderr();
        (terminal.is_term() && !console::is_dumb()).then(|| Self {
            terminal,
            drawn: 0,
            before: Screen {
                rows: 0,
                display: display(),
            },
        })
    }

    /// The terminal as it is now.
    pub(super) fn screen(&self) -> Screen {
        let (rows, columns) = self.terminal.size();
        Screen {
            rows: rows.into(),
            display: Display {
                columns: columns.into(),
                ..display()
            },
        }
    }

    /// Draws `lines`, which fit a terminal of that size, over those drawn before. The terminal may be
    /// closed; that must not stop a run.
    pub(super) fn draw(&mut self, lines: &[Line], screen: Screen) {
        let _ = self.try_draw(lines, screen);
    }

    fn try_draw(&mut self, lines: &[Line], screen: Screen) -> io::Result<()> {
        // One write: a terminal must not show half of it.
        self.terminal
            .move_cursor_up(rows_up(self.drawn, self.before, screen))?;
        for line in lines {
            self.terminal.clear_line()?;
            self.terminal.write_line(&painted(line, true))?;
        }
        self.terminal.clear_to_end_of_screen()?;
        (self.drawn, self.before) = (lines.len(), screen);
        self.terminal.flush()
    }
}

/// Return the number of rows from the cursor up to the first of the drawn lines. A terminal whose
/// size has changed has wrapped them, scrolled some of them off its top, or back onto it, each in
/// its own way: all that it shows is drawn over.
fn rows_up(drawn: usize, before: Screen, screen: Screen) -> usize {
    let most = screen.rows.saturating_sub(1);
    if drawn > 0 && before != screen {
        most
    } else {
        drawn.min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_whose_size_has_changed_is_drawn_over_as_a_whole() {
        let size = |columns, rows| Screen {
            rows,
            display: Display {
                columns,
                has_unicode: true,
            },
        };
        let up = |drawn, before| rows_up(drawn, before, size(80, 24));
        assert_eq!(
            up(0, size(0, 0)),
            0,
            "nothing was drawn yet: what is above is not ours"
        );
        assert_eq!(up(3, size(80, 24)), 3);
        assert_eq!(
            [size(81, 24), size(79, 24), size(80, 12), size(80, 40)].map(|before| up(3, before)),
            [23; 4]
        );
        assert_eq!(rows_up(3, size(80, 2), size(80, 2)), 1);
        assert_eq!(rows_up(3, size(80, 24), size(0, 0)), 0);
    }
}
