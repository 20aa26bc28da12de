//! `serve`, `ping` and `stream` over TLS: who trusts whom, what stands in the report, and what those are
//! told who meet the wrong server.

mod program;
mod schema;
mod serving;

use std::fs;
use std::io::Read as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use program::{Finished, Program, signal};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use schema::json;
use serving::Serving;
use tempfile::TempDir;

/// An authority and what it has signed, as files.
struct Plant {
    folder: TempDir,
}

impl Plant {
    /// Certificates for `server` and a client.
    fn new(server: &str) -> Self {
        Self::of("the plant's own", server)
    }

    fn of(authority: &str, server: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, authority);
        let key = KeyPair::generate().unwrap();
        fs::write(
            folder.path().join("ca.pem"),
            params.self_signed(&key).unwrap().pem(),
        )
        .unwrap();
        let issuer = Issuer::new(params, key);
        for (file, name) in [("server", server), ("client", "a client")] {
            let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &issuer).unwrap();
            fs::write(folder.path().join(format!("{file}.pem")), certificate.pem()).unwrap();
            fs::write(
                folder.path().join(format!("{file}.key")),
                key.serialize_pem(),
            )
            .unwrap();
        }
        Self { folder }
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn server(&self) -> String {
        format!(
            "serve tls://127.0.0.1:0 --tls-cert {} --tls-key {}",
            self.file("server.pem"),
            self.file("server.key")
        )
    }

    fn trusting(&self) -> String {
        format!("--tls-roots {}", self.file("ca.pem"))
    }

    fn as_client(&self) -> String {
        format!(
            "--tls-cert {} --tls-key {}",
            self.file("client.pem"),
            self.file("client.key")
        )
    }
}

fn run(words: &str) -> Finished {
    Program::new(words, &[]).run()
}

/// With a certificate that vouches for itself.
fn trial() -> Serving {
    Serving::start("serve tls://127.0.0.1:0 --tls-self-signed")
}

#[test]
fn a_ping_over_tls_says_how_it_was_secured_and_shouts_that_it_checked_nothing() {
    let mut serving = trial();
    let words = format!("ping {} -n 500 --insecure --json -", serving.addresses[0]);
    let finished = run(&words).ended_with(0);
    let document = json(&finished.stdout);
    let cell = &document["ping"];
    assert_eq!(
        (&cell["sent"], &cell["received"]),
        (&500.into(), &500.into())
    );
    assert_eq!(cell["transport"], "tls");
    assert_eq!(cell["tls"]["version"], "TLS 1.3");
    assert_eq!(cell["tls"]["verified"], false);
    assert!(cell["tls"]["handshake_ns"].as_u64() > Some(0));
    let suite = cell["tls"]["cipher_suite"].as_str().unwrap();
    assert!(suite.starts_with("TLS_"), "{suite}");
    assert!(cell["path"]["tcp_after"]["mss_bytes"].is_u64());
    let doubts = document["warnings"].as_array().unwrap();
    assert_eq!(
        doubts
            .iter()
            .filter(|doubt| doubt["code"] == "tls-unverified")
            .count(),
        1
    );
    let said = &finished.stderr;
    assert!(
        said.contains("WARNING: --insecure: no certificate is checked"),
        "{said}"
    );
    assert!(said.contains("NOT CHECKED"), "{said}");
    // Both sides tell the same certificate.
    let mut line = String::new();
    while !line.contains(':') || line.contains(' ') {
        line.clear();
        std::io::BufRead::read_line(&mut serving.stdout, &mut line).unwrap();
    }
    assert_eq!(cell["tls"]["certificate_sha256"], line.trim());
}

#[test]
fn open_loop_and_many_connections_and_large_messages_go_over_tls_as_over_tcp() {
    let serving = trial();
    let to = &serving.addresses[0];
    let words = format!("ping {to} --rate 500 -n 100 -P 3 --size 16,20Ki --insecure --json -");
    let document = json(&run(&words).ended_with(0).stdout);
    for cell in document["cells"].as_array().unwrap() {
        assert_eq!(cell["pacing"], "open");
        assert_eq!(
            (&cell["sent"], &cell["received"]),
            (&300.into(), &300.into())
        );
    }
    let words = format!("ping {to} -n 3 --warmup 1 --size 3Mi --timeout 60 --insecure --json -");
    let document = json(&run(&words).ended_with(0).stdout);
    assert_eq!(document["ping"]["received"], 3);
}

#[test]
fn a_stream_over_tls_is_counted_by_its_server_and_its_evidence_verifies() {
    let serving = trial();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("evidence");
    let words = format!(
        "stream {} -t 0.2 --size 64,16Ki --insecure --json - --out",
        serving.addresses[0]
    );
    let finished = Program::new(&words, &[out.to_str().unwrap()])
        .run()
        .ended_with(0);
    let document = json(&finished.stdout);
    for row in document["stream"].as_array().unwrap() {
        assert_eq!(row["transport"], "tls");
        assert_eq!(row["accepted"], row["delivered"]);
        assert_eq!(row["tls"]["version"], "TLS 1.3");
    }
    Program::new("verify", &[out.to_str().unwrap()])
        .run()
        .ended_with(0);
}

#[test]
fn an_unknown_root_is_3_with_the_way_out_for_ping_and_stream() {
    let serving = trial();
    for command in ["ping", "stream"] {
        let words = format!("{command} {} -t 0.1", serving.addresses[0]);
        let finished = run(&words).ended_with(3);
        let said = &finished.stderr;
        assert!(
            said.contains("is not trusted: it leads to none of the roots that are trusted: use --tls-roots FILE"),
            "{said}"
        );
        assert!(said.contains("--insecure for a trial"), "{said}");
    }
}

#[test]
fn the_roots_of_a_file_are_trusted_and_the_name_counts() {
    let plant = Plant::new("plc.plant");
    let serving = Serving::start(&plant.server());
    let to = &serving.addresses[0];
    let wrong = run(&format!("ping {to} -n 5 {}", plant.trusting())).ended_with(3);
    assert!(
        wrong
            .stderr
            .contains("it is for plc.plant, not for 127.0.0.1; --tls-server-name NAME says"),
        "{}",
        wrong.stderr
    );
    let words = format!(
        "ping {to} -n 5 {} --tls-server-name plc.plant --json -",
        plant.trusting()
    );
    let finished = run(&words).ended_with(0);
    let document = json(&finished.stdout);
    assert_eq!(document["ping"]["tls"]["verified"], true);
    assert!(!finished.stderr.contains("WARNING"), "{}", finished.stderr);
    let page: Vec<&str> = finished.stderr.split_whitespace().collect();
    assert!(page.join(" ").contains("; the certificate was checked"));
}

#[test]
fn with_client_roots_only_whoever_shows_a_certificate_is_served() {
    let plant = Plant::new("127.0.0.1");
    let serving = Serving::start(&format!(
        "{} --tls-client-roots {}",
        plant.server(),
        plant.file("ca.pem")
    ));
    let to = &serving.addresses[0];
    assert!(serving.said.contains("(client certificates required)"));
    for command in ["ping", "stream"] {
        let asked = format!("{command} {to} -t 0.1 {}", plant.trusting());
        let refused = run(&asked).ended_with(3);
        assert!(
            refused
                .stderr
                .contains("use --tls-cert FILE and --tls-key FILE"),
            "{}",
            refused.stderr
        );
        run(&format!("{asked} {}", plant.as_client())).ended_with(0);
    }
    // Somebody else's certificate does not do.
    let other = Plant::of("somebody else", "127.0.0.1");
    let words = format!("ping {to} -n 5 {} {}", plant.trusting(), other.as_client());
    let refused = run(&words).ended_with(3);
    assert!(
        refused.stderr.contains("the peer refuses: "),
        "{}",
        refused.stderr
    );
}

#[test]
fn plain_text_to_tls_and_tls_to_plain_text_are_told_what_the_other_speaks() {
    let serving = Serving::start("serve tls://127.0.0.1:0 tcp://127.0.0.1:0 --tls-self-signed");
    let [tls, tcp] = [0, 1].map(|at| serving.addresses[at].rsplit(':').next().unwrap());
    let plain = run(&format!("ping tcp://127.0.0.1:{tls} -n 1")).ended_with(3);
    assert!(
        plain
            .stderr
            .contains("it speaks TLS: its address begins with tls://"),
        "{}",
        plain.stderr
    );
    let secured = run(&format!("ping tls://127.0.0.1:{tcp} -n 1 --insecure")).ended_with(3);
    assert!(
        secured.stderr.contains("the peer does not speak TLS"),
        "{}",
        secured.stderr
    );
    // And whoever served both goes on.
    run(&format!("ping tcp://127.0.0.1:{tcp} -n 1")).ended_with(0);
    run(&format!("ping tls://127.0.0.1:{tls} -n 1 --insecure")).ended_with(0);
}

#[test]
fn who_is_silent_in_the_handshake_holds_up_nobody_else() {
    let serving = trial();
    let port = serving.addresses[0].rsplit(':').next().unwrap();
    let mut silent: Vec<TcpStream> = (0..8)
        .map(|_| TcpStream::connect(format!("127.0.0.1:{port}")).unwrap())
        .collect();
    let words = format!("ping {} -n 5 --insecure", serving.addresses[0]);
    run(&words).ended_with(0);
    // And is cut off in the end.
    for stream in &mut silent {
        assert_eq!(stream.read(&mut [0; 64]).unwrap_or(0), 0);
    }
}

#[test]
fn a_server_of_tls_ends_at_once_and_well() {
    let mut serving = trial();
    let silent = TcpStream::connect(serving.addresses[0].strip_prefix("tls://").unwrap()).unwrap();
    signal("INT", serving.pid());
    let status = serving.child.take().unwrap().wait().unwrap();
    assert_eq!(status.code(), Some(0));
    drop(silent);
}

#[test]
fn what_makes_no_sense_is_refused_by_its_name() {
    let missing = "/nonexistent/tautline.pem";
    for (words, status, said) in [
        (
            "serve tls://127.0.0.1:0".to_owned(),
            2,
            "--tls-cert: tls://127.0.0.1:0 needs a certificate",
        ),
        (
            "serve tcp://127.0.0.1:0 --tls-self-signed".to_owned(),
            2,
            "--tls-self-signed: no address is of TLS",
        ),
        (
            "ping tcp://127.0.0.1:1 --insecure".to_owned(),
            2,
            "--insecure: no address is of TLS",
        ),
        (
            "stream udp://127.0.0.1:1 --tls-roots x".to_owned(),
            2,
            "--tls-roots: no address is of TLS",
        ),
        (
            "ping tls://127.0.0.1:1 --insecure --tls-roots x".to_owned(),
            2,
            "cannot be used with",
        ),
        (
            "ping tls://127.0.0.1:1 --load stream".to_owned(),
            2,
            "--load stream: it pours over plain sockets",
        ),
        (
            "soak --to tls://127.0.0.1:1".to_owned(),
            2,
            "soak takes tcp:// and uds:// only; ping measures tls://",
        ),
        (
            format!("serve tls://127.0.0.1:0 --tls-cert {missing} --tls-key {missing}"),
            3,
            missing,
        ),
    ] {
        let finished = run(&words).ended_with(status);
        assert!(
            finished.stderr.contains(said),
            "{words}: {}",
            finished.stderr
        );
    }
    let serving = trial();
    let finished = run(&format!(
        "ping {} -n 1 --tls-roots {missing}",
        serving.addresses[0]
    ));
    let finished = finished.ended_with(3);
    assert!(
        finished.stderr.contains("--tls-roots"),
        "{}",
        finished.stderr
    );
    assert!(finished.stderr.contains(missing), "{}", finished.stderr);
}

#[test]
fn a_certificate_without_its_key_is_usage() {
    let plant = Plant::new("127.0.0.1");
    let chain: PathBuf = Path::new(&plant.file("server.pem")).into();
    let finished = Program::new(
        "serve tls://127.0.0.1:0 --tls-cert",
        &[chain.to_str().unwrap()],
    );
    let finished = finished.run().ended_with(2);
    assert!(finished.stderr.contains("--tls-key"), "{}", finished.stderr);
}
