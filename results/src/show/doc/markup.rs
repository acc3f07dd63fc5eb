//! Building blocks of every page: markup that no text can break out of, the document around it, and
//! plots.
//!
//! Pages are well-formed XML as well as HTML, so that a test can read them. Tags and the names of
//! attributes are ours and are part of the program; everything else passes through [`Html::text`]
//! and is escaped.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::show::chart::{Plot, style_sheet};
use crate::show::{visible, xml};

/// Style sheet of the pages; the colours are the plots'.
const STYLE: &str = include_str!("style.css");

/// Script that reads the charts of a page, sorts its tables and copies its commands.
const PAGE: &str = include_str!("page.js");

/// Return the script, of which each page is spared the comments and the indentation. The CDATA
/// marks keep the page well-formed XML; the script reads them as comments.
fn script() -> String {
    let lines = PAGE
        .lines()
        .map(str::trim_start)
        .filter(|line| !line.is_empty() && !line.starts_with("//"));
    let page: String = lines.flat_map(|line| [line, "\n"]).collect();
    format!("//<![CDATA[\n{page}//]]>\n")
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

    /// A part of the page under a heading. `id` is for links to it.
    pub(in crate::show) fn section(
        &mut self,
        id: &'static str,
        heading: &str,
        inside: impl FnOnce(&mut Self),
    ) {
        self.with("section", &[("id", id)], |html| {
            html.say("h2", heading);
            inside(html);
        });
    }

    /// Write a section that stays folded until the reader opens it.
    pub(in crate::show) fn details(&mut self, summary: &str, inside: impl FnOnce(&mut Self)) {
        self.element("details", |html| {
            html.say("summary", summary);
            inside(html);
        });
    }

    /// Plots, side by side where there is room.
    pub(in crate::show) fn plots<'a>(&mut self, plots: impl Iterator<Item = &'a Plot>) {
        self.with("div", &[("class", "plots")], |html| {
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
                html.with("div", &[("class", "scroll")], |html| {
                    html.out.push_str(&plot.figure);
                });
                if let Some(data) = &plot.data {
                    html.with("script", &[("type", "application/json")], |html| {
                        html.json(data);
                    });
                }
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

    /// Links to the parts of the page.
    pub(in crate::show) fn contents(&mut self, parts: &[(&str, &str)]) {
        if parts.is_empty() {
            return;
        }
        self.with("nav", &[("aria-label", "Contents")], |html| {
            for (id, heading) in parts {
                html.with("a", &[("href", &format!("#{id}"))], |html| {
                    html.text(heading);
                });
            }
        });
    }

    /// A command, or another text that is to be used as it is, with a button that copies it.
    pub(in crate::show) fn copyable(&mut self, id: &'static str, text: &str) {
        self.with("pre", &[("class", "wraps"), ("id", id)], |html| {
            html.say("code", text);
        });
        let attributes = [
            ("type", "button"),
            ("hidden", "hidden"),
            ("data-copies", id),
        ];
        self.with("button", &attributes, |html| html.text("Copy"));
    }
}

/// A whole page with this title. It loads nothing, sends nothing, and says so to the browser.
pub(in crate::show) fn document(title: &str, body: impl FnOnce(&mut Html)) -> String {
    // No other script may run.
    let own = STANDARD.encode(Sha256::digest(script()));
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{own}'; base-uri 'none'; \
         form-action 'none'"
    );
    let mut html = Html {
        out: "<!DOCTYPE html>\n".to_owned(),
    };
    html.with("html", &[("lang", "en")], |html| {
        html.element("head", |html| {
            html.void("meta", &[("charset", "utf-8")]);
            html.void(
                "meta",
                &[
                    ("http-equiv", "Content-Security-Policy"),
                    ("content", &policy),
                ],
            );
            html.void(
                "meta",
                &[
                    ("name", "viewport"),
                    ("content", "width=device-width, initial-scale=1"),
                ],
            );
            html.void(
                "meta",
                &[("name", "color-scheme"), ("content", "light dark")],
            );
            html.void("meta", &[("name", "generator"), ("content", "crawlmark")]);
            html.say("title", title);
            // Neither holds a text of a report, nor a character that would have to be escaped.
            let style = style_sheet() + STYLE;
            html.element("style", |html| html.out.push_str(&style));
        });
        html.element("body", |html| {
            html.element("main", body);
            html.element("script", |html| html.out.push_str(&script()));
        });
    });
    html.out
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
        let page = document("", |_| {});
        let between = |from: &str, to: &str| {
            let (_, rest) = page.split_once(from).unwrap();
            rest.split_once(to).unwrap().0
        };
        let element = between("<script>", "</script>");
        let hash = STANDARD.encode(Sha256::digest(element));
        assert_eq!(between("sha256-", "&#39;"), hash);
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
