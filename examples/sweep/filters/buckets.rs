//! Sorts values into buckets by a small key, in two passes over the same keys: count, then place.
//!
//! Between the two the array of bucket offsets holds where each bucket ends; placing moves that down to where it starts.

/// Counts one value for the bucket `key`.
pub fn count(offsets: &mut [u32], key: u32) {
    if let Some(count) = offsets.get_mut(key as usize) {
        *count = count.saturating_add(1);
    }
}

/// Turns counts into the ends of the buckets, and returns the number of all values. The last entry counts nothing and
/// becomes the end of all.
pub fn ends(offsets: &mut [u32]) -> u64 {
    let mut end = 0_u32;
    for count in offsets.iter_mut() {
        end = end.saturating_add(*count);
        *count = end;
    }
    u64::from(end)
}

/// Puts `value` in front of those placed in the bucket `key` before.
pub fn place(offsets: &mut [u32], values: &mut [u32], key: u32, value: u32) {
    if let Some(start) = offsets.get_mut(key as usize) {
        *start = start.saturating_sub(1);
        if let Some(place) = values.get_mut(*start as usize) {
            *place = value;
        }
    }
}

/// The values of each bucket, in order of the keys.
pub fn each_mut<'a>(offsets: &'a [u32], values: &'a mut [u32]) -> impl Iterator<Item = &'a mut [u32]> {
    let mut rest = values;
    offsets.windows(2).map(move |span| {
        let length = (span[1].saturating_sub(span[0]) as usize).min(rest.len());
        let (bucket, after) = std::mem::take(&mut rest).split_at_mut(length);
        rest = after;
        bucket
    })
}

/// The values of the bucket `key`.
pub fn bucket<'a>(offsets: &[u32], values: &'a [u32], key: usize) -> &'a [u32] {
    match (offsets.get(key), offsets.get(key + 1)) {
        (Some(&start), Some(&end)) => values.get(start as usize..end as usize).unwrap_or_default(),
        _ => &[],
    }
}
