use proptest::prelude::*;

use super::*;

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(Into::into).collect()
}

fn options(line: &str) -> Options {
    match parse(&words(line)) {
        Ok(Request::Run(options)) => *options,
        other => panic!("{line}: {other:?}"),
    }
}

fn sending(line: &str) -> Sending {
    match options(line).role {
        Role::Sender(sending) => sending,
        Role::Receiver { .. } => panic!("{line}"),
    }
}

#[track_caller]
fn refused(line: &str, message: &str) {
    assert_eq!(parse(&words(line)).unwrap_err().message, message, "{line}");
}

#[test]
fn a_receiver_has_lagscopes_defaults() {
    let options = options("-r");
    let Role::Receiver { address, assumed } = &options.role else {
        panic!();
    };
    assert_eq!((address.as_str(), *assumed), ("0.0.0.0", false));
    assert_eq!((options.port, options.message_bytes), (6001, 4));
    assert_eq!(
        options.buffers(),
        Buffers {
            send_bytes: 131_072,
            receive_bytes: 65_536
        }
    );
    assert!(!options.daemon && !options.verbose);
}

/// The original refused its own default with -6.
#[test]
fn the_wildcard_follows_the_family() {
    let Role::Receiver { address, .. } = options("-r -6").role else {
        panic!();
    };
    assert_eq!(address, "::");
}

#[test]
fn without_a_role_it_is_a_receiver() {
    assert!(matches!(
        options("-D").role,
        Role::Receiver { assumed: true, .. }
    ));
}

#[test]
fn a_sender_has_lagscopes_defaults() {
    let sending = sending("-s10.0.0.5");
    assert_eq!(
        (sending.address.as_str(), sending.source_port),
        ("10.0.0.5", 25_001)
    );
    assert_eq!(
        sending.run,
        Run {
            length: Length::Pings(1_000_000),
            pause: Duration::ZERO
        }
    );
    assert_eq!(
        (sending.csv, sending.json, sending.histogram),
        (None, None, None)
    );
    assert!(!sending.percentiles);
}

/// As the scripts call it.
#[test]
fn command_lines_seen_in_the_wild_are_followed() {
    let sent = sending("-s10.0.0.4 -i0 -n1000000 -H -P -a40 -l1 -c98");
    assert_eq!(
        sent.histogram,
        Some(Histogram {
            start_us: 40,
            width_us: 1,
            intervals: 98
        })
    );
    assert!(sent.percentiles && sent.json.is_none());
    let sent = sending("-s10.0.0.4 -t10 -c30 -l15 -a30 -H -P -RLatency-20220106.csv");
    assert_eq!(sent.csv, Some(PathBuf::from("Latency-20220106.csv")));
    assert_eq!(sent.run.length, Length::Time(Duration::from_secs(10)));
    assert!(options("-sfd00::1 -t60 -V -6").ipv6);
    assert!(options("-r -D").daemon);
    assert!(matches!(
        options("-r10.0.0.4").role,
        Role::Receiver { address, .. } if address == "10.0.0.4"
    ));
}

#[test]
fn files_have_lagscopes_names_where_none_is_given() {
    assert_eq!(
        sending("-s::1 -6 -R").csv,
        Some(PathBuf::from("latencies_log.csv"))
    );
    let sent = sending("-slocalhost -Pfreq.json");
    assert!(sent.percentiles);
    assert_eq!(sent.json, Some(PathBuf::from("freq.json")));
}

#[test]
fn a_time_leaves_the_number_aside() {
    let sent = sending("-slocalhost -n5 -t2 -i1");
    assert_eq!(
        sent.run,
        Run {
            length: Length::Time(Duration::from_secs(2)),
            pause: Duration::from_secs(1)
        }
    );
}

#[test]
fn every_number_out_of_its_range_is_refused_by_name() {
    for (line, message) in [
        (
            "-r -p70000",
            "-p: \"70000\" is not a whole number from 0 to 65535",
        ),
        (
            "-sx -pabc",
            "-p: \"abc\" is not a whole number from 1 to 65535",
        ),
        ("-sx -p0", "-p: \"0\" is not a whole number from 1 to 65535"),
        (
            "-sx -o65536",
            "-o: \"65536\" is not a whole number from 0 to 65535",
        ),
        (
            "-r -f1024",
            "-f: \"1024\" is not a whole number from 0 to 1023",
        ),
        (
            "-r -b0",
            "-b: \"0\" is not a whole number from 1 to 1073741824",
        ),
        (
            "-r -z0",
            "-z: \"0\" is not a whole number from 1 to 67108864",
        ),
        (
            "-sx -nabc",
            "-n: \"abc\" is not a whole number from 1 to 1000000000000000",
        ),
        (
            "-sx -n0",
            "-n: \"0\" is not a whole number from 1 to 1000000000000000",
        ),
        (
            "-sx -t0",
            "-t: \"0\" is not a whole number from 1 to 2147483647",
        ),
        (
            "-sx -t1,5",
            "-t: \"1,5\" is not a whole number from 1 to 2147483647",
        ),
        (
            "-sx -i-1",
            "-i: \"-1\" is not a whole number from 0 to 2147483647",
        ),
        (
            "-sx -inan",
            "-i: \"nan\" is not a whole number from 0 to 2147483647",
        ),
        (
            "-sx -i1e-12",
            "-i: \"1e-12\" is not a whole number from 0 to 2147483647",
        ),
        (
            "-sx -i99999999999",
            "-i: \"99999999999\" is not a whole number from 0 to 2147483647",
        ),
        (
            "-sx -H -a-1",
            "-a: \"-1\" is not a whole number from 0 to 1000000000",
        ),
        (
            "-sx -H -l0",
            "-l: \"0\" is not a whole number from 1 to 1000000000",
        ),
        (
            "-sx -H -c99",
            "-c: \"99\" is not a whole number from 1 to 98",
        ),
        ("-sx -H -c0", "-c: \"0\" is not a whole number from 1 to 98"),
    ] {
        refused(line, message);
    }
}

#[test]
fn what_contradicts_itself_is_refused() {
    refused(
        "-r -s10.0.0.1",
        "-r and -s: it is a receiver or a sender, not both",
    );
    refused("-s::1", "-s: ::1 is an IPv6 address: give -6 too");
    refused(
        "-sfe80::1%eth0",
        "-s: fe80::1%eth0 is an IPv6 address: give -6 too",
    );
    refused(
        "-r127.0.0.1 -6",
        "-r: 127.0.0.1 is an IPv4 address: leave -6 out",
    );
    refused(
        "-r -H",
        "-H: only a sender has latencies to report; give it to the one with -s",
    );
}

#[test]
fn what_does_nothing_is_noted() {
    assert_eq!(
        options("-r -n5").notes,
        ["-n is for a sender; a receiver does without it"]
    );
    assert_eq!(
        options("-slocalhost -c5").notes,
        ["-c shapes the histogram, and there is none without -H"]
    );
    assert!(options("-slocalhost -n5 -t5 -H -c5").notes.is_empty());
}

#[test]
fn help_is_help_wherever_it_stands() {
    for line in ["-h", "--help", "-s10.0.0.1 -h", "-r -s1 -h"] {
        assert!(matches!(parse(&words(line)), Ok(Request::Help)), "{line}");
    }
}

#[test]
fn the_verbose_block_is_lagscopes_to_the_byte() {
    assert_eq!(
        options("-s127.0.0.1 -V -n3").block(),
        "*** sender role\n\
         cpu affinity:\t\t\t No\n\
         server address:\t\t\t 127.0.0.1\n\
         domain:\t\t\t\t IPv4\n\
         protocol:\t\t\t TCP\n\
         server port:\t\t\t 6001\n\
         client port:\t\t\t 25001\n\
         sender socket buffer (bytes):\t 131072\n\
         message size (bytes):\t\t 4\n\
         test mode:\t\t\t PING ITERATION\n\
         test iteration:\t\t\t 3\n\
         test interval (sec):\t\t 0\n\
         verbose mode:\t\t\t enabled\n\
         ---------------------------------------------------------\n"
    );
    assert_eq!(
        options("-r -V").block(),
        "*** receiver role\n\
         cpu affinity:\t\t\t No\n\
         server address:\t\t\t 0.0.0.0\n\
         domain:\t\t\t\t IPv4\n\
         protocol:\t\t\t TCP\n\
         server port:\t\t\t 6001\n\
         receiver socket buffer (bytes):\t 65536\n\
         message size (bytes):\t\t 4\n\
         verbose mode:\t\t\t enabled\n\
         ---------------------------------------------------------\n"
    );
}

#[test]
fn the_help_names_every_option_and_its_limits() {
    for letter in "rsDf6pobztniRPHalcVh".chars() {
        assert!(HELP.contains(&format!("-{letter}")), "{letter}");
    }
    assert!(HELP.contains(&format!("1 to {MESSAGE_LIMIT_BYTES}")));
    assert!(HELP.contains(&format!("1 to {MOST_INTERVALS}")));
    assert!(HELP.lines().all(|line| line.len() <= 100));
}

proptest! {
    #[test]
    fn no_text_panics(line in prop::collection::vec("(-[a-zA-Z0-9]?)?.{0,12}", 0..6)) {
        let words: Vec<OsString> = line.iter().map(Into::into).collect();
        if let Ok(Request::Run(options)) = parse(&words) {
            prop_assert!(options.block().ends_with("---\n"));
        }
    }

    /// Words that the grammar knows, with whatever behind them.
    #[test]
    fn no_value_panics(
        options in prop::collection::vec("-[rsDf6pobztniRPHalcVh]([0-9]{0,20}|.{0,8})", 0..8),
    ) {
        let words: Vec<OsString> = options.iter().map(Into::into).collect();
        let _ = parse(&words);
    }
}
