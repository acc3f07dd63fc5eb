//! Text files that other programs and people write: in UTF-8 or UTF-16, with a byte order mark or
//! without, with any line ends. Whatever reads such a file reads it through [`plain`].

use std::char::{REPLACEMENT_CHARACTER, decode_utf16};

/// Return the bytes of a text file as UTF-8 without a byte order mark, with `\n` at the ends of
/// lines. Without a mark, they are taken for UTF-8, or what is near to it: an access log may hold
/// any bytes. With the mark of UTF-16, as `>` of a shell of Windows writes it, they are decoded.
pub fn plain(bytes: Vec<u8>) -> Vec<u8> {
    let bytes = match &*bytes {
        [0xff, 0xfe, units @ ..] => utf16(units, u16::from_le_bytes),
        [0xfe, 0xff, units @ ..] => utf16(units, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, text @ ..] => text.to_vec(),
        _ => bytes,
    };
    // Most files need no copy, and results may be large.
    if !bytes.contains(&b'\r') {
        return bytes;
    }
    bytes
        .iter()
        .enumerate()
        .filter_map(|(at, byte)| match byte {
            b'\r' if bytes.get(at + 1) == Some(&b'\n') => None,
            b'\r' => Some(b'\n'),
            byte => Some(*byte),
        })
        .collect()
}

fn utf16(units: &[u8], unit: fn([u8; 2]) -> u16) -> Vec<u8> {
    let pairs = units.chunks(2).map(|pair| match pair {
        [one, other] => unit([*one, *other]),
        _ => 0xfffd,
    });
    decode_utf16(pairs)
        .map(|letter| letter.unwrap_or(REPLACEMENT_CHARACTER))
        .collect::<String>()
        .into_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn marks_encodings_and_line_ends_are_the_writer_s_own(text in "[a-zé\u{1f600} \n]{0,40}") {
            for end in ["\n", "\r\n", "\r"] {
                let written = text.replace('\n', end);
                let units: Vec<u16> = format!("\u{feff}{written}").encode_utf16().collect();
                for bytes in [
                    written.clone().into_bytes(),
                    format!("\u{feff}{written}").into_bytes(),
                    units.iter().flat_map(|unit| unit.to_le_bytes()).collect(),
                    units.iter().flat_map(|unit| unit.to_be_bytes()).collect(),
                ] {
                    prop_assert_eq!(plain(bytes), text.as_bytes());
                }
            }
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let read = plain(bytes.clone());
            prop_assert!(!read.contains(&b'\r'));
            if !bytes.contains(&b'\r') && !matches!(&*bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0xef, 0xbb, 0xbf, ..]) {
                prop_assert_eq!(read, bytes);
            }
        }
    }
}
