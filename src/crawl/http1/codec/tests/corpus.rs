//! Responses, each with the decoder's reading of it when the connection ends after it.

use super::laws::ResponseEnd::{self, BeforeHead, InContent, Kept, Last};
use super::{Malformed, RequestKind};

/// A response and its reading: status (0 without a head), content and end.
#[derive(Debug, Clone)]
pub(crate) struct ResponseCase {
    pub(crate) request: RequestKind,
    pub(crate) bytes: String,
    pub(crate) status: u16,
    pub(crate) content: &'static str,
    pub(crate) end: ResponseEnd,
}

/// A response that is cut within its head, unless its reading follows.
fn raw(bytes: &str) -> ResponseCase {
    ResponseCase {
        request: RequestKind::Other,
        bytes: bytes.to_owned(),
        status: 0,
        content: "",
        end: BeforeHead,
    }
}

/// What follows the status line of a success.
fn ok(rest: &str) -> ResponseCase {
    raw(&format!("HTTP/1.1 200 OK\r\n{rest}"))
}

/// Chunks.
fn chunked(rest: &str) -> ResponseCase {
    ok(&format!("transfer-encoding: chunked\r\n\r\n{rest}"))
}

impl ResponseCase {
    fn reads(self, status: u16, content: &'static str, end: ResponseEnd) -> Self {
        Self {
            status,
            content,
            end,
            ..self
        }
    }

    fn good(self, content: &'static str, end: ResponseEnd) -> Self {
        self.reads(200, content, end)
    }

    fn of_head(self, end: ResponseEnd) -> Self {
        Self {
            request: RequestKind::Head,
            ..self.good("", end)
        }
    }

    fn broken(self, rule: Malformed) -> Self {
        self.reads(0, "", ResponseEnd::Malformed(rule))
    }

    fn fails(self, content: &'static str, rule: Malformed) -> Self {
        self.good(content, ResponseEnd::Malformed(rule))
    }
}

const HEADER_NAME: Malformed = Malformed::Head(httparse::Error::HeaderName);
const HEADER_VALUE: Malformed = Malformed::Head(httparse::Error::HeaderValue);
const NEW_LINE: Malformed = Malformed::Head(httparse::Error::NewLine);
const STATUS: Malformed = Malformed::Head(httparse::Error::Status);
const VERSION: Malformed = Malformed::Head(httparse::Error::Version);

/// All responses.
pub(crate) fn corpus() -> Vec<ResponseCase> {
    vec![
        // A length.
        ok("content-length: 2\r\n\r\nok").good("ok", Kept(0)),
        ok("CONTENT-LENGTH:2\r\n\r\nok").good("ok", Kept(0)),
        ok("Content-Length: \t002 \r\n\r\nok").good("ok", Kept(0)),
        raw("HTTP/1.1 999 ?\r\ncontent-length: 0\r\n\r\n").reads(999, "", Kept(0)),
        raw("HTTP/1.1 200\r\ncontent-length: 1\r\n\r\nx").good("x", Kept(0)),
        raw("HTTP/1.1 200 \u{e9}\r\nx-a: \u{e9}\r\ncontent-length: 1\r\n\r\nx").good("x", Kept(0)),
        ok("content-length: 3\r\n\r\nok").good("ok", InContent),
        ok("content-length: 3\r\n\r\n").good("", InContent),
        ok("content-length: 2\r\ncontent-length: 2\r\n\r\nok").good("ok", Kept(0)),
        ok("content-length: 2, 2\r\n\r\nok").good("ok", Kept(0)),
        ok("content-length: 18446744073709551613\r\n\r\nok").good("ok", InContent),
        ok("content-length: 2\r\ncontent-length: 3\r\n\r\nok").broken(Malformed::Length),
        ok("content-length: 2, 3\r\n\r\nok").broken(Malformed::Length),
        ok("content-length: 2,\r\n\r\nok").broken(Malformed::Length),
        ok("content-length: x\r\ncontent-length: 2\r\n\r\nok").broken(Malformed::Length),
        ok("content-length: +2\r\n\r\nok").broken(Malformed::Length),
        ok("content-length: \u{0662}\r\n\r\nok").broken(Malformed::Length),
        ok("content-length:\r\n\r\nok").broken(Malformed::Length),
        ok("content-length: 18446744073709551616\r\n\r\nok").broken(Malformed::Length),
        // No content, whatever the fields say.
        ok("content-length: 500\r\n\r\n").of_head(Kept(0)),
        chunked("").of_head(Kept(0)),
        ok("\r\n").of_head(Kept(0)),
        ok("content-length: 2\r\n\r\nok").of_head(Kept(2)),
        raw("HTTP/1.1 204 No Content\r\n\r\n").reads(204, "", Kept(0)),
        raw("HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\nok").reads(204, "", Kept(2)),
        // Until the end of the connection.
        ok("\r\nuntil the end").good("until the end", Last(0)),
        raw("HTTP/1.0 200 OK\r\n\r\nuntil the end").good("until the end", Last(0)),
        raw("HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n\r\n").good("", Last(0)),
        // Connections that end, and do not.
        ok("connection: close\r\ncontent-length: 2\r\n\r\nok").good("ok", Last(0)),
        ok("connection: x , Close\r\ncontent-length: 2\r\n\r\nok").good("ok", Last(0)),
        ok("connection: close\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok").good("ok", Last(0)),
        raw("HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok").good("ok", Last(0)),
        raw("HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\ncontent-length: 2\r\n\r\nok").good("ok", Kept(0)),
        // Bytes behind the response.
        ok("content-length: 2\r\n\r\nokay").good("ok", Kept(2)),
        ok("content-length: 2\r\n\r\nokHTTP/1.1 500 Nobody Asked\r\ncontent-length: 0\r\n\r\n").good("ok", Kept(48)),
        chunked("0\r\n\r\n\r\n").good("", Kept(2)),
        // Chunks.
        chunked("2\r\nok\r\n1\r\n!\r\n0\r\n\r\n").good("ok!", Kept(0)),
        ok("Transfer-Encoding: Chunked\r\n\r\nA\r\n0123456789\r\n00\r\n\r\n").good("0123456789", Kept(0)),
        ok("transfer-encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n").good("ok", Kept(0)),
        ok("transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n").good("ok", Kept(0)),
        chunked("2 ;a=\"b;c\"\r\nok\r\n0\t;last\r\n\r\n").good("ok", Kept(0)),
        chunked("2  \r\nok\r\n0\r\na: b\r\ncontent-length: 9\r\n\r\n").good("ok", Kept(0)),
        chunked("4\r\nonly\r\n").good("only", InContent),
        chunked("4\r\non").good("on", InContent),
        chunked("0\r\n").good("", InContent),
        chunked("0\r\na: b\r\n").good("", InContent),
        chunked("ffffffffffffffff\r\nok").good("ok", InContent),
        chunked("").good("", InContent),
        chunked("x\r\nok\r\n0\r\n\r\n").fails("", Malformed::ChunkSize),
        chunked("\r\nok\r\n0\r\n\r\n").fails("", Malformed::ChunkSize),
        chunked(";a\r\nok\r\n0\r\n\r\n").fails("", Malformed::ChunkSize),
        chunked("+2\r\nok\r\n0\r\n\r\n").fails("", Malformed::ChunkSize),
        chunked("2 2\r\nok\r\n0\r\n\r\n").fails("", Malformed::ChunkSize),
        chunked("2\nok\r\n0\r\n\r\n").fails("", Malformed::ChunkEnd),
        chunked("2;a\0\r\nok\r\n0\r\n\r\n").fails("", Malformed::ChunkExtensions),
        chunked("2;a\r\rok\r\n0\r\n\r\n").fails("", Malformed::ChunkEnd),
        chunked("2\r\nok\n0\r\n\r\n").fails("ok", Malformed::ChunkEnd),
        chunked("2\r\nokay\r\n0\r\n\r\n").fails("ok", Malformed::ChunkEnd),
        chunked("10000000000000000\r\nok").fails("", Malformed::LongChunkSize),
        chunked("00000000000000002\r\nok\r\n0\r\n\r\n").fails("", Malformed::LongChunkSize),
        chunked("0\r\nno colon\r\n\r\n").fails("", Malformed::Trailers),
        chunked("0\r\na: b\nc: d\r\n\r\n").fails("", Malformed::Trailers),
        chunked("0\r\n\n").fails("", Malformed::Trailers),
        chunked("0\r\n\rx").fails("", Malformed::Trailers),
        // Shapes that two readers read differently.
        ok("content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n").broken(Malformed::BothLengths),
        ok("transfer-encoding: gzip\r\n\r\nok").broken(Malformed::TransferEncoding),
        ok("transfer-encoding: identity\r\n\r\nok").broken(Malformed::TransferEncoding),
        ok("transfer-encoding:\r\n\r\nok").broken(Malformed::TransferEncoding),
        ok("transfer-encoding: xchunked\r\n\r\n0\r\n\r\n").broken(Malformed::TransferEncoding),
        ok("transfer-encoding: chunked, gzip\r\n\r\nok").broken(Malformed::TransferEncoding),
        ok("transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n").broken(Malformed::TransferEncoding),
        ok("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n").broken(Malformed::TransferEncoding),
        ok("transfer-encoding: , chunked\r\n\r\n0\r\n\r\n").broken(Malformed::TransferEncoding),
        ok("transfer-encoding: \u{a1} chunked, chunked\r\n\r\n0\r\n\r\n").broken(Malformed::TransferEncoding),
        ok("transfer-encoding: x;a=\u{a1}, chunked\r\n\r\n0\r\n\r\n").broken(Malformed::TransferEncoding),
        ok("transfer-encoding: a b, chunked\r\n\r\n0\r\n\r\n").broken(Malformed::TransferEncoding),
        ok("transfer-encoding: x ; a=\"b c\", chunked\r\n\r\n0\r\n\r\n").good("", Kept(0)),
        raw("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n").broken(Malformed::TransferEncoding),
        ok("transfer-encoding : chunked\r\n\r\n0\r\n\r\n").broken(HEADER_NAME),
        ok(" content-length: 2\r\n\r\nok").broken(HEADER_NAME),
        ok("x-a: 1\r\n 2\0\r\ncontent-length: 2\r\n\r\nok").broken(HEADER_VALUE),
        ok("x-a: 1\r\n 2\r\nno colon\r\n\r\n").broken(HEADER_NAME),
        // Folded lines.
        ok("x-a: 1\r\n 2\r\ncontent-length: 2\r\n\r\nok").good("ok", Kept(0)),
        ok("x-a: 1\n\t2\ncontent-length:\r\n 2\r\n\r\nok").good("ok", Kept(0)),
        ok("connection: x,\r\n \r\n\tclose\r\ncontent-length: 2\r\n \r\n\r\nok").good("ok", Last(0)),
        raw("HTTP/1.1 103 \r\na: b\r\n c\r\n\r\nHTTP/1.1 204 \r\na: b\r\n c\r\n\r\n").reads(204, "", Kept(0)),
        ok("content-length: 2\r\n 3\r\n\r\nok").broken(Malformed::Length),
        ok("no colon here\r\n\r\n").broken(HEADER_NAME),
        ok(": nameless\r\n\r\n").broken(HEADER_NAME),
        ok("x-a: 1\0\r\n\r\n").broken(HEADER_VALUE),
        ok("x-a: 1\rcontent-length: 2\r\n\r\n").broken(HEADER_VALUE),
        ok("x-a: 1\r\n\rx\n").broken(NEW_LINE),
        raw("HTTP/1.1 200 O\0K\r\n\r\n").broken(STATUS),
        // A single LF may end a line of a head (RFC 9112, 2.2).
        raw("HTTP/1.1 200 OK\ncontent-length: 2\n\nok").good("ok", Kept(0)),
        // Interim answers, and blank lines.
        raw("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").good("ok", Kept(0)),
        raw("HTTP/1.1 103 Early Hints\r\nlink: </a>\r\ncontent-length: 7\r\n\r\nHTTP/1.1 102\r\n\r\nHTTP/1.1 204 \r\n\r\n").reads(204, "", Kept(0)),
        raw("\r\n\n\r\nHTTP/1.1 204 No Content\r\n\r\n").reads(204, "", Kept(0)),
        raw("HTTP/1.1 100 Continue\r\n\r\n"),
        raw("HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n").broken(Malformed::Upgrade),
        raw("HTTP/1.1 099 \r\n\r\n").broken(Malformed::Status(99)),
        // No HTTP/1.
        raw("220 mail.example.org ESMTP\r\n").broken(VERSION),
        raw("HTTP/2 200\r\n\r\n").broken(VERSION),
        raw("http/1.1 200 OK\r\n\r\n").broken(VERSION),
        raw("HTTP/1.1  200 OK\r\n\r\n").broken(STATUS),
        raw("HTTP/1.1 2000 OK\r\n\r\n").broken(STATUS),
        raw("\rHTTP/1.1 200 OK\r\n\r\n").broken(NEW_LINE),
        // The end of the connection, early.
        raw(""),
        raw("\r"),
        raw("H"),
        ok("content-le"),
        ok("content-length: 2\r\n\r"),
    ]
}
