//! The colours of the charts, light and dark, and the dash patterns that tell lines apart without
//! them.
//!
//! Shapes carry the class of an ink; a style sheet gives it a colour by the reader's preference.
//! The hues are those of Okabe and Ito (2008), which colour-blind readers tell apart, darkened
//! until a thin line shows on white. All that carries meaning has a contrast of at least 3:1 to the
//! ground (WCAG 2.2, 1.4.11); grid and shaded bands carry none, their edges do.

use std::fmt::Write;

use super::{Dash, Role};

/// Start of the part of the style sheet that depends on the reader. Paper is white, whatever the
/// reader prefers.
const DARK: &str = "@media screen and (prefers-color-scheme:dark){";

/// Define the inks: the class of each, and its colours on white and on nearly black.
macro_rules! inks {
    ($($ink:ident: $class:literal, $light:literal, $dark:literal;)*) => {
        /// Colour that something is drawn in: a row of [`INKS`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Ink {
            $($ink,)*
        }

        /// Class of each ink, in the order of [`Ink`], and its colours on white and on nearly black.
        const INKS: [(&str, [u32; 2]); 23] = [$(($class, [$light, $dark]),)*];
    };
}

inks! {
    Paper: "paper", 0xFF_FFFF, 0x14_181D;
    Text: "text", 0x1B_1F24, 0xE8_EAED;
    Quiet: "quiet", 0x56_5E68, 0xA9_B1BA;
    Grid: "grid", 0xDF_E3E8, 0x31_3840;
    Shade: "shade", 0xED_F1F5, 0x22_2931;
    Highlight: "highlight", 0xDD_EAF5, 0x20_384D;
    Paused: "paused", 0xFB_EBCF, 0x45_3413;
    Grey: "grey", 0x86_8E99, 0x66_717D;
    Blue: "blue", 0x00_72B2, 0x4D_B0F0;
    Orange: "orange", 0xC9_8200, 0xF0_B030;
    Vermilion: "vermilion", 0xD5_5E00, 0xFF_8340;
    Red: "red", 0xB3_261E, 0xFF_6B61;
    Green: "green", 0x00_8A64, 0x2C_CB9C;
    Purple: "purple", 0xA8_4F85, 0xE0_93BD;
    Sky: "sky", 0x3D_95CE, 0x9A_D4F7;
    Olive: "olive", 0x85_7800, 0xD8_CC4C;
    Black: "black", 0x0C_0F12, 0xF6_F7F8;
    // From little to much: ever further from the ground in lightness, and along the hues.
    Heat0: "heat0", 0x4A_9DB0, 0x4A_6FA5;
    Heat1: "heat1", 0x3B_88B8, 0x3F_8FB0;
    Heat2: "heat2", 0x3A_6CB5, 0x45_B0A5;
    Heat3: "heat3", 0x44_50AE, 0x7A_CB8A;
    Heat4: "heat4", 0x43_2F92, 0xBF_E07A;
    Heat5: "heat5", 0x2D_0F5E, 0xFB_F3A0;
}

/// Inks of the levels of a heat map.
const HEAT: [Ink; 6] = [
    Ink::Heat0,
    Ink::Heat1,
    Ink::Heat2,
    Ink::Heat3,
    Ink::Heat4,
    Ink::Heat5,
];

/// Inks of runs, each with a dash pattern of its own.
const RUNS: [(Ink, Dash); 8] = [
    (Ink::Blue, Dash::Solid),
    (Ink::Vermilion, Dash::Dotted),
    (Ink::Green, Dash::DashDot),
    (Ink::Purple, Dash::Sparse),
    (Ink::Orange, Dash::Dashed),
    (Ink::Black, Dash::Long),
    (Ink::Sky, Dash::DashDotDot),
    (Ink::Olive, Dash::Short),
];

impl Ink {
    pub(super) const fn class(self) -> &'static str {
        INKS[self as usize].0
    }
}

impl Role {
    /// The one colour of this meaning, and the usual pattern of its lines.
    const fn look(self) -> (Ink, Dash) {
        match self {
            Self::Good | Self::P99 => (Ink::Blue, Dash::Solid),
            Self::NotFound | Self::Idle | Self::P90 => (Ink::Sky, Dash::Solid),
            Self::Throttled => (Ink::Orange, Dash::Dashed),
            Self::Limit => (Ink::Vermilion, Dash::Dashed),
            Self::Failed => (Ink::Red, Dash::Solid),
            Self::Challenged => (Ink::Purple, Dash::Sparse),
            Self::Max => (Ink::Purple, Dash::Dotted),
            Self::Quota => (Ink::Purple, Dash::Solid),
            Self::CutOff => (Ink::Olive, Dash::DashDotDot),
            Self::Connections => (Ink::Olive, Dash::Solid),
            Self::Retried => (Ink::Green, Dash::DashDot),
            Self::Storage | Self::P50 => (Ink::Green, Dash::Solid),
            Self::Asked => (Ink::Grey, Dash::Solid),
            Self::Reference => (Ink::Text, Dash::Solid),
            Self::Run(n) => RUNS[n % RUNS.len()],
            Self::Level(n) => (HEAT[n], Dash::Solid),
            Self::Shade => (Ink::Shade, Dash::Solid),
            Self::Highlight => (Ink::Highlight, Dash::Solid),
            Self::Paused => (Ink::Paused, Dash::Solid),
        }
    }

    pub(super) const fn ink(self) -> Ink {
        self.look().0
    }

    pub(super) const fn dash(self) -> Dash {
        self.look().1
    }
}

/// Class of each pattern but the solid one, in the order of [`Dash`], and the lengths of its dashes
/// and gaps, CSS pixels.
const DASHES: [(&str, &str); 7] = [
    ("dashed", "7 3.5"),
    ("dotted", "2 2.5"),
    ("dash-dot", "10 3 2 3"),
    ("short", "4 2.5"),
    ("dash-dot-dot", "10 2.5 2 2.5 2 2.5"),
    ("long", "16 4"),
    ("sparse", "3 4.5"),
];

impl Dash {
    /// Its class behind that of an ink; empty when the line is solid.
    pub(super) fn class(self) -> String {
        let row = (self as usize).checked_sub(1);
        row.map_or_else(String::new, |row| format!(" {}", DASHES[row].0))
    }
}

/// The style sheet of every chart. Its rules stay within the chart when it is put into a page.
pub(in crate::show) fn style_sheet() -> String {
    rules(0) + DARK + &colours(1) + "}"
}

/// Every rule, with the colours of a mode. A line keeps its width when a reader zooms.
fn rules(mode: usize) -> String {
    let mut out = colours(mode)
        + ".crawlmark-plot *{fill:currentColor}\
           .crawlmark-plot rect,.crawlmark-plot .cells{shape-rendering:crispEdges}\
           .crawlmark-plot .cells,.crawlmark-plot .line{fill:none;stroke:currentColor;stroke-linejoin:round}\
           .crawlmark-plot .line{vector-effect:non-scaling-stroke}";
    for (class, lengths) in DASHES {
        let _ = write!(
            out,
            ".crawlmark-plot .{class}{{stroke-dasharray:{lengths}}}"
        );
    }
    out
}

fn colours(mode: usize) -> String {
    INKS.map(|(class, of)| format!(".crawlmark-plot .{class}{{color:#{:06X}}}", of[mode]))
        .concat()
}

/// Return the same colours by name, as custom properties of a page around charts. On paper a page
/// is always light.
pub(in crate::show) fn variables() -> String {
    let [light, dark] = [0, 1].map(|mode| {
        INKS.map(|(class, of)| format!("--{class}:#{:06X};", of[mode]))
            .concat()
    });
    format!(":root{{{light}}}{DARK}:root{{{dark}}}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance as the Web Content Accessibility Guidelines have it.
    fn luminance(colour: u32) -> f64 {
        let [_, r, g, b] = colour.to_be_bytes();
        let linear = |c: u8| {
            let c = f64::from(c) / 255.0;
            if c <= 0.040_45 {
                c / 12.92
            } else {
                ((c + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
    }

    fn contrast(a: u32, b: u32) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn what_carries_meaning_stands_out_on_either_ground() {
        for mode in 0..2 {
            let on_paper = |row: usize| contrast(INKS[row].1[mode], INKS[0].1[mode]);
            for (row, (class, _)) in INKS.iter().enumerate() {
                let least = match *class {
                    "text" | "quiet" => 4.5,
                    "paper" | "grid" | "shade" | "highlight" | "paused" => 1.0,
                    _ => 3.0,
                };
                assert!(on_paper(row) >= least, "{class} {mode}: {}", on_paper(row));
            }
            let heat = HEAT.map(|ink| on_paper(ink as usize));
            assert!(
                heat.is_sorted(),
                "more heat is further from the ground: {heat:?}"
            );
        }
        for ink in HEAT.into_iter().chain(RUNS.map(|(ink, _)| ink)) {
            assert_eq!(ink.class(), format!("{ink:?}").to_lowercase());
        }
    }
}
