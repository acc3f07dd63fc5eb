//! Colours of a page beside those of its charts, which `chart/palette.rs` has.

use crate::judge::Severity;
use crate::show::chart::inks;
use crate::show::doc::Severity as Tint;

/// Name, on white, and on nearly black. Words have a contrast of 4.5:1 and more on what they stand
/// on, and marks of 3:1.
const COLOURS: [(&str, &str, &str); 14] = [
    ("raised", "#f6f7f9", "#161b22"),
    ("accent", "#0b5fc0", "#6cb2ff"),
    ("wash", "#eef3fb", "#14202f"),
    // Verdicts: words and pills, and the ground behind them.
    ("ok", "#0f7b55", "#3ccb95"),
    ("warn", "#9a6200", "#f0b030"),
    ("bad", "#b3261e", "#ff7a70"),
    ("info", "#59626f", "#a1abb8"),
    ("okwash", "#e9f6f0", "#10231d"),
    ("warnwash", "#fdf4e3", "#261e0f"),
    ("badwash", "#fdeeec", "#2a1516"),
    ("infowash", "#f6f7f9", "#161b22"),
    // Times over the charts in which something happened.
    ("badband", "rgba(196,48,43,.09)", "rgba(255,107,97,.14)"),
    ("warnband", "rgba(201,130,0,.10)", "rgba(240,176,48,.14)"),
    ("infoband", "rgba(89,98,111,.09)", "rgba(161,171,184,.12)"),
];

/// Return all colours as custom properties: those of the reader's choice, of the system, and light
/// on paper.
pub(super) fn variables() -> String {
    let own = COLOURS
        .iter()
        .map(|(name, light, dark)| [format!("--{name}:{light};"), format!("--{name}:{dark};")]);
    let charts = inks().map(|(name, of)| of.map(|colour| format!("--{name}:#{colour:06x};")));
    let (light, dark): (Vec<String>, Vec<String>) = own.chain(charts).map(Into::into).unzip();
    let (light, dark) = (light.concat(), dark.concat());
    let inked: Vec<String> = inks()
        .map(|(name, _)| format!(".crawlmark-plot .{name}{{color:var(--{name})}}"))
        .collect();
    let figures = inked.concat();
    format!(
        ":root{{color-scheme:light;{light}}}\
         @media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\
         @media screen{{:root[data-theme=dark]{{color-scheme:dark;{dark}}}}}{figures}.crawlmark-plot text{{stroke:var(--paper)}}"
    )
}

/// The tone of a severity, as a class and a suffix of colours.
pub(super) const fn tone(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warn",
        Severity::Error => "bad",
    }
}

/// The tint of a severity in a document: the end of the names of its colours.
pub(super) const fn tint(severity: Tint) -> &'static str {
    match severity {
        Tint::Good => "ok",
        Tint::Neutral => "info",
        Tint::Warning => "warn",
        Tint::Bad => "bad",
    }
}
