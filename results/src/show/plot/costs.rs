//! Cost of a request with one program and with others: bars of CPU time, in which user time is a separate part.

use plotters::style::text_anchor::HPos;

use super::Plot;
use super::bars::{self, Bar, ROW};
use super::canvas::{Head, Key, Lettering, Mark, sheet};
use super::palette::Ink;
use super::scale::trimmed;
use crate::show::text::grouped_f64;

/// Below the last bar.
const BELOW: f64 = 16.0;

/// Cost of a request with a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// The program.
    pub name: String,
    /// CPU time per request, us.
    pub cpu_us: f64,
    /// The part of it in user mode, us.
    pub user_us: f64,
    /// Requests per second.
    pub per_s: f64,
}

/// The plot of these costs, in the order given, with a sentence on what was run.
#[must_use]
pub fn costs(costs: &[Cost], caption: String) -> Plot {
    let most = costs.iter().map(|cost| cost.cpu_us).fold(0.0, f64::max);
    let bar = |cost: &Cost| Bar {
        name: cost.name.clone(),
        part: if most > 0.0 { cost.cpu_us / most } else { 0.0 },
        value: format!("{} µs, {}/s", trimmed((cost.cpu_us * 10.0).round() / 10.0), grouped_f64(cost.per_s)),
        ink: Ink::Sky,
    };
    let all: Vec<Bar> = costs.iter().map(bar).collect();
    let keys = vec![
        Key::new("CPU per request in the program", Mark::Area(Ink::Blue)),
        Key::new("in the kernel for it", Mark::Area(Ink::Sky)),
    ];
    let head = Head { name: "costs", title: "What a request costs", caption, keys };
    sheet(head, costs.len().max(1) as f64 * ROW + BELOW, |canvas, top| {
        if costs.is_empty() {
            canvas.text("nothing ran", (16.0, top + ROW / 2.0), Lettering::label(Ink::Text, HPos::Left));
        }
        bars::draw(canvas, &all, top);
        bars::shares(canvas, &all, costs.iter().map(|cost| cost.user_us / cost.cpu_us), (top, Ink::Blue));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_has_its_bar_its_cost_and_its_rate() {
        let cost = |name: &str, cpu_us, per_s| Cost { name: name.to_owned(), cpu_us, user_us: cpu_us / 4.0, per_s };
        let plot = costs(&[cost("one", 4.96, 183_500.4), cost("other", 23.0, 43_000.0)], "two programs".to_owned());
        for said in ["one", "5 µs, 183,500/s", "other", "23 µs, 43,000/s", "two programs"] {
            assert!(plot.svg.contains(said), "{said}: {}", plot.svg);
        }
        assert!(costs(&[], String::new()).svg.contains("nothing ran"));
    }
}
