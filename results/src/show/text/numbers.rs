//! Numbers as people read them.

use crawlmark_harness::units::{grouped, micros, place, whole};

/// Blocks of eight heights.
pub const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The block of a part of the whole, and a character of its own for nothing at all.
pub fn block(part: f64) -> char {
    let height = place((part * 8.0).ceil()).min(8);
    height.checked_sub(1).map_or('_', |height| BLOCKS[height])
}

/// `1 request`, `2 requests`, `2 addresses`.
pub fn counted(count: u64, what: &str) -> String {
    let plural = match count {
        1 => "",
        _ if what.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {what}{plural}", grouped(count))
}

/// A value or a limit of a threshold in its unit.
pub(crate) fn in_unit(unit: &str, value: f64) -> String {
    match unit {
        "us" => micros(value),
        "per_s" => format!("{}/s", decimal(value)),
        "share" => format!("{} %", decimal(value * 100.0)),
        "bool" => (value > 0.0).to_string(),
        _ => grouped_f64(value),
    }
}

/// A rate or another quantity that may be small: three significant digits below 100, whole and
/// grouped above. Only nothing reads as 0.
#[must_use]
pub fn decimal(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => grouped_f64(value),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        v if v >= 0.01 => format!("{value:.3}"),
        v if v >= 1e-6 => {
            // The first digit that is not 0, and two more.
            let decimals = place(2.0 - v.log10().floor());
            format!("{value:.decimals$}")
        }
        v if v > 0.0 => format!("{value:.2e}"),
        _ => "0".to_owned(),
    }
}

/// A share in few characters: `<0.1 %`, `2.5 %`, `38 %`, `>99.9 %`. Only nothing reads as 0.
#[must_use]
pub fn short_percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if p <= 0.0 => "0 %".to_owned(),
        p if p < 0.1 => "<0.1 %".to_owned(),
        p if p >= 100.0 => format!("{} %", grouped_f64(p)),
        p if p > 99.9 => ">99.9 %".to_owned(),
        p if (9.95..99.0).contains(&p) => format!("{p:.0} %"),
        p => format!("{p:.1} %"),
    }
}

/// A quantity rounded to a whole number, with separators.
#[must_use]
pub fn grouped_f64(value: f64) -> String {
    let size = grouped(whole(value.abs().round()));
    if value <= -0.5 {
        format!("-{size}")
    } else {
        size
    }
}

/// A rate as it is typed, with separators: `2,000/s`, `100:5,000/s`.
pub fn rate_in_words(rate: &str) -> String {
    // Digits after a point are no thousands.
    let parts = rate.split_inclusive(|c: char| !c.is_ascii_digit());
    let mut is_fraction = false;
    parts
        .map(|part| {
            let digits = part.trim_end_matches(|c: char| !c.is_ascii_digit());
            let whole = digits
                .parse()
                .ok()
                .filter(|_| !is_fraction && !digits.starts_with('0'))
                .map(grouped);
            is_fraction = part.ends_with('.') && !digits.is_empty();
            whole.unwrap_or_else(|| digits.to_owned()) + &part[digits.len()..]
        })
        .collect()
}

/// Quote a word for a shell, where it needs it: for commands that people copy.
pub fn shell_word(word: &str) -> String {
    if !word.is_empty()
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_=.,:/%@+".contains(c))
    {
        return word.to_owned();
    }
    // Only a NUL byte cannot be quoted, and no word of a command line has one.
    shlex::try_quote(word).map_or_else(|_| word.to_owned(), Into::into)
}

/// A time given in seconds, in the unit that suits it.
pub(crate) fn seconds(s: f64) -> String {
    micros(s * 1e6)
}

/// Bytes in the unit that suits them.
pub fn bytes(n: u64) -> String {
    bytes_f64(n as f64)
}

/// The same of a mean.
pub(crate) fn bytes_f64(n: f64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if n < 1024.0 {
        return format!("{} B", decimal(n));
    }
    let (mut value, mut unit) = (n / 1024.0, 0);
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
        assert_eq!(
            ["0", "999", "1,000", "1,234,567"].map(String::from),
            [0, 999, 1_000, 1_234_567].map(grouped)
        );
        assert_eq!([-1_250.0, -0.4].map(grouped_f64), ["-1,250", "0"]);
        assert_eq!(
            ["0.80 µs", "12.3 µs", "412 µs", "1.50 ms", "2.00 s"].map(String::from),
            [0.8, 12.34, 412.3, 1_500.0, 2e6].map(micros)
        );
        assert_eq!(
            [
                "2,000/s",
                "0:5,000/s",
                "60:1,600:60/min@30s",
                "0.12345/s",
                "1,000.5/s",
                "none"
            ]
            .map(String::from),
            [
                "2000/s",
                "0:5000/s",
                "60:1600:60/min@30s",
                "0.12345/s",
                "1000.5/s",
                "none"
            ]
            .map(rate_in_words)
        );
        assert_eq!(
            ["512 B", "1.00 KiB", "20.0 MiB"].map(String::from),
            [512, 1024, 20 << 20].map(bytes)
        );
        assert_eq!(
            ["0", "0.00120", "0.0000450", "1.00e-9"].map(String::from),
            [0.0, 0.0012, 0.000_045, 1e-9].map(decimal)
        );
        assert_eq!(
            ["0.050", "2.50", "33.3", "5,000"].map(String::from),
            [0.05, 2.5, 33.33, 5_000.0].map(decimal)
        );
    }
}
