//! Cost of a request with one program and with others: bars of CPU time, in which user time is a separate part.

use super::Plot;
use crate::show::chart::scale::trimmed;
use crate::show::chart::{Axis, BAR, Block, Chart, Mark, Panel, ROW, Range, Role, Shape};
use crate::show::text::grouped_f64;

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
    let user = |(n, cost): (usize, &Cost)| Block::bar(n, BAR, cost.user_us.min(cost.cpu_us), "");
    let kernel = |(n, cost): (usize, &Cost)| {
        let text = format!("{} µs, {}/s", trimmed((cost.cpu_us * 10.0).round() / 10.0), grouped_f64(cost.per_s));
        let whole = Block::bar(n, BAR, cost.cpu_us, text);
        Block { x: (cost.user_us.min(cost.cpu_us), cost.cpu_us), ..whole }
    };
    let marks = vec![
        Mark::new(Role::P99, "in the program", Shape::Blocks(costs.iter().enumerate().map(user).collect())),
        Mark::new(Role::P90, "in the kernel", Shape::Blocks(costs.iter().enumerate().map(kernel).collect())),
    ];
    let panel = Panel {
        x: Axis::hidden(Range::FromZero),
        y: Axis::rows("CPU time per request", costs.iter().map(|cost| cost.name.clone()).collect()),
        height: costs.len() as f64 * ROW,
        marks,
    };
    Plot::of(&Chart { name: "costs", title: "What a request costs", caption, panels: vec![panel] })
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
    }
}
