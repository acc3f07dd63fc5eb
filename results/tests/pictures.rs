//! Plots as PNG, decoded again: their size, their ground, and that what is written in them can be
//! seen.

#![cfg(feature = "png")]
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crawlmark_results::show::plot::{self, Ground, Plot, Rasterizer};
use resvg::tiny_skia::Pixmap;

fn plots() -> Vec<Plot> {
    plot::all(&crate::saved())
}

fn drawn(plot: &Plot, ground: Ground) -> Pixmap {
    Pixmap::decode_png(&Rasterizer::on(ground).png(plot).unwrap()).unwrap()
}

/// Pixels of the box (left, top, right, bottom; of the sheet) that differ from the picture's first
/// one, which is ground.
fn inked(picture: &Pixmap, [left, top, right, bottom]: [u32; 4]) -> usize {
    let ground = picture.pixel(0, 0);
    let places = (2 * top..2 * bottom).flat_map(|y| (2 * left..2 * right).map(move |x| (x, y)));
    places
        .filter(|(x, y)| picture.pixel(*x, *y) != ground)
        .count()
}

#[test]
fn cells_have_the_colours_of_their_levels() {
    let plot = plots()
        .into_iter()
        .find(|plot| plot.name == "heat")
        .unwrap();
    let picture = drawn(&plot, Ground::Light);
    // Every level is bluish, and nothing else in the field is.
    let places = (300..700).flat_map(|y| (200..1_200).map(move |x| (x, y)));
    let pixels = || places.clone().filter_map(|(x, y)| picture.pixel(x, y));
    assert!(
        pixels()
            .filter(|pixel| pixel.blue() > pixel.red().saturating_add(40))
            .count()
            > 10_000
    );
    assert_eq!(
        pixels().filter(|pixel| pixel.red() == 0).count(),
        0,
        "no cell is black"
    );
}

const TITLE: [u32; 4] = [16, 12, 400, 34];

#[test]
fn every_plot_is_a_picture_of_twice_its_size() {
    for plot in plots() {
        let picture = drawn(&plot, Ground::Light);
        let height = roxmltree::Document::parse(&plot.svg)
            .unwrap()
            .root_element()
            .attribute("height")
            .unwrap()
            .to_owned();
        assert_eq!(picture.width(), 1_280, "{}", plot.name);
        assert!(
            (f64::from(picture.height()) - height.parse::<f64>().unwrap() * 2.0).abs() <= 2.0,
            "{}",
            plot.name
        );
        // A letter of a title has a hundred dark pixels and more.
        let letters = plot.title.chars().filter(|c| *c != ' ').count();
        assert!(
            inked(&picture, TITLE) > 60 * letters,
            "{}: {}",
            plot.name,
            inked(&picture, TITLE)
        );
        assert!(
            inked(&picture, [16, 36, 620, 56]) > 1_000,
            "{}: no caption",
            plot.name
        );
    }
}

#[test]
fn a_picture_has_the_ground_that_was_asked_for() {
    let plot = &plots()[0];
    let ground = |ground| {
        let colour = drawn(plot, ground).pixel(0, 0).unwrap();
        [colour.red(), colour.green(), colour.blue(), colour.alpha()]
    };
    assert_eq!(ground(Ground::Light), [0xFF, 0xFF, 0xFF, 0xFF]);
    assert_eq!(ground(Ground::Dark), [0x14, 0x18, 0x1D, 0xFF]);
}

#[test]
fn what_the_font_lacks_does_not_vanish() {
    let titled = |title: &str| {
        let mut plot = plots().remove(0);
        // The second one is the text; the first is for readers of the file.
        let (head, text) = plot.svg.split_once("</title>").unwrap();
        plot.svg = format!("{head}</title>{}", text.replacen("Throughput", title, 1));
        drawn(&plot, Ground::Light)
    };
    let (blank, asked) = (titled(" "), titled("??"));
    assert_eq!(inked(&blank, TITLE), 0);
    assert!(inked(&asked, TITLE) > 100);
    assert!(
        titled("\u{6f22}\u{5b57}").data() == asked.data(),
        "a `?` for each of them"
    );
    // What plots do say beyond ASCII is there.
    for known in "▸µ≥…·é".chars().map(String::from) {
        let picture = titled(&known);
        let is_drawn = inked(&picture, TITLE) > 5 && picture.data() != titled("?").data();
        assert!(is_drawn, "{known}");
    }
}
