//! What the kernels `mix` and `fold` do to numbers of four bytes, wherever they run.

/// What `mix` does to one number, and `input` to it.
pub fn mixed(value: u32, input: u32, index: usize, salt: u32) -> u32 {
    value.wrapping_mul(1_664_525).wrapping_add(input).wrapping_add(index as u32).wrapping_add(salt)
}

/// What `fold` adds for one number that it reads.
fn folded(input: u32, index: usize) -> u32 {
    let spread = input.wrapping_add((index as u32).wrapping_mul(2_654_435_761));
    (spread ^ spread >> 16).wrapping_mul(2_246_822_519)
}

/// Mixes a number of `from`, read in turn as often as it takes, into each of `to`; with `keeps` false, `to` starts from zeros.
/// What there is of `from` beyond `to` is not read.
pub fn mix(to: &mut [u8], from: &[u8], keeps: bool, salt: u32) {
    let inputs = from.len() / 4;
    for (index, number) in to.chunks_exact_mut(4).enumerate() {
        let input = index.checked_rem(inputs).map_or(0, |at| read(&from[4 * at..4 * at + 4]));
        put(number, |value| mixed(if keeps { value } else { 0 }, input, index, salt));
    }
}

/// Adds each number of `from` to one of `to`, in turn, so that any other order of them comes to something else.
pub fn fold(to: &mut [u8], from: &[u8]) {
    let numbers = to.len() / 4;
    for (index, input) in from.chunks_exact(4).enumerate() {
        let Some(at) = index.checked_rem(numbers) else { return };
        put(&mut to[4 * at..4 * at + 4], |value| value.wrapping_add(folded(read(input), index)));
    }
}

/// Adds one to every number.
pub fn add_one(to: &mut [u8]) {
    to.chunks_exact_mut(4).for_each(|number| put(number, |value| value.wrapping_add(1)));
}

fn read(number: &[u8]) -> u32 {
    number.try_into().map_or(0, u32::from_le_bytes)
}

fn put(number: &mut [u8], change: impl FnOnce(u32) -> u32) {
    let changed = change(read(number));
    number.copy_from_slice(&changed.to_le_bytes());
}
