//! Numbers, quantities, causes of failures and lines as people read them.

mod causes;
mod numbers;
mod wrap;

pub(crate) use self::causes::listed;
pub use self::causes::{cause_in_words, remedy_in_words};
pub(crate) use self::numbers::bytes_f64;
pub(crate) use self::numbers::in_unit;
pub(crate) use self::numbers::seconds;
pub use self::numbers::{
    BLOCKS, block, bytes, counted, decimal, grouped_f64, rate_in_words, shell_word, short_percent,
};
pub use self::wrap::{capital, shortened, wrapped, write_row};
pub use crawlmark_harness::units::{grouped, micros};
