//! The colours of the charts, light and dark, and the dash patterns that tell lines apart without
//! them.
//!
//! Shapes carry the class of an ink; a style sheet gives it a colour by the reader's preference.
//! The hues are those of Okabe and Ito (2008), which colour-blind readers tell apart, darkened
//! until a thin line shows on white. All that carries meaning has a contrast of at least 3:1 to the
//! ground (WCAG 2.2, 1.4.11); grid and shaded bands carry none, their edges do.

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

        /// Every ink, in the order of [`INKS`].
        pub(super) const ALL: [Ink; 28] = [$(Ink::$ink,)*];

        /// Class of each ink, in the order of [`Ink`], and its colours on white and on nearly black.
        const INKS: [(&str, [u32; 2]); 28] = [$(($class, [$light, $dark]),)*];
    };
}

inks! {
    Paper: "paper", 0xFF_FFFF, 0x0F_1319;
    Text: "text", 0x12_161D, 0xE9_ECF1;
    Quiet: "quiet", 0x59_626F, 0xA1_ABB8;
    Grid: "grid", 0xE3_E6EB, 0x27_2E38;
    Rule: "rule", 0xC9_CED6, 0x3D_4653;
    Shade: "shade", 0xF6_F7F9, 0x16_1B22;
    Highlight: "highlight", 0xFD_EEEC, 0x2A_1516;
    Paused: "paused", 0xFD_F4E3, 0x26_1E0F;
    Grey: "grey", 0x7D_8894, 0x7F_8A97;
    Blue: "blue", 0x1F_6CC4, 0x43_90DE;
    Orange: "orange", 0xC9_8200, 0xF0_B030;
    Amber: "amber", 0x9A_6200, 0xF0_B030;
    Vermilion: "vermilion", 0xD5_5E00, 0xFF_8340;
    Red: "red", 0xC4_302B, 0xFF_6B61;
    Green: "green", 0x0F_7F71, 0x2F_B8A4;
    Purple: "purple", 0x6D_4FC4, 0xA0_8BF0;
    // The target's time, at work and otherwise, and the client's when it reads late.
    Dark: "dark", 0x07_453E, 0x8F_E6D8;
    Teal: "teal", 0x45_A092, 0x1C_776A;
    Violet: "violet", 0xA1_7EE6, 0x7A_62CC;
    Sky: "sky", 0x5F_98D8, 0x37_699E;
    Olive: "olive", 0x8B_5E9E, 0xC9_A0DC;
    Black: "black", 0x0C_0F12, 0xF6_F7F8;
    // From little to much: ever further from the ground in lightness, and along the hues.
    Heat0: "heat0", 0xDB_E8F7, 0x17_2A42;
    Heat1: "heat1", 0xB0_CFF0, 0x1C_4674;
    Heat2: "heat2", 0x7A_AFE4, 0x28_6EAF;
    Heat3: "heat3", 0x46_86C9, 0x52_9EDF;
    Heat4: "heat4", 0x1E_579C, 0x9B_CFF9;
    Heat5: "heat5", 0x0B_2C62, 0xEE_F8FF;
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

    /// True if it fills a part of the ground, or a cell of a heat map.
    pub(super) const fn is_ground(self) -> bool {
        matches!(
            self,
            Self::Paper | Self::Shade | Self::Highlight | Self::Paused
        ) || self as usize >= Self::Heat0 as usize
    }

    /// Its colour on white, as 0xRRGGBB.
    pub(super) const fn on_white(self) -> u32 {
        INKS[self as usize].1[0]
    }

    /// The ink that has this colour on white; text if none has.
    pub(super) fn of_light((r, g, b): (u8, u8, u8)) -> Self {
        let colour = u32::from_be_bytes([0, r, g, b]);
        let row = INKS.iter().position(|(_, [light, _])| *light == colour);
        row.map_or(Self::Text, |row| ALL[row])
    }
}

impl Role {
    /// The one colour of this meaning, and the usual pattern of its lines.
    const fn look(self) -> (Ink, Dash) {
        match self {
            Self::Good | Self::P99 => (Ink::Blue, Dash::Solid),
            Self::NotFound | Self::P50 => (Ink::Sky, Dash::Solid),
            Self::Throttled | Self::Limit => (Ink::Orange, Dash::Dashed),
            Self::Failed => (Ink::Red, Dash::Solid),
            Self::ReadLate => (Ink::Violet, Dash::Solid),
            Self::Network => (Ink::Grey, Dash::Solid),
            Self::AtWork => (Ink::Dark, Dash::Solid),
            Self::AtRest => (Ink::Teal, Dash::Solid),
            Self::Challenged => (Ink::Purple, Dash::Sparse),
            Self::Connections | Self::ClientQueue => (Ink::Purple, Dash::Solid),
            Self::CutOff => (Ink::Olive, Dash::DashDotDot),
            Self::Storage => (Ink::Olive, Dash::Solid),
            Self::Idle => (Ink::Grid, Dash::Solid),
            Self::Retried => (Ink::Green, Dash::DashDot),
            Self::Target => (Ink::Green, Dash::Solid),
            Self::Asked => (Ink::Grey, Dash::Dashed),
            Self::Reference => (Ink::Text, Dash::Solid),
            Self::Run(n) => RUNS[n % RUNS.len()],
            Self::Level(n) => (HEAT[n], Dash::Solid),
            Self::Casing => (Ink::Paper, Dash::Solid),
            Self::Shade => (Ink::Shade, Dash::Solid),
            Self::Highlight => (Ink::Highlight, Dash::Solid),
            Self::Paused => (Ink::Paused, Dash::Solid),
        }
    }

    pub(super) const fn ink(self) -> Ink {
        self.look().0
    }

    /// The name of its colour on a page.
    pub(in crate::show) const fn colour(self) -> &'static str {
        self.ink().class()
    }

    pub(super) const fn dash(self) -> Dash {
        self.look().1
    }

    /// The ink of its words: a colour that letters can be read in.
    pub(super) const fn words(self) -> Ink {
        match self.look().0 {
            Ink::Orange | Ink::Paused => Ink::Amber,
            Ink::Highlight => Ink::Red,
            ink @ (Ink::Text | Ink::Blue | Ink::Red | Ink::Green | Ink::Purple | Ink::Olive) => ink,
            _ => Ink::Quiet,
        }
    }
}

impl Dash {
    /// Lengths of its dashes and gaps, CSS pixels; none when the line is solid.
    pub(super) const fn lengths(self) -> Option<[f64; 2]> {
        Some(match self {
            Self::Solid => return None,
            Self::Dashed => [5.0, 4.0],
            Self::Dotted => [3.0, 5.0],
            Self::DashDot => [12.0, 6.0],
            Self::Short => [6.0, 5.0],
            Self::DashDotDot => [13.0, 3.0],
            Self::Long => [18.0, 4.0],
            Self::Sparse => [4.0, 8.0],
        })
    }
}

/// The style sheet of every chart. Its rules stay within the chart when it is put into a page.
pub(in crate::show) fn style_sheet() -> String {
    rules(0) + DARK + &colours(1) + "}"
}

/// Every rule, with the colours of a mode.
fn rules(mode: usize) -> String {
    colours(mode) + RULES
}

/// Rules beside the colours.
pub(in crate::show) const RULES: &str = ".crawlmark-plot *{fill:currentColor}\
    .crawlmark-plot rect,.crawlmark-plot .cells{shape-rendering:crispEdges}\
    .crawlmark-plot .cells,.crawlmark-plot .line{fill:none;stroke:currentColor;stroke-linejoin:round}\
    .crawlmark-plot text{font-variant-numeric:tabular-nums;stroke-width:4px;stroke-linejoin:round;paint-order:stroke}";

fn colours(mode: usize) -> String {
    let paper = INKS[Ink::Paper as usize].1[mode];
    INKS.map(|(class, of)| format!(".crawlmark-plot .{class}{{color:#{:06X}}}", of[mode]))
        .concat()
        + &format!(".crawlmark-plot text{{stroke:#{paper:06X}}}")
}

/// Return the class of each ink, and its colours on white and on nearly black, as 0xRRGGBB.
pub(in crate::show) fn inks() -> impl Iterator<Item = (&'static str, [u32; 2])> {
    INKS.into_iter()
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
                    "text" | "quiet" | "amber" => 4.5,
                    "paper" | "grid" | "rule" | "shade" | "highlight" | "paused" => 1.0,
                    heat if heat.starts_with("heat") => 1.0,
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
