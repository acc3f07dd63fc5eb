//! Numbers as people read them, in reports and in what is said of them.

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

/// A time in the unit that suits it, to three significant digits. Rounded first: 999.6 µs is 1.00 ms, never 1000 µs.
#[must_use]
pub fn micros(us: f64) -> String {
    let ms = || short(us / 1e3).map(|value| format!("{value} ms"));
    short(us).map(|value| format!("{value} µs")).or_else(ms).unwrap_or_else(|| {
        let seconds = us / 1e6;
        format!("{} s", short(seconds).unwrap_or_else(|| format!("{seconds:.0}")))
    })
}

/// A number to three significant digits; none when that is 1000 or more.
fn short(value: f64) -> Option<String> {
    [2, 1, 0].into_iter().find_map(|decimals| {
        let text = format!("{value:.decimals$}");
        let digits = text.bytes().filter(u8::is_ascii_digit).count();
        (digits <= 3).then_some(text)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_time_that_rounds_up_to_a_thousand_is_in_the_next_unit() {
        for (us, text) in [
            (9.996, "10.0 µs"),
            (99.96, "100 µs"),
            (999.4, "999 µs"),
            (999.6, "1.00 ms"),
            (999_600.0, "1.00 s"),
            (999_600_000.0, "1000 s"),
        ] {
            assert_eq!(micros(us), text);
        }
    }

    proptest! {
        #[test]
        fn a_time_has_three_digits_and_no_more_than_seconds_need(exponent in -2..12_i32, part in 0.99..1.01_f64, any in 0.1..10.0_f64) {
            for us in [part, any].map(|factor| factor * 10_f64.powi(exponent)) {
                let text = micros(us);
                let (value, unit) = text.split_once(' ').unwrap();
                let digits = value.bytes().filter(u8::is_ascii_digit).count();
                prop_assert!(digits == 3 || unit == "s", "{}", text);
                let scale = match unit { "s" => 1e6, "ms" => 1e3, _ => 1.0 };
                let number: f64 = value.parse().unwrap();
                prop_assert!(unit == "s" || number < 1_000.0, "{}", text);
                prop_assert!((number * scale - us).abs() <= 0.0051 * us.max(1.0), "{} is {}", us, text);
            }
        }
    }
}
