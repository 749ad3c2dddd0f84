//! A client of HTTP/1.1 that is no more than a socket: one request a connection.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::soon;

pub struct Response {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Response {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub fn kind(&self) -> &str {
        self.headers.get("content-type").map_or("", String::as_str)
    }
}

pub async fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response {
    let mut stream = begin(address, method, path, headers, body).await;
    let mut bytes = Vec::new();
    soon("response", stream.read_to_end(&mut bytes)).await.unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{method} {path}: {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let body = match headers.get("transfer-encoding").map(String::as_str) {
        Some("chunked") => unchunked(body),
        _ => body.to_owned(),
    };
    Response { status, headers, body }
}

pub async fn get(address: SocketAddr, path: &str) -> Response {
    send(address, "GET", path, &[], "").await
}

/// A request whose response has no end.
pub async fn begin(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut request = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    if !body.is_empty() {
        request += &format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    }
    stream.write_all((request + "\r\n" + body).as_bytes()).await.unwrap();
    stream
}

/// Reads until the text holds something.
pub async fn read_until(stream: &mut TcpStream, text: &mut String, wanted: &str) {
    let mut buffer = [0; 4096];
    while !text.contains(wanted) {
        let read = soon(wanted, stream.read(&mut buffer)).await.unwrap();
        assert!(read > 0, "no {wanted:?} before the end of {text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
}

fn unchunked(mut text: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = text.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            break;
        }
        // Assets are ASCII where they are cut.
        whole += rest.get(..size).unwrap_or(rest);
        text = rest.get(size + 2..).unwrap_or("");
    }
    whole
}
