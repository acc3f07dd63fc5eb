//! The colours of the plots, light and dark, and the dashes that tell lines apart without them.
//!
//! A shape is drawn in the light colour; a style sheet in the file swaps it by that very value where the reader prefers
//! dark. So what knows no style sheets shows a whole light plot. The hues are those of Okabe and Ito (2008), which
//! colour-blind readers tell apart, darkened until a thin line shows on white.

use std::fmt::Write;

use plotters::style::RGBColor;

use super::png::Ground;

/// Start of the part of the style sheet that depends on the reader. Paper is white, whatever the reader prefers.
const DARK: &str = "@media screen and (prefers-color-scheme:dark){";

/// Colour that something is drawn in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    /// The ground.
    Paper,
    /// Titles and labels.
    Text,
    /// Captions and units.
    Quiet,
    /// Lines of the grid.
    Grid,
    /// Requested value: wide and pale, below the value that was reached.
    Asked,
    Blue,
    Orange,
    Vermilion,
    Green,
    Purple,
    Sky,
    Olive,
    /// Ink of the most contrast.
    Black,
    /// A level of a heat map, from [`Ink::HEAT`].
    Heat(u8),
}

impl Ink {
    const ALL: [Self; 19] = [
        Self::Paper,
        Self::Text,
        Self::Quiet,
        Self::Grid,
        Self::Asked,
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

    /// Inks of lines, each distinguished by its colour and by its dash.
    pub(super) const LINES: [Self; 8] =
        [Self::Blue, Self::Vermilion, Self::Green, Self::Purple, Self::Orange, Self::Black, Self::Sky, Self::Olive];

    /// The levels of a heat map, from little to much: ever further from the ground, in lightness too.
    pub(super) const HEAT: [Self; 6] =
        [Self::Heat(0), Self::Heat(1), Self::Heat(2), Self::Heat(3), Self::Heat(4), Self::Heat(5)];

    /// On white, and on nearly black. No two inks share a light colour: the style sheet finds them by it.
    const fn colours(self) -> [u32; 2] {
        match self {
            Self::Paper => [0xFF_FFFF, 0x14_181D],
            Self::Text => [0x1B_1F24, 0xE8_EAED],
            Self::Quiet => [0x56_5E68, 0xA9_B1BA],
            Self::Grid => [0xDF_E3E8, 0x31_3840],
            Self::Asked => [0xBF_C6CE, 0x59_636E],
            Self::Blue => [0x00_72B2, 0x4D_B0F0],
            Self::Orange => [0xC9_8200, 0xF0_B030],
            Self::Vermilion => [0xD5_5E00, 0xFF_8340],
            Self::Green => [0x00_8A64, 0x2C_CB9C],
            Self::Purple => [0xA8_4F85, 0xE0_93BD],
            Self::Sky => [0x3D_95CE, 0x9A_D4F7],
            Self::Olive => [0x85_7800, 0xD8_CC4C],
            Self::Black => [0x0C_0F12, 0xF6_F7F8],
            Self::Heat(0) => [0xE4_EEF7, 0x1C_2F40],
            Self::Heat(1) => [0xB7_D4EA, 0x1F_4A6B],
            Self::Heat(2) => [0x7D_B4DB, 0x2A_6C9B],
            Self::Heat(3) => [0x3F_8CC4, 0x45_94CC],
            Self::Heat(4) => [0x1B_629E, 0x86_BFE8],
            Self::Heat(_) => [0x0B_3763, 0xDC_EEFB],
        }
    }

    /// The colour that is written.
    pub(super) const fn light(self) -> RGBColor {
        let [_, r, g, b] = self.colours()[0].to_be_bytes();
        RGBColor(r, g, b)
    }

    /// Return the dash pattern of a line in this ink, in quarters of a pixel; none when the line is solid.
    const fn dash(self) -> Option<&'static str> {
        match self {
            Self::Orange => Some("28 14"),
            Self::Vermilion => Some("12 10"),
            Self::Green => Some("40 12 8 12"),
            Self::Purple => Some("8 14"),
            Self::Sky => Some("40 10 8 10 8 10"),
            Self::Olive => Some("20 10 6 10"),
            Self::Black => Some("64 16"),
            _ => None,
        }
    }
}

/// The style sheet of every plot. Its rules stay within the plot when it is put into a page.
pub(super) fn style_sheet() -> String {
    let mut out = String::from(
        // Cells that touch would show hairlines between them.
        ".crawlmark-plot polyline{stroke-linejoin:round}.crawlmark-plot rect{shape-rendering:crispEdges}",
    );
    for ink in Ink::ALL {
        if let Some(dash) = ink.dash() {
            let _ = write!(out, ".crawlmark-plot polyline[stroke=\"#{:06X}\"]", ink.colours()[0]);
            let _ = write!(out, "{{stroke-dasharray:{dash}}}");
        }
    }
    out.push_str(DARK);
    for ink in Ink::ALL {
        let [light, dark] = ink.colours();
        for property in ["fill", "stroke"] {
            let _ = write!(out, ".crawlmark-plot [{property}=\"#{light:06X}\"]{{{property}:#{dark:06X}}}");
        }
    }
    out.push('}');
    out
}

/// The plot in the colours of one ground, without a style sheet that depends on its reader: for those who know none.
pub(super) fn resolved(svg: &str, ground: Ground) -> String {
    let by_the_reader = svg.find(DARK).zip(svg.find("</style>"));
    let svg = by_the_reader.map_or_else(|| svg.to_owned(), |(from, to)| format!("{}{}", &svg[..from], &svg[to..]));
    match ground {
        Ground::Light => svg,
        Ground::Dark => {
            // Each colour once: that of one ink in the dark may be that of another in the light.
            let parts =
                svg.split("\"#").enumerate().map(|(n, part)| if n == 0 { part.to_owned() } else { darkened(part) });
            parts.collect()
        }
    }
}

/// Return `part`, the text after `"#`, with the colour at its start replaced by the dark one if it is that of an ink.
fn darkened(part: &str) -> String {
    let ink = Ink::ALL.into_iter().map(Ink::colours).find(|[light, _]| part.starts_with(&format!("{light:06X}\"")));
    match (ink, part.get(6..)) {
        (Some([_, dark]), Some(rest)) => format!("\"#{dark:06X}{rest}"),
        _ => format!("\"#{part}"),
    }
}

/// Return the same colours by name, as custom properties of a page around plots. On paper a page is always light.
pub(super) fn variables() -> String {
    let named = [
        ("paper", Ink::Paper),
        ("text", Ink::Text),
        ("quiet", Ink::Quiet),
        ("grid", Ink::Grid),
        ("blue", Ink::Blue),
        ("orange", Ink::Orange),
        ("vermilion", Ink::Vermilion),
        ("green", Ink::Green),
        ("purple", Ink::Purple),
    ];
    let rule = |mode: usize| {
        let colours = named.iter().fold(String::new(), |mut out, (name, ink)| {
            let _ = write!(out, "--{name}:#{:06X};", ink.colours()[mode]);
            out
        });
        format!(":root{{{colours}}}")
    };
    format!("{}@media screen and (prefers-color-scheme:dark){{{}}}", rule(0), rule(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resolved_plot_has_the_colours_of_its_ground_alone() {
        let svg = format!("<svg><style>{}</style><rect fill=\"#FFFFFF\"/><text>\"#FFFFFF</text></svg>", style_sheet());
        let light = resolved(&svg, Ground::Light);
        assert!(light.contains("fill=\"#FFFFFF\"") && !light.contains("14181D") && !light.contains("@media"));
        let dark = resolved(&svg, Ground::Dark);
        assert!(dark.contains("fill=\"#14181D\"") && dark.contains("<text>\"#FFFFFF</text>"), "{dark}");
        // What tells lines apart is found by their colour.
        assert!(dark.contains("polyline[stroke=\"#F0B030\"]{stroke-dasharray:28 14}"), "{dark}");
    }

    /// Relative luminance as the Web Content Accessibility Guidelines have it.
    fn luminance(colour: u32) -> f64 {
        let [_, r, g, b] = colour.to_be_bytes();
        let linear = |c: u8| {
            let c = f64::from(c) / 255.0;
            if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
    }

    fn contrast(a: u32, b: u32) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn every_ink_can_be_found_by_its_light_colour() {
        let mut seen: Vec<u32> = Ink::ALL.iter().map(|ink| ink.colours()[0]).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), Ink::ALL.len());
    }

    #[test]
    fn text_and_lines_stand_out_on_either_ground() {
        for mode in 0..2 {
            let on_paper = |ink: Ink| contrast(ink.colours()[mode], Ink::Paper.colours()[mode]);
            for ink in [Ink::Text, Ink::Quiet] {
                assert!(on_paper(ink) >= 4.5, "{ink:?} {mode}: {}", on_paper(ink));
            }
            for ink in Ink::LINES {
                assert!(on_paper(ink) >= 3.0, "{ink:?} {mode}: {}", on_paper(ink));
            }
        }
    }

    #[test]
    fn more_heat_is_further_from_the_ground() {
        for mode in 0..2 {
            let levels = Ink::HEAT.map(|ink| contrast(ink.colours()[mode], Ink::Paper.colours()[mode]));
            assert!(levels.is_sorted(), "{levels:?}");
        }
    }
}
