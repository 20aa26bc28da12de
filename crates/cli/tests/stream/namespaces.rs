//! Two network namespaces joined by a veth pair, as two hosts are by a cable. Only root may make them:
//! whoever is not is told what was skipped.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::program::Finished;
use crate::schema::json;

/// Both namespaces; gone with everything in them when dropped.
struct Hosts {
    left: String,
    right: String,
}

impl Hosts {
    fn new() -> Option<Self> {
        let id = std::process::id();
        let hosts = Self {
            left: format!("taut-l{id}"),
            right: format!("taut-r{id}"),
        };
        let Self { left, right } = &hosts;
        let made = ip(&format!("netns add {left}")) && ip(&format!("netns add {right}"));
        let joined = made
            && ip(&format!(
                "link add v0 netns {left} type veth peer name v0 netns {right}"
            ));
        if !joined {
            println!("skipped: no namespaces and veth pairs for this user");
            return None;
        }
        for (host, number) in [(left, 1), (right, 2)] {
            // Else an IPv6 address is in doubt for a second.
            let doubt = "net.ipv6.conf.v0.accept_dad=0";
            let _ = ip(&format!("netns exec {host} sysctl -qw {doubt}"));
            assert!(ip(&format!(
                "-n {host} addr add 10.77.0.{number}/24 dev v0"
            )));
            assert!(ip(&format!("-n {host} link set v0 up")));
            assert!(ip(&format!("-n {host} link set lo up")));
        }
        Some(hosts)
    }

    /// The left one's link-local address as the right one reaches it.
    fn link_local(&self) -> Option<String> {
        let words = format!("-n {} -6 -o addr show dev v0 scope link", self.left);
        let output = Command::new("ip").args(words.split(' ')).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let address = text.split_whitespace().nth(3)?.split('/').next()?;
        Some(format!("[{address}%v0]"))
    }

    /// The default server on the left: every address of the machine.
    fn serve(&self) -> Serving {
        let mut child = tautline(&self.left, "serve")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut lines = String::new();
        while !lines.contains("Nobody has to prove") {
            assert!(stdout.read_line(&mut lines).unwrap() > 0, "{lines}");
        }
        assert!(lines.contains("listening on tcp://"), "{lines}");
        assert!(lines.contains("listening on udp://"), "{lines}");
        Serving(child)
    }

    /// What a command on the right says.
    fn ask(&self, words: &str) -> Value {
        let folder = TempDir::new().unwrap();
        let child = tautline(&self.right, words)
            .env("TMPDIR", folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        json(&Finished::wait(child, &folder).ended_with(0).stdout)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in [&self.left, &self.right] {
            let _ = ip(&format!("netns del {host}"));
        }
    }
}

struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ip(words: &str) -> bool {
    let quiet = Command::new("ip")
        .args(words.split(' '))
        .stderr(Stdio::null())
        .status();
    quiet.is_ok_and(|status| status.success())
}

fn tautline(host: &str, words: &str) -> Command {
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", host])
        .arg(assert_cmd::cargo::cargo_bin!("tautline"))
        .args(words.split(' '))
        .stdin(Stdio::null());
    command
}

#[test]
fn as_between_two_hosts() {
    let Some(hosts) = Hosts::new() else { return };
    let _serving = hosts.serve();
    let mut addresses = vec![
        "tcp://10.77.0.1:6001".to_owned(),
        "udp://10.77.0.1:6001".to_owned(),
    ];
    match hosts.link_local() {
        Some(host) => {
            addresses.push(format!("tcp://{host}:6001"));
            addresses.push(format!("udp://{host}:6001"));
        }
        None => println!("skipped: no IPv6 on this machine"),
    }
    for address in &addresses {
        let rate = if address.starts_with("udp") {
            " --rate 1k"
        } else {
            ""
        };
        let document = hosts.ask(&format!("stream {address} -t 0.2{rate} --json -"));
        assert_eq!(document["same_host"], false, "{address}");
        let row = &document["stream"][0];
        assert_eq!(row["address"], address.as_str());
        assert!(row["accepted"].as_u64() > Some(0));
        assert_eq!(row["lost"], 0);
        assert_eq!(row["accepted"], row["delivered"]);
        assert_ne!(document["peer"]["network_namespace"], Value::Null);

        let document = hosts.ask(&format!("ping {address} -n 50 --warmup 1 --json -"));
        assert_eq!(document["same_host"], false, "{address}");
        assert_eq!(document["ping"]["received"], 50, "{address}");
    }
}
