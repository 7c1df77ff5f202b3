//! Machines with a network namespace each, on one bridge.

use crate::failed;
use crate::mounted::run;
use std::net::{IpAddr, Ipv4Addr};

/// A machine by its name and the last byte of its address.
#[derive(Clone, Debug)]
pub(super) struct Host {
    name: String,
    number: u8,
}

/// The bridge, in the namespace of the rig.
pub(super) fn bridge() -> Result<(), String> {
    run("ip", ["link", "set", "lo", "up"])?;
    run("ip", ["link", "add", "bridge", "type", "bridge"])?;
    run("ip", ["link", "set", "bridge", "up"])?;
    // Those of others are not seen here.
    std::fs::create_dir_all("/run/netns").map_err(failed("make a folder"))?;
    run("mount", ["-t", "tmpfs", "none", "/run/netns"]).map(|_| ())
}

impl Host {
    pub(super) fn new(name: &str, number: u8) -> Result<Self, String> {
        let host = Self { name: name.to_owned(), number };
        let (here, there) = (format!("to-{name}"), "eth0");
        run("ip", ["netns", "add", name])?;
        run("ip", ["link", "add", &here, "type", "veth", "peer", "name", there, "netns", name])?;
        run("ip", ["link", "set", &here, "master", "bridge", "up"])?;
        let address = format!("{}/24", host.address());
        run("ip", ["-n", name, "address", "add", &address, "dev", there])?;
        run("ip", ["-n", name, "link", "set", "lo", "up"])?;
        run("ip", ["-n", name, "link", "set", there, "up"]).map(|_| host)
    }

    pub(super) fn address(&self) -> IpAddr {
        Ipv4Addr::new(10, 12, 0, self.number).into()
    }

    /// What runs a program on it.
    pub(super) fn under(&self) -> Vec<String> {
        ["ip", "netns", "exec", &self.name].map(str::to_owned).to_vec()
    }

    /// Pulls its cable, or plugs it in again.
    pub(super) fn is_connected(&self, is_so: bool) -> Result<(), String> {
        let state = if is_so { "up" } else { "down" };
        run("ip", ["link", "set", &format!("to-{}", self.name), state]).map(|_| ())
    }
}
