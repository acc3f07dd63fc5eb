//! A server of hyper on one thread, an entry of `benches/arena`: the JSON in `BODY` for every request.
//!
//! ```sh
//! PORT=8080 BODY='{}' cargo run --release --example hyper_server
//! ```

use std::convert::Infallible;
use std::error::Error;
use std::future::ready;
use std::net::Ipv4Addr;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

fn answer(body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = std::env::var("PORT")?.parse()?;
    let body = Bytes::from(std::env::var("BODY")?);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let body = body.clone();
        let service = service_fn(move |_: Request<Incoming>| {
            ready(Ok::<_, Infallible>(answer(body.clone())))
        });
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        // A client that goes away ends its connection.
        tokio::spawn(async move { drop(connection.await) });
    }
}
