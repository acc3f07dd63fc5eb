//! The colours of the charts, light and dark, and the dash patterns that tell lines apart without
//! them.
//!
//! Shapes carry the class of an ink; a style sheet gives it a colour by the reader's preference.
//! The hues are those of Okabe and Ito (2008), which colour-blind readers tell apart, darkened
//! until a thin line shows on white. All that carries meaning has a contrast of at least 3:1 to the
//! ground (WCAG 2.2, 1.4.11); grid and shaded bands carry none, their edges do.

use std::fmt::Write;

use super::{Dash, Role};
use crate::show::plot::Ground;

/// Start of the part of the style sheet that depends on the reader. Paper is white, whatever the
/// reader prefers.
const DARK: &str = "@media screen and (prefers-color-scheme:dark){";

/// Colour that something is drawn in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    /// The ground.
    Paper,
    /// Titles and labels.
    Text,
    /// Captions, units and edges.
    Quiet,
    /// Lines of the grid.
    Grid,
    /// Shaded part of a field.
    Shade,
    /// Part of a field that an answer lies in.
    Highlight,
    /// Part of a field in which the target had asked to wait.
    Paused,
    /// Requested value: wide and pale, below the value that was reached.
    Grey,
    Blue,
    Orange,
    Vermilion,
    Green,
    Purple,
    Sky,
    Olive,
    /// Ink of the most contrast.
    Black,
    /// A level of a heat map, from 0 to 5.
    Heat(usize),
}

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

/// Number of runs whose lines can be told apart.
pub(in crate::show) const MOST_RUNS: usize = RUNS.len();

impl Ink {
    const ALL: [Self; 22] = [
        Self::Paper,
        Self::Text,
        Self::Quiet,
        Self::Grid,
        Self::Shade,
        Self::Highlight,
        Self::Paused,
        Self::Grey,
        Self::Blue,
        Self::Orange,
        Self::Vermilion,
        Self::Green,
        Self::Purple,
        Self::Sky,
        Self::Olive,
        Self::Black,
        Self::Heat(0),
        Self::Heat(1),
        Self::Heat(2),
        Self::Heat(3),
        Self::Heat(4),
        Self::Heat(5),
    ];

    /// The ink's class, and its colours on white and on nearly black.
    const fn class_and_colours(self) -> (&'static str, [u32; 2]) {
        match self {
            Self::Paper => ("paper", [0xFF_FFFF, 0x14_181D]),
            Self::Text => ("text", [0x1B_1F24, 0xE8_EAED]),
            Self::Quiet => ("quiet", [0x56_5E68, 0xA9_B1BA]),
            Self::Grid => ("grid", [0xDF_E3E8, 0x31_3840]),
            Self::Shade => ("shade", [0xED_F1F5, 0x22_2931]),
            Self::Highlight => ("highlight", [0xDD_EAF5, 0x20_384D]),
            Self::Paused => ("paused", [0xFB_EBCF, 0x45_3413]),
            Self::Grey => ("grey", [0x86_8E99, 0x66_717D]),
            Self::Blue => ("blue", [0x00_72B2, 0x4D_B0F0]),
            Self::Orange => ("orange", [0xC9_8200, 0xF0_B030]),
            Self::Vermilion => ("vermilion", [0xD5_5E00, 0xFF_8340]),
            Self::Green => ("green", [0x00_8A64, 0x2C_CB9C]),
            Self::Purple => ("purple", [0xA8_4F85, 0xE0_93BD]),
            Self::Sky => ("sky", [0x3D_95CE, 0x9A_D4F7]),
            Self::Olive => ("olive", [0x85_7800, 0xD8_CC4C]),
            Self::Black => ("black", [0x0C_0F12, 0xF6_F7F8]),
            // From little to much: ever further from the ground in lightness, and along the hues.
            Self::Heat(0) => ("heat0", [0x4A_9DB0, 0x4A_6FA5]),
            Self::Heat(1) => ("heat1", [0x3B_88B8, 0x3F_8FB0]),
            Self::Heat(2) => ("heat2", [0x3A_6CB5, 0x45_B0A5]),
            Self::Heat(3) => ("heat3", [0x44_50AE, 0x7A_CB8A]),
            Self::Heat(4) => ("heat4", [0x43_2F92, 0xBF_E07A]),
            Self::Heat(_) => ("heat5", [0x2D_0F5E, 0xFB_F3A0]),
        }
    }

    pub(super) const fn class(self) -> &'static str {
        self.class_and_colours().0
    }

    const fn colours(self) -> [u32; 2] {
        self.class_and_colours().1
    }
}

impl Role {
    /// The one colour of this meaning.
    pub(super) const fn ink(self) -> Ink {
        match self {
            Self::Good | Self::P99 => Ink::Blue,
            Self::Throttled | Self::Limit => Ink::Orange,
            Self::Failed => Ink::Vermilion,
            Self::Challenged | Self::Quota | Self::Max => Ink::Purple,
            Self::CutOff | Self::Connections => Ink::Olive,
            Self::Retried | Self::Storage | Self::P50 => Ink::Green,
            Self::Asked => Ink::Grey,
            Self::Idle | Self::NotFound | Self::P90 => Ink::Sky,
            Self::Reference => Ink::Text,
            Self::Run(n) => RUNS[n % MOST_RUNS].0,
            Self::Level(n) => Ink::Heat(n),
            Self::Shade => Ink::Shade,
            Self::Highlight => Ink::Highlight,
            Self::Paused => Ink::Paused,
        }
    }

    /// Pattern of its lines, unless a chart draws one meaning in two of them.
    pub(super) const fn dash(self) -> Dash {
        match self {
            Self::Throttled | Self::Limit => Dash::Dashed,
            Self::Failed => Dash::Long,
            Self::Max => Dash::Dotted,
            Self::Challenged => Dash::Sparse,
            Self::Retried | Self::P50 => Dash::DashDot,
            Self::CutOff => Dash::DashDotDot,
            Self::Run(n) => RUNS[n % MOST_RUNS].1,
            _ => Dash::Solid,
        }
    }
}

impl Dash {
    const ALL: [Self; 7] = [
        Self::Dashed,
        Self::Dotted,
        Self::DashDot,
        Self::Short,
        Self::DashDotDot,
        Self::Long,
        Self::Sparse,
    ];

    /// Class of the pattern and its lengths, CSS pixels; none when the line is solid.
    const fn class_and_lengths(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Solid => None,
            Self::Dashed => Some(("dashed", "7 3.5")),
            Self::Dotted => Some(("dotted", "2 2.5")),
            Self::DashDot => Some(("dash-dot", "10 3 2 3")),
            Self::Short => Some(("short", "4 2.5")),
            Self::DashDotDot => Some(("dash-dot-dot", "10 2.5 2 2.5 2 2.5")),
            Self::Long => Some(("long", "16 4")),
            Self::Sparse => Some(("sparse", "3 4.5")),
        }
    }

    /// Lengths of its dashes and gaps, CSS pixels.
    pub(super) fn lengths(self) -> Vec<f64> {
        let lengths = self.class_and_lengths().map_or("", |(_, lengths)| lengths);
        lengths
            .split_whitespace()
            .filter_map(|length| length.parse().ok())
            .collect()
    }

    pub(super) fn class(self) -> &'static str {
        self.class_and_lengths().map_or("", |(class, _)| class)
    }
}

/// The style sheet of every chart. Its rules stay within the chart when it is put into a page.
pub(in crate::show) fn style_sheet() -> String {
    rules(0) + DARK + &colours(1) + "}"
}

/// The rules that choose between the two widths of a chart in a page.
pub(in crate::show) const WIDTHS: &str = ".crawlmark-plot.phone{display:none}\
    @media screen and (max-width:30rem){.crawlmark-plot.phone{display:block}.crawlmark-plot.full{display:none}}";

/// The chart with the style sheet of one ground alone: for readers without preferences.
pub(in crate::show) fn resolved(svg: &str, ground: Ground) -> String {
    svg.replacen(&style_sheet(), &rules(ground as usize), 1)
}

/// Every rule, with the colours of a mode.
fn rules(mode: usize) -> String {
    let mut out = colours(mode)
        + ".crawlmark-plot rect,.crawlmark-plot circle,.crawlmark-plot text,.crawlmark-plot path{fill:currentColor}\
           .crawlmark-plot polyline{fill:none;stroke:currentColor;stroke-linejoin:round}\
           .crawlmark-plot .cells{fill:none;stroke:currentColor}\
           .crawlmark-plot rect,.crawlmark-plot path{shape-rendering:crispEdges}";
    for (class, lengths) in Dash::ALL.into_iter().filter_map(Dash::class_and_lengths) {
        let _ = write!(
            out,
            ".crawlmark-plot .{class}{{stroke-dasharray:{lengths}}}"
        );
    }
    out
}

fn colours(mode: usize) -> String {
    Ink::ALL.into_iter().fold(String::new(), |mut out, ink| {
        let _ = write!(
            out,
            ".crawlmark-plot .{}{{color:#{:06X}}}",
            ink.class(),
            ink.colours()[mode]
        );
        out
    })
}

/// Return the same colours by name, as custom properties of a page around charts. On paper a page
/// is always light.
pub(in crate::show) fn variables() -> String {
    let rule = |mode: usize| {
        let colours = Ink::ALL.into_iter().fold(String::new(), |mut out, ink| {
            let _ = write!(out, "--{}:#{:06X};", ink.class(), ink.colours()[mode]);
            out
        });
        format!(":root{{{colours}}}")
    };
    format!("{}{DARK}{}}}", rule(0), rule(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resolved_plot_has_the_colours_of_its_ground_alone() {
        let svg = format!(
            "<svg><style>{}</style><rect class=\"paper\"/></svg>",
            style_sheet()
        );
        for (ground, its, other) in [
            (Ground::Light, ".paper{color:#FFFFFF", "14181D"),
            (Ground::Dark, ".paper{color:#14181D", "FFFFFF"),
        ] {
            let resolved = resolved(&svg, ground);
            assert!(
                resolved.contains(its) && !resolved.contains(other) && !resolved.contains("@media"),
                "{resolved}"
            );
            assert!(resolved.contains(".dashed{stroke-dasharray:"), "{resolved}");
        }
    }

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
            let on_paper = |ink: Ink| contrast(ink.colours()[mode], Ink::Paper.colours()[mode]);
            for ink in Ink::ALL {
                let least = match ink {
                    Ink::Text | Ink::Quiet => 4.5,
                    Ink::Paper | Ink::Grid | Ink::Shade | Ink::Highlight | Ink::Paused => 1.0,
                    _ => 3.0,
                };
                assert!(on_paper(ink) >= least, "{ink:?} {mode}: {}", on_paper(ink));
            }
            assert!(
                (0..6).map(|level| on_paper(Ink::Heat(level))).is_sorted(),
                "more heat is further from the ground"
            );
        }
    }
}
