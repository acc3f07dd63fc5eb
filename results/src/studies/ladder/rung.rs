//! The rungs as published: the change, the rate that it reached, and the limit according to its
//! author.

use serde::{Deserialize, Serialize};

/// A rung.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rung {
    /// From 1, in the order of the climb.
    pub number: u8,
    /// Name of the rung, in a few words.
    pub name: &'static str,
    /// Published rate.
    pub published: Published,
    /// Limit according to its author.
    pub published_limit: &'static str,
}

/// Good answers per second as they were published: a figure, or from one to another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The least.
    pub low_per_s: f64,
    /// The most; the same for a single figure.
    pub high_per_s: f64,
}

impl Published {
    const fn at(per_s: f64) -> Self {
        Self {
            low_per_s: per_s,
            high_per_s: per_s,
        }
    }

    /// In the middle of what was published, as ratios have it: the geometric mean.
    #[must_use]
    pub fn middle_per_s(self) -> f64 {
        (self.low_per_s * self.high_per_s).sqrt()
    }
}

const fn rung(
    number: u8,
    name: &'static str,
    published: Published,
    published_limit: &'static str,
) -> Rung {
    Rung {
        number,
        name,
        published,
        published_limit,
    }
}

/// All rungs, from the bottom. The sixth was published as ten processes of 1,011/s each, and called
/// 10,000/s.
pub const RUNGS: [Rung; 8] = [
    rung(
        1,
        "one after another, a new connection each",
        Published::at(5.83),
        "waiting",
    ),
    rung(
        2,
        "20 blocking workers, a new connection each",
        Published::at(44.8),
        "context switches, handshakes",
    ),
    rung(
        3,
        "async: 20 in flight, a new connection each",
        Published::at(184.0),
        "connections",
    ),
    rung(
        4,
        "connections kept: a pool of 20",
        Published::at(282.0),
        "20 in flight, times the latency",
    ),
    rung(
        5,
        "a pool of 80",
        Published::at(1_280.0),
        "CPU of one core: one interpreter lock",
    ),
    rung(
        6,
        "10 processes, a pool of 80 in each",
        Published::at(10_000.0),
        "CPU",
    ),
    rung(
        7,
        "as fast as the CPU goes",
        Published::at(15_000.0),
        "CPU: 80 % of ten cores",
    ),
    rung(
        8,
        "slower by choice",
        Published {
            low_per_s: 1_000.0,
            high_per_s: 2_000.0,
        },
        "choice",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_are_numbered_in_their_order_and_each_but_the_last_is_a_step_up() {
        assert!(
            RUNGS
                .iter()
                .zip(1..)
                .all(|(rung, number)| rung.number == number)
        );
        let climb: Vec<f64> = RUNGS
            .iter()
            .map(|rung| rung.published.middle_per_s())
            .collect();
        assert!(climb[..7].is_sorted() && climb[7] < climb[6]);
        assert!((climb[7] - 1_414.2).abs() < 0.1);
        // A name is a line of the picture.
        assert!(RUNGS.iter().all(|rung| rung.name.len() <= 44), "{RUNGS:?}");
    }
}
