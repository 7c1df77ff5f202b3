//! Machines that are enrolled without a word on the wire: through the part of the server that
//! governs, before the server runs.

use super::wire::Dial;
use crate::failed;
use api::Token;
use api::enroll::{EnrollReply, EnrollRequest, KeyMode, NewToken};
use crypto::{KeyRing, SlotSecret};
use data_encoding::HEXLOWER;
use pki::NodeKey;
use repository::local::LocalStorage;
use server_control::Control;
use server_data::domains::Domains;
use simulation::Random;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files of a node, and bytes of each.
pub(super) const FILES: u64 = 20;
pub(super) const FILE_BYTES: u64 = 20 << 10;

/// All of them.
pub(super) struct Fleet {
    pub(super) nodes: Vec<Member>,
    pub(super) idle: Vec<Dial>,
    /// The first few nodes once more.
    pub(super) samples: Vec<Member>,
}

/// A node with its keys.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) dial: Dial,
    pub(super) ring: Arc<KeyRing>,
    pub(super) key: ids::KeyId,
    pub(super) repository: [u8; 16],
    told: EnrollReply,
    key_pem: String,
    slot_secret: [u8; 32],
    seed: u64,
}

impl Fleet {
    pub(super) fn enroll(work: &Path, nodes: u64, idle: u64) -> Result<Self, String> {
        let data = work.join("server");
        let control = Control::open(&data, &[]).map_err(|error| error.to_string())?;
        control.set_repositories(Arc::new(Domains::default()));
        let domains = data.join("pool/domains");
        let nodes: Result<Vec<_>, String> =
            (0..nodes).map(|number| member(&control, &domains, number)).collect();
        let idle: Result<Vec<_>, String> = (0..idle)
            .map(|number| {
                let (told, key_pem, _) =
                    enroll(&control, &format!("idle-{number}"), KeyMode::Client)?;
                Dial::new(&told, &key_pem)
            })
            .collect();
        let nodes = nodes?;
        let samples = nodes.iter().take(3).cloned().collect();
        Ok(Self { nodes, idle: idle?, samples })
    }
}

fn member(control: &Control, domains: &Path, number: u64) -> Result<Member, String> {
    let name = format!("node-{number}");
    let (told, key_pem, slot_secret) = enroll(control, &name, KeyMode::Managed)?;
    let (key, ring) = keys(&domains.join(&name), &slot_secret)?;
    let repository = told.repository.clone().unwrap_or_default();
    let repository = HEXLOWER.decode(repository.as_bytes()).ok();
    let repository = repository.and_then(|id| id.try_into().ok()).ok_or("no repository")?;
    let dial = Dial::new(&told, &key_pem)?;
    let (ring, seed) = (Arc::new(ring), number);
    Ok(Member { name, dial, ring, key, repository, told, key_pem, slot_secret, seed })
}

fn enroll(
    control: &Control,
    name: &str,
    keys: KeyMode,
) -> Result<(EnrollReply, String, [u8; 32]), String> {
    let node = name.parse().map_err(|_| "no name")?;
    let new = NewToken { keys, ..NewToken::of(node) };
    let made = control.make_token("the rig", &new).map_err(|error| error.to_string())?;
    let token = Token::parse(&made.token).map_err(|error| error.to_string())?;
    let key = NodeKey::generate().map_err(|error| error.to_string())?;
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| error.to_string())?;
    let request = EnrollRequest {
        secret: token.secret_text(),
        request: key.request_pem.clone(),
        slot_secret: HEXLOWER.encode(&secret),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        privacy: Default::default(),
    };
    let from = Ipv4Addr::LOCALHOST.into();
    let told = control.enroll(from, &request).map_err(|error| error.to_string())?;
    Ok((told, key.key_pem, secret))
}

/// What the node's secret opens in its repository.
fn keys(folder: &Path, secret: &[u8; 32]) -> Result<(ids::KeyId, KeyRing), String> {
    let storage = LocalStorage::open(folder).map_err(|error| error.to_string())?;
    let slots = repository::keys::key_slots(&storage).map_err(|error| error.to_string())?;
    let mut opened = slots.into_iter().filter_map(|(id, slot)| {
        Some((id, crypto::open_slot(&slot, SlotSecret::Recovery(*secret)).ok()?.1))
    });
    opened.next().ok_or_else(|| "no key slot opens".to_owned())
}

impl Member {
    /// The files of its source; the same ones each time.
    pub(super) fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut random = Random::new(self.seed << 20);
        let mut noise = || {
            let words = (0..FILE_BYTES / 8).flat_map(|_| random.next().to_le_bytes());
            words.collect()
        };
        (0..FILES).map(|number| (format!("file {number:02}"), noise())).collect()
    }

    /// What enrollment would have left on its disk.
    pub(super) fn keep(&self, folder: &PathBuf, port: u16) -> Result<(), String> {
        std::fs::create_dir_all(folder).map_err(failed("make a folder"))?;
        let write = |name: &str, text: &str| {
            std::fs::write(folder.join(name), text).map_err(failed("write an identity"))
        };
        write("ca.pem", &self.told.ca_certificate)?;
        write("node.pem", &format!("{}{}", self.told.certificate, self.key_pem))?;
        write("managed.key", &HEXLOWER.encode(&self.slot_secret))?;
        let name = &self.name;
        let lines = [
            format!("server = \"https://127.0.0.1:{port}\""),
            format!("node = \"{name}\"\ndomain = \"{name}\""),
            "keys = \"managed\"\nrole = \"full\"\n".to_owned(),
        ];
        write("agent.toml", &lines.join("\n"))
    }
}
