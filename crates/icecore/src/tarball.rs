//! Writing entries as a tar archive: ustar headers, with what does not fit into them in PAX
//! records in front (long and odd names, times before the second, extended attributes).

mod acl;

use format::entry::{Content, Entry, Kind, LinkGroup};
use format::xattrs::is_second_name_of_acl;
use pipeline::browse::content::ContentReader;
use pipeline::{Error, Result};
use restore::acl::mode_without;
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};
use tar::{EntryType, Header};

/// Tar archives consist of blocks of this size.
const BLOCK: usize = 512;
/// An archive ends with two blocks of zeros.
const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];
/// What fits into a ustar header.
const NAME_MAX: usize = 100;
const OCTAL_12_MAX: u64 = 0o77_777_777_777;
const OCTAL_8_MAX: u32 = 0o7_777_777;
const USER_MAX: usize = 31;

/// An archive that is being written.
pub(crate) struct Tarball<'a, W: Write> {
    output: W,
    content: ContentReader<'a>,
    /// First names of objects that have several, by file system and inode.
    names: HashMap<LinkGroup, Vec<u8>>,
    entries: u64,
    bytes: u64,
    skipped: u64,
    /// What is damaged in objects of the archive.
    gaps: Vec<Gap>,
    more_gaps: u64,
}

/// Damage to an object: zeros are in place of it, or its extended attributes are missing.
pub(crate) struct Gap {
    pub(crate) path: Vec<u8>,
    pub(crate) error: Error,
}

/// Gaps that are named; of further ones only the number is kept.
const GAPS_MAX: usize = 1000;

/// What an archive holds.
pub(crate) struct Written {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    /// Objects that were left out.
    pub(crate) skipped: u64,
    pub(crate) gaps: Vec<Gap>,
    pub(crate) more_gaps: u64,
}

impl<'a, W: Write> Tarball<'a, W> {
    pub(crate) fn new(output: W, content: ContentReader<'a>) -> Self {
        let (entries, bytes, skipped, gaps, more_gaps) = Default::default();
        Self { output, content, names: HashMap::new(), entries, bytes, skipped, gaps, more_gaps }
    }

    /// Adds an object.
    pub(crate) fn add(&mut self, entry: &Entry) -> Result<()> {
        if entry.kind() == Kind::Socket {
            self.skipped += 1;
            return Ok(());
        }
        let first = self.first_name(entry);
        let is_data = entry.kind() == Kind::File && first.is_none();
        let size = if is_data { entry.size } else { 0 };
        let link = first.as_deref().map_or(Link::of(entry), Link::Hard);
        let whole = match self.content.with_xattrs(entry) {
            Ok(whole) => whole,
            Err(error) => {
                self.gap(entry, error)?;
                Cow::Borrowed(entry)
            }
        };
        let (header, pax) = header(&whole, link, size);
        self.pax(&pax)?;
        self.write(header.as_bytes())?;
        if is_data {
            if let Some(error) = self.content.copy_with_gaps(entry, &mut self.output)? {
                self.gap(entry, error)?;
            }
            self.pad(entry.size)?;
        }
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(size);
        Ok(())
    }

    /// Ends the archive.
    pub(crate) fn finish(mut self) -> Result<Written> {
        self.write(&END)?;
        self.output.flush().map_err(unwritten)?;
        let Self { entries, bytes, skipped, gaps, more_gaps, .. } = self;
        Ok(Written { entries, bytes, skipped, gaps, more_gaps })
    }

    /// Damage costs its object alone; any other error would end every object.
    fn gap(&mut self, entry: &Entry, error: Error) -> Result<()> {
        if !error.is_damage() {
            return Err(error);
        }
        match self.gaps.len() {
            GAPS_MAX.. => self.more_gaps += 1,
            _ => self.gaps.push(Gap { path: entry.path.clone(), error }),
        }
        Ok(())
    }

    /// The first name of the same object, if this is a further one. The link count of a directory means something else.
    fn first_name(&mut self, entry: &Entry) -> Option<Vec<u8>> {
        if entry.links < 2 || entry.kind() == Kind::Directory {
            return None;
        }
        let group = entry.link_group();
        if let Some(first) = self.names.get(&group) {
            return Some(first.clone());
        }
        self.names.insert(group, entry.path.clone());
        None
    }

    fn pax(&mut self, records: &Records) -> Result<()> {
        if records.bytes.is_empty() {
            return Ok(());
        }
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::XHeader);
        header.set_size(records.bytes.len() as u64);
        header.set_mode(0o644);
        put(&mut header.as_old_mut().name, b"././@PaxHeader");
        header.set_cksum();
        self.write(header.as_bytes())?;
        self.write(&records.bytes)?;
        self.pad(records.bytes.len() as u64)
    }

    fn pad(&mut self, length: u64) -> Result<()> {
        let over = (length % BLOCK as u64) as usize;
        if over > 0 { self.write(&END[..BLOCK - over]) } else { Ok(()) }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.output.write_all(bytes).map_err(unwritten)
    }
}

fn unwritten(source: io::Error) -> Error {
    Error::File { path: "the output".into(), source }
}

/// Where an entry points to.
#[derive(Clone, Copy)]
enum Link<'a> {
    None,
    /// The text of a symlink.
    Symbolic(&'a [u8]),
    /// The first name of the same object.
    Hard(&'a [u8]),
}

impl<'a> Link<'a> {
    /// Of an entry that is not a further name of another.
    fn of(entry: &'a Entry) -> Self {
        match (&entry.content, entry.kind()) {
            (Content::Inline(target), Kind::Symlink) => Self::Symbolic(target),
            _ => Self::None,
        }
    }

    fn target(self) -> Option<&'a [u8]> {
        match self {
            Self::None => None,
            Self::Symbolic(target) | Self::Hard(target) => Some(target),
        }
    }
}

/// PAX records: `length key=value\n`.
#[derive(Default)]
struct Records {
    bytes: Vec<u8>,
}

impl Records {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        let rest = 1 + key.len() + 1 + value.len() + 1; // " key=value\n"
        let mut length = rest + 1;
        // The length counts its own digits.
        while length != rest + length.to_string().len() {
            length = rest + length.to_string().len();
        }
        self.bytes.extend_from_slice(length.to_string().as_bytes());
        [b" ", key, b"=", value, b"\n"].iter().for_each(|part| self.bytes.extend_from_slice(part));
    }
}

fn header(entry: &Entry, link: Link<'_>, size: u64) -> (Header, Records) {
    let (mut header, mut pax) = (Header::new_ustar(), Records::default());
    let attributes = &entry.attributes;
    let mut name = entry.path.clone();
    if entry.kind() == Kind::Directory {
        name.push(b'/');
    }
    let is_odd = |bytes: &[u8]| bytes.len() > NAME_MAX && str::from_utf8(bytes).is_err();
    if is_odd(&name) || link.target().is_some_and(is_odd) {
        pax.add(b"hdrcharset", b"BINARY");
    }
    header.set_entry_type(entry_type(entry.kind(), link));
    put_or_pax(&mut header.as_old_mut().name, &name, NAME_MAX, b"path", &mut pax);
    if let Some(link) = link.target() {
        put_or_pax(&mut header.as_old_mut().linkname, link, NAME_MAX, b"linkpath", &mut pax);
    }
    header.set_mode(attributes.mode.into());
    header.set_uid(number_or_pax(attributes.uid, b"uid", &mut pax).into());
    header.set_gid(number_or_pax(attributes.gid, b"gid", &mut pax).into());
    header.set_size(size.min(OCTAL_12_MAX));
    if size > OCTAL_12_MAX {
        pax.add(b"size", size.to_string().as_bytes());
    }
    owners(&mut header, entry, &mut pax);
    times(&mut header, entry, &mut pax);
    devices(&mut header, entry);
    xattrs(&mut header, entry, &mut pax);
    header.set_cksum();
    (header, pax)
}

/// ACLs twice: `tar --acls` reads them as text alone, `tar --xattrs` as they are.
fn xattrs(header: &mut Header, entry: &Entry, pax: &mut Records) {
    for xattr in entry.attributes.xattrs.iter().filter(|it| !is_second_name_of_acl(&it.name)) {
        let text = match &xattr.name[..] {
            b"system.posix_acl_access" => {
                header.set_mode(mode_without(&xattr.value, entry.attributes.mode.into()));
                acl::text(&xattr.value).map(|text| (&b"SCHILY.acl.access"[..], text))
            }
            b"system.posix_acl_default" => {
                acl::text(&xattr.value).map(|text| (&b"SCHILY.acl.default"[..], text))
            }
            _ => None,
        };
        if let Some((key, text)) = text {
            pax.add(key, text.as_bytes());
        }
        pax.add(&[b"SCHILY.xattr.", &keyword(&xattr.name)[..]].concat(), &xattr.value);
    }
}

/// The name of an attribute as GNU tar writes and reads it: a keyword ends at the first `=`.
fn keyword(name: &[u8]) -> Vec<u8> {
    let escaped = |byte: &u8| match byte {
        b'%' => b"%25".to_vec(),
        b'=' => b"%3D".to_vec(),
        other => vec![*other],
    };
    name.iter().flat_map(escaped).collect()
}

fn entry_type(kind: Kind, link: Link<'_>) -> EntryType {
    match kind {
        _ if matches!(link, Link::Hard(_)) => EntryType::Link,
        Kind::File | Kind::Socket => EntryType::Regular,
        Kind::Directory => EntryType::Directory,
        Kind::Symlink => EntryType::Symlink,
        Kind::Fifo => EntryType::Fifo,
        Kind::CharDevice => EntryType::Char,
        Kind::BlockDevice => EntryType::Block,
    }
}

fn put(field: &mut [u8], value: &[u8]) {
    let length = value.len().min(field.len());
    field[..length].copy_from_slice(&value[..length]);
}

/// The field always has something, for programs that know no PAX. PAX values are UTF-8, so bytes
/// that are no text go there only when the field is too short.
fn put_or_pax(field: &mut [u8], value: &[u8], longest: usize, key: &[u8], pax: &mut Records) {
    put(field, value);
    if value.len() > longest || !value.is_ascii() && str::from_utf8(value).is_ok() {
        pax.add(key, value);
    }
}

fn number_or_pax(value: u32, key: &[u8], pax: &mut Records) -> u32 {
    if value > OCTAL_8_MAX {
        pax.add(key, value.to_string().as_bytes());
    }
    value.min(OCTAL_8_MAX)
}

fn owners(header: &mut Header, entry: &Entry, pax: &mut Records) {
    let attributes = &entry.attributes;
    if let Some(ustar) = header.as_ustar_mut() {
        put_or_pax(&mut ustar.uname, &attributes.user, USER_MAX, b"uname", pax);
        put_or_pax(&mut ustar.gname, &attributes.group, USER_MAX, b"gname", pax);
    }
}

fn times(header: &mut Header, entry: &Entry, pax: &mut Records) {
    let time = entry.mtime;
    let fits = u64::try_from(time.secs).ok().filter(|secs| *secs <= OCTAL_12_MAX);
    header.set_mtime(fits.unwrap_or(0));
    if fits.is_none() || time.nanos > 0 {
        pax.add(b"mtime", decimal(time.secs, time.nanos).as_bytes());
    }
}

/// Nanoseconds count forward, also before 1970: -1 s and 250,000,000 ns are -0.75.
fn decimal(secs: i64, nanos: u32) -> String {
    if secs >= 0 || nanos == 0 {
        return format!("{secs}.{nanos:09}");
    }
    format!("-{}.{:09}", (secs + 1).unsigned_abs(), 1_000_000_000 - nanos.min(1_000_000_000))
}

fn devices(header: &mut Header, entry: &Entry) {
    if matches!(entry.kind(), Kind::CharDevice | Kind::BlockDevice) {
        // Numbers that do not fit cannot be told; there is no PAX record for them.
        let (major, minor) = (rustix::fs::major(entry.rdev), rustix::fs::minor(entry.rdev));
        let fits = |number: u32| number.min(OCTAL_8_MAX);
        let _ = header
            .set_device_major(fits(major))
            .and_then(|()| header.set_device_minor(fits(minor)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_its_own_length() {
        let mut records = Records::default();
        records.add(b"path", b"x");
        assert_eq!(records.bytes, b"9 path=x\n");
        let mut records = Records::default();
        records.add(b"path", &[b'x'; 91]);
        assert_eq!(records.bytes.len(), 101);
        assert!(records.bytes.starts_with(b"101 path="));
    }

    #[test]
    fn times_before_1970_are_told() {
        assert_eq!(
            [decimal(5, 7), decimal(-1, 0), decimal(-1, 250_000_000)],
            ["5.000000007", "-1.000000000", "-0.750000000"]
        );
    }
}
