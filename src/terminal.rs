//! The only place that prints: results to standard output, everything else to standard error.
//!
//! | room | for |
//! |---|---|
//! | `print` | results and messages |
//! | `glyphs` | characters that the terminal has |
//! | `progress` | live view of a run |
//! | `workflow` | annotations and job summaries of GitHub |
//! | `bars` | progress of commands that read files or have stages |

mod bars;
mod glyphs;
mod print;
mod progress;
mod workflow;

pub(crate) use self::bars::{ReadProgress, Stages};
pub(crate) use self::print::{
    DataWriter, Voice, columns_beside, display, is_seen, print, print_data, print_help,
    print_lines, relative, say, say_usage, set_color,
};
pub(crate) use self::progress::Progress;
pub(crate) use self::workflow::announce;
