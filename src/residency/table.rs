//! A table of values that keep their place; a place taken again has another generation.

/// A place in a [`Table`]. One that was given up never finds what came after it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot {
    index: u32,
    generation: u32,
}

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

/// Values by [`Slot`], in the order of their places.
#[derive(Debug)]
pub struct Table<T> {
    entries: Vec<Entry<T>>,
    vacant: Vec<u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { entries: Vec::new(), vacant: Vec::new() }
    }
}

impl<T> Table<T> {
    /// Puts a value in.
    pub fn insert(&mut self, value: T) -> Slot {
        while let Some(index) = self.vacant.pop() {
            if let Some(entry) = self.entries.get_mut(index as usize) {
                entry.value = Some(value);
                return Slot { index, generation: entry.generation };
            }
        }
        let index = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        self.entries.push(Entry { generation: 0, value: Some(value) });
        Slot { index, generation: 0 }
    }

    /// The value at `slot`, if it is still there.
    pub fn get(&self, slot: Slot) -> Option<&T> {
        let entry = self.entries.get(slot.index as usize)?;
        if entry.generation == slot.generation { entry.value.as_ref() } else { None }
    }

    /// The value at `slot`, to change.
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        let entry = self.entries.get_mut(slot.index as usize)?;
        if entry.generation == slot.generation { entry.value.as_mut() } else { None }
    }

    /// Takes the value at `slot` out.
    pub fn remove(&mut self, slot: Slot) -> Option<T> {
        let entry = self.entries.get_mut(slot.index as usize)?;
        if entry.generation != slot.generation {
            return None;
        }
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.vacant.push(slot.index);
        Some(value)
    }

    /// How many values there are.
    #[cfg(debug_assertions)]
    pub fn len(&self) -> usize {
        self.entries.len().saturating_sub(self.vacant.len())
    }

    /// All values with their places.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, &T)> {
        self.entries.iter().zip(0u32..).filter_map(|(entry, index)| {
            let value = entry.value.as_ref()?;
            Some((Slot { index, generation: entry.generation }, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_taken_again_is_not_the_old_one() {
        let mut table = Table::default();
        let a = table.insert("a");
        assert_eq!(table.remove(a), Some("a"));
        let b = table.insert("b");
        assert_eq!(table.get(a), None);
        assert_eq!(table.remove(a), None);
        assert_eq!(table.get(b), Some(&"b"));
        assert_eq!(table.iter().count(), 1);
    }
}
