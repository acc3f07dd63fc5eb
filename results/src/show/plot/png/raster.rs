//! From SVG to PNG, with letters of our own.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::{Database, Source};
use resvg::usvg::{Options, Tree};
use skrifa::{FontRef, MetadataProvider};

/// Pixels of a picture per pixel of the sheet: sharp on today's screens.
const ZOOM: f32 = 2.0;

const REGULAR: &[u8] = include_bytes!("../../../../fonts/Inter-Regular.otf");
const BOLD: &[u8] = include_bytes!("../../../../fonts/Inter-Bold.otf");

/// Draws SVG.
pub(super) struct Raster {
    options: Options<'static>,
    letters: Option<FontRef<'static>>,
}

impl Raster {
    pub(super) fn new() -> Self {
        let mut fonts = Database::new();
        for font in [REGULAR, BOLD] {
            fonts.load_font_source(Source::Binary(Arc::new(font)));
        }
        fonts.set_sans_serif_family("Inter");
        let options = Options {
            font_family: "Inter".to_owned(),
            fontdb: Arc::new(fonts),
            ..Options::default()
        };
        Self {
            options,
            letters: FontRef::new(REGULAR).ok(),
        }
    }

    /// The picture as a PNG file, or what is wrong.
    pub(super) fn draw(&self, svg: &str) -> Result<Vec<u8>, String> {
        let tree = Tree::from_str(&self.in_our_letters(svg), &self.options)
            .map_err(|error| error.to_string())?;
        let size = tree
            .size()
            .to_int_size()
            .scale_by(ZOOM)
            .ok_or("it has no size")?;
        let mut pixmap = Pixmap::new(size.width(), size.height()).ok_or("it is too large")?;
        resvg::render(
            &tree,
            Transform::from_scale(ZOOM, ZOOM),
            &mut pixmap.as_mut(),
        );
        pixmap.encode_png().map_err(|error| error.to_string())
    }

    /// The file with a `?` for each character that the letters lack, which would be drawn as
    /// nothing. Both weights have the same ones.
    fn in_our_letters(&self, svg: &str) -> String {
        let known = |c: char| {
            self.letters
                .as_ref()
                .is_none_or(|letters| letters.charmap().map(c).is_some())
        };
        svg.chars()
            .map(|c| if c.is_ascii() || known(c) { c } else { '?' })
            .collect()
    }
}
