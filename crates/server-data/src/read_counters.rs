//! What was read on a connection, or in a session: from some amount on it is a job of its own in the list of jobs.

use format::record::{Header, RecordKind};
use server_contract::access_control::{JobNo, JobStatus};

/// Kind of the job.
pub(super) const READ: &str = "read";

/// Bytes that a backup may read before its session, and bytes of files that it may read in it, before it counts as
/// reading.
const BACKUP_READS_BYTES: u64 = 16 << 20;
/// The same for all that it reads in its session: pages of the snapshot before, one for some hundred objects each.
const SESSION_READS_BYTES: u64 = 256 << 20;

/// Counters of what was read.
#[derive(Default)]
pub(super) struct ReadCounters {
    records: u64,
    bytes: u64,
    /// Those of records that hold contents of files.
    data_bytes: u64,
    /// Whether the connection's job is this reading.
    pub(super) is_job: bool,
    /// The job beside that of a session.
    pub(super) job: Option<JobNo>,
}

impl ReadCounters {
    pub(super) fn add(&mut self, record: &[u8]) {
        let bytes = record.len() as u64;
        self.records += 1;
        self.bytes += bytes;
        // What cannot be told apart counts as contents.
        let is_data = Header::decode(record).map_or(true, |header| header.kind == RecordKind::Data);
        self.data_bytes += if is_data { bytes } else { 0 };
    }

    /// Whether it is more than a backup reads before its session, or for others anything.
    pub(super) fn is_news(&self, is_backup: bool) -> bool {
        self.bytes > if is_backup { BACKUP_READS_BYTES } else { 0 }
    }

    /// Whether it is more than a backup reads in its session.
    pub(super) fn is_news_in_session(&self) -> bool {
        self.data_bytes > BACKUP_READS_BYTES || self.bytes > SESSION_READS_BYTES
    }

    pub(super) fn status(&self) -> JobStatus {
        let (objects, bytes, bytes_wire) = (self.records, self.bytes, self.bytes);
        JobStatus { objects, bytes, bytes_wire, stage: READ.to_owned(), ..Default::default() }
    }

    pub(super) fn report(&self) -> String {
        serde_json::json!({ "records": self.records, "bytes": self.bytes }).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use format::record::HEADER_BYTES;
    use format::record::session_record;
    use ids::SessionId;

    fn record(kind: u8, bytes: usize) -> Vec<u8> {
        let mut record = session_record(SessionId([1; 16]), &[0; _]).to_bytes();
        record[5] = kind;
        record.resize(bytes.max(HEADER_BYTES), 0);
        record
    }

    #[test]
    fn contents_of_files_count_sooner_than_pages_in_a_session() {
        let (mut pages, mut data, mut other) =
            <(ReadCounters, ReadCounters, ReadCounters)>::default();
        for _ in 0..17 {
            pages.add(&record(RecordKind::Pages as u8, 1 << 20));
            data.add(&record(RecordKind::Data as u8, 1 << 20));
            other.add(&vec![7; 1 << 20]);
        }
        let told = [&pages, &data, &other].map(ReadCounters::is_news_in_session);
        assert_eq!(told, [false, true, true]);
        assert!(pages.is_news(true) && !ReadCounters::default().is_news_in_session());
        for _ in 0..240 {
            pages.add(&record(RecordKind::Pages as u8, 1 << 20));
        }
        assert!(pages.is_news_in_session(), "257 MiB of pages");
    }
}
