//! Formats of numbers, durations and shares in reports and messages.

/// Smallest part that a percentage with one decimal shows, and its distance from the whole.
const LEAST_SHOWN: f64 = 0.000_5;

/// Format a whole number with separators: `12,345`.
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

/// Format a time of `us` µs in a suitable unit, with three significant digits. It is rounded first:
/// 999.6 µs is 1.00 ms, never 1000 µs.
pub fn micros(us: f64) -> String {
    short(us)
        .map(|value| format!("{value} µs"))
        .or_else(|| short(us / 1e3).map(|value| format!("{value} ms")))
        .unwrap_or_else(|| {
            let seconds = us / 1e6;
            format!(
                "{} s",
                short(seconds).unwrap_or_else(|| format!("{seconds:.0}"))
            )
        })
}

/// Format a share (0 to 1) in percent, with one decimal. Only nothing reads as `0 %`, and only the
/// whole as `100 %`.
pub fn percent(part: f64) -> String {
    in_percent(part, 1, ["<0.1 %", ">99.9 %"])
}

/// Format a share (0 to 1) in percent for a sentence, without decimals from 10 % on. A share
/// between 0 and 1 never reads as 0 % or 100 %.
pub fn rounded_percent(part: f64) -> String {
    let is_near_an_end = (part > 0.0 && part < 0.0995) || (0.99..1.0).contains(&part);
    let decimals = usize::from(is_near_an_end);
    in_percent(part, decimals, ["less than 0.1 %", "more than 99.9 %"])
}

fn in_percent(part: f64, decimals: usize, [hardly_any, nearly_all]: [&str; 2]) -> String {
    match part {
        part if part > 0.0 && part < LEAST_SHOWN => hardly_any.to_owned(),
        part if part < 1.0 && part > 1.0 - LEAST_SHOWN => nearly_all.to_owned(),
        0.0 => "0 %".to_owned(),
        1.0 => "100 %".to_owned(),
        part => format!("{:.decimals$} %", part * 100.0),
    }
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

    #[test]
    fn percentages_read_well() {
        for (part, in_tables, in_sentences) in [
            (0.0, "0 %", "0 %"),
            (0.004, "0.4 %", "0.4 %"),
            (0.546, "54.6 %", "55 %"),
            (0.99, "99.0 %", "99.0 %"),
            (0.998, "99.8 %", "99.8 %"),
            (1.0, "100 %", "100 %"),
            (1.043, "104.3 %", "104 %"),
        ] {
            assert_eq!(
                (&*percent(part), &*rounded_percent(part)),
                (in_tables, in_sentences)
            );
        }
    }

    proptest! {
        #[test]
        fn a_part_that_is_neither_none_nor_all_reads_as_neither(exponent in -12.0..-1e-9_f64) {
            for part in [10_f64.powf(exponent), 1.0 - 10_f64.powf(exponent)] {
                prop_assume!(part > 0.0 && part < 1.0);
                for text in [percent(part), rounded_percent(part)] {
                    let number = text.trim_end_matches(" %").parse::<f64>();
                    prop_assert!(number.is_ok_and(|n| n > 0.0 && n < 100.0) || text.contains("0.1") || text.contains("99.9"), "{}", text);
                }
            }
        }

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
