//! Two network namespaces with a TUN device each, made with `ip` and taken away again.

use crate::tun;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;

/// Packets that may wait in a device until they are read. What a link drops is counted in `Link`:
/// the device itself must never be the one that drops.
const DEVICE_PACKETS: &str = "20000";
/// Addresses for documentation (RFC 5737): no network has them.
const ADDRESSES: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
const ROLES: [&str; 2] = ["near", "far"];
/// Where `ip netns` keeps names.
const NAMED: &str = "/run/netns";

/// One end of the link. Dropping it takes the namespace away.
pub(crate) struct End {
    /// `near` or `far`.
    pub(crate) role: &'static str,
    /// Name of the namespace.
    pub(crate) name: String,
    /// Its address.
    pub(crate) address: &'static str,
    /// Its device.
    pub(crate) device: String,
    /// What the kernel sends through the device, and where arriving packets go.
    pub(crate) packets: OwnedFd,
}

/// Makes both ends; their names carry the number of this process.
pub(crate) fn make(mtu: u32) -> io::Result<[End; 2]> {
    remove_stale();
    Ok([end(0, mtu)?, end(1, mtu)?])
}

fn end(number: usize, mtu: u32) -> io::Result<End> {
    let pid = std::process::id();
    let role = ROLES[number];
    let device = format!("wan{pid}{}", &role[..1]);
    let packets = tun::make(&device)?;
    let name = format!("wan-{pid}-{role}");
    ip(&["netns", "add", &name])?;
    // From here on dropping `end` cleans up, also when one of the next steps fails.
    let end = End { role, name, address: ADDRESSES[number], device, packets };
    end.configure(mtu)?;
    Ok(end)
}

impl End {
    fn configure(&self, mtu: u32) -> io::Result<()> {
        let (name, device) = (self.name.as_str(), self.device.as_str());
        ip(&["link", "set", "dev", device, "netns", name])?;
        let inside = |words: &[&str]| ip(&[&["-n", name][..], words].concat());
        inside(&["link", "set", "dev", "lo", "up"])?;
        // No packets of its own: what is counted is what programs sent.
        inside(&["link", "set", "dev", device, "addrgenmode", "none"])?;
        let mtu = mtu.to_string();
        inside(&["link", "set", "dev", device, "mtu", &mtu, "txqueuelen", DEVICE_PACKETS, "up"])?;
        inside(&["address", "add", &format!("{}/30", self.address), "dev", device])
    }

    /// Packets that the device dropped because nobody read them in time; 0 is what it must be.
    pub(crate) fn dropped_by_device(&self) -> Option<u64> {
        let words = ["-n", &self.name, "-j", "-s", "link", "show", "dev", &self.device];
        let output = Command::new("ip").args(words).output().ok()?;
        let links: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        links[0]["stats64"]["tx"]["dropped"].as_u64()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // Nothing to be done about a failure: the next start tries again.
        let _ = ip(&["netns", "delete", &self.name]);
    }
}

/// Takes away what a killed process left behind.
fn remove_stale() {
    let Ok(entries) = std::fs::read_dir(NAMED) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if owner(&name).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = ip(&["netns", "delete", &name]);
        }
    }
}

/// The process that made the namespace, if it was one of ours.
fn owner(name: &str) -> Option<u32> {
    let (pid, role) = name.strip_prefix("wan-")?.split_once('-')?;
    if ROLES.contains(&role) { pid.parse().ok() } else { None }
}

fn ip(words: &[&str]) -> io::Result<()> {
    let output = Command::new("ip").args(words).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("ip {}: {}", words.join(" "), said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_have_an_owner() {
        assert_eq!(owner("wan-12-near"), Some(12));
        for name in ["wan-12-up", "wan-x-far", "vpn-12-near", "wan"] {
            assert_eq!(owner(name), None, "{name}");
        }
    }
}
