//! Plots as PNG, for programs that show no SVG: mails, chats, slides.
//!
//! Called by `run --png` and `report --png`. The glyphs come from `results/fonts`, which is
//! compiled in: a picture is the same on every machine, and on one without fonts, too.

#[cfg_attr(not(feature = "png"), path = "png/absent.rs")]
mod raster;

use self::raster::Raster;
use super::{Ground, Plot};
use crate::show::chart::palette::resolved;

/// False in builds without the feature `png`, which cannot draw them.
pub const CAN_DRAW_PNG: bool = cfg!(feature = "png");

/// Reason why there is no picture.
#[derive(Debug, thiserror::Error)]
#[error("draw the plot `{plot}` as PNG: {why}")]
pub struct PngError {
    /// The plot's name.
    pub plot: String,
    /// Reason reported by the renderer.
    pub why: String,
}

/// Draws plots as PNG.
pub struct Rasterizer {
    raster: Raster,
    ground: Ground,
}

impl Rasterizer {
    /// One for plots on this ground.
    #[must_use]
    pub fn on(ground: Ground) -> Self {
        Self {
            raster: Raster::new(),
            ground,
        }
    }

    /// The plot, twice as wide and high as its sheet, as a PNG file.
    ///
    /// # Errors
    /// When the plot is not the SVG that this program writes, or the program was built without the
    /// feature `png`.
    pub fn png(&self, plot: &Plot) -> Result<Vec<u8>, PngError> {
        let drawn = self.raster.draw(&resolved(&plot.svg, self.ground));
        drawn.map_err(|why| PngError {
            plot: plot.name.to_owned(),
            why,
        })
    }
}
