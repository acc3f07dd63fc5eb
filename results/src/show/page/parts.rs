//! Whose time a response takes: this client's, the network's, the target's.

use super::markup::Html;
use super::panels::PARTS;
use crate::judge::thresholds::MOST_OF_TIME;
use crate::run::report::{Report, Split, share};
use crate::show::text::{counted, micros, short_percent};

/// A part of the whole above which the others are drawn once more, enlarged.
const MOST: f64 = 0.9;

/// Part of the mean response time.
struct Part {
    name: &'static str,
    us: f64,
    colour: &'static str,
    owner: Owner,
}

/// Who spends the time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Client,
    Network,
    Target,
}

/// An owner as the page shows it.
struct ShownOwner {
    owner: Owner,
    name: &'static str,
    colour: &'static str,
}

/// Owners in the order of the page.
const OWNERS: [ShownOwner; 3] = [
    ShownOwner {
        owner: Owner::Client,
        name: "This client",
        colour: "purple",
    },
    ShownOwner {
        owner: Owner::Network,
        name: "Network",
        colour: "grey",
    },
    ShownOwner {
        owner: Owner::Target,
        name: "Target",
        colour: "green",
    },
];

/// Owners of the parts, in the order of [`Split::PARTS`].
const OF_PARTS: [Owner; 7] = [
    Owner::Client,
    Owner::Network,
    Owner::Target,
    Owner::Target,
    Owner::Target,
    Owner::Network,
    Owner::Client,
];

/// The parts of a run's mean response time in the order in which the time passes. What the target
/// does is known of its processes, where it does not say so itself.
fn parts(report: &Report, split: &Split) -> Vec<Part> {
    let mut parts = Vec::new();
    for (at, (name, part)) in Split::PARTS.into_iter().enumerate() {
        let Some(us) = part(split).filter(|us| *us > 0.0) else {
            continue;
        };
        let (colour, owner) = (PARTS[at].colour(), OF_PARTS[at]);
        let own = report
            .target
            .as_ref()
            .and_then(|target| target.split)
            .filter(|_| owner == Owner::Target && split.reported_us.is_none());
        let Some(own) = own else {
            parts.push(Part {
                name,
                us,
                colour,
                owner,
            });
            continue;
        };
        let mut rest = us;
        for (name, spent_us, colour) in [
            ("at work on a CPU", own.cpu_us, "dark"),
            ("waits for a CPU", own.run_queue_us.unwrap_or(0.0), "orange"),
            ("stopped by its CPU quota", own.throttled_us, "red"),
        ] {
            let us = spent_us.clamp(0.0, rest);
            rest -= us;
            if us > 0.0 {
                parts.push(Part {
                    name,
                    us,
                    colour,
                    owner,
                });
            }
        }
        parts.push(Part {
            name: ASLEEP,
            us: rest,
            colour: "teal",
            owner,
        });
    }
    parts
}

/// The part of the target's time in which it neither runs nor waits for a CPU.
const ASLEEP: &str = "asleep, locked or queued";

/// Write the parts as a bar and by owner; nothing where they are not known.
pub(super) fn write(html: &mut Html, report: &Report) {
    let Some(split) = report
        .split
        .as_ref()
        .filter(|split| split.response_us > 0.0)
    else {
        return;
    };
    let parts = parts(report, split);
    let all_us: f64 = parts.iter().map(|part| part.us).sum();
    let sentence = sentence(&parts, all_us);
    html.with("section", &[("id", "parts")], |html| {
        html.classed("div", "head", |html| {
            html.say("h2", "Whose microseconds");
            let hint = format!(
                "mean response of {}, in the order in which the time passes; sample of {}",
                micros(split.response_us),
                counted(split.n, "response")
            );
            html.classed("span", "hint", |html| html.text(&hint));
        });
        html.classed("div", "whose", |html| {
            let label = [
                ("class", "bar"),
                ("role", "img"),
                ("aria-label", &*sentence),
            ];
            html.with("div", &label, |html| write_bar(html, &parts, all_us));
            write_enlarged(html, &parts, all_us);
            html.classed("div", "owners", |html| {
                for shown in OWNERS {
                    write_owner(html, &parts, all_us, &shown);
                }
                html.element("div", |html| {
                    html.say("h3", "In a sentence");
                    html.classed("p", "quiet", |html| html.text(&sentence));
                });
            });
        });
    });
}

fn write_bar<'p>(html: &mut Html, parts: impl IntoIterator<Item = &'p Part>, all_us: f64) {
    for part in parts {
        let style = format!(
            "flex:{:.5} 1 0;background:var(--{})",
            share(part.us, all_us),
            part.colour
        );
        let title = format!("{}: {}", part.name, micros(part.us));
        html.with("i", &[("style", &style), ("title", &title)], |_| {});
    }
}

/// The parts beside one that is most of the time.
fn write_enlarged(html: &mut Html, parts: &[Part], all_us: f64) {
    let others: Vec<&Part> = parts
        .iter()
        .filter(|part| part.us <= MOST * all_us)
        .collect();
    if others.len() == parts.len() || others.is_empty() {
        return;
    }
    let others_us: f64 = others.iter().map(|part| part.us).sum();
    html.classed("div", "enlarged", |html| {
        html.element("span", |html| {
            html.text(&format!("the other {}, enlarged", micros(others_us)));
        });
        let bar = [("class", "bar thin"), ("aria-hidden", "true")];
        html.with("div", &bar, |html| write_bar(html, others, others_us));
    });
}

fn write_owner(html: &mut Html, parts: &[Part], all_us: f64, shown: &ShownOwner) {
    let own: Vec<&Part> = parts
        .iter()
        .filter(|part| part.owner == shown.owner)
        .collect();
    if own.is_empty() {
        return;
    }
    let us: f64 = own.iter().map(|part| part.us).sum();
    html.element("div", |html| {
        let style = format!("border-color:var(--{})", shown.colour);
        html.with("h3", &[("style", &style)], |html| {
            html.text(shown.name);
            html.element("span", |html| {
                html.text(&short_percent(share(us, all_us)));
            });
        });
        html.element("ul", |html| {
            for part in own {
                let style = format!("background:var(--{})", part.colour);
                html.element("li", |html| {
                    html.with("i", &[("class", "sw"), ("style", &style)], |_| {});
                    html.element("span", |html| html.text(part.name));
                    html.element("b", |html| html.text(&micros(part.us)));
                });
            }
        });
    });
}

/// Whose time it is, in words.
fn sentence(parts: &[Part], all_us: f64) -> String {
    let [target_us, client_us] = [Owner::Target, Owner::Client].map(|owner| {
        parts
            .iter()
            .filter(|part| part.owner == owner)
            .map(|part| part.us)
            .sum()
    });
    let whose = format!(
        "{} of the mean is the target's, {} this client's.",
        short_percent(share(target_us, all_us)),
        short_percent(share(client_us, all_us))
    );
    let idle = parts
        .iter()
        .find(|part| part.name == ASLEEP && part.owner == Owner::Target)
        .map(|part| share(part.us, target_us));
    match idle.filter(|part| *part >= MOST_OF_TIME) {
        Some(part) => format!(
            "{whose} For {} of its time the target neither runs nor waits for a CPU: it sleeps, is locked, or queues requests.",
            short_percent(part)
        ),
        None => whose,
    }
}
