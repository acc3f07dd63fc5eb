//! Building blocks of every page: markup that no text can break out of, the document around it, and
//! plots.
//!
//! Pages are well-formed XML as well as HTML, so that a test can read them. Tags and the names of
//! attributes are ours and are part of the program; everything else passes through [`Html::text`]
//! and is escaped.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::colours;
use crate::show::chart::{Plot, RULES};
use crate::show::{visible, xml};

/// Style sheet of the pages; the colours are the plots'.
const STYLE: &str = include_str!("style.css");

/// Script that draws the charts of a page, sorts its tables and copies its commands.
const PAGE: &str = include_str!("page.js");

/// Script of a live page, beside it.
const LIVE: &str = include_str!("live.js");

/// uPlot 1.6.32 by Leon Sorokin, which draws the charts of a run: synchronised crosshairs, zoom and
/// `setData` on canvas, fast with 20 series of 600 columns.
const UPLOT: &str = include_str!("uplot/uPlot.iife.min.js");

/// Its licence, MIT, which each page holds.
const UPLOT_LICENSE: &str = include_str!("uplot/LICENSE");

/// Its style sheet.
const UPLOT_STYLE: &str = include_str!("uplot/uPlot.min.css");

/// Sign of the program.
pub(super) const BRAND: &str = "<svg width=\"18\" height=\"18\" viewBox=\"0 0 16 16\" aria-hidden=\"true\">\
    <path fill=\"currentColor\" d=\"M1 13h3V9H1zm5.5 0h3V3h-3zM12 13h3V6h-3z\"/></svg>";

/// Colours of the icon by the tint of the page.
const ICON: [(&str, &str); 4] = [
    ("ok", "0f7b55"),
    ("warn", "c98200"),
    ("bad", "b3261e"),
    ("info", "1f6cc4"),
];

/// What the script of a page is told of it.
pub(super) struct Head<'a> {
    pub(super) title: &'a str,
    /// `ok`, `warn`, `bad` or `info`.
    pub(super) tint: &'a str,
    /// Data of the charts, as JSON; none without charts.
    pub(super) data: Option<&'a str>,
    /// True of a page that is told more each second.
    pub(super) is_live: bool,
}

/// Return a script as an element has it: the CDATA marks keep the page well-formed XML, and the
/// script reads them as comments.
fn script(code: &str) -> String {
    format!("//<![CDATA[\n{code}\n//]]>\n")
}

/// Return the scripts of a page: uPlot where there are charts, and our own, without comments and
/// indentation.
fn scripts(has_charts: bool, is_live: bool) -> Vec<String> {
    let uplot =
        has_charts.then(|| script(&format!("/*!\n{UPLOT_LICENSE}*/\n{}", UPLOT.trim_end())));
    let live = is_live.then_some(LIVE);
    let own = [PAGE].into_iter().chain(live).map(|code| {
        let lines = code
            .lines()
            .map(str::trim_start)
            .filter(|line| !line.is_empty() && !line.starts_with("//"));
        script(&lines.collect::<Vec<_>>().join("\n"))
    });
    uplot.into_iter().chain(own).collect()
}

/// What a browser may load and run: these scripts alone, and on a live page what its server sends.
fn policy(scripts: &[String], is_live: bool) -> String {
    let hashes = scripts.iter().map(|script| {
        let hash = STANDARD.encode(Sha256::digest(script));
        format!(" 'sha256-{hash}'")
    });
    let (hashes, connect) = (
        hashes.collect::<String>(),
        if is_live { " connect-src 'self';" } else { "" },
    );
    format!(
        "default-src 'none';{connect} style-src 'unsafe-inline'; script-src{hashes}; img-src data:; base-uri 'none'; \
         form-action 'none'"
    )
}

/// The policy of a live page.
pub(super) fn live_policy() -> String {
    policy(&scripts(true, true), true)
}

/// Elements without a page around them.
pub(super) fn fragment(inside: impl FnOnce(&mut Html)) -> String {
    let mut html = Html::default();
    inside(&mut html);
    html.out
}

/// Characters that a picture and the data of the charts may take together: those of a long run are
/// too large for a page, and the pictures lie beside it as well.
const ROOM: usize = 45_000;

/// True if a page has room for a picture beside so many characters of data.
pub(super) const fn fits(plot: &Plot, data: usize) -> bool {
    plot.figure.len() + data <= ROOM
}

/// Markup in the making.
#[derive(Debug, Default)]
pub(in crate::show) struct Html {
    out: String,
}

impl Html {
    /// Text, which stays text whatever is in it. Characters that hide are
    /// [shown](crate::show::visible()).
    pub(in crate::show) fn text(&mut self, text: &str) {
        self.out.push_str(&xml::escaped(text));
    }

    /// Sentences on several lines. What stands between two backticks is code; a single one is text.
    pub(in crate::show) fn sentences(&mut self, text: &str) {
        for (n, line) in text.lines().enumerate() {
            if n > 0 {
                self.out.push_str("<br/>");
            }
            let parts: Vec<&str> = line.split('`').collect();
            if parts.len().is_multiple_of(2) {
                self.text(line);
                continue;
            }
            for (place, part) in parts.into_iter().enumerate() {
                if place % 2 == 1 {
                    self.with("code", &[], |html| html.text(part));
                } else {
                    self.text(part);
                }
            }
        }
    }

    /// An element.
    pub(in crate::show) fn element(&mut self, tag: &'static str, inside: impl FnOnce(&mut Self)) {
        self.with(tag, &[], inside);
    }

    /// An element of a class.
    pub(in crate::show) fn classed(
        &mut self,
        tag: &'static str,
        class: &str,
        inside: impl FnOnce(&mut Self),
    ) {
        self.with(tag, &[("class", class)], inside);
    }

    /// An element with attributes.
    pub(in crate::show) fn with(
        &mut self,
        tag: &'static str,
        attributes: &[(&'static str, &str)],
        inside: impl FnOnce(&mut Self),
    ) {
        // Lines for those who read the source; white space inside of text would be seen.
        let end = if matches!(tag, "span" | "code") {
            ""
        } else {
            "\n"
        };
        self.open(tag, attributes);
        self.out.push('>');
        inside(self);
        self.out.push_str("</");
        self.out.push_str(tag);
        self.out.push('>');
        self.out.push_str(end);
    }

    /// An element that holds this text and nothing else.
    pub(in crate::show) fn say(&mut self, tag: &'static str, text: &str) {
        self.element(tag, |html| html.text(text));
    }

    /// Write an element that holds this text; nothing without a text.
    pub(in crate::show) fn say_unless_empty(&mut self, tag: &'static str, text: &str) {
        if !text.is_empty() {
            self.element(tag, |html| html.sentences(text));
        }
    }

    /// An element that never holds anything.
    fn void(&mut self, tag: &'static str, attributes: &[(&'static str, &str)]) {
        self.open(tag, attributes);
        self.out.push_str("/>\n");
    }

    fn open(&mut self, tag: &'static str, attributes: &[(&'static str, &str)]) {
        self.out.push('<');
        self.out.push_str(tag);
        for (name, value) in attributes {
            self.out.push(' ');
            self.out.push_str(name);
            self.out.push_str("=\"");
            self.text(value);
            self.out.push('"');
        }
    }

    /// Markup of ours, as it is.
    pub(in crate::show) fn raw(&mut self, markup: &'static str) {
        self.out.push_str(markup);
    }

    /// A button that the script shows: without it, it would do nothing.
    pub(in crate::show) fn button(&mut self, id: &'static str, text: &str) {
        let attributes = [
            ("type", "button"),
            ("class", "btn"),
            ("id", id),
            ("hidden", "hidden"),
        ];
        self.with("button", &attributes, |html| html.text(text));
    }

    /// A link to a part of the page.
    pub(in crate::show) fn link(&mut self, id: &str, text: &str) {
        self.with("a", &[("href", &format!("#{id}"))], |html| html.text(text));
    }

    /// A part of the page under a heading with a hint, which stays folded unless it is to be `open`.
    /// `id` is for links to it.
    pub(in crate::show) fn folded(
        &mut self,
        id: Option<&'static str>,
        heading: [&str; 2],
        open: bool,
        inside: impl FnOnce(&mut Self),
    ) {
        let id = id.map(|id| ("id", id));
        let open = open.then_some(("open", "open"));
        let attributes: Vec<_> = id.into_iter().chain(open).collect();
        self.with("details", &attributes, |html| {
            let [heading, hint] = heading;
            html.element("summary", |html| {
                html.say("h3", heading);
                if !hint.is_empty() {
                    html.classed("span", "quiet", |html| html.text(hint));
                }
            });
            html.classed("div", "inside", inside);
        });
    }

    /// Write a part of a section that stays folded until the reader opens it.
    pub(in crate::show) fn details(&mut self, summary: &str, inside: impl FnOnce(&mut Self)) {
        self.element("details", |html| {
            html.say("summary", summary);
            inside(html);
        });
    }

    /// Plots, side by side where there is room.
    pub(in crate::show) fn plots<'a>(&mut self, plots: impl Iterator<Item = &'a Plot>) {
        self.classed("div", "plots", |html| {
            plots.for_each(|plot| html.plot(plot));
        });
    }

    /// A plot under its title and caption, which are its text for readers who do not see it.
    fn plot(&mut self, plot: &Plot) {
        let (title, caption) = (
            format!("{}-title", plot.name),
            format!("{}-caption", plot.name),
        );
        self.with(
            "figure",
            &[("id", &format!("plot-{}", plot.name))],
            |html| {
                html.element("figcaption", |html| {
                    html.with("h3", &[("id", &title)], |html| html.text(plot.title));
                    html.with("p", &[("id", &caption)], |html| html.text(&plot.caption));
                });
                // The one thing that is no text: drawn by us, and escaped there.
                html.classed("div", "scroll", |html| {
                    html.out.push_str(&plot.figure);
                });
            },
        );
    }

    /// Write JSON into a script element, escaped so that no text in it can end the element.
    fn json(&mut self, json: &str) {
        let json = visible(json)
            .replace('<', "\\u003c")
            .replace('>', "\\u003e")
            .replace('&', "\\u0026");
        self.out.push_str(&json);
    }

    /// A command, or another text that is to be used as it is, with a button that copies it.
    pub(in crate::show) fn copyable(&mut self, id: &'static str, text: &str) {
        self.with("pre", &[("class", "wraps"), ("id", id)], |html| {
            html.say("code", text);
        });
        let attributes = [
            ("type", "button"),
            ("class", "btn"),
            ("hidden", "hidden"),
            ("data-copies", id),
        ];
        self.with("button", &attributes, |html| html.text("Copy"));
    }
}

/// A whole page. It loads nothing, sends nothing, and says so to the browser.
pub(in crate::show) fn document(head: &Head<'_>, body: impl FnOnce(&mut Html)) -> String {
    let scripts = scripts(head.data.is_some(), head.is_live);
    let mut html = Html {
        out: "<!DOCTYPE html>\n".to_owned(),
    };
    html.with("html", &[("lang", "en")], |html| {
        html.element("head", |html| write_head(html, head, &scripts));
        html.element("body", |html| {
            body(html);
            if let Some(data) = head.data {
                let attributes = [("type", "application/json"), ("id", "data")];
                html.with("script", &attributes, |html| html.json(data));
            }
            for script in &scripts {
                html.element("script", |html| html.out.push_str(script));
            }
        });
    });
    html.out
}

fn write_head(html: &mut Html, head: &Head<'_>, scripts: &[String]) {
    let policy = policy(scripts, head.is_live);
    html.void("meta", &[("charset", "utf-8")]);
    for (kind, name, content) in [
        ("http-equiv", "Content-Security-Policy", &*policy),
        ("name", "viewport", "width=device-width, initial-scale=1"),
        ("name", "color-scheme", "light dark"),
        ("name", "generator", "crawlmark"),
    ] {
        html.void("meta", &[(kind, name), ("content", content)]);
    }
    html.say("title", head.title);
    let colour = ICON
        .iter()
        .find(|(tint, _)| *tint == head.tint)
        .map_or("1f6cc4", |(_, colour)| colour);
    let icon = format!(
        "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath fill='%23{colour}' d='M1 12h3V8H1zm5 0h3V3H6zm5 0h4V6h-4z'/%3E%3C/svg%3E"
    );
    html.void("link", &[("rel", "icon"), ("href", &icon)]);
    // None holds a text of a report, nor a character that would have to be escaped.
    let uplot = if head.data.is_some() { UPLOT_STYLE } else { "" };
    let style = colours::variables() + RULES + uplot + STYLE;
    html.element("style", |html| html.out.push_str(&style));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(inside: impl FnOnce(&mut Html)) -> String {
        let mut html = Html::default();
        inside(&mut html);
        html.out
    }

    #[test]
    fn the_script_is_the_one_that_may_run() {
        for (data, count) in [(None, 1), (Some("{}"), 2)] {
            let head = Head {
                title: "",
                tint: "ok",
                data,
                is_live: false,
            };
            let page = document(&head, |_| {});
            let after = |mark: &str| page.split(mark).skip(1).collect::<Vec<_>>();
            let allowed: Vec<_> = after("sha256-")
                .into_iter()
                .map(|rest| rest.split("&#39;").next().unwrap())
                .collect();
            let run: Vec<_> = after("<script>")
                .into_iter()
                .map(|rest| rest.split("</script>").next().unwrap())
                .map(|code| STANDARD.encode(Sha256::digest(code)))
                .collect();
            assert_eq!(run, allowed);
            assert_eq!(run.len(), count);
        }
    }

    #[test]
    fn text_stays_text() {
        let hostile = "</p><b a=\"x\" b='y'>&amp;\u{0}\u{1b}\r\u{ffff}é";
        let text = "&lt;/p&gt;&lt;b a=&quot;x&quot; b=&#39;y&#39;&gt;&amp;amp;\\u0000\\u001b\\u000d\\uffffé";
        assert_eq!(
            written(|html| html.say("p", hostile)),
            format!("<p>{text}</p>\n")
        );
        assert_eq!(
            written(|html| html.void("br", &[("title", hostile)])),
            format!("<br title=\"{text}\"/>\n")
        );
        let lines = "a<br/>b&lt; <code>c</code>";
        assert_eq!(written(|html| html.sentences("a\nb< `c`")), lines);
    }
}
