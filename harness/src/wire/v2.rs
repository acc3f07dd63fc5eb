//! A histogram in HDR V2 encoding, read cell by cell without building it.
//!
//! Called with the frames of shards each second.
//! Whatever the bytes are, reading them does not panic, and takes no more memory than a histogram
//! with the run's bounds.

use crate::stats::{Bounds, Cells, SIGNIFICANT_DIGITS};

/// The first word of a histogram in V2 encoding
/// (`HdrHistogram`, `V2EncodingCookieBase` with a word size of 0x10).
const COOKIE: u32 = 0x1c84_9303 | 0x10;
/// The header of the plain form: cookie, length, normalising offset, digits, lowest, highest,
/// ratio. All are big endian.
const HEADER: usize = 40;

/// The most bytes of a number in it.
const LONGEST_NUMBER: usize = 9;

/// The cells of the histogram in `plain`, which must have such bounds: positive numbers are counts,
/// negative ones say how many cells are empty.
///
/// # Errors
/// When it is cut short, of another encoding, or has other bounds or more cells than these.
pub fn read_cells(plain: &[u8], bounds: Bounds) -> Result<Cells, &'static str> {
    let (header, numbers) = plain.split_at_checked(HEADER).ok_or("it is cut short")?;
    let length = usize::try_from(word(header, 4)).unwrap_or(usize::MAX);
    if word(header, 0) != COOKIE || word(header, 8) != 0 || long(header, 32) != 1.0_f64.to_bits() {
        return Err("it is not in V2 encoding");
    }
    let digits = u32::from(SIGNIFICANT_DIGITS);
    if (word(header, 12), long(header, 16), long(header, 24)) != (digits, 1, bounds.highest_ns()) {
        return Err("its bounds are not those of this run's");
    }
    let mut numbers = numbers
        .get(..length)
        .ok_or("it is cut short")?
        .iter()
        .copied();
    let (mut cells, mut at, most) = (Vec::new(), 0_usize, bounds.cells());
    while let Some(number) = number(&mut numbers)? {
        let counted = if number >= 0 {
            1
        } else {
            number.unsigned_abs()
        };
        if number > 0 {
            cells.push((at, number.unsigned_abs()));
        }
        at = usize::try_from(counted)
            .ok()
            .and_then(|counted| at.checked_add(counted))
            .ok_or("it has no end")?;
        if at > most {
            return Err("it has more cells than this run's have");
        }
    }
    Ok(Cells(cells))
}

/// The greatest value that any histogram of this program may claim to take, ns: more than a day.
const GREATEST_NS: u64 = 100_000_000_000_000;

/// Checks that a histogram claims no more memory than one of this program's takes, before another
/// decoder believes it.
///
/// # Errors
/// When it is cut short, of another encoding, or claims more.
pub fn check_header(plain: &[u8]) -> Result<(), &'static str> {
    let (header, numbers) = plain.split_at_checked(HEADER).ok_or("it is cut short")?;
    if word(header, 0) != COOKIE || word(header, 8) != 0 {
        return Err("it is not in V2 encoding");
    }
    if u32::try_from(numbers.len()) != Ok(word(header, 4)) {
        return Err("its length is not the one that it claims");
    }
    let (lowest, highest) = (long(header, 16), long(header, 24));
    if !(1..=u32::from(SIGNIFICANT_DIGITS)).contains(&word(header, 12))
        || lowest != 1
        || highest > GREATEST_NS
    {
        return Err("its bounds are none of this program's");
    }
    Ok(())
}

/// The next number, LEB128 of at most nine bytes, zig-zag; none at the end.
fn number(bytes: &mut impl Iterator<Item = u8>) -> Result<Option<i64>, &'static str> {
    let mut value = 0_u64;
    for place in 0..LONGEST_NUMBER {
        let Some(byte) = bytes.next() else {
            return if place == 0 {
                Ok(None)
            } else {
                Err("it is cut short")
            };
        };
        // The ninth byte counts whole.
        let last = place + 1 == LONGEST_NUMBER;
        value |= u64::from(if last { byte } else { byte & 0x7f }) << (7 * place);
        if last || byte & 0x80 == 0 {
            break;
        }
    }
    Ok(Some(
        (value >> 1).cast_signed() ^ -(value & 1).cast_signed(),
    ))
}

/// The word that begins at this byte; 0 beyond the end.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .copied()
        .map_or(0, u32::from_be_bytes)
}

/// Return the two words that begin at this byte; 0 beyond the end.
fn long(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .copied()
        .map_or(0, u64::from_be_bytes)
}
