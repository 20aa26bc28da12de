//! Command lines that cannot be followed, and the help.

use crate::face::{HEADER, lagscope, without_time};
use crate::program::Program;

#[test]
fn what_cannot_be_followed_is_an_error_on_both_streams_and_status_2() {
    for (words, said) in [
        (
            "-s10.0.0.1 -H -c99",
            "-c: \"99\" is not a whole number from 1 to 98",
        ),
        (
            "-s10.0.0.1 -H -l0",
            "-l: \"0\" is not a whole number from 1 to 1000000000",
        ),
        (
            "-s10.0.0.1 -n1,5",
            "-n: \"1,5\" is not a whole number from 1 to 1000000000000000",
        ),
        (
            "-s10.0.0.1 -i 0.1",
            "-i: \"0.1\" is not a whole number from 0 to 2147483647",
        ),
        ("-s10.0.0.1 -t", "-t: its value is missing"),
        ("-s10.0.0.1 -z4 -z4", "-z is given twice"),
        (
            "-r -p70000",
            "-p: \"70000\" is not a whole number from 0 to 65535",
        ),
        (
            "-r -s10.0.0.1",
            "-r and -s: it is a receiver or a sender, not both",
        ),
        ("-r -x", "\"-x\" is not an option of lagscope"),
    ] {
        let mut program = Program::new(&format!("lagscope {words}"), &[]);
        program.command.env("LC_ALL", "de_DE.UTF-8");
        let finished = program.run().ended_with(2);
        let error = finished.stdout.strip_prefix(HEADER).unwrap();
        assert_eq!(without_time(error), format!("TIME ERR : {said}\n"));
        assert_eq!(
            finished.stderr,
            format!("lagscope: {said}; lagscope -h lists the options\n")
        );
    }
}

#[test]
fn an_empty_value_is_a_missing_one() {
    let finished = Program::new("lagscope", &["-s", ""]).run().ended_with(2);
    assert!(
        finished
            .stdout
            .ends_with(" ERR : -s: its value is missing\n")
    );
}

#[test]
fn the_help_is_its_own() {
    for words in ["-h", "--help"] {
        let finished = lagscope(words).ended_with(0);
        let help = finished.stdout.strip_prefix(HEADER).unwrap();
        assert!(help.starts_with("lagscope: [-r|-s|-D|"), "{help}");
        assert_eq!(finished.stderr, "");
    }
}

#[test]
fn the_program_knows_the_command() {
    let finished = Program::new("--help", &[]).run().ended_with(0);
    assert!(finished.stdout.contains("lagscope"));
}

#[test]
fn a_processor_that_is_not_there_is_status_3() {
    let finished = lagscope("-r127.0.0.1 -p0 -f1023").ended_with(3);
    assert!(
        finished
            .stdout
            .contains(" ERR : cannot set cpu affinity to: 1023\n")
    );
    assert!(
        finished
            .stderr
            .starts_with("lagscope: -f: run on processor 1023: ")
    );
}

#[test]
fn what_a_receiver_does_without_is_noted_and_harmless() {
    let finished = lagscope("-r192.0.2.1 -p0 -n5").ended_with(3);
    assert!(
        finished
            .stderr
            .starts_with("lagscope: note: -n is for a sender; a receiver does without it\n")
    );
}
