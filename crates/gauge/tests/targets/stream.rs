//! How a receiver counts a block of a stream.

use std::sync::Arc;

use crate::program::stream::{Judge, MARK, Post, Receipt, number};

fn judge(numbers: &[u64]) -> (Judge<u64>, Arc<Post>) {
    let post = Post::new();
    let mut judge = Judge::new(Arc::clone(&post), 16);
    for (at, &sequence) in numbers.iter().enumerate() {
        let mut message = [0; 16];
        number(&mut message, sequence);
        judge.judge(&message, at as u64, |at| at * 10);
    }
    (judge, post)
}

#[test]
fn a_block_in_order_is_counted_up_to_its_mark() {
    let (_, post) = judge(&[0, 1, 2, MARK | 1]);
    let receipt = Receipt {
        block: 1,
        received: 3,
        wrong: 0,
        last_ns: 20,
    };
    assert_eq!(post.take(), Ok(Some(receipt)));
}

#[test]
fn what_is_missing_is_not_received_and_what_comes_twice_is_wrong() {
    let (_, post) = judge(&[0, 4, 5, 4, MARK | 1]);
    let receipt = post.take().unwrap().unwrap();
    assert_eq!(
        (receipt.received, receipt.wrong, receipt.last_ns),
        (3, 1, 20)
    );
}

#[test]
fn a_second_mark_of_the_same_block_is_no_block() {
    let (_, post) = judge(&[0, MARK | 1, 0, MARK | 1, 1, MARK | 2]);
    let receipt = post.take().unwrap().unwrap();
    assert_eq!((receipt.block, receipt.received), (2, 2));
}

#[test]
fn a_message_of_another_length_is_wrong() {
    let (mut judge, post) = judge(&[0]);
    judge.judge(&1_u64.to_le_bytes(), 7, |at| at);
    let mut mark = [0; 16];
    number(&mut mark, MARK | 1);
    judge.judge(&mark, 8, |at| at);
    let receipt = post.take().unwrap().unwrap();
    assert_eq!(
        (receipt.received, receipt.wrong, receipt.last_ns),
        (1, 1, 0)
    );
}
