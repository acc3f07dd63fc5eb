//! Texts of a picture: how wide each is, without a font, and where it has room. No text lies on
//! another one, or beyond the sheet: what has no room at any of its places is left out.

use std::cell::RefCell;

use plotters::style::FontStyle;
use plotters::style::text_anchor::HPos;

use super::Face;

/// Widths of the printable characters of ASCII in Inter, the first of the fonts that a reader may
/// have, in thousandths of the font size.
const WIDTHS: [u16; 95] = [
    281, 278, 403, 631, 638, 812, 639, 222, 362, 362, 500, 659, 280, 460, 276, 357, 625, 464, 605,
    636, 642, 608, 624, 571, 616, 624, 276, 280, 659, 659, 659, 507, 936, 676, 651, 727, 719, 598,
    587, 743, 740, 264, 543, 652, 562, 889, 753, 761, 635, 761, 639, 638, 642, 741, 676, 949, 642,
    665, 625, 362, 357, 362, 469, 452, 497, 564, 621, 558, 621, 582, 361, 609, 591, 237, 237, 544,
    237, 869, 585, 597, 609, 609, 372, 523, 364, 581, 557, 812, 540, 557, 541, 362, 327, 362, 659,
];

/// Width of the middle dot, and of any other character, such as an arrow or a minus sign.
const DOT: f64 = 0.32;
const OTHER: f64 = 0.84;

/// Other fonts are wider, by about this factor: `DejaVu` Sans by 1.08, Arial by 0.97.
const WIDER: f64 = 1.05;

/// Above and below the base line, at a font size of 1.
const ABOVE: f64 = 0.76;
const BELOW: f64 = 0.22;

/// Free on the left and on the right of the sheet, CSS pixels.
const EDGE: f64 = 4.0;

impl Face {
    /// Font size, CSS pixels.
    pub(super) const fn size(self) -> f64 {
        match self {
            Self::Title => 18.0,
            Self::Strong => 14.0,
            Self::Subtitle | Self::Name | Self::Heading => 13.0,
            Self::Value | Self::Label => 12.0,
            Self::Source => 11.0,
        }
    }

    pub(super) const fn weight(self) -> FontStyle {
        match self {
            Self::Title | Self::Strong | Self::Heading | Self::Value => FontStyle::Bold,
            _ => FontStyle::Normal,
        }
    }

    /// Width of a text, CSS pixels.
    pub(super) fn width(self, text: &str) -> f64 {
        let bold = if matches!(self.weight(), FontStyle::Bold) {
            1.03
        } else {
            1.0
        };
        width(text) * self.size() * bold
    }

    /// As much of a text as fits into this width, CSS pixels.
    pub(super) fn fitted(self, text: &str, px: f64) -> String {
        if self.width(text) <= px {
            return text.to_owned();
        }
        let mut kept = String::new();
        for c in text.chars() {
            kept.push(c);
            if self.width(&kept) + self.width("…") > px {
                kept.pop();
                break;
            }
        }
        kept.truncate(kept.trim_end().len());
        kept + "…"
    }

    /// The text in lines of this width, CSS pixels; the last one of `most` has what fits of the rest.
    pub(super) fn lines(self, text: &str, px: f64, most: usize) -> Vec<String> {
        let (mut lines, mut line) = (Vec::new(), String::new());
        for word in text.split_whitespace() {
            let longer = if line.is_empty() {
                word.to_owned()
            } else {
                format!("{line} {word}")
            };
            if line.is_empty() || lines.len() + 1 >= most || self.width(&longer) <= px {
                line = longer;
            } else {
                lines.push(std::mem::replace(&mut line, word.to_owned()));
            }
        }
        if !line.is_empty() {
            lines.push(line);
        }
        lines.iter().map(|line| self.fitted(line, px)).collect()
    }
}

/// Width of a text at a font size of 1.
pub(super) fn width(text: &str) -> f64 {
    text.chars().map(width_of).sum::<f64>() * WIDER
}

fn width_of(c: char) -> f64 {
    match u32::from(c).checked_sub(32) {
        Some(n @ 0..95) => f64::from(WIDTHS[n as usize]) / 1e3,
        _ if c == '·' => DOT,
        // Of a script that is as wide as it is high.
        _ if u32::from(c) > 0x2E7F => 1.1,
        _ => OTHER,
    }
}

/// Rectangles of a sheet that have a text.
#[derive(Debug)]
pub(super) struct Room {
    size: [f64; 2],
    taken: RefCell<Vec<[f64; 4]>>,
}

impl Room {
    /// A sheet of this size without a text.
    pub(super) const fn of(size: [f64; 2]) -> Self {
        Self {
            size,
            taken: RefCell::new(Vec::new()),
        }
    }

    /// Take the first of these places, CSS pixels of the base line, at which the text has room.
    pub(super) fn take(
        &self,
        text: &str,
        face: Face,
        anchor: HPos,
        places: &[[f64; 2]],
    ) -> Option<[f64; 2]> {
        let mut taken = self.taken.borrow_mut();
        for [x, y] in places {
            let wide = face.width(text);
            let left = match anchor {
                HPos::Left => *x,
                HPos::Center => x - wide / 2.0,
                HPos::Right => x - wide,
            };
            let own = [
                left,
                y - ABOVE * face.size(),
                left + wide,
                y + BELOW * face.size(),
            ];
            let is_inside = own[0] >= EDGE
                && own[2] <= self.size[0] - EDGE
                && own[1] >= 0.0
                && own[3] <= self.size[1];
            if is_inside && !taken.iter().any(|other| overlap(&own, other)) {
                taken.push(own);
                return Some([*x, *y]);
            }
        }
        None
    }
}

fn overlap(a: &[f64; 4], b: &[f64; 4]) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}
