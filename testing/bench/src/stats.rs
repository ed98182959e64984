//! The median, the figure that one slow run of a shared machine does not move, and other ranks. In: samples. Out: a
//! number.

/// The middle of the samples, or the mean of the two in the middle; nothing of nothing.
pub fn median(samples: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut samples: Vec<f64> = samples.into_iter().collect();
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    let upper = *samples.get(middle)?;
    if samples.len() % 2 == 1 {
        return Some(upper);
    }
    Some((samples.get(middle.checked_sub(1)?)? + upper) / 2.0)
}

/// From the lowest to the highest sample, in percent of the median; nothing of nothing.
pub fn spread(samples: impl IntoIterator<Item = f64>) -> Option<f64> {
    let samples: Vec<f64> = samples.into_iter().collect();
    let middle = median(samples.iter().copied())?;
    let (low, high) = samples.iter().fold((f64::MAX, f64::MIN), |(low, high), n| (low.min(*n), high.max(*n)));
    Some((high - low) * 100.0 / middle)
}

/// The sample that so many percent are not above (nearest rank); nothing of nothing. Sorts the samples.
pub fn percentile(samples: &mut [f64], percent: f64) -> Option<f64> {
    samples.sort_by(f64::total_cmp);
    let rank = (percent / 100.0 * samples.len() as f64).ceil() as usize;
    samples.get(rank.clamp(1, samples.len().max(1)) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks() {
        let mut samples: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut samples, 50.0), Some(100.0));
        assert_eq!(percentile(&mut samples, 99.0), Some(198.0));
        assert_eq!(percentile(&mut samples, 100.0), Some(200.0));
        assert_eq!(percentile(&mut samples, 0.0), Some(1.0));
        assert_eq!(percentile(&mut [7.0], 99.0), Some(7.0));
        assert_eq!(percentile(&mut [], 99.0), None);
    }

    #[test]
    fn odd_even_and_none() {
        assert_eq!(median([3.0, 1.0, 100.0]), Some(3.0));
        assert_eq!(median([4.0, 1.0, 2.0, 100.0]), Some(3.0));
        assert_eq!(median([7.0]), Some(7.0));
        assert_eq!(median([]), None);
        assert_eq!(spread([4.0, 5.0, 6.0]), Some(40.0));
        assert_eq!(spread([]), None);
    }
}
