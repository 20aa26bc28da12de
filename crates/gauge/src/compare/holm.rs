//! Holm's correction (1979): the chance of even one false verdict among all rows stays below the level.

/// The p of each row as it is after the correction, in the order of the rows.
pub(super) fn holm(ps: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..ps.len()).collect();
    order.sort_by(|&one, &other| ps[one].total_cmp(&ps[other]));
    let mut corrected = vec![0.0; ps.len()];
    let mut largest = 0.0_f64;
    for (rank, &row) in order.iter().enumerate() {
        // A row is never surer than the one before it.
        largest = largest.max(ps[row] * (ps.len() - rank) as f64).min(1.0);
        corrected[row] = largest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_counts_for_all_rows_the_next_for_one_less() {
        let close = |found: Vec<f64>, expected: &[f64]| {
            assert_eq!(found.len(), expected.len());
            let apart = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
            assert!(apart.fold(0.0, f64::max) < 1e-12, "{found:?}");
        };
        close(holm(&[]), &[]);
        close(holm(&[0.03]), &[0.03]);
        close(holm(&[0.04, 0.01, 0.03]), &[0.06, 0.03, 0.06]);
        close(holm(&[0.9, 0.8]), &[1.0, 1.0]);
    }
}
