//! Stub for builds without the feature `png`: an explanation.

/// Draws nothing.
pub(super) struct Raster;

impl Raster {
    pub(super) const fn new() -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "the one that can draw needs it")]
    pub(super) fn draw(&self, _: &str) -> Result<Vec<u8>, String> {
        Err("this program was built without PNG: build crawlmark with `--features png`".to_owned())
    }
}
