//! The persistent containers of the tables: a hash index and a numbered store.
//!
//! Both are trees of shared nodes. A clone costs one count; a change copies the nodes on the way
//! to the changed place when they are shared with a published snapshot, and works in place when
//! they are not, so that a batch of changes copies each node at most once. Nothing here is ever
//! proportional to the size of the table except walking it.
//!
//! Deliberately absent: order (answers sort what they print) and hashing (the caller brings the
//! hash and the comparison, so that a look-up needs no owned key).

use std::sync::Arc;

/// Children of one inner node of an [`Index`].
const FAN: usize = 64;
/// Bits of the hash that one level consumes.
const BITS: u32 = FAN.trailing_zeros();

type Leaf<V> = Vec<(u64, V)>;

/// An inner node. Most have few children, so that walking goes by the marks.
#[derive(Debug)]
struct Branch<T> {
    /// One bit for each child that there is.
    used: u64,
    children: [Option<Arc<T>>; FAN],
}

impl<T> Branch<T> {
    const EMPTY: Self = Self {
        used: 0,
        children: [const { None }; FAN],
    };

    #[inline]
    fn get(&self, place: usize) -> Option<&Arc<T>> {
        self.children[place].as_ref()
    }

    fn get_mut(&mut self, place: usize) -> Option<&mut Arc<T>> {
        self.children[place].as_mut()
    }

    fn get_or_insert(&mut self, place: usize, new: impl FnOnce() -> T) -> &mut Arc<T> {
        self.used |= 1 << place;
        self.children[place].get_or_insert_with(|| Arc::new(new()))
    }

    fn set(&mut self, place: usize, child: Arc<T>) {
        self.used |= 1 << place;
        self.children[place] = Some(child);
    }

    fn clear(&mut self, place: usize) {
        self.used &= !(1 << place);
        self.children[place] = None;
    }

    fn is_empty(&self) -> bool {
        self.used == 0
    }

    fn places(&self) -> impl Iterator<Item = usize> + use<T> {
        let mut left = self.used;
        std::iter::from_fn(move || {
            let place = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (place < FAN).then_some(place)
        })
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.places().filter_map(|place| self.get(place))
    }
}

impl<T> Clone for Branch<T> {
    fn clone(&self) -> Self {
        Self {
            used: self.used,
            children: self.children.clone(),
        }
    }
}

/// An unordered persistent hash map of values that know their own key.
///
/// Three levels of 64 give 262,144 leaves: about four entries in each at a million topics, and a
/// change copies three small nodes and one leaf whatever the size.
#[derive(Debug)]
pub struct Index<V> {
    root: Arc<Branch<Branch<Branch<Leaf<V>>>>>,
    len: usize,
}

impl<V> Clone for Index<V> {
    fn clone(&self) -> Self {
        Self {
            root: Arc::clone(&self.root),
            len: self.len,
        }
    }
}

impl<V> Default for Index<V> {
    fn default() -> Self {
        Self {
            root: Arc::new(Branch::EMPTY),
            len: 0,
        }
    }
}

impl<V> Index<V> {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// There is no value.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value with this hash for which `is` holds.
    pub fn get(&self, hash: u64, is: impl Fn(&V) -> bool) -> Option<&V> {
        let [a, b, c] = places(hash);
        let leaf = self.root.get(a)?.get(b)?.get(c)?;
        leaf.iter()
            .find(|(h, v)| *h == hash && is(v))
            .map(|(_, v)| v)
    }

    /// All values, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = &V> {
        let leaves = self
            .root
            .iter()
            .flat_map(|a| a.iter())
            .flat_map(|b| b.iter());
        leaves.flat_map(|leaf| leaf.iter().map(|(_, v)| v))
    }
}

impl<V: Clone> Index<V> {
    /// The value with this hash for which `is` holds, to be changed in place.
    pub fn get_mut(&mut self, hash: u64, is: impl Fn(&V) -> bool) -> Option<&mut V> {
        self.get(hash, &is)?;
        let leaf = self.leaf_mut(hash);
        leaf.iter_mut()
            .find(|(h, v)| *h == hash && is(v))
            .map(|(_, v)| v)
    }

    /// Puts `value` in the place of the one for which `is` holds, or adds it.
    pub fn insert(&mut self, hash: u64, is: impl Fn(&V) -> bool, value: V) -> Option<V> {
        let leaf = self.leaf_mut(hash);
        if let Some((_, old)) = leaf.iter_mut().find(|(h, v)| *h == hash && is(v)) {
            return Some(std::mem::replace(old, value));
        }
        leaf.reserve_exact(1);
        leaf.push((hash, value));
        self.len += 1;
        None
    }

    /// Takes out the value for which `is` holds.
    pub fn remove(&mut self, hash: u64, is: impl Fn(&V) -> bool) -> Option<V> {
        self.get(hash, &is)?;
        let leaf = self.leaf_mut(hash);
        let at = leaf.iter().position(|(h, v)| *h == hash && is(v))?;
        let (_, old) = leaf.swap_remove(at);
        if leaf.is_empty() {
            self.drop_leaf(hash);
        }
        self.len -= 1;
        Some(old)
    }

    /// Frees the empty leaf of `hash` and the nodes that held nothing else, so that names that
    /// come and go leave nothing behind.
    fn drop_leaf(&mut self, hash: u64) {
        let [a, b, c] = places(hash);
        let root = Arc::make_mut(&mut self.root);
        let Some(first) = root.get_mut(a).map(Arc::make_mut) else {
            return;
        };
        let Some(second) = first.get_mut(b).map(Arc::make_mut) else {
            return;
        };
        second.clear(c);
        if second.is_empty() {
            first.clear(b);
            if first.is_empty() {
                root.clear(a);
            }
        }
    }

    fn leaf_mut(&mut self, hash: u64) -> &mut Leaf<V> {
        let [a, b, c] = places(hash);
        let root = Arc::make_mut(&mut self.root);
        let first = Arc::make_mut(root.get_or_insert(a, || Branch::EMPTY));
        let second = Arc::make_mut(first.get_or_insert(b, || Branch::EMPTY));
        Arc::make_mut(second.get_or_insert(c, Leaf::new))
    }
}

/// The place at each level: the top bits, which ahash mixes best.
fn places(hash: u64) -> [usize; 3] {
    let place = |level: u32| (hash >> (64 - BITS * (level + 1))) as usize & (FAN - 1);
    [place(0), place(1), place(2)]
}

/// A persistent store of numbered values: groups and queue shapes by their ids.
///
/// Ids are handed out by whoever owns the store and reused after [`Slots::clear`]; a snapshot
/// keeps what its ids meant.
#[derive(Debug)]
pub struct Slots<T> {
    chunks: Arc<Vec<Arc<Branch<T>>>>,
}

impl<T> Clone for Slots<T> {
    fn clone(&self) -> Self {
        Self {
            chunks: Arc::clone(&self.chunks),
        }
    }
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            chunks: Arc::default(),
        }
    }
}

impl<T: Clone> Slots<T> {
    /// The value with this id, to be changed in place.
    pub fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.get(id)?;
        self.chunk(id).get_mut(place_of(id)).map(Arc::make_mut)
    }
}

impl<T> Slots<T> {
    /// The value with this id.
    pub fn get(&self, id: u32) -> Option<&Arc<T>> {
        self.chunks.get(id as usize / FAN)?.get(place_of(id))
    }

    /// All values, by ascending id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// Puts a value under an id, which may be new.
    pub fn set(&mut self, id: u32, value: Arc<T>) {
        self.chunk(id).set(place_of(id), value);
    }

    /// Forgets the value of an id.
    pub fn clear(&mut self, id: u32) {
        self.chunk(id).clear(place_of(id));
    }

    fn chunk(&mut self, id: u32) -> &mut Branch<T> {
        let chunks = Arc::make_mut(&mut self.chunks);
        let index = id as usize / FAN;
        while chunks.len() <= index {
            chunks.push(Arc::new(Branch::EMPTY));
        }
        Arc::make_mut(&mut chunks[index])
    }
}

/// The place of an id in its chunk.
fn place_of(id: u32) -> usize {
    id as usize % FAN
}

/// Hands out small numbers, the lowest free one last returned first.
#[derive(Debug, Default)]
pub struct Ids {
    next: u32,
    free: Vec<u32>,
}

impl Ids {
    /// A number that is not in use.
    pub fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// Gives a number back.
    pub fn give(&mut self, id: u32) {
        self.free.push(id);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A weak hash, so that leaves hold several values and hashes collide.
    fn hash(key: u32) -> u64 {
        u64::from(key % 50).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    proptest! {
        #[test]
        fn index_is_a_map_and_old_versions_stay(
            ops in prop::collection::vec((any::<bool>(), 0u32..200, any::<u32>()), 1..400),
        ) {
            let mut index = Index::default();
            let mut model = BTreeMap::new();
            let mut versions = Vec::new();
            for (i, (add, key, value)) in ops.into_iter().enumerate() {
                let same = |v: &(u32, u32)| v.0 == key;
                if add {
                    let old = index.insert(hash(key), same, (key, value));
                    prop_assert_eq!(old.map(|v| v.1), model.insert(key, value));
                } else {
                    let old = index.remove(hash(key), same);
                    prop_assert_eq!(old.map(|v| v.1), model.remove(&key));
                }
                if i % 37 == 0 {
                    versions.push((index.clone(), model.clone()));
                }
            }
            versions.push((index, model));
            for (index, model) in versions {
                let mut all: Vec<_> = index.iter().copied().collect();
                all.sort_unstable();
                prop_assert_eq!(all, model.clone().into_iter().collect::<Vec<_>>());
                prop_assert_eq!(index.len(), model.len());
                for key in 0..200 {
                    let found = index.get(hash(key), |v| v.0 == key).map(|v| v.1);
                    prop_assert_eq!(found, model.get(&key).copied());
                }
            }
        }
    }

    #[test]
    fn an_emptied_index_keeps_no_nodes() {
        let mut index = Index::default();
        for key in 0..1000u32 {
            index.insert(hash(key), |v| *v == key, key);
        }
        for key in 0..1000u32 {
            assert_eq!(index.remove(hash(key), |v| *v == key), Some(key));
        }
        assert!(index.root.is_empty());
        assert!(index.is_empty());
    }

    #[test]
    fn slots_keep_what_a_version_meant() {
        let mut slots = Slots::default();
        slots.set(0, Arc::new("a"));
        slots.set(130, Arc::new("b"));
        let old = slots.clone();
        slots.set(130, Arc::new("c"));
        slots.clear(0);
        assert_eq!(old.iter().map(|v| **v).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(slots.iter().map(|v| **v).collect::<Vec<_>>(), ["c"]);
        assert!(slots.get(0).is_none() && slots.get(9999).is_none());
    }

    #[test]
    fn ids_are_reused() {
        let mut ids = Ids::default();
        assert_eq!((ids.take(), ids.take(), ids.take()), (0, 1, 2));
        ids.give(1);
        assert_eq!((ids.take(), ids.take()), (1, 3));
    }
}
