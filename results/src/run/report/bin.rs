//! A tenth of a second of a short run; ten of them are the columns of `bins` in a second.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};
use serde_json::{Map, Value, from_value, to_value};

use crawlmark_harness::stats::{Bins, SecondCounts};

/// A tenth of a second over all shards: counts of what ended in it, and times of what was scheduled
/// in it. Times are response times in an open loop, service times in a closed one, and of requests
/// that were cut off the age that they reached.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BinRow {
    /// Counts of what ended in it.
    #[serde(flatten)]
    pub counts: SecondCounts,
    /// Median, us, at most 1.6 % too low; null with too few requests.
    pub p50_us: Option<u64>,
    /// 90th percentile, us, at most 1.6 % too low; null with too few requests.
    pub p90_us: Option<u64>,
    /// 99th percentile, us, at most 1.6 % too low; null with too few requests.
    pub p99_us: Option<u64>,
    /// Slowest, us; null without any.
    pub max_us: Option<f64>,
}

impl BinRow {
    /// The bins of a second; none of a second without them.
    pub(super) fn all(bins: &Bins) -> Option<Vec<Self>> {
        let bins = bins.as_slice();
        (!bins.is_empty()).then(|| {
            bins.iter()
                .map(|bin| {
                    let [p50_us, p90_us, p99_us] =
                        [0.5, 0.9, 0.99].map(|q| bin.times.percentile_us(q));
                    let counts = SecondCounts::of(&bin.counters.items, &bin.counters.requests);
                    Self {
                        counts,
                        p50_us,
                        p90_us,
                        p99_us,
                        max_us: (bin.max_ns > 0).then(|| bin.max_ns as f64 / 1e3),
                    }
                })
                .collect()
        })
    }
}

/// Write the bins as a column for each figure, without columns of nothing but 0.
#[expect(clippy::ref_option, reason = "the signature that serde calls")]
pub(super) fn serialize<S: Serializer>(
    bins: &Option<Vec<BinRow>>,
    to: S,
) -> Result<S::Ok, S::Error> {
    let bins = bins.as_deref().unwrap_or_default();
    let mut columns: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (n, bin) in bins.iter().enumerate() {
        let Value::Object(figures) = to_value(bin).map_err(ser::Error::custom)? else {
            continue;
        };
        for (name, value) in figures {
            columns
                .entry(name)
                .or_insert_with(|| vec![Value::Null; bins.len()])[n] = value;
        }
    }
    columns.retain(|_, column| column.iter().any(|value| !value.is_null() && *value != 0));
    columns.serialize(to)
}

/// Read the columns; a missing one is of nothing but 0.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<BinRow>>, D::Error> {
    let Some(columns) = Option::<BTreeMap<String, Vec<Value>>>::deserialize(from)? else {
        return Ok(None);
    };
    let empty = to_value(BinRow::default()).map_err(D::Error::custom)?;
    (0..Bins::COUNT)
        .map(|n| {
            let mut figures = empty.as_object().cloned().unwrap_or_else(Map::new);
            let known = columns
                .iter()
                .filter_map(|(name, column)| Some((name, column.get(n)?)));
            figures.extend(
                known
                    .filter(|(_, value)| !value.is_null())
                    .map(|(name, value)| (name.clone(), value.clone())),
            );
            from_value(Value::Object(figures)).map_err(D::Error::custom)
        })
        .collect::<Result<_, _>>()
        .map(Some)
}
