//! Items that ended, and responses before their last, on their way from the crawl's thread to the writer's.
//!
//! The crawl's thread only copies; the writer's makes lines of them. A batch is recycled, so that
//! neither allocates after warm-up.

use crawlmark_harness::sample::Outcome;

/// Place of a response among those of its item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Number of its request among those of the item's line, from 1.
    pub step: u32,
    /// Number of the element of a list that the request is for, from 1; none of another request.
    pub element: Option<u32>,
    /// Its number among the responses to that request, from 1.
    pub page: u32,
}

impl Place {
    /// The place of the first response.
    pub const FIRST: Self = Self {
        step: 1,
        element: None,
        page: 1,
    };
}

/// An item that ended, or a response before its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item<'a> {
    /// Number of the item in the plan's range: the ID before `--shuffle`.
    pub number: u64,
    /// ID in its URL.
    pub id: u64,
    /// Place of the response; none of an item that has one request.
    pub place: Option<Place>,
    /// URL, without secrets, where it is not the template with the ID.
    pub url: Option<&'a str>,
    /// Status of the response, the last one if the item ended.
    pub status: Option<u16>,
    /// Outcome of the last attempt; none of an item that robots.txt forbids.
    pub outcome: Option<Outcome>,
    /// Requests for it.
    pub attempts: u32,
    /// Time at which the last attempt was sent, or given up before that: µs since 1970 in UTC.
    pub at_us: u64,
    /// Service time of the last attempt, µs; none if nothing was sent.
    pub latency_us: Option<u64>,
    /// Content type of the last response.
    pub content_type: Option<&'a [u8]>,
    /// `ETag` of the last response.
    pub etag: Option<&'a str>,
    /// `Last-Modified` of the last response.
    pub last_modified: Option<&'a str>,
    /// Body of the last response.
    pub body: Option<ReceivedBody<'a>>,
}

#[cfg(test)]
impl Item<'_> {
    /// The good response of an item that has one request, of which nothing else is known.
    pub(crate) const fn good(number: u64) -> Self {
        Self {
            number,
            id: number,
            place: None,
            url: None,
            status: Some(200),
            outcome: Some(Outcome::Ok),
            attempts: 1,
            at_us: 1,
            latency_us: None,
            content_type: None,
            etag: None,
            last_modified: None,
            body: None,
        }
    }
}

/// Body of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedBody<'a> {
    /// Its start, or all of it.
    pub bytes: &'a [u8],
    /// Length of all of it, bytes.
    pub whole: u64,
}

impl ReceivedBody<'_> {
    /// True if the end of the body is missing.
    pub const fn is_cut(&self) -> bool {
        self.whole > self.bytes.len() as u64
    }
}

/// Items in the order in which they ended.
#[derive(Debug, Default)]
pub struct Batch {
    heads: Vec<Head>,
    /// URL, content type, validators and body of each item, one after the other.
    bytes: Vec<u8>,
}

/// An item, with lengths for its bytes.
#[derive(Debug)]
struct Head {
    number: u64,
    id: u64,
    at_us: u64,
    latency_us: Option<u64>,
    whole: u64,
    url: Option<u32>,
    content_type: Option<u32>,
    etag: Option<u32>,
    last_modified: Option<u32>,
    body: Option<u32>,
    attempts: u32,
    status: Option<u16>,
    outcome: Option<Outcome>,
    place: Option<Place>,
}

impl Batch {
    /// Copy an item, and at most `most_body` bytes of its body.
    pub fn push(&mut self, item: &Item<'_>, most_body: usize) {
        let (url, content_type) = (item.url.map(str::as_bytes), item.content_type);
        let body = item.body.map(|body| body.bytes);
        let head = Head {
            number: item.number,
            id: item.id,
            at_us: item.at_us,
            latency_us: item.latency_us,
            whole: item.body.map_or(0, |body| body.whole),
            url: url.map(|url| self.copy(url, usize::MAX)),
            content_type: content_type.map(|text| self.copy(text, usize::MAX)),
            etag: item.etag.map(|text| self.copy(text.as_bytes(), usize::MAX)),
            last_modified: item
                .last_modified
                .map(|text| self.copy(text.as_bytes(), usize::MAX)),
            body: body.map(|body| self.copy(body, most_body)),
            attempts: item.attempts,
            status: item.status,
            outcome: item.outcome,
            place: item.place,
        };
        self.heads.push(head);
    }

    /// Copy the first bytes, `most` at most, and return their number.
    fn copy(&mut self, bytes: &[u8], most: usize) -> u32 {
        let bytes = &bytes[..bytes.len().min(most).min(u32::MAX as usize)];
        self.bytes.extend_from_slice(bytes);
        u32::try_from(bytes.len()).unwrap_or(u32::MAX)
    }

    /// Return the items, as they were pushed.
    pub fn items(&self) -> impl Iterator<Item = Item<'_>> {
        let mut rest = &self.bytes[..];
        self.heads.iter().map(move |head| {
            let [url, content_type, etag, last_modified, body] = [
                head.url,
                head.content_type,
                head.etag,
                head.last_modified,
                head.body,
            ]
            .map(|length| rest.split_off(..length? as usize));
            let text = |bytes: Option<_>| str::from_utf8(bytes?).ok();
            Item {
                number: head.number,
                id: head.id,
                place: head.place,
                url: text(url),
                status: head.status,
                outcome: head.outcome,
                attempts: head.attempts,
                at_us: head.at_us,
                latency_us: head.latency_us,
                content_type,
                etag: text(etag),
                last_modified: text(last_modified),
                body: body.map(|bytes| ReceivedBody {
                    bytes,
                    whole: head.whole,
                }),
            }
        })
    }

    /// Return the memory that its items take, bytes.
    pub const fn size(&self) -> usize {
        self.bytes.len() + self.heads.len() * size_of::<Head>()
    }

    /// True if it has no item.
    pub const fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Forget the items and keep the memory, but not what a few long bodies needed.
    pub fn clear(&mut self, most_bytes: usize) {
        self.heads.clear();
        self.bytes.clear();
        self.bytes.shrink_to(most_bytes);
    }
}
