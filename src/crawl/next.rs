//! What an item sends: how it begins, and what follows an attempt. Decided here alone, as one value
//! ([`Next`]): a retry of the request, a redirect of it, the item's next request, or the same with new
//! values that a shard shares.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use crawlmark_harness::sample::{Attempt, ErrorKind, Outcome, Repeat};
use crawlmark_harness::workload::Flight;

use super::attempt::{Answered, Chosen};
use super::connect::dial::Dial;
use super::flows::{Begun, ItemProgress, SharedState, SharedUse, Turn, Visited};
use super::redirects::{RedirectRefusal, Redirected};
use super::requests::flow::{Flow, ItemList, StepRequest};
use super::requests::redact;
use super::requests::request::{Chain, Item};
use super::requests::takes::{NextPage, Taken};
use super::requests::values::Values;
use super::response::answer::Code;
use super::response::cookies::SharedJar;
use super::response::grpc::UNAUTHENTICATED;
use super::{Crawl, retry};
use crate::dataset::batch::Place;

/// What follows an attempt.
#[derive(Debug)]
enum Next {
    /// No other request: its item ends so, or sends the same request again where that is useful.
    Same(Outcome, Repeat),
    /// A redirect.
    Redirect(Redirected),
    /// The next request of its item.
    Request(Box<ItemProgress>),
    /// Its item begins or goes on with values that others share, once there are new ones.
    Renewed(Outcome),
}

impl Next {
    /// Return the outcome of the attempt, and what may be repeated after it.
    const fn ending(&self) -> (Outcome, Repeat) {
        match self {
            Self::Same(outcome, repeat) => (*outcome, *repeat),
            Self::Redirect(_) => (Outcome::Redirected, Repeat::Follow),
            Self::Request(_) => (Outcome::Stepped, Repeat::Follow),
            Self::Renewed(outcome) => (*outcome, Repeat::Follow),
        }
    }
}

impl<D: Dial> Crawl<D> {
    /// End an attempt: note what follows it, in `ended` and for the next attempt of its item.
    #[inline]
    pub(super) fn settle(
        &self,
        chosen: &Chosen<'_>,
        mut answered: Option<Answered>,
        ended: &mut Attempt,
        flight: &Flight,
    ) {
        let may_hold = chosen.known.is_some() && ended.status == Some(304);
        if may_hold && matches!(ended.outcome, Outcome::Ok | Outcome::Rejected) {
            ended.outcome = Outcome::NotModified;
        }
        // A good or not-found answer ends its item, if nothing follows it.
        if self.follows_up || !ended.outcome.is_final() {
            self.note_url(chosen);
            let next = self.next(chosen, answered.as_mut(), ended, flight);
            (ended.outcome, ended.advice.repeat) = next.ending();
            self.note(chosen.number, next);
        }
        let Some(answered) = answered else {
            return;
        };
        if let Some(reading) = answered.reading {
            flight.read_tcp(reading);
        }
        if answered.is_first {
            flight.first_from_source(ended.outcome);
        }
        self.receivers.borrow_mut().push(answered.expected);
    }

    /// Note what an item sends next.
    fn note(&self, item: u64, next: Next) {
        match next {
            Next::Redirect(redirected) => self.redirects.set(item, redirected),
            Next::Request(progress) => {
                self.redirects.forget(item);
                self.flows.set(item, *progress);
            }
            Next::Same(..) | Next::Renewed(_) => {}
        }
    }

    /// Decide what follows an attempt.
    fn next(
        &self,
        chosen: &Chosen<'_>,
        answered: Option<&mut Answered>,
        ended: &mut Attempt,
        flight: &Flight,
    ) -> Next {
        let followed = answered.and_then(|answered| {
            self.refuse_listed(ended);
            self.follow_up(chosen, answered, ended, flight)
        });
        let next = followed.unwrap_or_else(|| self.again(chosen, ended));
        match chosen.flow {
            Some(flow) => self.share(chosen, flow, next, ended, flight),
            None => next,
        }
    }

    /// Follow a redirect, or go on to the next request of the item, as the response says; none if
    /// neither follows.
    fn follow_up(
        &self,
        chosen: &Chosen<'_>,
        answered: &mut Answered,
        ended: &Attempt,
        flight: &Flight,
    ) -> Option<Next> {
        let (expected, jar) = (&mut answered.expected, answered.jar.take());
        // A redirect that is listed as good is followed by the next request of its item.
        if let Some(location) = expected.location.take()
            && ended.outcome == Outcome::Rejected
        {
            self.follow(chosen, &location, jar, ended, flight)
        } else if chosen.flow.is_some() {
            self.step(chosen, expected.taken.take(), jar, ended, flight)
        } else {
            None
        }
    }

    /// Follow a redirect, given its `Location` and the cookies of its connection; none if it is none.
    fn follow(
        &self,
        chosen: &Chosen<'_>,
        location: &[u8],
        jar: Option<SharedJar>,
        ended: &Attempt,
        flight: &Flight,
    ) -> Option<Next> {
        let (answered, status) = (chosen.item(), ended.status?);
        let chain = answered.chain.cloned().unwrap_or_else(|| {
            let request = self.request(answered);
            Chain::new(request.host(), request.path(), request.method().clone())
        });
        let (kind, details) = match self.redirects.resolve(location, chain.host, &chain.path) {
            Err(RedirectRefusal::NoUrl) => return None,
            Err(RedirectRefusal::OtherHost(other)) => (
                ErrorKind::RedirectRefused,
                format!("to {other}, which is no host of the URLs"),
            ),
            Ok((host, path)) if !self.is_allowed(host, &path) => (
                ErrorKind::RobotsForbidden,
                format!("to {}", redact::url(&path)),
            ),
            Ok(_) if chain.count >= self.spec.options.follow => (
                ErrorKind::TooManyRedirects,
                format!("more than {}, the last with status {status}", chain.count),
            ),
            Ok((host, path)) => {
                let jar = jar.filter(|_| host == chain.host);
                let chain = chain.next(status, host, path);
                return Some(Next::Redirect(Redirected { chain, jar }));
            }
        };
        flight.explain(kind, details);
        Some(Next::Same(Outcome::Error(kind), ended.advice.repeat))
    }

    /// Go on to the next request of an item, given what was taken from the response, and its cookies;
    /// none if there is none.
    fn step(
        &self,
        chosen: &Chosen<'_>,
        taken: Option<Result<Taken, String>>,
        jar: Option<SharedJar>,
        ended: &Attempt,
        flight: &Flight,
    ) -> Option<Next> {
        let (id, answered) = (chosen.number, chosen.item());
        let earlier = self.flows.of(id);
        let list = earlier.as_deref().and_then(|it| it.list.as_ref());
        let is_element = earlier
            .as_ref()
            .is_some_and(|it| it.place().element.is_some());
        let taken = match (ended.outcome, taken) {
            (Outcome::Ok, Some(taken)) => taken,
            // The others go on.
            (Outcome::NotFound, _) if is_element => Ok(Taken {
                is_missing: true,
                ..Taken::default()
            }),
            _ => return None,
        };
        let host = self.request(answered).host();
        let flow = chosen.flow.filter(|_| answered.step.is_none());
        let values = match (flow.and_then(|flow| self.flows.shared(flow)), &taken) {
            (Some(shared), Ok(taken)) => Some(shared.set(taken.values.clone())),
            _ => None,
        };
        let same = |outcome| Some(Next::Same(outcome, ended.advice.repeat));
        match self.allowed_request(id, answered, taken, flight) {
            Ok(None) if list.is_some_and(|list| list.has_some) => same(Outcome::Ok),
            Ok(None) => None,
            Ok(Some(next)) => Some(Next::Request(Box::new(ItemProgress {
                jar: jar.filter(|_| next.request.host == host),
                shared: values.or(next.shared),
                ..next
            }))),
            Err(kind) => same(Outcome::Error(kind)),
        }
    }

    /// Send the same request again, if that may help.
    fn again(&self, chosen: &Chosen<'_>, ended: &Attempt) -> Next {
        let options = &self.spec.options;
        let method = || self.request(chosen.item()).method();
        let repeat = if ended.outcome.is_final()
            || !retry::may_retry(method(), ended, options.retry_on.as_ref())
        {
            ended.advice.repeat
        } else if options.keeps_throttled && ended.outcome == Outcome::Throttled {
            Repeat::UntilTheEnd
        } else {
            Repeat::MayHelp
        };
        Next::Same(ended.outcome, repeat)
    }

    /// Note for the items that share values what an attempt says of those: refused ones are renewed.
    fn share(
        &self,
        chosen: &Chosen<'_>,
        flow: &Arc<Flow>,
        next: Next,
        ended: &Attempt,
        flight: &Flight,
    ) -> Next {
        let (options, (outcome, repeat)) = (&self.spec.options, next.ending());
        if let Some(Turn { once, .. }) = &chosen.turn {
            if !once.ended(repeat, ended, options) {
                return next;
            }
            flight.aside(|it| it.shared_failed += u64::from(once.has_failed()));
            // It is no request of this item, which goes on once there are values.
            return Next::Renewed(match outcome {
                Outcome::NotFound => Outcome::Rejected,
                outcome => outcome,
            });
        }
        let Some(shared) = self.flows.shared(flow) else {
            return next;
        };
        let code = Code::of(ended);
        let is_refused = matches!(code, Some(Code::Http(401) | Code::Grpc(UNAUTHENTICATED)));
        if outcome == Outcome::Rejected && is_refused {
            if self.flows.renew(&shared, chosen.number, options) {
                self.redirects.forget(chosen.number);
                return Next::Renewed(outcome);
            }
        } else if code.is_some() {
            shared.serve();
        }
        next
    }

    /// Have an item go on with values that another item of the shard got: with its second request,
    /// or the one that was refused.
    fn begin_with(
        &self,
        item: u64,
        id: u64,
        values: Rc<Values>,
        flight: &Flight,
    ) -> Result<Option<Rc<ItemProgress>>, ErrorKind> {
        let taken = Taken {
            values: Values::clone(&values),
            ..Taken::default()
        };
        self.redirects.forget(item);
        let next = self.allowed_request(item, Item::first(id), Ok(taken), flight)?;
        let shared = Some(values);
        Ok(next.map(|next| self.flows.set(item, ItemProgress { shared, ..next })))
    }

    /// Return how an item of a flow begins its attempt.
    ///
    /// # Errors
    /// When its request cannot be sent. None if nothing is sent any more, for those that are
    /// sent once for each line all failed for good.
    pub(super) async fn begin(
        &self,
        item: u64,
        flow: &Arc<Flow>,
        flight: &Flight,
    ) -> Result<Begun, Option<ErrorKind>> {
        let id = self.id(item);
        let (mut progress, mut turn) = (self.flows.of(item), None);
        match self.flows.shared(flow).filter(|_| progress.is_none()) {
            None => progress = progress.or_else(|| self.begin_pages(item, id)),
            Some(once) => {
                let taken = once.take_turn().await;
                match once.state(self.clock).await {
                    SharedState::Due(..) => {
                        self.flows.begin(item);
                        turn = Some(taken);
                    }
                    SharedState::Values(values, _) => {
                        drop(taken);
                        progress = self.begin_with(item, id, values, flight)?;
                    }
                    SharedState::Failed => {
                        let has_others = !self.flows.have_all_failed(self.spec.targets.lines());
                        return Err(has_others.then_some(ErrorKind::SharedFailed));
                    }
                }
            }
        }
        Ok(Begun { progress, turn })
    }

    /// Have an item begin with the first of its pages, with nothing in the places of values that
    /// only pages have; none if its first request has no pages.
    fn begin_pages(&self, item: u64, id: u64) -> Option<Rc<ItemProgress>> {
        let takes = &self.spec.targets.flow_of(id)?.first;
        let (values, request) = (takes.on_first_page(), self.request(Item::first(id)));
        let first = StepRequest {
            number: 0,
            page: 1,
            host: request.host(),
            path: request.path(),
            shape: request.shape.clone(),
        };
        let first = (takes.pages() > 0).then(|| first.filled(id, &values))?;
        Some(self.flows.set(item, ItemProgress::new(first.ok()?, values)))
    }

    /// Return the request after one that was answered, explained in `flight` if it cannot be sent.
    fn allowed_request(
        &self,
        item: u64,
        answered: Item<'_>,
        taken: Result<Taken, String>,
        flight: &Flight,
    ) -> Result<Option<ItemProgress>, ErrorKind> {
        let next = taken.and_then(|taken| self.next_request(item, answered, taken, flight));
        let (kind, why) = match next {
            Err(why) => (ErrorKind::ExtractFailed, why),
            Ok(Some(ItemProgress {
                request, values, ..
            })) if !self.is_allowed(request.host, &request.path) => {
                let to = values.redacted(redact::url(&request.path));
                (ErrorKind::RobotsForbidden, format!("to {to}"))
            }
            Ok(next) => return Ok(next),
        };
        flight.explain(kind, why);
        Err(kind)
    }

    /// Return the request after one that was answered: its next page, or the next of the line.
    fn next_request(
        &self,
        item: u64,
        answered: Item<'_>,
        mut taken: Taken,
        flight: &Flight,
    ) -> Result<Option<ItemProgress>, String> {
        let Item { id, step, .. } = answered;
        let Some(flow) = self.spec.targets.flow_of(id) else {
            return Ok(None);
        };
        if let Some(refused) = self.flows.refused(item) {
            return self.renewed(flow, &refused, id, &taken.values);
        }
        let number = step.map_or(0, |step| step.number);
        let progress = self.flows.of(item);
        if let Some(progress) = &progress {
            taken.values = taken.values.over(&progress.values);
        }
        let earlier = progress.as_deref().and_then(|it| it.list.as_ref());
        let mut list = if flow.takes(number).has_list() {
            Some(ItemList::read(
                earlier,
                number,
                std::mem::take(&mut taken.items),
            )?)
        } else {
            earlier.cloned()
        };
        if let Some(list) = &mut list {
            list.has_some |= !taken.is_missing && list.element(number).is_some();
        }
        let visited = progress
            .as_ref()
            .map(|it| it.visited.clone())
            .unwrap_or_default();
        // Nothing else of an element that there is not is requested.
        let (from, page) = if taken.is_missing {
            (flow.steps.len(), None)
        } else {
            (number, self.page_after(answered, &taken, &visited, flight)?)
        };
        let (next, visited) = if let Some(page) = page {
            (Some((page, taken.values)), visited)
        } else {
            let next = flow.after(from, id, taken.values, &mut list)?;
            (next, Visited::default())
        };
        Ok(next.map(|(request, values)| ItemProgress {
            list,
            visited,
            shared: progress.as_ref().and_then(|it| it.shared.clone()),
            performed: progress.map_or_else(|| Cell::new(Place::FIRST), |it| it.performed.clone()),
            ..ItemProgress::new(request, values)
        }))
    }

    /// Return the request of an item whose shared values were refused, with others.
    fn renewed(
        &self,
        flow: &Flow,
        refused: &ItemProgress,
        id: u64,
        values: &Values,
    ) -> Result<Option<ItemProgress>, String> {
        let values = values.clone().over(&refused.values);
        let StepRequest {
            number, page, path, ..
        } = &refused.request;
        let request = if *page == 1 {
            flow.request(*number, id, &values)?
        } else {
            let refused = Item {
                step: Some(&refused.request),
                ..Item::first(id)
            };
            let url = flow.takes(*number).page_at(path);
            let again = self.next_page(flow, refused, &url, &values)?;
            let page = *page;
            Some(StepRequest { page, ..again })
        };
        Ok(request.map(|request| ItemProgress {
            request,
            values,
            jar: None,
            shared_use: Cell::new(SharedUse::Again),
            ..refused.clone()
        }))
    }

    /// Return the request for the page after one that was answered; none if there is none, or none
    /// is to be requested, which is counted in `flight`.
    fn page_after(
        &self,
        answered: Item<'_>,
        taken: &Taken,
        visited: &Visited,
        flight: &Flight,
    ) -> Result<Option<StepRequest>, String> {
        let Some(flow) = self.spec.targets.flow_of(answered.id) else {
            return Ok(None);
        };
        // Without one, it is the first request of an item that has no pages.
        let Some(step) = answered.step else {
            return Ok(None);
        };
        let most = flow.takes(step.number).pages();
        let Some(next) = &taken.next else {
            if most > 0 && step.page == 1 {
                flight.aside(|it| it.pages_without_next += 1);
            }
            return Ok(None);
        };
        if step.page >= most {
            flight.aside(|it| it.pages_cut += 1);
            return Ok(None);
        }
        let next = self.next_page(flow, answered, next, &taken.values)?;
        visited.visit(step);
        let is_new = visited.visit(&next);
        flight.aside(|it| {
            it.pages_followed += u64::from(is_new);
            it.pages_repeated += u64::from(!is_new);
        });
        Ok(is_new.then_some(next))
    }

    /// Return the request for the next page of one that was answered.
    fn next_page(
        &self,
        flow: &Flow,
        answered: Item<'_>,
        next: &NextPage,
        values: &Values,
    ) -> Result<StepRequest, String> {
        let (number, page) = answered
            .step
            .map_or((0, 1), |step| (step.number, step.page));
        let request = self.request(answered);
        let first = self.request(Item::first(answered.id)).shape;
        let shape = flow.shape(number).unwrap_or(first);
        let url = next.url(shape, answered.id, values);
        let to = self
            .redirects
            .resolve(&url, request.host(), &request.path());
        let (host, path) = to.map_err(|refusal| match refusal {
            RedirectRefusal::NoUrl => "the next page has no valid URL".to_owned(),
            RedirectRefusal::OtherHost(other) => {
                format!("the next page is of {other}, which is no host of the URLs")
            }
        })?;
        StepRequest {
            number,
            page: page + 1,
            host,
            path,
            shape: shape.clone(),
        }
        .filled(answered.id, values)
    }

    /// Refuse a response with a status that is to be retried, whatever else it is.
    fn refuse_listed(&self, attempt: &mut Attempt) {
        let listed = self.spec.options.retry_on.as_ref().zip(attempt.status);
        let is_listed = listed.is_some_and(|(listed, status)| listed.contains(status));
        let wrong = Outcome::Error(ErrorKind::WrongBody);
        let others = [Outcome::Ok, Outcome::NotModified, Outcome::NotFound, wrong];
        if is_listed && others.contains(&attempt.outcome) {
            attempt.outcome = Outcome::Rejected;
        }
    }

    /// Note the URL of an attempt for its record, if that is not the one of its line.
    fn note_url(&self, chosen: &Chosen<'_>) {
        let item = chosen.item();
        if let Some(collector) = &self.collector
            && (item.chain.is_some() || chosen.flow.is_some())
        {
            let request = self.request(item);
            let url = self.url(request.host(), &request.path());
            collector.requested(match &chosen.progress {
                Some(progress) => progress.values.redacted(url),
                None => url,
            });
        }
    }
}
