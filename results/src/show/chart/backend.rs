//! A drawing backend of `plotters` that writes SVG: shapes have the class of their ink, which a style
//! sheet colours light or dark, and texts are measured by a table, without a font.
//!
//! One unit of `plotters` is a tenth of a CSS pixel.

use std::cell::RefCell;
use std::convert::Infallible;
use std::fmt::Write;
use std::rc::Rc;

use plotters::style::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
    FontStyle,
};

use super::draw::Surface;
use super::lettering::width;
use super::palette::Ink;
use crate::show::xml::escaped;

/// Units of a CSS pixel.
pub(super) const UNIT: i32 = 10;

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

/// Elements so far, and a path that the next one of the same look goes on with.
#[derive(Debug, Default)]
struct Sheet {
    out: String,
    look: String,
    path: String,
    /// Attribute of lines that have dashes.
    dash: String,
}

impl Sheet {
    fn flush(&mut self) {
        if !self.path.is_empty() {
            let _ = writeln!(self.out, "<path {} d=\"{}\"/>", self.look, self.path);
            self.path.clear();
        }
    }

    /// What has been written, to be added to.
    fn out(&mut self) -> &mut String {
        self.flush();
        &mut self.out
    }

    fn add_path(&mut self, look: String, path: &str) {
        if look != self.look {
            self.flush();
            self.look = look;
        }
        self.path.push_str(path);
    }
}

/// The backend. Its clones write to one sheet.
#[derive(Debug, Clone)]
pub(super) struct Svg {
    sheet: Rc<RefCell<Sheet>>,
    size: (u32, u32),
}

impl Svg {
    /// An empty sheet of so many units.
    pub(super) fn new(size: (u32, u32)) -> Self {
        Self {
            sheet: Rc::default(),
            size,
        }
    }

    /// What was drawn, as elements.
    pub(super) fn elements(&self) -> String {
        std::mem::take(self.sheet.borrow_mut().out())
    }
}

impl Surface for Svg {
    // The style sheet draws it.
    const HALO: f64 = 0.0;

    // From the middle of a line to the base line of common letters.
    const TO_BASE: f64 = 0.36;

    const SIZE: f64 = 1.0;

    fn dash(&self, lengths: Option<[f64; 2]>) -> bool {
        let attribute = lengths.map(|[dash, gap]| format!(" stroke-dasharray=\"{dash} {gap}\""));
        self.sheet.borrow_mut().dash = attribute.unwrap_or_default();
        true
    }
}

/// Units as CSS pixels.
fn px(units: i32) -> f64 {
    f64::from(units) / f64::from(UNIT)
}

/// Class of a colour of `plotters`: that of the ink which has it.
fn class(colour: BackendColor) -> &'static str {
    Ink::of_light(colour.rgb).class()
}

/// Attribute of a colour that lets through what is behind it.
fn opacity(colour: BackendColor) -> String {
    if colour.alpha < 1.0 {
        format!(" opacity=\"{}\"", colour.alpha)
    } else {
        String::new()
    }
}

/// A path through places, without those in the middle of a level line, in steps from one to the
/// next.
fn line(places: &[BackendCoord]) -> String {
    let mut path = String::new();
    let Some(mut at) = places.first().copied() else {
        return path;
    };
    let _ = write!(path, "M{} {}", px(at.0), px(at.1));
    for (n, (x, y)) in places.iter().copied().enumerate().skip(1) {
        let goes_on = places.get(n + 1).is_some_and(|(_, next)| *next == y);
        let _ = match (x - at.0, y - at.1) {
            (_, 0) if goes_on => continue,
            (across, 0) => write!(path, "h{}", px(across)),
            (0, down) => write!(path, "v{}", px(down)),
            (across, down) => write!(path, "l{} {}", px(across), px(down)),
        };
        at = (x, y);
    }
    path
}

/// Look of a line.
fn stroke<S: BackendStyle>(style: &S) -> String {
    let width = f64::from(style.stroke_width()) / f64::from(UNIT);
    format!(
        "class=\"{} line\" stroke-width=\"{width}\"",
        class(style.color())
    )
}

impl DrawingBackend for Svg {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, at: BackendCoord, colour: BackendColor) -> Drawn {
        let (x, y) = at;
        self.draw_rect((x, y), (x + 1, y + 1), &colour, true)
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Drawn {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn {
        let ((left, top), (right, bottom)) = (from, to);
        if !fill {
            let corners = [(left, top), (right, top), (right, bottom), (left, bottom)];
            let path = line(&corners) + "z";
            self.sheet.borrow_mut().add_path(stroke(style), &path);
            return Ok(());
        }
        let ink = Ink::of_light(style.color().rgb);
        if !ink.is_ground() {
            let _ = writeln!(
                self.sheet.borrow_mut().out(),
                "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"2\"/>",
                ink.class(),
                px(left),
                px(top),
                px(right - left),
                px(bottom - top)
            );
            return Ok(());
        }
        // A thick line: cells of one height are one path, a third of the bytes of their corners.
        let middle = f64::midpoint(px(top), px(bottom));
        let path = format!("M{} {middle}h{}", px(left), px(right - left));
        let look = format!(
            "class=\"{} cells\" stroke-width=\"{}\"",
            ink.class(),
            px(bottom - top)
        );
        self.sheet.borrow_mut().add_path(look, &path);
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn {
        let places: Vec<BackendCoord> = path.into_iter().collect();
        let mut sheet = self.sheet.borrow_mut();
        let look = stroke(style) + &sheet.dash;
        sheet.add_path(look, &line(&places));
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        middle: BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Drawn {
        let (x, y) = middle;
        let look = if fill {
            format!(
                "class=\"{}\"{}",
                class(style.color()),
                opacity(style.color())
            )
        } else {
            stroke(style)
        };
        let r = f64::from(radius) / f64::from(UNIT);
        let _ = writeln!(
            self.sheet.borrow_mut().out(),
            "<circle {look} cx=\"{}\" cy=\"{}\" r=\"{r}\"/>",
            px(x),
            px(y)
        );
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        corners: I,
        style: &S,
    ) -> Drawn {
        let places: Vec<BackendCoord> = corners.into_iter().collect();
        let look = format!("class=\"{}\"", class(style.color()));
        self.sheet
            .borrow_mut()
            .add_path(look, &(line(&places) + "z"));
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, at: BackendCoord) -> Drawn {
        let (x, y) = at;
        let size = style.size() / f64::from(UNIT);
        let down = match style.anchor().v_pos {
            VPos::Top => size,
            VPos::Center => size * Self::TO_BASE,
            VPos::Bottom => 0.0,
        };
        let anchor = match style.anchor().h_pos {
            HPos::Left => "",
            HPos::Center => " text-anchor=\"middle\"",
            HPos::Right => " text-anchor=\"end\"",
        };
        let weight = match style.style() {
            FontStyle::Bold if size >= 14.0 => " font-weight=\"650\"",
            FontStyle::Bold => " font-weight=\"600\"",
            _ => "",
        };
        let y = ((px(y) + down) * f64::from(UNIT)).round() / f64::from(UNIT);
        let _ = writeln!(
            self.sheet.borrow_mut().out(),
            "<text class=\"{}\" x=\"{}\" y=\"{y}\" font-size=\"{size}\"{weight}{anchor}>{}</text>",
            class(style.color()),
            px(x),
            escaped(text)
        );
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        let size = style.size();
        Ok((units(width(text) * size), units(size)))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes are above 0, and a sheet has some ten thousand units"
)]
fn units(value: f64) -> u32 {
    value.ceil() as u32
}
