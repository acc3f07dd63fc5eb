//! Content codings of responses (`--compressed`): gzip, br and zstd, with a limit on what comes
//! out.
//!
//! Called by the checker once the compressed content is complete. It must not know what is expected
//! of the content.

use std::fmt;
use std::io::{self, Read};

use crawlmark_harness::sample::ErrorKind;
use flate2::read::MultiGzDecoder;

use super::fields::HeaderFields;

/// Value of `Accept-Encoding`.
pub(crate) const ACCEPTED: &str = "gzip, br, zstd";

/// Most bytes of content that are kept: compressed, as they come out, or in one line or message.
pub(super) const MOST_BYTES: usize = 16 << 20;

/// Most bytes of bodies that a shard keeps at a time, whatever the number of its connections: 32 of
/// the longest.
pub(crate) const MOST_OF_SHARD: usize = 32 * MOST_BYTES;

/// Largest window of zstd as an exponent: 8 MiB, what every decoder should support (RFC 8878,
/// 3.1.1.1.2).
const MOST_WINDOW: u32 = 23;

/// Size of a part that is passed on.
const PART: usize = 16 << 10;

/// Treatment of compressed content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Content {
    /// Expected as it is sent.
    #[default]
    AsSent,
    /// Decoded first.
    Decoded,
}

impl Content {
    /// Content codings that can be decoded, as `Accept-Encoding` lists them.
    pub const ACCEPTED: &str = ACCEPTED;
}

/// Coding of the content of a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Coding {
    /// Sent as it is.
    #[default]
    Identity,
    Gzip,
    Brotli,
    Zstd,
    /// Another one, or more than two.
    Unknown,
}

/// Codings of the content of a response, in the order in which they were applied (RFC 9110, 8.4):
/// at most two, the second of which is [`Coding::Identity`] if there is one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Codings {
    first: Coding,
    second: Coding,
}

impl Codings {
    /// Content that is sent as it is.
    pub(crate) const NONE: Self = Self {
        first: Coding::Identity,
        second: Coding::Identity,
    };

    /// Read the codings of a response from its head.
    pub(crate) fn of(fields: HeaderFields<'_>) -> Self {
        // Several fields are one list (RFC 9110, 5.3).
        let mut codings = fields
            .all("content-encoding")
            .flat_map(|value| value.split(|byte| *byte == b','))
            .map(Coding::named)
            .filter(|coding| *coding != Coding::Identity);
        let [first, second, third] = [(); 3].map(|()| codings.next().unwrap_or_default());
        match third {
            Coding::Identity => Self { first, second },
            _ => Self {
                first: Coding::Unknown,
                second: Coding::Identity,
            },
        }
    }

    /// Pass the content of `compressed` to `take`, part by part.
    pub(crate) fn decode(
        self,
        compressed: &[u8],
        take: impl FnMut(&[u8]),
    ) -> Result<(), Unreadable> {
        if self.second == Coding::Identity {
            return self.first.decode(compressed, take);
        }
        let mut between = Vec::new();
        self.second
            .decode(compressed, |part| between.extend_from_slice(part))?;
        self.first.decode(&between, take)
    }

    /// Return the coding that has to be decoded first.
    pub(crate) fn last(self) -> Coding {
        match self.second {
            Coding::Identity => self.first,
            second => second,
        }
    }
}

/// Reason why content cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// More than [`MOST_BYTES`] come out, or came in.
    TooLong,
    /// The bodies that its shard keeps are more than [`MOST_OF_SHARD`] together.
    NoRoom,
    /// Not of its coding, or not complete.
    Damaged(Coding),
    /// Coded, and not decoded: `--compressed` is not given.
    Coded(Coding),
    /// A message of gRPC is compressed, which no request asks for.
    CompressedMessage,
    /// It ends within a message of gRPC.
    CutMessage,
    /// It ends without a status of gRPC.
    NoStatus,
}

impl Unreadable {
    /// The kind of error that it is.
    pub(crate) const fn kind(self) -> ErrorKind {
        match self {
            Self::TooLong | Self::NoRoom => ErrorKind::BodyTooLong,
            Self::Damaged(_) | Self::Coded(_) => ErrorKind::BadEncoding,
            Self::CompressedMessage | Self::CutMessage | Self::NoStatus => ErrorKind::Malformed,
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(
                f,
                "the content has more than {} MiB, compressed or not",
                MOST_BYTES >> 20
            ),
            Self::NoRoom => write!(
                f,
                "the bodies under way in this shard have more than {} MiB: use fewer connections or streams",
                MOST_OF_SHARD >> 20
            ),
            Self::Damaged(Coding::Identity | Coding::Unknown) => {
                write!(f, "the content has another coding than {ACCEPTED}")
            }
            Self::Damaged(coding) => write!(f, "the content is not complete {}", coding.name()),
            Self::Coded(Coding::Unknown) => write!(
                f,
                "the content has another coding than {ACCEPTED}, so it was not read"
            ),
            Self::Coded(coding) => write!(
                f,
                "the content is compressed ({}), so it was not read: add --compressed to decode it",
                coding.name()
            ),
            Self::CompressedMessage => {
                f.write_str("a message is compressed, which was not asked for")
            }
            Self::CutMessage => f.write_str("the response ends within a message"),
            Self::NoStatus => f.write_str("the response ends without a grpc-status"),
        }
    }
}

/// Names of codings in `Content-Encoding`, the registered one of each first.
const NAMES: [(&str, Coding); 7] = [
    ("gzip", Coding::Gzip),
    ("x-gzip", Coding::Gzip),
    ("br", Coding::Brotli),
    ("zstd", Coding::Zstd),
    ("identity", Coding::Identity),
    // Not registered, but sent; curl reads it in this way.
    ("none", Coding::Identity),
    ("", Coding::Identity),
];

impl Coding {
    fn named(text: &[u8]) -> Self {
        NAMES
            .iter()
            .find(|(name, _)| text.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
            .map_or(Self::Unknown, |(_, coding)| *coding)
    }

    fn name(self) -> &'static str {
        NAMES
            .iter()
            .find(|(_, coding)| *coding == self)
            .map_or("", |(name, _)| name)
    }

    /// Pass the content of `compressed` to `take`, part by part.
    fn decode(self, compressed: &[u8], take: impl FnMut(&[u8])) -> Result<(), Unreadable> {
        let damaged = |_| Unreadable::Damaged(self);
        let copied = match self {
            Self::Identity | Self::Unknown => return Err(Unreadable::Damaged(self)),
            Self::Gzip => copy(MultiGzDecoder::new(compressed), take),
            Self::Brotli => copy(
                brotli_decompressor::Decompressor::new(compressed, PART),
                take,
            ),
            Self::Zstd => {
                let mut decoder =
                    zstd::stream::read::Decoder::with_buffer(compressed).map_err(damaged)?;
                decoder.window_log_max(MOST_WINDOW).map_err(damaged)?;
                copy(decoder, take)
            }
        };
        if copied.map_err(damaged)? {
            Ok(())
        } else {
            Err(Unreadable::TooLong)
        }
    }
}

/// Pass on what comes out of `decoder`. Return false if that is more than [`MOST_BYTES`].
fn copy(mut decoder: impl Read, mut take: impl FnMut(&[u8])) -> io::Result<bool> {
    let (mut part, mut total) = ([0; PART], 0);
    loop {
        let length = decoder.read(&mut part)?;
        total += length;
        match length {
            0 => return Ok(true),
            _ if total > MOST_BYTES => return Ok(false),
            _ => take(&part[..length]),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    /// `{"ok":true}`, compressed by Node 22.
    pub(crate) const BROTLI: &[u8] = b"\x0b\x05\x80{\x22ok\x22:true}\x03";

    /// 17 MiB of zeros, compressed by Node 22.
    const BROTLI_BOMB: &[u8] = b"\xcb\xff\xff?\xf8'\x00\xe2\xb1@ \xf7\xfe\x8f\xff\xff\x7f\xf0O\x00\xc4a\x11\x80\xee\xfd_\xfd\xff?\xfe\x09\x808,\x00\xd0\xbd\x7f\x00";

    pub(crate) fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn decoded(coding: Coding, compressed: &[u8]) -> Result<Vec<u8>, Unreadable> {
        let mut content = Vec::new();
        coding
            .decode(compressed, |part| content.extend_from_slice(part))
            .map(|()| content)
    }

    proptest! {
        #[test]
        fn what_was_compressed_comes_out_and_what_is_cut_is_refused(
            content in prop::collection::vec(any::<u8>(), 0..50_000), cut in 1..100_usize,
        ) {
            for (coding, compressed) in [(Coding::Gzip, gzip(&content)), (Coding::Zstd, zstd::encode_all(&content[..], 0).unwrap())] {
                prop_assert_eq!(decoded(coding, &compressed), Ok(content.clone()));
                let cut = &compressed[..compressed.len() - cut.min(compressed.len() - 1)];
                prop_assert_eq!(decoded(coding, cut), Err(Unreadable::Damaged(coding)));
            }
        }

        #[test]
        fn content_coded_twice_comes_out_and_in_the_other_order_is_refused(content in prop::collection::vec(any::<u8>(), 1..5_000)) {
            let twice = zstd::encode_all(&gzip(&content)[..], 0).unwrap();
            let codings = Codings { first: Coding::Gzip, second: Coding::Zstd };
            let mut decoded = Vec::new();
            prop_assert_eq!(codings.decode(&twice, |part| decoded.extend_from_slice(part)), Ok(()));
            prop_assert_eq!(decoded, content);
            let turned = Codings { first: Coding::Zstd, second: Coding::Gzip };
            prop_assert_eq!(turned.decode(&twice, |_| {}), Err(Unreadable::Damaged(Coding::Gzip)));
        }

        #[test]
        fn any_bytes_are_content_or_damaged(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            for coding in [Coding::Gzip, Coding::Brotli, Coding::Zstd, Coding::Unknown] {
                drop(decoded(coding, &bytes));
                let _ = Codings { first: Coding::Gzip, second: coding }.decode(&bytes, |_| {});
            }
        }
    }

    #[test]
    fn brotli_is_decoded_and_refused_when_it_is_cut() {
        assert_eq!(
            decoded(Coding::Brotli, BROTLI).as_deref(),
            Ok(&b"{\"ok\":true}"[..])
        );
        for cut in 1..BROTLI.len() {
            assert_eq!(
                decoded(Coding::Brotli, &BROTLI[..cut]),
                Err(Unreadable::Damaged(Coding::Brotli)),
                "{cut}"
            );
        }
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let zeros = vec![0; (17 << 20) as usize];
        for (coding, bomb) in [
            (Coding::Gzip, gzip(&zeros)),
            (Coding::Brotli, BROTLI_BOMB.to_vec()),
            (Coding::Zstd, zstd::encode_all(&zeros[..], 0).unwrap()),
        ] {
            let mut taken = 0;
            let refused = coding.decode(&bomb, |part| taken += part.len());
            assert_eq!(refused, Err(Unreadable::TooLong));
            assert!(taken <= MOST_BYTES);
        }
        let twice = Codings {
            first: Coding::Gzip,
            second: Coding::Zstd,
        };
        let bomb = zstd::encode_all(&zeros[..], 0).unwrap();
        assert_eq!(twice.decode(&bomb, |_| {}), Err(Unreadable::TooLong));
    }

    #[test]
    fn codings_are_read_in_any_case_and_more_than_two_are_unknown() {
        const NONE: Coding = Coding::Identity;
        for (fields, [first, second]) in [
            (&[][..], [NONE, NONE]),
            (&[("Content-Encoding", "GZip ")], [Coding::Gzip, NONE]),
            (&[("content-encoding", "x-gzip")], [Coding::Gzip, NONE]),
            (&[("content-encoding", "br")], [Coding::Brotli, NONE]),
            (&[("content-encoding", "zstd")], [Coding::Zstd, NONE]),
            (&[("content-encoding", "")], [NONE, NONE]),
            (&[("content-encoding", "None")], [NONE, NONE]),
            (&[("content-encoding", "identity, ,identity")], [NONE, NONE]),
            (
                &[("content-encoding", "gzip, identity")],
                [Coding::Gzip, NONE],
            ),
            (
                &[("content-encoding", "identity"), ("content-encoding", "br")],
                [Coding::Brotli, NONE],
            ),
            (&[("content-encoding", "deflate")], [Coding::Unknown, NONE]),
            (
                &[("content-encoding", "gzip, br")],
                [Coding::Gzip, Coding::Brotli],
            ),
            (
                &[("content-encoding", "gzip"), ("content-encoding", ", ZSTD")],
                [Coding::Gzip, Coding::Zstd],
            ),
            (
                &[("content-encoding", "gzip,deflate")],
                [Coding::Gzip, Coding::Unknown],
            ),
            (
                &[("content-encoding", "gzip, gzip, gzip")],
                [Coding::Unknown, NONE],
            ),
        ] {
            let fields: Vec<_> = fields
                .iter()
                .map(|(name, value)| httparse::Header {
                    name,
                    value: value.as_bytes(),
                })
                .collect();
            let codings = Codings::of(HeaderFields::new(&fields));
            assert_eq!(codings, Codings { first, second });
        }
    }
}
