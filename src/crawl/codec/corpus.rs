//! Responses, each with the decoder's reading of it when the connection ends after it.

use super::laws::ResponseEnd::{self, BeforeHead, InContent, Kept, Last};
use super::{Malformed, RequestKind};

/// A response and its reading: status (0 without a head), content and end.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResponseCase {
    pub(super) request: RequestKind,
    pub(super) bytes: &'static str,
    pub(super) status: u16,
    pub(super) content: &'static str,
    pub(super) end: ResponseEnd,
}

const fn whole(
    bytes: &'static str,
    status: u16,
    content: &'static str,
    end: ResponseEnd,
) -> ResponseCase {
    ResponseCase {
        request: RequestKind::Other,
        bytes,
        status,
        content,
        end,
    }
}

const fn to_head(bytes: &'static str, status: u16, end: ResponseEnd) -> ResponseCase {
    ResponseCase {
        request: RequestKind::Head,
        bytes,
        status,
        content: "",
        end,
    }
}

const fn broken(bytes: &'static str, why: Malformed) -> ResponseCase {
    whole(bytes, 0, "", ResponseEnd::Malformed(why))
}

const fn cut(bytes: &'static str) -> ResponseCase {
    whole(bytes, 0, "", BeforeHead)
}

const HEADER_NAME: Malformed = Malformed::Head(httparse::Error::HeaderName);
const HEADER_VALUE: Malformed = Malformed::Head(httparse::Error::HeaderValue);
const NEW_LINE: Malformed = Malformed::Head(httparse::Error::NewLine);
const STATUS: Malformed = Malformed::Head(httparse::Error::Status);
const VERSION: Malformed = Malformed::Head(httparse::Error::Version);

pub(super) const CORPUS: &[ResponseCase] = &[
    // A length.
    whole(
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        200,
        "ok",
        Kept(0),
    ),
    whole(
        "HTTP/1.1 200 OK\r\nCONTENT-LENGTH:2\r\n\r\nok",
        200,
        "ok",
        Kept(0),
    ),
    whole(
        "HTTP/1.1 200 OK\r\nContent-Length: \t002 \r\n\r\nok",
        200,
        "ok",
        Kept(0),
    ),
    whole(
        "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
        404,
        "",
        Kept(0),
    ),
    whole(
        "HTTP/1.1 999 ?\r\ncontent-length: 0\r\n\r\n",
        999,
        "",
        Kept(0),
    ),
    whole(
        "HTTP/1.1 200\r\ncontent-length: 1\r\n\r\nx",
        200,
        "x",
        Kept(0),
    ),
    whole(
        "HTTP/1.1 200 \r\ncontent-length: 1\r\n\r\nx",
        200,
        "x",
        Kept(0),
    ),
    whole(
        "HTTP/1.1 200 \u{e9}\r\nx-a: \u{e9}\r\ncontent-length: 1\r\n\r\nx",
        200,
        "x",
        Kept(0),
    ),
    whole(
        "HTTP/1.1 200 OK\r\nempty:\r\ncontent-length: 1\r\n\r\nx",
        200,
        "x",
        Kept(0),
    ),
    whole(
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok",
        200,
        "ok",
        InContent,
    ),
    whole(
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n",
        200,
        "",
        InContent,
    ),
    whole(
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nok",
        200,
        "ok",
        Kept(0),
    ),
    whole(
        "HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\n\r\nok",
        200,
        "ok",
        Kept(0),
    ),
    whole(
        "HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551613\r\n\r\nok",
        200,
        "ok",
        InContent,
    ),
    broken(
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok",
        Malformed::Length,
    ),
    broken(
        "HTTP/1.1 200 OK\r\ncontent-length: 2, 3\r\n\r\nok",
        Malformed::Length,
    ),
    broken(
        "HTTP/1.1 200 OK\r\ncontent-length: 2,\r\n\r\nok",
        Malformed::Length,
    ),
    broken(
        "HTTP/1.1 200 OK\r\ncontent-length: x\r\ncontent-length: 2\r\n\r\nok",
        Malformed::Length,
    ),
    broken(
        "HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\nok",
        Malformed::Length,
    ),
    broken(
        "HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\nok",
        Malformed::Length,
    ),
    broken(
        "HTTP/1.1 200 OK\r\ncontent-length: 0x2\r\n\r\nok",
        Malformed::Length,
    ),
    broken(
        "HTTP/1.1 200 OK\r\ncontent-length: 2.0\r\n\r\nok",
        Malformed::Length,
    ),
    broken(
        "HTTP/1.1 200 OK\r\ncontent-length: \u{0662}\r\n\r\nok",
        Malformed::Length,
    ),
    broken(
        "HTTP/1.1 200 OK\r\ncontent-length:\r\n\r\nok",
        Malformed::Length,
    ),
    broken(
        "HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551616\r\n\r\nok",
        Malformed::Length,
    ),
    broken(
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\nok",
        Malformed::Length,
    ),
    // No content, whatever the fields say.
    to_head(
        "HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n",
        200,
        Kept(0),
    ),
    to_head(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        200,
        Kept(0),
    ),
    to_head("HTTP/1.1 200 OK\r\n\r\n", 200, Kept(0)),
    to_head(
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        200,
        Kept(2),
    ),
    whole("HTTP/1.1 204 No Content\r\n\r\n", 204, "", Kept(0)),
    whole(
        "HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\nok",
        204,
        "",
        Kept(2),
    ),
    whole(
        "HTTP/1.1 304 Not Modified\r\ncontent-length: 500\r\n\r\n",
        304,
        "",
        Kept(0),
    ),
    // Until the end of the connection.
    whole(
        "HTTP/1.1 200 OK\r\n\r\nuntil the end",
        200,
        "until the end",
        Last(0),
    ),
    whole(
        "HTTP/1.0 200 OK\r\n\r\nuntil the end",
        200,
        "until the end",
        Last(0),
    ),
    whole(
        "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n\r\n",
        200,
        "",
        Last(0),
    ),
    // Connections that end, and do not.
    whole(
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        200,
        "ok",
        Last(0),
    ),
    whole(
        "HTTP/1.1 200 OK\r\nconnection: x , Close\r\ncontent-length: 2\r\n\r\nok",
        200,
        "ok",
        Last(0),
    ),
    whole(
        "HTTP/1.1 200 OK\r\nconnection: close\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
        200,
        "ok",
        Last(0),
    ),
    whole(
        "HTTP/1.1 200 OK\r\nconnection: closed\r\ncontent-length: 2\r\n\r\nok",
        200,
        "ok",
        Kept(0),
    ),
    whole(
        "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        200,
        "ok",
        Last(0),
    ),
    whole(
        "HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\ncontent-length: 2\r\n\r\nok",
        200,
        "ok",
        Kept(0),
    ),
    // Bytes behind the response.
    whole(
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokay",
        200,
        "ok",
        Kept(2),
    ),
    whole(
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 500 Nobody Asked\r\ncontent-length: 0\r\n\r\n",
        200,
        "ok",
        Kept(48),
    ),
    whole(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n\r\n",
        200,
        "",
        Kept(2),
    ),
    // Chunks.
    whole(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n1\r\n!\r\n0\r\n\r\n",
        200,
        "ok!",
        Kept(0),
    ),
    whole(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\nA\r\n0123456789\r\n00\r\n\r\n",
        200,
        "0123456789",
        Kept(0),
    ),
    whole(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        200,
        "ok",
        Kept(0),
    ),
    whole(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        200,
        "ok",
        Kept(0),
    ),
    whole(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2 ;a=\"b;c\"\r\nok\r\n0\t;last\r\n\r\n",
        200,
        "ok",
        Kept(0),
    ),
    whole(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2  \r\nok\r\n0\r\na: b\r\ncontent-length: 9\r\n\r\n",
        200,
        "ok",
        Kept(0),
    ),
    whole(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nonly\r\n",
        200,
        "only",
        InContent,
    ),
    whole(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\non",
        200,
        "on",
        InContent,
    ),
    whole(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n",
        200,
        "",
        InContent,
    ),
    whole(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\na: b\r\n",
        200,
        "",
        InContent,
    ),
    whole(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\nok",
        200,
        "ok",
        InContent,
    ),
    whole(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        200,
        "",
        InContent,
    ),
    chunks(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\nok\r\n0\r\n\r\n",
        "",
        Malformed::ChunkSize,
    ),
    chunks(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\r\nok\r\n0\r\n\r\n",
        "",
        Malformed::ChunkSize,
    ),
    chunks(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n;a\r\nok\r\n0\r\n\r\n",
        "",
        Malformed::ChunkSize,
    ),
    chunks(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n 2\r\nok\r\n0\r\n\r\n",
        "",
        Malformed::ChunkSize,
    ),
    chunks(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-2\r\nok\r\n0\r\n\r\n",
        "",
        Malformed::ChunkSize,
    ),
    chunks(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n+2\r\nok\r\n0\r\n\r\n",
        "",
        Malformed::ChunkSize,
    ),
    chunks(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0x2\r\nok\r\n0\r\n\r\n",
        "",
        Malformed::ChunkSize,
    ),
    chunks(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2 2\r\nok\r\n0\r\n\r\n",
        "",
        Malformed::ChunkSize,
    ),
    chunks(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\nok\r\n0\r\n\r\n",
        "",
        Malformed::ChunkEnd,
    ),
    chunks(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;a\nok\r\n0\r\n\r\n",
        "",
        Malformed::ChunkEnd,
    ),
    chunks(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;a\0\r\nok\r\n0\r\n\r\n",
        "",
        Malformed::ChunkExtensions,
    ),
    chunks(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;a\r\rok\r\n0\r\n\r\n",
        "",
        Malformed::ChunkEnd,
    ),
    chunks(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\n0\r\n\r\n",
        "ok",
        Malformed::ChunkEnd,
    ),
    chunks(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n",
        "ok",
        Malformed::ChunkEnd,
    ),
    chunks(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n10000000000000000\r\nok",
        "",
        Malformed::LongChunkSize,
    ),
    chunks(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n00000000000000002\r\nok\r\n0\r\n\r\n",
        "",
        Malformed::LongChunkSize,
    ),
    trailers("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nno colon\r\n\r\n"),
    trailers("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\na: b\nc: d\r\n\r\n"),
    trailers("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\na: b\n\n"),
    trailers("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\n"),
    trailers("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\rx"),
    // Shapes that two readers read differently.
    broken(
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        Malformed::BothLengths,
    ),
    broken(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nok",
        Malformed::TransferEncoding,
    ),
    broken(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: identity\r\n\r\nok",
        Malformed::TransferEncoding,
    ),
    broken(
        "HTTP/1.1 200 OK\r\ntransfer-encoding:\r\n\r\nok",
        Malformed::TransferEncoding,
    ),
    broken(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        Malformed::TransferEncoding,
    ),
    broken(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, gzip\r\n\r\nok",
        Malformed::TransferEncoding,
    ),
    broken(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        Malformed::TransferEncoding,
    ),
    broken(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        Malformed::TransferEncoding,
    ),
    broken(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: , chunked\r\n\r\n0\r\n\r\n",
        Malformed::TransferEncoding,
    ),
    broken(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: \u{a1} chunked, chunked\r\n\r\n0\r\n\r\n",
        Malformed::TransferEncoding,
    ),
    broken(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: x;a=\u{a1}, chunked\r\n\r\n0\r\n\r\n",
        Malformed::TransferEncoding,
    ),
    broken(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: a b, chunked\r\n\r\n0\r\n\r\n",
        Malformed::TransferEncoding,
    ),
    whole(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: x ; a=\"b c\", chunked\r\n\r\n0\r\n\r\n",
        200,
        "",
        Kept(0),
    ),
    broken(
        "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        Malformed::TransferEncoding,
    ),
    broken(
        "HTTP/1.1 200 OK\r\ntransfer-encoding : chunked\r\n\r\n0\r\n\r\n",
        HEADER_NAME,
    ),
    broken(
        "HTTP/1.1 200 OK\r\n content-length: 2\r\n\r\nok",
        HEADER_NAME,
    ),
    broken(
        "HTTP/1.1 200 OK\r\nx-a: 1\r\n 2\0\r\ncontent-length: 2\r\n\r\nok",
        HEADER_VALUE,
    ),
    broken(
        "HTTP/1.1 200 OK\r\nx-a: 1\r\n 2\r\nno colon\r\n\r\n",
        HEADER_NAME,
    ),
    // Folded lines.
    whole(
        "HTTP/1.1 200 OK\r\nx-a: 1\r\n 2\r\ncontent-length: 2\r\n\r\nok",
        200,
        "ok",
        Kept(0),
    ),
    whole(
        "HTTP/1.1 200 OK\r\nx-a: 1\n\t2\ncontent-length:\r\n 2\r\n\r\nok",
        200,
        "ok",
        Kept(0),
    ),
    whole(
        "HTTP/1.1 200 OK\r\nconnection: x,\r\n \r\n\tclose\r\ncontent-length: 2\r\n \r\n\r\nok",
        200,
        "ok",
        Last(0),
    ),
    whole(
        "HTTP/1.1 103 \r\na: b\r\n c\r\n\r\nHTTP/1.1 204 \r\na: b\r\n c\r\n\r\n",
        204,
        "",
        Kept(0),
    ),
    broken(
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n 3\r\n\r\nok",
        Malformed::Length,
    ),
    broken("HTTP/1.1 200 OK\r\nno colon here\r\n\r\n", HEADER_NAME),
    broken("HTTP/1.1 200 OK\r\n: nameless\r\n\r\n", HEADER_NAME),
    broken("HTTP/1.1 200 OK\r\nx-\u{e9}: 1\r\n\r\n", HEADER_NAME),
    broken("HTTP/1.1 200 OK\r\nx-a: 1\0\r\n\r\n", HEADER_VALUE),
    broken(
        "HTTP/1.1 200 OK\r\nx-a: 1\rcontent-length: 2\r\n\r\n",
        HEADER_VALUE,
    ),
    broken("HTTP/1.1 200 OK\r\nx-a: 1\r\n\rx\n", NEW_LINE),
    broken("HTTP/1.1 200 O\0K\r\n\r\n", STATUS),
    // A single LF may end a line of a head (RFC 9112, 2.2).
    whole(
        "HTTP/1.1 200 OK\ncontent-length: 2\n\nok",
        200,
        "ok",
        Kept(0),
    ),
    // Interim answers, and blank lines.
    whole(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        200,
        "ok",
        Kept(0),
    ),
    whole(
        "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\ncontent-length: 7\r\n\r\nHTTP/1.1 102\r\n\r\nHTTP/1.1 204 \r\n\r\n",
        204,
        "",
        Kept(0),
    ),
    whole(
        "\r\n\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
        204,
        "",
        Kept(0),
    ),
    cut("HTTP/1.1 100 Continue\r\n\r\n"),
    broken(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n",
        Malformed::Upgrade,
    ),
    broken("HTTP/1.1 099 \r\n\r\n", Malformed::Status(99)),
    broken("HTTP/1.1 000 \r\n\r\n", Malformed::Status(0)),
    // No HTTP/1.
    broken("220 mail.example.org ESMTP\r\n", VERSION),
    broken("HTTP/2 200\r\n\r\n", VERSION),
    broken("HTTP/1.2 200 OK\r\n\r\n", VERSION),
    broken("http/1.1 200 OK\r\n\r\n", VERSION),
    broken("HTTP/1.1  200 OK\r\n\r\n", STATUS),
    broken("HTTP/1.1 20 OK\r\n\r\n", STATUS),
    broken("HTTP/1.1 2000 OK\r\n\r\n", STATUS),
    broken("HTTP/1.1 abc OK\r\n\r\n", STATUS),
    broken("\0\0\0\0\0\0\0\0", VERSION),
    broken("\rHTTP/1.1 200 OK\r\n\r\n", NEW_LINE),
    // The end of the connection, early.
    cut(""),
    cut("\r"),
    cut("H"),
    cut("HTTP/1.1 200 OK\r\ncontent-le"),
    cut("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r"),
];

const fn chunks(bytes: &'static str, content: &'static str, rule: Malformed) -> ResponseCase {
    whole(bytes, 200, content, ResponseEnd::Malformed(rule))
}

const fn trailers(bytes: &'static str) -> ResponseCase {
    whole(bytes, 200, "", ResponseEnd::Malformed(Malformed::Trailers))
}
