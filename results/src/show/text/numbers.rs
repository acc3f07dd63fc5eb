//! Numbers as people read them.

use crawlmark_harness::units::{grouped, micros};

/// `1 attempt`, `2 attempts`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(count))
}

/// A rate or another quantity that may be small: three significant digits below 100, whole and grouped above.
#[must_use]
pub fn decimal(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => grouped_f64(value),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A quantity rounded to a whole number, with separators.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are positive and far below 2^63")]
pub fn grouped_f64(value: f64) -> String {
    grouped(value.round().max(0.0) as u64)
}

/// A time given in seconds, in the unit that suits it.
pub(crate) fn seconds(s: f64) -> String {
    micros(s * 1e6)
}

/// Bytes in the unit that suits them.
#[must_use]
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let (mut value, mut unit) = (n as f64 / 1024.0, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", decimal(value), UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(["0", "999", "1,000", "1,234,567"].map(String::from), [0, 999, 1_000, 1_234_567].map(grouped));
        assert_eq!(
            ["0.80 µs", "12.3 µs", "412 µs", "1.50 ms", "2.00 s"].map(String::from),
            [0.8, 12.34, 412.3, 1_500.0, 2e6].map(micros)
        );
        assert_eq!(["512 B", "1.00 KiB", "20.0 MiB"].map(String::from), [512, 1024, 20 << 20].map(bytes));
        assert_eq!(["0.050", "2.50", "33.3", "5,000"].map(String::from), [0.05, 2.5, 33.33, 5_000.0].map(decimal));
    }
}
