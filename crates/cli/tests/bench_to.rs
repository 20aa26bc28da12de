//! `tautline bench --to` against a `tautline serve`, as its users and scripts meet both.

mod program;
mod schema;
mod serving;

use program::Program;
use schema::json;
use serving::Serving;
use tempfile::TempDir;

/// A server on all transports, and the folder that its socket lies in.
fn serving() -> (Serving, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let words = format!(
        "serve tcp://127.0.0.1:0 udp://127.0.0.1:0 uds://{}",
        socket.display()
    );
    (Serving::start(&words), folder)
}

#[test]
fn both_tables_are_a_page_and_a_document_that_name_the_server() {
    let (serving, _folder) = serving();
    let to = serving.addresses.join(",");
    for (table, words) in [
        (
            "latency",
            "--sizes 64 --repeats 1 --rounds 6 -n 60 --warmup 10",
        ),
        ("strategy", "--sizes 64 --repeats 1 -t 20ms"),
    ] {
        let words = format!("bench {table} --to {to} {words} --placement free --json -");
        let finished = Program::new(&words, &[]).run().ended_with(0);
        let document = json(&finished.stdout);
        assert_eq!(document["same_host"], true);
        assert!(document["peer"]["version"].is_string());
        let rows = document[table].as_array().unwrap();
        assert_eq!(rows.len(), if table == "latency" { 3 } else { 9 });
        for row in rows {
            let address = row["address"].as_str().unwrap();
            assert!(
                serving.addresses.iter().any(|of| of == address),
                "{address}"
            );
        }
        let page = finished.stderr;
        assert!(page.contains("\nagainst "), "{page}");
        assert!(page.contains("server: this host, tautline "), "{page}");
    }
}

#[test]
fn what_only_our_own_server_knows_is_empty_in_the_csv() {
    let (serving, _folder) = serving();
    let words = format!(
        "bench strategy --to {} --strategies reliable --sizes 64 --repeats 1 -t 20ms --csv -",
        serving.addresses[0]
    );
    let finished = Program::new(&words, &[]).run().ended_with(0);
    let mut lines = finished.stdout.lines().map(|line| line.split(','));
    let column = lines
        .next()
        .unwrap()
        .position(|name| name == "server_messages_received");
    let field = lines.next().unwrap().nth(column.unwrap());
    assert_eq!(field, Some(""));
}

#[test]
fn nobody_there_is_status_3_and_a_document_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let nobody = format!("uds://{}", folder.path().join("none").display());
    let more = ["--to", &nobody, "--json", "-"];
    let finished = Program::new("bench latency", &more).run().ended_with(3);
    let document = json(&finished.stdout);
    let error = document["error"].as_str().unwrap();
    assert_eq!(
        error,
        format!("connect to {nobody}: there is no such socket")
    );
}

#[test]
fn a_server_for_all_tables_at_once_is_a_usage_error_that_says_where_it_works() {
    for words in [
        "bench --to 127.0.0.1",
        "bench udp-smoke --to udp://127.0.0.1:1",
    ] {
        let finished = Program::new(words, &[]).run().ended_with(2);
        let said = "'bench latency' or 'bench strategy'";
        assert!(finished.stderr.contains(said), "{}", finished.stderr);
    }
}
