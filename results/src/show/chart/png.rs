//! A chart as PNG, for slides and for readers without SVG: what [`draw`](super::draw) draws, over the
//! bitmap backend of `plotters`, in the light colours, with a font of ours.

use plotters::backend::BitMapBackend;
use plotters::drawing::IntoDrawingArea;
use plotters::style::{FontFamily, FontStyle, register_font};

use super::Chart;
use super::draw::{Surface, draw};
use super::layout::{Layout, WIDTH};

/// Pixels of a CSS pixel: a picture is 1,440 wide.
const SCALE: i32 = 2;

/// Inter 4 for Latin, digits and the signs of our texts: see `fonts/LICENSE-Inter`.
const FONTS: [(FontStyle, &[u8]); 2] = [
    (
        FontStyle::Normal,
        include_bytes!("../../../fonts/Inter-Regular.otf"),
    ),
    (
        FontStyle::Bold,
        include_bytes!("../../../fonts/Inter-SemiBold.otf"),
    ),
];

/// Reason why a picture was not made.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// A font or a shape could not be drawn.
    #[error("draw {0}.png: {1}")]
    Draw(&'static str, String),
    /// The pixels could not be encoded.
    #[error("encode {0}.png: {1}")]
    Encode(&'static str, png::EncodingError),
}

/// A bitmap has no dashes.
struct Bitmap;

impl Surface for Bitmap {
    const HALO: f64 = 2.0;

    // `plotters` puts the base line half of a size below the top of a line of 1/1.24 of it.
    const TO_BASE: f64 = Self::SIZE * (0.5 - 0.5 / 1.24);

    // Its size is that of a line from the highest letter to the lowest, of Inter 1.21 of an em.
    const SIZE: f64 = 1.21;

    fn dash(&self, _: Option<[f64; 2]>) -> bool {
        false
    }
}

impl Chart {
    /// Return the chart as a PNG file.
    ///
    /// # Errors
    /// When a shape cannot be drawn, or the pixels cannot be encoded.
    pub(in crate::show) fn png(&self) -> Result<Vec<u8>, PngError> {
        let name = self.name;
        for (style, font) in FONTS {
            register_font(FontFamily::SansSerif.as_str(), style, font)
                .map_err(|_| PngError::Draw(name, "its font cannot be read".to_owned()))?;
        }
        let layout = Layout::of(self, false);
        let size = [WIDTH, layout.height].map(|px| pixels(px * f64::from(SCALE)));
        let mut rgb = vec![u8::MAX; size[0] as usize * size[1] as usize * 3];
        {
            let area = BitMapBackend::with_buffer(&mut rgb, size.into()).into_drawing_area();
            draw(&layout, &area, &Bitmap, SCALE)
                .and_then(|()| area.present())
                .map_err(|error| PngError::Draw(name, error.to_string()))?;
        }
        encoded(&rgb, size).map_err(|error| PngError::Encode(name, error))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a sheet has some thousand pixels"
)]
const fn pixels(px: f64) -> u32 {
    px.ceil() as u32
}

fn encoded(rgb: &[u8], [width, height]: [u32; 2]) -> Result<Vec<u8>, png::EncodingError> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(rgb)?;
    writer.finish()?;
    Ok(file)
}
