//! Numbers as people read them, in reports and in what is said of them.

use std::fmt::Display;

/// A whole number with separators.
#[must_use]
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Microseconds in the unit that suits them, to three significant digits.
#[must_use]
pub fn micros(us: f64) -> String {
    let (value, unit): (f64, &dyn Display) = match us {
        us if us >= 1e6 => (us / 1e6, &"s"),
        us if us >= 1e3 => (us / 1e3, &"ms"),
        us => (us, &"us"),
    };
    match value {
        v if v >= 100.0 => format!("{v:.0} {unit}"),
        v if v >= 10.0 => format!("{v:.1} {unit}"),
        v => format!("{v:.2} {unit}"),
    }
}
