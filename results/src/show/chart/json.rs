//! Values of a chart as JSON, for the script of a page.

use serde_json::{Value, json};

use super::scale::Scale;
use super::{Axis, Chart, Mark, Panel, Range, Role, Shape};

impl Chart {
    /// Return the panels with their axes and values, as JSON; none of a chart of bars, whose values
    /// stand beside them.
    pub(in crate::show) fn json(&self) -> Option<String> {
        let mut marks = self.panels.iter().flat_map(|panel| &panel.marks);
        let has_bars =
            marks.any(|mark| matches!((&mark.shape, mark.role), (Shape::Blocks(_), Role::Good)));
        if self.panels.is_empty() || has_bars {
            return None;
        }
        let panels: Vec<Value> = self.panels.iter().map(Panel::json).collect();
        Some(Value::from(panels).to_string())
    }
}

impl Panel {
    fn json(&self) -> Value {
        let (x, y) = self.scales();
        let marks: Vec<Value> = self.marks.iter().filter_map(Mark::json).collect();
        json!({ "x": self.x.json(x), "y": self.y.json(y), "marks": marks })
    }
}

impl Axis {
    fn json(&self, scale: Scale) -> Value {
        let ends = scale.ends();
        let rows = match &self.range {
            Range::Rows(rows) => Some(rows.iter().map(|row| &row.name).collect::<Vec<_>>()),
            _ => None,
        };
        json!({ "label": self.label, "format": self.format, "log": matches!(scale, Scale::Log(..)),
            "from": ends.start, "to": ends.end, "rows": rows })
    }
}

impl Mark {
    /// The values that a pointer can read; none of a mark without a key.
    fn json(&self) -> Option<Value> {
        let name = Some(&self.legend).filter(|name| !name.is_empty())?;
        match &self.shape {
            Shape::Steps(steps) | Shape::Areas(steps) => {
                let (first, last) = steps.first().zip(steps.last())?;
                let values: Vec<Value> = steps.iter().map(|step| number(step.value)).collect();
                Some(json!({ "name": name, "from": first.from, "to": last.to,
                    "width": first.to - first.from, "values": values }))
            }
            Shape::Line(points) => Some(json!({ "name": name, "points": points })),
            Shape::Dots(dots) | Shape::Rings(dots) | Shape::Specks(dots) => {
                let points: Vec<(f64, f64)> = dots.iter().map(|dot| dot.at).collect();
                Some(json!({ "name": name, "points": points }))
            }
            _ => None,
        }
    }
}

/// A value to five digits, as short as it can be.
fn number(value: Option<f64>) -> Value {
    let text = value.map(|value| format!("{value:.4e}").parse().unwrap_or(value).to_string());
    let text = text.unwrap_or_default();
    text.parse::<u64>()
        .map_or_else(|_| json!(text.parse::<f64>().ok()), Value::from)
}
