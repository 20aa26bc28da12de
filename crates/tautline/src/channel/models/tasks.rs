//! Tasks around a channel, beside threads and the driver: no wake-up is lost, no place is kept.

use std::task::Poll;

use tautline_session::Ticket;

use super::*;
use crate::channel::Flushing;
use crate::sync::signal::until_ready;

#[test]
fn tasks_and_threads_that_wait_are_all_served() {
    explore("two tasks and a thread against drain", [1, 2], |room| {
        let (line, wire) = open_line(room_for(room), &[]);
        as_driver(|| send(&line, 1)).unwrap();
        let senders = [
            user(&line, |line| send_as_task(line, 2).unwrap()),
            user(&line, |line| send_as_task(line, 3).unwrap()),
            user(&line, |line| send(line, 4).unwrap()),
        ];
        drive(&line);
        join(senders);
        assert_eq!(wire.messages(), line.home().accepted());
        assert_all_written(&line);
        assert!(statistics(&line).peak.messages <= room as u64);
    });
}

#[test]
fn of_two_wakers_the_last_is_woken() {
    explore("a task that moves to another waker", [()], |()| {
        let (line, wire) = open_line(room_for(1), &[]);
        as_driver(|| send(&line, 1)).unwrap();
        let senders = [user(&line, |line| {
            let mut place = None;
            if poll_send(line, 2, &mut place, Waker::noop()).is_pending() {
                let sent = until_ready(|waker| poll_send(line, 2, &mut place, waker));
                assert_eq!(sent, Ok(()));
            }
        })];
        drive(&line);
        join(senders);
        assert_eq!(wire.messages(), [1, 2]);
        assert_all_written(&line);
    });
}

#[test]
fn a_task_that_gives_up_passes_its_place_on_and_sends_nothing() {
    explore("a task that gives up", [()], |()| {
        let (line, wire) = open_line(room_for(1), &[]);
        as_driver(|| send(&line, 1)).unwrap();
        let senders = [
            user(&line, |line| {
                let mut place = None;
                match poll_send(line, 2, &mut place, Waker::noop()) {
                    Poll::Ready(sent) => sent.unwrap(),
                    Poll::Pending => line.leave(place.unwrap()),
                }
            }),
            user(&line, |line| send_as_task(line, 3).unwrap()),
        ];
        drive(&line);
        join(senders);
        assert_eq!(wire.messages(), line.home().accepted());
        assert!(wire.messages().contains(&3));
        assert_all_written(&line);
    });
}

#[test]
fn tasks_that_wait_when_the_connection_ends_are_told() {
    let cases = [
        (Discard::ConnectionLost, SendError::NotConnected),
        (Discard::Closed, SendError::Closed),
    ];
    explore("waiting tasks against the end", cases, |(cause, answer)| {
        let (line, wire) = open_line(room_for(1), &[Kernel::Full]);
        as_driver(|| send(&line, 1)).unwrap();
        let users = [
            user(&line, move |line| {
                let sent = send_as_task(line, 2);
                assert!(matches!(sent, Ok(())) || sent == Err(answer));
            }),
            user(&line, |line| match flush_as_task(line) {
                Ok(()) | Err(FlushError::NotConnected) => {}
                Err(other) => panic!("{other}"),
            }),
        ];
        assert!(line.home().wait_for_work());
        serve(&line);
        line.home().come();
        line.end(cause);
        drive(&line);
        join(users);
        assert!(line.home().accepted().starts_with(&wire.carried().0));
        assert!(statistics(&line).closes() && statistics(&line).waiting.is_zero());
    });
}

#[test]
fn a_task_that_flushes_is_woken_once_what_was_accepted_before_is_written() {
    explore("a task's flush against a sender", [()], |()| {
        let (line, wire) = open_line(room_for(8), &[Kernel::Takes(2), Kernel::Full]);
        let users = [
            user(&line, {
                let wire = Arc::clone(&wire);
                move |line| {
                    send_as_task(line, 1).unwrap();
                    flush_as_task(line).unwrap();
                    assert!(wire.messages().contains(&1));
                }
            }),
            user(&line, |line| send(line, 2).unwrap()),
        ];
        drive(&line);
        join(users);
        assert_eq!(wire.messages(), line.home().accepted());
        assert_all_written(&line);
    });
}

fn send_as_task(line: &Line, id: u8) -> Result<(), SendError> {
    let mut place = None;
    until_ready(|waker| poll_send(line, id, &mut place, waker))
}

fn poll_send(
    line: &Line,
    id: u8,
    place: &mut Option<Ticket>,
    waker: &Waker,
) -> Poll<Result<(), SendError>> {
    let message = vec![id; PAYLOAD_BYTES];
    OFFERED.with(|offered| offered.set(Some(id)));
    let sent = line.poll_send((&message).into(), PeerId::SOLE, place, waker);
    OFFERED.with(|offered| offered.set(None));
    sent
}

fn flush_as_task(line: &Line) -> Result<(), FlushError> {
    let mut flushing: Option<Flushing> = None;
    until_ready(|waker| line.poll_flush(&mut flushing, waker))
}
