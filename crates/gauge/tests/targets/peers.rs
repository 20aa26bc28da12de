//! What the tools print, as recorded from sockperf 3.7 and iperf 3.12.

use crate::program::peers::{iperf3, sockperf};

const SOCKPERF: &str = "\
sockperf: Starting test...
sockperf: Test end (interrupted by timer)
sockperf: Test ended
sockperf: [Total Run] RunTime=1.000 sec; Warm up time=400 msec; SentMessages=42080; ReceivedMessages=42079
sockperf: ========= Printing statistics for Server No: 0
sockperf: [Valid Duration] RunTime=0.550 sec; SentMessages=23303; ReceivedMessages=23302
sockperf: \u{1b}[2;35m====> avg-rtt=11.779 (std-dev=13.383)\u{1b}[0m
sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0
sockperf: \u{1b}[2;35mTotal 23303 observations\u{1b}[0m; each percentile contains 233.03 observations
sockperf: ---> <MAX> observation = 1687.780
sockperf: ---> percentile 99.900 =   33.642
sockperf: ---> percentile 50.000 =   11.100
sockperf: ---> percentile 25.000 =   10.634
sockperf: ---> <MIN> observation =    8.625
";

#[test]
fn sockperf_says_its_median_in_microseconds() {
    let block = sockperf::block_of(SOCKPERF).unwrap();
    assert_eq!((block.figure, block.worst_ns), (11_100.0, 1_687_780.0));
    assert_eq!((block.counts.sent, block.counts.received), (23_303, 23_302));
}

#[test]
fn what_sockperf_does_not_say_is_named() {
    let cut = SOCKPERF.replace("percentile 50.000", "percentile 5");
    assert_eq!(
        sockperf::block_of(&cut),
        Err("it did not say its median".to_owned())
    );
}

#[test]
fn iperf3_counts_bytes_and_a_message_is_one_write() {
    let text = r#"{"start": {}, "intervals": [], "end": {
        "sum_sent": {"start": 0, "end": 1.0, "seconds": 1.0, "bytes": 6400, "sender": true},
        "sum_received": {"start": 0, "end": 2.0, "seconds": 2.0, "bytes": 5120, "sender": true}}}"#;
    let block = iperf3::block_of(text, 64).unwrap();
    assert_eq!(block.figure, 40.0);
    assert_eq!((block.counts.sent, block.counts.received), (100, 80));
}

#[test]
fn what_iperf3_gives_as_the_cause_is_handed_on() {
    let text =
        r#"{"start": {}, "intervals": [], "end": {}, "error": "unable to connect to server"}"#;
    assert_eq!(
        iperf3::block_of(text, 64),
        Err("unable to connect to server".to_owned())
    );
}
