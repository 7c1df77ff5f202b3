//! Packets in any order: nothing is stored without a session, nothing is read without a domain, and
//! what is over stays over. And a window, acknowledged in any way.

use protocol::Packet;
use protocol::packet::{PathBytes, SnapshotName};
use protocol::state::State;
use protocol::window::Window;

/// Whether a server would give this answer to a packet of `kind`.
fn answers(kind: u8, answer: u8) -> Option<Packet> {
    let name = SnapshotName { sequence: 1, id: ids::SnapshotId([0; 16]) };
    let (program, node) = (String::new(), String::new());
    let done = match (kind, answer % 4) {
        // It was not done.
        (_, 0) => protocol::fault::fault(protocol::fault::Code::Failed, "", "", &[]),
        (1, _) => {
            let (time_secs, window_bytes, streams) = (0, 0, 0);
            Packet::Welcome { version: 1, program, time_secs, node, window_bytes, streams }
        }
        (2 | 3, _) => {
            let (config, damage_epoch, receipt_keys) = (PathBytes(Vec::new()), 0, Vec::new());
            let (may_write, may_read, may_init) = Default::default();
            let domain = node;
            Packet::Opened {
                domain,
                config,
                damage_epoch,
                may_write,
                may_read,
                may_init,
                receipt_keys,
            }
        }
        (13, _) => Packet::Begun { session: [0; 16], secret: [0; 16], is_empty: false },
        (14, _) => Packet::Attached { applied: 0 },
        (17 | 23, _) => Packet::Stored { applied: 1, stored_bytes: 1 },
        (19, _) => Packet::Committed { name, stored_bytes: 1 },
        (20, _) => return None,
        _ => Packet::Done {},
    };
    Some(done)
}

/// Packets that store, and those that read.
const STORE: [u8; 5] = [15, 16, 17, 18, 19];
const READ: [u8; 9] = [4, 5, 6, 7, 8, 9, 10, 11, 12];

fn harness(words: &[u8]) {
    let mut state = State::New;
    let (mut has_domain, mut has_session) = (false, false);
    for [kind, answer] in words.as_chunks::<2>().0 {
        if state.admits(*kind).is_err() {
            // A server leaves; whoever tries again meets the same.
            assert!(state.admits(*kind).is_err());
            continue;
        }
        assert!(has_session || !STORE.contains(kind), "{kind} without a session");
        assert!(has_domain || !READ.contains(kind), "{kind} without a domain");
        assert!(*kind != 1 || state == State::New, "a second greeting");
        assert!(*kind < 128 && State::Over.admits(*kind).is_err());
        let Some(answer) = answers(*kind, *answer) else { continue };
        let before = state;
        state = state.after(&answer);
        assert!(state != State::New || before == State::New, "nobody begins anew");
        let is_back = state == State::Greeted && !matches!(before, State::New | State::Greeted);
        assert!(!is_back, "a domain stays open");
        has_domain |= matches!(answer, Packet::Opened { .. } | Packet::Attached { .. });
        has_session = match answer {
            Packet::Begun { .. } | Packet::Attached { .. } => true,
            Packet::Committed { .. } => false,
            _ => has_session,
        };
    }
}

fn confirm(limit_bytes: usize, steps: &[u8]) {
    let mut window = Window::new(limit_bytes);
    let (mut sent, mut acknowledged) = (Vec::new(), 0u64);
    for step in steps {
        let amount = usize::from(step >> 1);
        if step & 1 == 0 {
            if window.has_room_for(amount) {
                window.push(sent.len(), amount);
                sent.push(amount);
            }
        } else {
            let applied = (acknowledged + (amount as u64) / 4).saturating_sub(2);
            let fits = (acknowledged..=sent.len() as u64).contains(&applied);
            assert_eq!(window.acknowledge(applied).is_ok(), fits);
            acknowledged = if fits { applied } else { acknowledged };
        }
        let open = &sent[acknowledged as usize..];
        assert_eq!(window.bytes(), open.iter().sum::<usize>());
        assert!(window.bytes() <= limit_bytes || open.len() == 1, "one frame always fits");
        assert!(window.unacknowledged().copied().eq(acknowledged as usize..sent.len()));
        assert_eq!((window.sent_frames(), window.is_empty()), (sent.len() as u64, open.is_empty()));
    }
}

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    harness(bytes);
    if let Some((limit, steps)) = bytes.split_first() {
        confirm(usize::from(*limit), steps);
    }
}
