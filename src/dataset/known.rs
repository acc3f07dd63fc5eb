//! What a saved crawl knows of its items (`--refresh`): the validators of each item's record that
//! counts, by which a target says that this still holds (RFC 9110, 8.8 and 13.1).
//!
//! Read before the fork, and shared by all shards: some 150 bytes for each item with a validator.

use std::collections::HashMap;

use super::export::{CrawlExportError, each_counting};
use super::line::ItemState;
use super::saved::SavedCrawl;

/// Validators of the items of a saved crawl.
#[derive(Debug, Default)]
pub struct Known(HashMap<u64, KnownItem>);

/// A response that is saved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownItem {
    /// Its `ETag`.
    pub(crate) etag: Option<Box<str>>,
    /// Its `Last-Modified`.
    pub(crate) last_modified: Option<Box<str>>,
    /// Its URL, without secrets, where it is not the template with the ID.
    pub(crate) url: Option<Box<str>>,
}

impl Known {
    /// Read the items of a crawl.
    ///
    /// # Errors
    /// When it cannot be read, or is damaged.
    pub(crate) fn read(crawl: &SavedCrawl) -> Result<Self, CrawlExportError> {
        let mut known = HashMap::new();
        each_counting(crawl, |item, record, _| {
            let text = |text: Option<&str>| text.map(Box::from);
            let of_record = KnownItem {
                etag: text(record.etag.as_deref()),
                last_modified: text(record.last_modified.as_deref()),
                url: text(record.url.as_deref()),
            };
            let is_some = of_record.etag.is_some() || of_record.last_modified.is_some();
            if record.state() == ItemState::Good && is_some {
                known.insert(item, of_record);
            }
            Ok(())
        })?;
        Ok(Self(known))
    }

    /// Return what is known of an item, by its number.
    pub(crate) fn of(&self, item: u64) -> Option<&KnownItem> {
        self.0.get(&item)
    }

    /// True if no item has a validator.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
