//! One connection, from accepted to ended: lent to the HTTP library for as long as answers are HTTP, taken back when a
//! fault is none.
//!
//! It must not decide what an answer is (`answer` does).

use super::Stop;
use super::answer::Answers;
use super::wire::Wire;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use tokio::net::TcpStream;

/// Serves one connection until either side ends it, or, once serving stops, until it is idle.
pub(super) async fn serve(stream: TcpStream, answers: &Answers, stop: &Stop) {
    // Without it the kernel would hold small answers back; where it cannot be set, answers are late but right.
    drop(stream.set_nodelay(true));
    let mut wire = Wire::Plain(stream);
    speak_http1(&mut wire, answers, stop).await;
    if let Some(act) = answers.fate().take() {
        // Nobody has to wait for a client that was never going to be answered.
        let (mut act, mut stopped) = (pin!(act.perform(wire)), pin!(stop.wait()));
        poll_fn(|cx| match stopped.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => act.as_mut().poll(cx),
        })
        .await;
    }
}

/// Answers until the connection ends.
async fn speak_http1(wire: &mut Wire, answers: &Answers, stop: &Stop) {
    let service = service_fn(|request| answers.answer(request));
    let mut builder = http1::Builder::new();
    // Answers are small: one flat buffer is cheaper to send than two parts. Without `pipeline_flush`, which gains nothing
    // as long as clients wait for their answers, and keeps an answer back for as long as there are unread bytes behind
    // its request: for ever if they are no full request (hyper 1.12).
    builder.writev(false);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(wire), service));
    let mut stopped = pin!(stop.wait());
    let mut is_told = false;
    let ended = poll_fn(|cx| {
        if !is_told && stopped.as_mut().poll(cx).is_ready() {
            is_told = true;
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(cx)
    });
    // An error is a client that left, bytes that are no HTTP, or an answer that was given up for a fault: all of them
    // end this connection and nothing else.
    drop(ended.await);
}
