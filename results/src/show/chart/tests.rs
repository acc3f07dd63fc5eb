//! Laws of every picture: no text lies on another one or beyond the sheet, the answer is whole, and
//! each ink has a light and a dark colour.

use proptest::prelude::*;
use roxmltree::Document;

use super::lettering::width;
use super::palette::style_sheet;
use super::*;

/// A text as it is drawn: left, top, right and bottom.
struct Drawn {
    text: String,
    place: [f64; 4],
}

fn texts(svg: &str) -> (Vec<Drawn>, [f64; 2]) {
    let document = Document::parse(svg).unwrap();
    let number = |node: &roxmltree::Node<'_, '_>, name| {
        let value = node.attribute(name).unwrap_or("0");
        value.parse::<f64>().unwrap()
    };
    let root = document.root_element();
    let size = ["width", "height"].map(|side| number(&root, side));
    let nodes = document.descendants();
    let nodes = nodes.filter(|node| node.has_tag_name("text"));
    let drawn = nodes.map(|node| {
        let text = node.text().unwrap_or_default().to_owned();
        let font = number(&node, "font-size");
        let wide = width(&text) * font;
        let x = number(&node, "x");
        let left = match node.attribute("text-anchor") {
            Some("middle") => x - wide / 2.0,
            Some("end") => x - wide,
            _ => x,
        };
        let y = number(&node, "y");
        let place = [left, y - 0.7 * font, left + wide, y + 0.2 * font];
        Drawn { text, place }
    });
    (drawn.collect(), size)
}

fn assert_laws(chart: &Chart) {
    let svg = chart.svg();
    let wrong = svg
        .lines()
        .find(|line| line.contains("NaN") || line.contains("inf\""));
    assert_eq!(wrong, None);
    let (texts, [right, bottom]) = texts(&svg);
    for (n, one) in texts.iter().enumerate() {
        let [left, top, end, base] = one.place;
        assert!(
            left >= 0.0 && top >= 0.0 && end <= right && base <= bottom,
            "`{}` leaves the sheet: {:?}",
            one.text,
            one.place
        );
        for other in &texts[..n] {
            let [a, b] = [&one.place, &other.place];
            let apart = a[0] >= b[2] || b[0] >= a[2] || a[1] >= b[3] || b[1] >= a[3];
            assert!(apart, "`{}` lies on `{}`", one.text, other.text);
        }
    }
    let whole: Vec<&str> = texts.iter().map(|one| &*one.text).collect();
    assert!(whole.join(" ").contains(&chart.answer), "{whole:?}");
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        1e-6..1.0f64,
        1.0..1e3f64,
        1e3..1e12f64,
        1e12..1e18f64
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,12}( [a-z]{1,12}){0,3}",
        "[WMé界µ%<& ]{1,80}",
        Just(String::new())
    ]
}

fn mark() -> impl Strategy<Value = Mark> {
    let places = prop::collection::vec((value(), value()), 1..40);
    (places, name(), 0..8_usize, 0..3_usize).prop_map(|(mut places, name, kind, role)| {
        places.sort_by(|a, b| a.0.total_cmp(&b.0));
        let dots = || places.iter().map(|(x, y)| Dot::at(*x, *y)).collect();
        let step = |&(x, y): &(f64, f64)| Step {
            from: x,
            to: x + 1.0,
            value: Some(y),
            base: 0.0,
        };
        let note = |at: &(f64, f64)| Note::new(name.clone(), *at, [-8.0, -9.0]);
        let shape = match kind {
            0 => Shape::Line(places.clone()),
            1 => Shape::Dots(dots()),
            2 => Shape::Steps(places.iter().map(step).collect()),
            3 => Shape::Areas(places.iter().map(step).collect()),
            4 => Shape::Notes(places.iter().map(note).collect()),
            5 => Shape::Across(places[0].1),
            6 => Shape::Upright(places[0].0),
            _ => Shape::Columns(dots()),
        };
        Mark::new(Role::Run(role), name, shape)
    })
}

fn panel() -> impl Strategy<Value = Panel> {
    let ranges = (any::<bool>(), 0..3_usize);
    let rows = prop::collection::vec(name(), 1..6);
    let marks = prop::collection::vec(mark(), 0..6);
    (ranges, rows, marks, name(), 40.0..200.0f64).prop_map(
        |((is_log, kind), names, marks, label, height)| {
            let range = if is_log { Range::Log } else { Range::FromZero };
            let mut x = Axis::new(label.clone(), range.clone(), Format::Number);
            let mut cells = Vec::new();
            let y = if kind == 0 {
                let rows = names.iter().map(|name| RowName {
                    number: "1".to_owned(),
                    name: name.clone(),
                    detail: String::new(),
                });
                Range::Rows(rows.collect())
            } else {
                range
            };
            if kind == 1 {
                let ticks = (1_u32..).zip(&names);
                x = x.ticks(
                    ticks
                        .map(|(n, name)| (f64::from(n), name.clone()))
                        .collect(),
                );
                cells = vec![Cells {
                    name: label.clone(),
                    texts: names,
                }];
            }
            Panel {
                x,
                y: Axis::new(label, y, Format::Micros),
                height,
                marks,
                cells,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_lies_on_another_or_leaves_the_sheet(
        panels in prop::collection::vec(panel(), 1..4), number in 0..1_000_000_u64, subtitle in name(),
    ) {
        assert_laws(&Chart {
            name: "any",
            title: "Any",
            answer: format!("{number} of them are here"),
            subtitle: subtitle.clone(),
            source: subtitle.repeat(9),
            panels,
        });
    }
}

#[test]
fn each_ink_has_a_light_and_a_dark_colour() {
    let sheet = style_sheet();
    let (light, dark) = sheet.split_once("@media").unwrap();
    for ink in palette::ALL {
        let rule = format!(".{}{{color:", ink.class());
        for mode in [light, dark] {
            assert_eq!(mode.matches(&rule).count(), 1, "{rule}");
        }
    }
}

#[test]
fn a_png_is_the_picture_at_twice_its_size() {
    let line = Mark::new(
        Role::Good,
        "measured",
        Shape::Line(vec![(1.0, 1.0), (9.0, 4.0)]),
    );
    let chart = Chart {
        name: "any",
        title: "Any",
        answer: "4 of them are here".to_owned(),
        subtitle: String::new(),
        source: String::new(),
        panels: vec![Panel {
            x: Axis::new("s", Range::FromZero, Format::Number),
            y: Axis::new("", Range::FromZero, Format::Number),
            height: 100.0,
            marks: vec![line],
            cells: Vec::new(),
        }],
    };
    let (_, size) = texts(&chart.svg());
    let png = chart.png().unwrap();
    let mut reader = ::png::Decoder::new(std::io::Cursor::new(&png))
        .read_info()
        .unwrap();
    let mut rgb = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut rgb).unwrap();
    let twice = size.map(|px| (px * 2.0).to_string());
    assert_eq!([info.width, info.height].map(|px| px.to_string()), twice);
    let row = info.width as usize * 3;
    let is_drawn = |top: usize, bottom: usize, dark: u8| {
        let rows = rgb[row * top..row * bottom].chunks(3);
        rows.filter(|pixel| pixel.iter().all(|part| *part < dark))
            .count()
    };
    // The letters of the title lie above their base line, and nothing lies above them.
    assert!(is_drawn(34, 66, 100) > 500, "the title is drawn");
    assert_eq!(is_drawn(0, 30, 200), 0);
    assert_eq!(is_drawn(76, 100, 200), 0, "and stands on its base line");
    let blue = rgb.chunks(3).filter(|pixel| **pixel == [0x1F, 0x6C, 0xC4]);
    assert!(blue.count() > 500, "and so is the line");
}

#[test]
fn an_area_has_its_name_where_it_is_last_known() {
    let step = |from, value| Step {
        from,
        to: from + 1.0,
        value,
        base: 0.0,
    };
    let steps = vec![step(0.0, Some(4.0)), step(1.0, None)];
    let area = Mark::new(Role::Good, "good", Shape::Areas(steps));
    assert_eq!(area.ending(), Some((1.0, 2.0)));
}
