//! As much of HTTP as the proxy needs: one request, handed on as it is, and its answer.

use std::io::{self, Read, Write};
use std::net::TcpStream;

/// A request.
pub(super) struct Request {
    pub(super) method: String,
    target: String,
    /// The lines of the head, without the first one.
    headers: Vec<String>,
    body: Vec<u8>,
}

/// An answer.
pub(super) struct Answer {
    pub(super) status: u16,
    /// The lines of the head, without the first one, each with its end.
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

/// Everything up to the empty line.
fn head(stream: &mut impl Read) -> io::Result<Option<Vec<String>>> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte)? == 0 {
            return Ok(None);
        }
        head.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&head);
    Ok(Some(text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()))
}

fn value<'a>(headers: &'a [String], name: &str) -> Option<&'a str> {
    let pairs = headers.iter().filter_map(|line| line.split_once(':'));
    pairs.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
}

impl Request {
    /// The next request; `None` when the connection has ended.
    pub(super) fn read(client: &mut TcpStream) -> io::Result<Option<Self>> {
        let mut buffered = io::BufReader::new(client);
        let Some(mut headers) = head(&mut buffered)? else { return Ok(None) };
        let first = headers.remove(0);
        let mut words = first.split(' ').map(str::to_owned);
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        let length = value(&headers, "content-length").and_then(|length| length.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        buffered.read_exact(&mut body)?;
        Ok(Some(Self { method, target, headers, body }))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        value(&self.headers, name)
    }

    /// Bucket and key.
    pub(super) fn key(&self) -> String {
        let path = self.target.split('?').next().unwrap();
        path.trim_start_matches('/').to_owned()
    }

    fn query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }

    /// Whether the query has `name`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.query().split('&').any(|pair| pair.split('=').next() == Some(name))
    }

    /// Whether it is of an object itself: not of a bucket, nor of what belongs to an object.
    pub(super) fn is_of_content(&self) -> bool {
        let others = ["retention", "tagging", "acl", "uploads", "uploadId"];
        self.key().contains('/') && !others.into_iter().any(|name| self.has(name))
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Bucket and key of the objects that the body names.
    pub(super) fn named(&self) -> Vec<String> {
        let (text, bucket) = (self.text(), self.key());
        let keys = text.split("<Key>").skip(1).filter_map(|rest| rest.split_once("</Key>"));
        keys.map(|(key, _)| format!("{}/{key}", bucket.trim_end_matches('/'))).collect()
    }

    /// What the storage at `behind` answers.
    pub(super) fn forward(&self, behind: &str) -> Answer {
        self.try_forward(behind).unwrap_or_else(|_| Answer::empty(502))
    }

    fn try_forward(&self, behind: &str) -> io::Result<Answer> {
        let mut storage = TcpStream::connect(behind)?;
        let kept = self.headers.iter().filter(|line| !is_of_connection(line));
        let lines: String = kept.map(|line| format!("{line}\r\n")).collect();
        let (method, target) = (&self.method, &self.target);
        let head = format!("{method} {target} HTTP/1.1\r\n{lines}connection: close\r\n\r\n");
        storage.write_all(&[head.as_bytes(), &self.body].concat())?;
        Answer::read(&mut storage, self.method == "HEAD")
    }
}

/// Whether this line of a head is about the connection alone.
fn is_of_connection(line: &str) -> bool {
    let name = line.split(':').next().unwrap_or_default();
    ["connection", "expect"].iter().any(|of| name.eq_ignore_ascii_case(of))
}

impl Answer {
    /// One without a text.
    pub(super) fn empty(status: u16) -> Self {
        Self { status, head: "content-length: 0\r\n".into(), body: Vec::new() }
    }

    fn read(storage: &mut TcpStream, is_head: bool) -> io::Result<Self> {
        let mut buffered = io::BufReader::new(storage);
        let mut lines = head(&mut buffered)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let first = lines.remove(0);
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(502);
        let mut body = Vec::new();
        if !is_head {
            buffered.read_to_end(&mut body)?;
        }
        let is_chunked = value(&lines, "transfer-encoding").is_some();
        lines.retain(|line| !is_of_connection(line));
        if is_chunked {
            body = joined(&body);
            lines.retain(|line| !line.to_ascii_lowercase().starts_with("transfer-encoding"));
            lines.push(format!("content-length: {}", body.len()));
        }
        Ok(Self { status, head: lines.iter().map(|line| format!("{line}\r\n")).collect(), body })
    }

    /// With more lines in its head.
    pub(super) fn with(mut self, lines: &str) -> Self {
        let own = lines.lines().filter_map(|line| line.split(':').next());
        let names: Vec<_> = own.map(str::to_ascii_lowercase).collect();
        let is_new = |line: &&str| {
            let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
            !names.contains(&name)
        };
        self.head = self.head.lines().filter(is_new).map(|line| format!("{line}\r\n")).collect();
        self.head.push_str(lines);
        self
    }

    pub(super) fn send(&self, client: &mut TcpStream) -> io::Result<()> {
        let head = format!("HTTP/1.1 {} Said\r\n{}\r\n", self.status, self.head);
        client.write_all(&[head.as_bytes(), &self.body].concat())
    }
}

/// What the chunks of a body have together.
fn joined(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = body.windows(2).position(|two| two == b"\r\n") {
        let length = usize::from_str_radix(&String::from_utf8_lossy(&body[..end]), 16).unwrap_or(0);
        if length == 0 {
            break;
        }
        whole.extend_from_slice(&body[end + 2..end + 2 + length]);
        body = &body[end + 2 + length + 2..];
    }
    whole
}
