//! Several requests per item: the requests of a line after its first, with the values that they
//! take from responses in their places.
//!
//! Read from a request file and shared by the shards. It must not know how a request is sent.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use http::Method;

use super::redact;
use super::shape::RequestShape;
use super::takes::{MOST_ITEM_BYTES, MOST_ITEMS, NextPage, Takes};
use super::targets::RequestTarget;
use super::template::{PLACE, Template, TemplateError, encoded};
use super::values::{Context, Values, without_places};
use crate::dataset::batch::Place;
use crate::ids::IdFormat;

/// Longest path and query with values in it, bytes.
const MOST_PATH: usize = 64 << 10;

/// Most requests of a line.
pub(crate) const MOST_STEPS: usize = 64;

/// A request of a line after its first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its URL with `0` in the place of each value.
    pub(super) template: Template,
    /// Its path and query, encoded, with places for the ID and for values.
    pub(super) path: String,
    pub(super) shape: RequestShape,
    /// Its method; none for that of the flags.
    pub(super) method: Option<Method>,
    pub(crate) takes: Arc<Takes>,
    /// Numbers of its host and of its template.
    pub(super) host: u32,
    pub(super) group: u8,
}

impl Step {
    /// Read a request whose URL has places for the values `names`.
    ///
    /// # Errors
    /// When it is no URL, or has a place for something else.
    pub(crate) fn new(
        url: &str,
        shape: RequestShape,
        method: Option<Method>,
        takes: Takes,
        names: &[String],
    ) -> Result<Self, TemplateError> {
        let start = url.find("://").map_or(0, |at| at + 3);
        let start = url[start..]
            .find(['/', '?'])
            .map_or(url.len(), |at| start + at);
        let (origin, path) = url.split_at(start);
        let bare = without_places(path, names);
        Ok(Self {
            template: [origin, &bare].concat().parse()?,
            path: encoded(path),
            shape,
            method,
            takes: Arc::new(takes),
            host: 0,
            group: 0,
        })
    }

    /// True if its request has a place for the ID.
    pub(super) fn has_id(&self) -> bool {
        self.path.contains(PLACE) || self.shape.has_id()
    }
}

/// Requests of a line beside its first, and what is taken from responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// What is taken from the response to the first request.
    pub(crate) first: Arc<Takes>,
    pub(crate) steps: Vec<Step>,
}

impl Flow {
    /// Hash what is asked for beside the shapes of its requests, without secrets.
    pub(super) fn hash_content(&self, to: &mut impl Hasher) {
        self.first.hash(to);
        for step in &self.steps {
            (redact::url(&step.path), step.host, &step.takes).hash(to);
        }
    }

    /// True if the response at a place is saved, whether or not another request follows.
    pub(crate) fn is_saved(&self, place: Place) -> bool {
        let takes = self.takes(place.step.saturating_sub(1) as usize);
        let is_one_of_many = takes.pages() > 0 || place.element.is_some();
        takes.save.unwrap_or(is_one_of_many)
    }

    /// Return request `number`, counted from 0; none of the first, and beyond the last.
    fn step(&self, number: usize) -> Option<&Step> {
        self.steps.get(number.checked_sub(1)?)
    }

    /// What is taken from the response to request `number`, counted from 0.
    pub(crate) fn takes(&self, number: usize) -> &Arc<Takes> {
        self.step(number).map_or(&self.first, |step| &step.takes)
    }

    /// Return the request as it is in the file; none of the first.
    pub(crate) fn shape(&self, number: usize) -> Option<&RequestShape> {
        self.step(number).map(|step| &step.shape)
    }

    /// Return the request after request `number`, or its last page, and its values; none after the last.
    ///
    /// # Errors
    /// When a value cannot stand where it is to be sent.
    pub(crate) fn after(
        &self,
        number: usize,
        id: u64,
        values: Values,
        list: &mut Option<ItemList>,
    ) -> Result<Option<(StepRequest, Values)>, String> {
        let (mut next, mut values) = (number + 1, values);
        let is_last = number == self.steps.len();
        let list_of_next = list.as_mut().filter(|it| it.number == number || is_last);
        if let Some(list) = list_of_next {
            // The first item, or the one after an item whose last request was sent.
            list.at += usize::from(number > list.number);
            next = list.number + 1;
            let Some(item) = list.items.get(list.at) else {
                return Ok(None);
            };
            values = item.clone().over(&values);
        }
        let request = self.request(next, id, &values)?;
        Ok(request.map(|request| (request, values)))
    }

    /// Return request `number` of item `id`, counted from 0, with these values; none beyond the
    /// last.
    ///
    /// # Errors
    /// When a value cannot stand where it is to be sent.
    pub(crate) fn request(
        &self,
        number: usize,
        id: u64,
        values: &Values,
    ) -> Result<Option<StepRequest>, String> {
        let Some(step) = self.step(number) else {
            return Ok(None);
        };
        let values = &step.takes.on_first_page().over(values);
        let path = step.path.as_bytes();
        let path = values.fill(path, &id_text(&step.shape, id), Context::Url);
        if path.len() > MOST_PATH {
            return Err(format!(
                "the URL of request {} has {} bytes with its values, more than {MOST_PATH}",
                number + 1,
                path.len()
            ));
        }
        StepRequest {
            number,
            page: 1,
            host: step.host as usize,
            path: String::from_utf8_lossy(&path).into_owned(),
            shape: step.shape.clone(),
        }
        .filled(id, values)
        .map(Some)
    }
}

/// A list for each of whose items the later requests of a line are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ItemList {
    /// Number of the request whose response has it.
    number: usize,
    items: Arc<Vec<Values>>,
    /// Position of the item that requests are made for.
    at: usize,
    /// True if a response for an item was good.
    pub(crate) has_some: bool,
}

impl ItemList {
    /// Return the list of a response to request `number`, after that of the pages before it.
    ///
    /// # Errors
    /// When it is too long.
    pub(crate) fn read(
        earlier: Option<&Self>,
        number: usize,
        items: Vec<Values>,
    ) -> Result<Self, String> {
        let mut all = earlier
            .filter(|list| list.number == number)
            .map_or_else(Vec::new, |list| list.items.to_vec());
        all.extend(items);
        let bytes: usize = all.iter().map(Values::bytes).sum();
        if all.len() > MOST_ITEMS || bytes > MOST_ITEM_BYTES {
            return Err(format!(
                "the list has {} items with {bytes} bytes of values; at most {MOST_ITEMS} with {MOST_ITEM_BYTES} are requested",
                all.len()
            ));
        }
        Ok(Self {
            number,
            items: Arc::new(all),
            at: 0,
            has_some: false,
        })
    }

    /// Return the number, from 1, of the item that request `number` is made for; none of one before
    /// the list.
    pub(crate) fn element(&self, number: usize) -> Option<u32> {
        let is_for_item = number > self.number;
        is_for_item.then(|| u32::try_from(self.at + 1).unwrap_or(u32::MAX))
    }
}

impl NextPage {
    /// Return the URL of the page, with ID and values in its places.
    pub(crate) fn url(&self, shape: &RequestShape, id: u64, values: &Values) -> Vec<u8> {
        match self {
            Self::Url(url) => url.clone().into_bytes(),
            Self::Template(url) => values.fill(url.as_bytes(), &id_text(shape, id), Context::Url),
        }
    }
}

fn id_text(shape: &RequestShape, id: u64) -> String {
    let mut text = Vec::new();
    IdFormat::write_or_plain(shape.id_format, id, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Request of an item after its first, as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepRequest {
    /// Its number among the requests of its line, counted from 0.
    pub(crate) number: usize,
    /// Its page, counted from 1.
    pub(crate) page: u32,
    pub(crate) host: usize,
    pub(crate) path: String,
    pub(crate) shape: RequestShape,
}

impl StepRequest {
    /// Return it with ID and values in its headers and body.
    ///
    /// # Errors
    /// When a value cannot stand in a header.
    pub(crate) fn filled(self, id: u64, values: &Values) -> Result<Self, String> {
        let text = id_text(&self.shape, id);
        let shape = self.shape.filled(&text, values).map_err(|header| {
            format!(
                "header {header} of request {} cannot hold its value",
                self.number + 1
            )
        })?;
        Ok(Self { shape, ..self })
    }

    pub(crate) fn target(&self) -> RequestTarget<'_> {
        RequestTarget {
            host: self.host,
            before: &self.path,
            after: None,
            shape: Some(&self.shape),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use percent_encoding::percent_decode_str;
    use proptest::prelude::*;
    use serde_json::Value;
    use url::Url;

    use super::*;
    use crate::crawl::requests::takes::TakenFrom;

    /// A flow whose second request has places for the value `a`.
    fn flow(from: &str, url: &str, headers: &[String], body: &str) -> Flow {
        let shape = RequestShape::new("POST", headers, Bytes::from(body.to_owned())).unwrap();
        let step = Step::new(url, shape, None, Takes::default(), &["a".to_owned()]).unwrap();
        Flow {
            first: Arc::new(Takes::new([("a", from)].into_iter(), None, None).unwrap()),
            steps: vec![step],
        }
    }

    /// The value at a place of a response, as a header or body.
    fn taken(flow: &Flow, header: &[u8], body: &[u8]) -> Values {
        let headers = flow.first.headers(|_| vec![header.to_vec()]);
        let taken = flow.first.take(&TakenFrom {
            headers: &headers,
            body,
            length: body.len(),
            is_markup: false,
        });
        taken.unwrap().values
    }

    /// The request after the first.
    fn second(flow: &Flow, id: u64, values: Values) -> Result<StepRequest, String> {
        let next = flow.after(0, id, values, &mut None)?;
        Ok(next.unwrap().0)
    }

    fn header(request: &StepRequest, name: &str) -> Vec<u8> {
        let mut headers = request.shape.headers.iter();
        let (_, value) = headers.find(|(other, _)| *other == name).unwrap();
        value.as_bytes().to_vec()
    }

    /// A text, a number as a target may write it, or a boolean, as JSON.
    fn scalar() -> impl Strategy<Value = String> {
        let texts =
            "\\PC{0,20}|[\\x00-\\x7f]{0,20}|[{}\"\\\\/?#%&+=: a-z]{0,20}|\\{(id|a|a:raw)\\}";
        prop_oneof![
            4 => texts.prop_map(|text| Value::from(text).to_string()),
            2 => "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?",
            1 => "true|false",
        ]
    }

    const FORM: &str = "content-type: application/x-www-form-urlencoded";
    const URL: &str = "http://h/x/{a}/{id}?y={a}&z={id}";

    proptest! {
        #[test]
        fn a_value_arrives_as_it_was_taken(json in scalar(), id: u64, has_type: bool, by_pattern: bool) {
            // As text, and as JSON.
            let value: Value = serde_json::from_str(&json).unwrap();
            let text = value.as_str().map_or_else(|| json.clone(), str::to_owned);
            let typed = ["content-type: Application/Vnd.a+JSON; charset=utf-8".to_owned()];
            let body = r#" {"n": {id}, "a": {a}, "b": ["\\\"{a}", "{a}:{id}"], "{b}": "{a:b}"}"#;
            let in_json = |from| flow(from, URL, if has_type { &typed } else { &[] }, body);
            let flow_of_json = in_json("json:/v");
            let values = taken(&flow_of_json, &[], format!("\u{feff}{{\"v\": {json}}}").as_bytes());
            let request = second(&flow_of_json, id, values.clone()).unwrap();
            let url = Url::parse(&format!("http://h{}", request.path)).unwrap();
            let path: Vec<_> = url.path_segments().unwrap().map(|part| percent_decode_str(part).decode_utf8().unwrap()).collect();
            // An empty part, `.` and `..` are rules of paths.
            if !["", ".", ".."].contains(&text.as_str()) {
                prop_assert_eq!(path, ["x", text.as_str(), &id.to_string()]);
            }
            let pairs: Vec<_> = url.query_pairs().into_owned().collect();
            prop_assert_eq!(pairs, [("y".to_owned(), text.clone()), ("z".to_owned(), id.to_string())]);
            let expected = format!(r#" {{"n": {id}, "a": {json}, "b": [{}, {}], "{{b}}": "{{a:b}}"}}"#,
                Value::from(format!("\\\"{text}")), Value::from(format!("{text}:{id}")));
            if matches!(value, Value::String(_)) {
                prop_assert_eq!(serde_json::from_slice::<Value>(&request.shape.body).unwrap(), serde_json::from_str::<Value>(&expected).unwrap());
            } else {
                // A number to the letter.
                prop_assert_eq!(std::str::from_utf8(&request.shape.body).unwrap(), expected);
            }
            prop_assert_eq!(header(&request, "content-length"), request.shape.body.len().to_string().into_bytes());
            // As a form.
            let form = flow("json:/v", URL, &[FORM.to_owned()], "u={id}&v={a}&{a}=1&w={a:raw}");
            let request = second(&form, id, values.clone()).unwrap();
            let (encoded, raw) = request.shape.body.split_at(request.shape.body.len() - text.len());
            prop_assert_eq!(raw, text.as_bytes());
            let url = Url::parse(&format!("http://h/?{}", std::str::from_utf8(encoded).unwrap())).unwrap();
            let pairs: Vec<_> = url.query_pairs().into_owned().collect();
            let expected = [("u", &*id.to_string()), ("v", &*text), (&*text, "1"), ("w", "")];
            prop_assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
            // As a header and as text, which are sent as they are.
            let plain = flow("json:/v", URL, &["content-type: text/csv".to_owned(), "x-a: <{a}>{b}{a:raw}".to_owned()], "{a},{id},{a:raw}");
            match second(&plain, id, values) {
                Ok(request) => {
                    prop_assert_eq!(header(&request, "x-a"), format!("<{text}>{{b}}{text}").into_bytes());
                    prop_assert_eq!(&request.shape.body[..], format!("{text},{id},{text}").into_bytes());
                }
                Err(_) => prop_assert!(text.chars().any(char::is_control), "{text:?}"),
            }
            // Text that is JSON stands as such where a JSON value does.
            let from = if by_pattern { "regex:(?s)^(.*)$" } else { "header:x-v" };
            let untyped = in_json(from);
            let request = second(&untyped, id, taken(&untyped, text.as_bytes(), text.as_bytes())).unwrap();
            let body: Value = serde_json::from_slice(&request.shape.body).unwrap();
            prop_assert_eq!(&body["a"], &serde_json::from_str(&text).unwrap_or(Value::from(text.clone())));
        }

        #[test]
        fn a_url_with_a_raw_value_is_one(value in "\\PC{0,20}|[\\x00-\\xff]{0,20}", id: u64) {
            let flow = flow("header:x-v", "http://h/{a:raw}?q={a:raw}", &[], "");
            prop_assume!(!value.is_empty());
            let request = second(&flow, id, taken(&flow, value.as_bytes(), b"")).unwrap();
            prop_assert!(request.path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#'), "{}", request.path);
        }

        #[test]
        fn later_requests_are_sent_for_each_item_in_order(items in prop::collection::vec("[a-z]{0,4}", 0..20), later in 1..4_usize, pages in 1..4_usize) {
            let takes = Takes::new([("a", "json:/*")].into_iter(), None, None).unwrap();
            let names = ["a".to_owned()];
            let shape = RequestShape::new("GET", &[], Bytes::new()).unwrap();
            let step = |number| Step::new(&format!("http://h/{number}/{{a}}"), shape.clone(), None, Takes::default(), &names).unwrap();
            let flow = Flow { first: Arc::new(takes), steps: (1..=later).map(step).collect() };
            // Over pages.
            let mut list = None;
            for page in items.chunks(items.len().div_ceil(pages).max(1)) {
                let body = Value::from(page.to_vec()).to_string();
                let from = TakenFrom { headers: &[None], body: body.as_bytes(), length: body.len(), is_markup: false };
                let taken = flow.first.take(&from).unwrap();
                list = Some(ItemList::read(list.as_ref(), 0, taken.items).unwrap());
            }
            let mut list = Some(list.unwrap_or_else(|| ItemList::read(None, 0, Vec::new()).unwrap()));
            let (mut number, mut values, mut sent) = (0, Values::default(), Vec::new());
            while let Some((request, now)) = flow.after(number, 7, values.clone(), &mut list).unwrap() {
                sent.push(request.path);
                (number, values) = (request.number, now);
            }
            let expected = items.iter().flat_map(|item| (1..=later).map(move |number| format!("/{number}/{item}")));
            prop_assert_eq!(sent, expected.collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_list_is_bounded() {
        let values = |text: &str| {
            Takes::new([("a", "json:/*")].into_iter(), None, None)
                .unwrap()
                .take(&TakenFrom {
                    headers: &[None],
                    body: text.as_bytes(),
                    length: text.len(),
                    is_markup: false,
                })
        };
        let of = |items: usize, text: &str| {
            values(&format!(
                "[{}\"{text}\"]",
                format!("\"{text}\",").repeat(items - 1)
            ))
        };
        assert!(of(MOST_ITEMS + 1, "a").is_err());
        let all = of(MOST_ITEMS, "a").unwrap().items;
        let list = ItemList::read(None, 0, all).unwrap();
        assert!(ItemList::read(Some(&list), 0, of(1, "a").unwrap().items).is_err());
        assert!(ItemList::read(Some(&list), 1, of(1, "a").unwrap().items).is_ok());
        let long = of(20, &"x".repeat(52_000)).unwrap().items;
        let list = ItemList::read(None, 0, long).unwrap();
        assert!(ItemList::read(Some(&list), 0, of(1, &"x".repeat(52_000)).unwrap().items).is_err());
    }
}
