//! What both ends of a connection do to notice that the other one is gone: a machine without power says nothing, and
//! the systems' own limits are hours. Until the database notices, it keeps the lock of a server, and no other one
//! starts.

use postgres::Config;
use std::time::Duration;

/// A connection on which nothing was said for so long is asked whether it lives.
const IDLE_SECS: u64 = 30;
/// So often it is asked again.
const INTERVAL_SECS: u64 = 10;
const ASKED_MAX: u32 = 3;
/// What was sent and not acknowledged for so long ends it: 30 + 3 * 10 s.
const UNANSWERED_SECS: u64 = 60;

/// The same for the database's end. Over a socket of the system they mean nothing.
pub(super) const OPTIONS: &str = "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3 -c tcp_user_timeout=60s";

/// Has this end notice.
pub(super) fn notice_ends(config: &mut Config) {
    config
        .keepalives(true)
        .keepalives_idle(Duration::from_secs(IDLE_SECS))
        .keepalives_interval(Duration::from_secs(INTERVAL_SECS))
        .keepalives_retries(ASKED_MAX)
        .tcp_user_timeout(Duration::from_secs(UNANSWERED_SECS));
}

#[cfg(test)]
mod tests {
    use crate::location::Kind;
    use crate::sql::Purpose;
    use crate::testing::Server;
    use crate::{Catalog, Location};
    use std::net::TcpListener;
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn both_ends_of_a_connection_notice_that_the_other_is_gone() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let listen = |_: &Path| vec!["listen_addresses=127.0.0.1".to_owned()];
        let server = Server::start_with("network", port, listen);
        server.database("network");
        let text =
            format!("host=127.0.0.1 port={port} user=postgres dbname=network sslmode=disable");
        let location = Location::parse(&text, Path::new("/")).unwrap();
        let catalog = Catalog::open(&location).unwrap();
        let seconds = "SELECT string_agg(setting, ' ' ORDER BY name) FROM pg_settings
            WHERE name LIKE 'tcp\\_%'";
        let settings =
            |look: &crate::sql::Sql<'_>| look.one(seconds, &[], |row| row.get::<String>(0));
        // count, idle, interval, and the time for an answer in milliseconds
        assert_eq!(catalog.look(settings).unwrap(), "3 30 10 60000");
        assert_eq!(catalog.change(settings).unwrap(), "3 30 10 60000");
        let Kind::Postgres(address) = &location.0 else { panic!("{location}") };
        for purpose in [Purpose::Read, Purpose::Write] {
            let config = super::super::config(address, purpose);
            assert!(config.get_keepalives());
            assert_eq!(config.get_keepalives_idle(), Duration::from_secs(30));
            assert_eq!(config.get_keepalives_interval(), Some(Duration::from_secs(10)));
            assert_eq!(config.get_keepalives_retries(), Some(3));
            assert_eq!(config.get_tcp_user_timeout(), Some(&Duration::from_secs(60)));
        }
        catalog.serve().unwrap();
        let refused = Catalog::open(&location).unwrap().serve().unwrap_err().to_string();
        assert!(refused.contains("connected from 127.0.0.1"), "{refused}");
    }
}
