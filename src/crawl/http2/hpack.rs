//! Header fields of HTTP/2 as bytes (HPACK, RFC 7541): decodes those of responses, and writes those
//! of requests without a dynamic table, so that a template is encoded once for all connections.
//!
//! The decoder reads any bytes. It must not know what a field means, but for the rules of RFC 9113,
//! 8.2 and 8.3, on what is no field of a response.

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::crawl::response::fields::MOST_HEAD_BYTES;

/// Largest dynamic table, bytes: the default, which this client's settings leave as it is.
const TABLE_BYTES: usize = 4_096;

/// Bytes that a field counts for beside its name and value (RFC 7541, 4.1).
const ENTRY_BYTES: usize = 32;

/// Memory for names and for values that is kept for the next head: more than most heads have.
pub(super) const KEPT_BYTES: usize = 16 << 10;

/// Characters of a field's name that a failure repeats.
const SHOWN_NAME: usize = 64;

/// Instruction that the sender's dynamic table holds nothing from now on (RFC 7541, 6.3).
pub(super) const NO_TABLE: u8 = 0x20;

/// Static table (RFC 7541, appendix A).
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// Bytes by their Huffman code (RFC 7541, appendix B), which is canonical: codes of one length
/// follow one another in the order of their bytes, and shorter ones come first.
const BY_CODE: &[u8; 256] = b"012aceiost %-./3456789=A_bdfghlmnpru:BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz&*,;XZ!\"()?'+|#>\x00$@[]~^}<`{\\\xc3\xd0\x80\x82\x83\xa2\xb8\xc2\xe0\xe2\x99\xa1\xa7\xac\xb0\xb1\xb3\xd1\xd8\xd9\xe3\xe5\xe6\x81\x84\x85\x86\x88\x92\x9a\x9c\xa0\xa3\xa4\xa9\xaa\xad\xb2\xb5\xb9\xba\xbb\xbd\xbe\xc4\xc6\xe4\xe8\xe9\x01\x87\x89\x8a\x8b\x8c\x8d\x8f\x93\x95\x96\x97\x98\x9b\x9d\x9e\xa5\xa6\xa8\xae\xaf\xb4\xb6\xb7\xbc\xbf\xc5\xe7\xef\x09\x8e\x90\x91\x94\x9f\xab\xce\xd7\xe1\xec\xed\xc7\xcf\xea\xeb\xc0\xc1\xc8\xc9\xca\xcd\xd2\xd5\xda\xdb\xee\xf0\xf2\xf3\xff\xcb\xcc\xd3\xd4\xd6\xdd\xde\xdf\xf1\xf4\xf5\xf6\xf7\xf8\xfa\xfb\xfc\xfd\xfe\x02\x03\x04\x05\x06\x07\x08\x0b\x0c\x0e\x0f\x10\x11\x12\x13\x14\x15\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f\xdc\xf9\x0a\x0d\x16";

/// Number of codes of each length from 1 to 30 bits. The last one ends no text (EOS).
const CODES: [u32; 31] = [
    0, 0, 0, 0, 0, 10, 26, 32, 6, 0, 5, 3, 2, 6, 2, 3, 0, 0, 0, 3, 8, 13, 26, 29, 12, 4, 15, 19,
    29, 0, 4,
];

/// Codes of one length.
#[derive(Debug, Clone, Copy)]
struct Codes {
    bits: u32,
    /// First code, in the upper bits of a word.
    first: u32,
    /// Last word that begins with one of them.
    last: u32,
    /// Position of the first one's byte.
    at: u32,
}

/// Codes by their length, for the 21 lengths that there are.
const BY_LENGTH: [Codes; 21] = {
    let mut all = [Codes {
        bits: 0,
        first: 0,
        last: 0,
        at: 0,
    }; 21];
    let (mut bits, mut code, mut at, mut next) = (1, 0, 0, 0);
    while bits <= 30 {
        code <<= 1;
        let count = CODES[bits as usize];
        if count > 0 {
            let shift = 32 - bits;
            let first = code << shift;
            all[next] = Codes {
                bits,
                first,
                last: first + ((count << shift) - 1),
                at,
            };
            code += count;
            at += count;
            next += 1;
        }
        bits += 1;
    }
    all
};

/// A block that cannot be decoded: the state of the table is unknown from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Undecodable;

/// A field, as a dynamic table keeps it.
#[derive(Debug, Default)]
struct Entry {
    name: String,
    value: Vec<u8>,
    is_valid: bool,
}

/// Decoder of a connection.
#[derive(Debug)]
pub(super) struct Decoder {
    /// Latest first.
    table: VecDeque<Entry>,
    bytes: usize,
    most: usize,
    /// Memory for the next field, and for its text.
    spare: Entry,
    text: Vec<u8>,
}

impl Decoder {
    pub(super) fn new() -> Self {
        Self {
            table: VecDeque::new(),
            bytes: 0,
            most: TABLE_BYTES,
            spare: Entry::default(),
            text: Vec::new(),
        }
    }

    /// Decode a whole block; its fields replace those of `fields`. Return true if the same block
    /// would have the same fields again, for it did not change the table.
    pub(super) fn decode(
        &mut self,
        mut block: &[u8],
        fields: &mut Fields,
    ) -> Result<bool, Undecodable> {
        fields.clear();
        let (mut may_resize, mut is_repeatable) = (true, true);
        while let Some(&first) = block.first() {
            if first & 0xe0 == NO_TABLE {
                let most = integer(&mut block, 5)?;
                if !may_resize || most > TABLE_BYTES {
                    return Err(Undecodable);
                }
                self.most = most;
                self.evict();
                is_repeatable = false;
                continue;
            }
            may_resize = false;
            if first & 0x80 != 0 {
                match integer(&mut block, 7)?.checked_sub(1).ok_or(Undecodable)? {
                    at if at < STATIC.len() => {
                        fields.add(STATIC[at].0, STATIC[at].1.as_bytes(), true);
                    }
                    at => {
                        let entry = self.table.get(at - STATIC.len()).ok_or(Undecodable)?;
                        fields.add(&entry.name, &entry.value, entry.is_valid);
                    }
                }
                continue;
            }
            let is_kept = first & 0x40 != 0;
            let number = integer(&mut block, if is_kept { 6 } else { 4 })?;
            let entry = self.literal(number, &mut block)?;
            fields.add(&entry.name, &entry.value, entry.is_valid);
            if is_kept {
                self.bytes += entry.name.len() + entry.value.len() + ENTRY_BYTES;
                self.table.push_front(entry);
                self.evict();
                is_repeatable = false;
            } else {
                self.spare = entry;
            }
        }
        Ok(is_repeatable)
    }

    /// Read a field whose name has this number, or is written out.
    fn literal(&mut self, number: usize, block: &mut &[u8]) -> Result<Entry, Undecodable> {
        let mut entry = std::mem::take(&mut self.spare);
        entry.name.clear();
        entry.is_valid = true;
        match number.checked_sub(1) {
            None => {
                let name = string(block, &mut self.text)?;
                entry.is_valid = is_name(name);
                let name = std::str::from_utf8(name).map_err(|_| Undecodable)?;
                entry.name.push_str(name);
            }
            Some(at) if at < STATIC.len() => entry.name.push_str(STATIC[at].0),
            Some(at) => {
                let named = self.table.get(at - STATIC.len()).ok_or(Undecodable)?;
                entry.is_valid = is_name(named.name.as_bytes());
                entry.name.push_str(&named.name);
            }
        }
        let value = string(block, &mut self.text)?;
        entry.is_valid &= value
            .iter()
            .all(|&byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f));
        entry.value.clear();
        entry.value.extend_from_slice(value);
        Ok(entry)
    }

    fn evict(&mut self) {
        while self.bytes > self.most
            && let Some(entry) = self.table.pop_back()
        {
            self.bytes -= entry.name.len() + entry.value.len() + ENTRY_BYTES;
            self.spare = entry;
        }
    }
}

/// True for a name that a response may have: in lower case, and of no connection of HTTP/1.1.
fn is_name(name: &[u8]) -> bool {
    let is_token = name.iter().all(|byte| {
        matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'!' | b'#'..=b'\'' | b'*' | b'+' | b'.' | b'^' | b'`' | b'|' | b'~')
    });
    let of_connection = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "transfer-encoding",
        "upgrade",
    ];
    name == b":status"
        || (is_token && !name.is_empty() && !of_connection.iter().any(|of| of.as_bytes() == name))
}

/// Read an integer whose first byte has it in its last `bits` bits (RFC 7541, 5.1).
fn integer(block: &mut &[u8], bits: u32) -> Result<usize, Undecodable> {
    let (&first, mut rest) = block.split_first().ok_or(Undecodable)?;
    let most = (1_usize << bits) - 1;
    let mut value = usize::from(first) & most;
    if value == most {
        let mut shift = 0;
        loop {
            let (&byte, others) = rest.split_first().ok_or(Undecodable)?;
            rest = others;
            value += usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
            if shift > 21 {
                return Err(Undecodable);
            }
        }
    }
    *block = rest;
    Ok(value)
}

/// Read a string, decoded into `text` where it is coded (RFC 7541, 5.2).
fn string<'a, 'b: 'a>(
    block: &mut &'b [u8],
    text: &'a mut Vec<u8>,
) -> Result<&'a [u8], Undecodable> {
    let is_coded = block.first().is_some_and(|first| first & 0x80 != 0);
    let length = integer(block, 7)?;
    let (raw, rest) = block.split_at_checked(length).ok_or(Undecodable)?;
    *block = rest;
    if !is_coded {
        return Ok(raw);
    }
    text.clear();
    decode_huffman(raw, text)?;
    Ok(text)
}

fn decode_huffman(bytes: &[u8], text: &mut Vec<u8>) -> Result<(), Undecodable> {
    // Bits that are not debytes yet are the upper ones; ones follow the last of them, as padding.
    let (mut bits, mut count, mut rest) = (u64::MAX, 0_u32, bytes.iter());
    loop {
        while count <= 32
            && let Some(&byte) = rest.next()
        {
            let shift = 56 - count;
            bits = bits & !(0xff << shift) | u64::from(byte) << shift;
            count += 8;
        }
        let word = (bits >> 32) as u32;
        let codes = BY_LENGTH
            .iter()
            .find(|codes| word <= codes.last)
            .ok_or(Undecodable)?;
        if codes.bits > count {
            // What is left is the start of a code that only padding completes.
            let is_padding = count < 8 && bits == u64::MAX;
            return if is_padding { Ok(()) } else { Err(Undecodable) };
        }
        let at = codes.at + ((word - codes.first) >> (32 - codes.bits));
        text.push(*BY_CODE.get(at as usize).ok_or(Undecodable)?);
        bits = bits << codes.bits | ((1 << codes.bits) - 1);
        count -= codes.bits;
    }
}

/// Fields of a head, and what they say about the message.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// Number of the block that they are from, on their connection.
    pub(super) number: u64,
    names: String,
    values: Vec<u8>,
    /// Ends of each name and value.
    ends: Vec<[usize; 2]>,
    /// Size by RFC 9113, 6.5.2.
    pub(super) bytes: usize,
    pub(super) status: Option<u16>,
    /// `Content-Length`, bytes.
    pub(super) declared: Option<u64>,
    /// Rule that it breaks.
    pub(super) flaw: Option<Cow<'static, str>>,
}

impl Fields {
    fn clear(&mut self) {
        self.names.clear();
        self.names.shrink_to(KEPT_BYTES);
        self.values.clear();
        self.values.shrink_to(KEPT_BYTES);
        self.ends.clear();
        (self.bytes, self.status, self.declared, self.flaw) = (0, None, None, None);
    }

    fn add(&mut self, name: &str, value: &[u8], is_valid: bool) {
        self.bytes += name.len() + value.len() + ENTRY_BYTES;
        if self.bytes > MOST_HEAD_BYTES {
            self.flaw = Some("the head of the response is too long".into());
        } else if !is_valid {
            let name: String = name.escape_debug().take(SHOWN_NAME).collect();
            let rule = format!("HTTP/2 does not allow the response's field {name}, or its value");
            self.flaw = Some(rule.into());
        } else if name.starts_with(':') {
            let status = number(value).and_then(|status| u16::try_from(status).ok());
            let status = status.filter(|status| value.len() == 3 && *status >= 100);
            let is_first = self.ends.is_empty() && self.status.is_none();
            if name != ":status" || !is_first || status.is_none() {
                self.flaw = Some("the status of the response is malformed".into());
            }
            self.status = status;
        } else {
            if name == "content-length" {
                let declared = number(value);
                if declared.is_none() || self.declared.is_some_and(|it| Some(it) != declared) {
                    self.flaw = Some("the content-length of the response is malformed".into());
                }
                self.declared = declared;
            }
            self.names.push_str(name);
            self.values.extend_from_slice(value);
            self.ends.push([self.names.len(), self.values.len()]);
        }
    }

    /// Iterate over the names and values.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &[u8])> {
        let mut start = [0, 0];
        self.ends.iter().map(move |&end| {
            let [name, value] = std::mem::replace(&mut start, end);
            (&self.names[name..end[0]], &self.values[value..end[1]])
        })
    }
}

/// Digits and nothing else.
fn number(value: &[u8]) -> Option<u64> {
    let digits = value.iter().all(u8::is_ascii_digit);
    digits.then(|| std::str::from_utf8(value).ok()?.parse().ok())?
}

/// Append a field to a block.
pub(super) fn write_field(name: &str, value: &[u8], block: &mut Vec<u8>) {
    let named = STATIC.iter().position(|(known, _)| *known == name);
    let whole = STATIC
        .iter()
        .position(|(known, of)| *known == name && of.as_bytes() == value && !of.is_empty());
    if let Some(at) = whole {
        write_integer(0x80, 7, at + 1, block);
        return;
    }
    write_integer(0, 4, named.map_or(0, |at| at + 1), block);
    if named.is_none() {
        write_integer(0, 7, name.len(), block);
        block.extend_from_slice(name.as_bytes());
    }
    write_integer(0, 7, value.len(), block);
    block.extend_from_slice(value);
}

/// Append an integer after the pattern of its first byte.
pub(super) fn write_integer(pattern: u8, bits: u32, value: usize, block: &mut Vec<u8>) {
    let most = (1_usize << bits) - 1;
    block.push(pattern | value.min(most).to_le_bytes()[0]);
    let Some(mut rest) = value.checked_sub(most) else {
        return;
    };
    while rest >= 0x80 {
        block.push(0x80 | rest.to_le_bytes()[0]);
        rest >>= 7;
    }
    block.push(rest.to_le_bytes()[0]);
}
