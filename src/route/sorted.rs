//! Sorting in slices: short runs by the standard library, then merges that can pause anywhere.

use crate::wire::pace::Pace;

/// Sorted in one go: some 10 µs.
const RUN: usize = 128;
/// Copied in one go.
const COPIED: usize = 4096;
/// Units of a [`Pace`] for an item in a run, and for one in a merge.
const RUN_UNITS: usize = 32;
const MERGE_UNITS: usize = 8;

/// `items` by ascending name. Names are unequal, or their order does not matter.
pub(super) async fn by_name<'a, T: Copy>(
    mut items: Vec<(&'a str, T)>,
    pace: &Pace,
) -> Vec<(&'a str, T)> {
    for run in items.chunks_mut(RUN) {
        run.sort_unstable_by_key(|(name, _)| *name);
        pace.step(RUN_UNITS * run.len()).await;
    }
    let mut merged = Vec::with_capacity(items.len());
    let mut width = RUN;
    while width < items.len() {
        merged.clear();
        for pair in items.chunks(2 * width) {
            let (mut left, mut right) = pair.split_at(width.min(pair.len()));
            while let ([a, behind_a @ ..], [b, behind_b @ ..]) = (left, right) {
                if b.0 < a.0 {
                    merged.push(*b);
                    right = behind_b;
                } else {
                    merged.push(*a);
                    left = behind_a;
                }
                pace.step(MERGE_UNITS).await;
            }
            for rest in [left, right] {
                for part in rest.chunks(COPIED) {
                    merged.extend_from_slice(part);
                    pace.step(part.len()).await;
                }
            }
        }
        std::mem::swap(&mut items, &mut merged);
        width *= 2;
    }
    items
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::pace::run_to_end;

    proptest! {
        #[test]
        fn items_are_sorted_and_none_is_lost(
            names in prop::collection::hash_set("[a-c]{0,9}", 0..2000),
            slice in 1..5000_usize,
        ) {
            let items = names.iter().enumerate().map(|(index, name)| (name.as_str(), index));
            let items: Vec<_> = items.collect();
            let mut expected = items.clone();
            expected.sort_unstable();
            prop_assert_eq!(run_to_end(by_name(items, &Pace::new(slice))), expected);
        }
    }

    #[test]
    fn sorting_pauses_once_in_a_slice() {
        let names: Vec<String> = (0..10_000)
            .map(|n| format!("{:05}", n * 7919 % 10_000))
            .collect();
        let items = names.iter().map(|name| (name.as_str(), ())).collect();
        let pace = Pace::default();
        let mut work = std::pin::pin!(by_name(items, &pace));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let pauses = std::iter::from_fn(|| work.as_mut().poll(&mut cx).is_pending().then_some(()));
        assert!((15..60).contains(&pauses.count()));
    }
}
