//! Numbers in the names of a group's allocations: `job.group[3]` uses 3.

use std::collections::{BTreeMap, BTreeSet};

use songline_model::{Allocation, Str};

use super::Set;

/// The numbers in use, each with the count of allocations that use it.
#[derive(Debug, Clone, Default)]
pub struct NameIndex {
    prefix: String,
    count: u64,
    used: BTreeMap<u64, u64>,
}

impl NameIndex {
    /// The numbers that these allocations use, for a group with this `count`.
    pub fn new<'a>(job_id: &str, group: &str, count: i64, allocs: impl IntoIterator<Item = &'a Allocation>) -> Self {
        let mut names = Self {
            prefix: format!("{job_id}.{group}"),
            count: u64::try_from(count).unwrap_or(0),
            used: BTreeMap::new(),
        };
        for alloc in allocs {
            *names.used.entry(index_of(alloc)).or_insert(0) += 1;
        }
        names
    }

    /// Releases the `n` highest numbers and returns their names.
    pub fn highest(&mut self, n: usize) -> BTreeSet<Str> {
        let taken: Vec<u64> = self.used.keys().rev().take(n).copied().collect();
        taken
            .into_iter()
            .map(|index| {
                self.used.remove(&index);
                self.name(index)
            })
            .collect()
    }

    /// Takes `n` numbers: free ones below the group's count first, then those with the fewest users, lowest first.
    pub fn next(&mut self, n: usize) -> Vec<Str> {
        let mut taken: Vec<u64> = Vec::with_capacity(n);
        taken.extend((0..self.count).filter(|index| !self.used.contains_key(index)).take(n));
        for index in &taken {
            *self.used.entry(*index).or_insert(0) += 1;
        }
        while taken.len() < n {
            let users = |index: &u64| self.used.get(index).copied().unwrap_or(0);
            let index = (0..self.count.max(1)).min_by_key(users).unwrap_or(0);
            *self.used.entry(index).or_insert(0) += 1;
            taken.push(index);
        }
        taken.into_iter().map(|index| self.name(index)).collect()
    }

    /// Takes `n` numbers for canaries: first those of allocations that the canaries will replace, unless a canary has
    /// them; then free ones below the group's count; then those from the count up.
    pub(super) fn for_canaries(&mut self, n: usize, canaries: &Set, destructive: &Set) -> Vec<Str> {
        let had: BTreeSet<u64> = canaries.iter().map(|alloc| index_of(alloc)).collect();
        let replaced: BTreeSet<u64> =
            destructive.iter().map(|alloc| index_of(alloc)).filter(|index| *index < self.count).collect();
        let mut taken: Vec<u64> = replaced.difference(&had).copied().take(n).collect();
        let free = (0..self.count).filter(|index| !self.used.contains_key(index));
        let free: Vec<u64> = free.filter(|index| !taken.contains(index)).take(n - taken.len()).collect();
        taken.extend(free);
        taken.extend((self.count..).take(n - taken.len()));
        for index in &taken {
            *self.used.entry(*index).or_insert(0) += 1;
        }
        taken.into_iter().map(|index| self.name(index)).collect()
    }

    /// Releases a number for one allocation.
    pub fn release(&mut self, index: u64) {
        if let Some(users) = self.used.get_mut(&index) {
            *users -= 1;
            if *users == 0 {
                self.used.remove(&index);
            }
        }
    }

    /// Name for a placement that asks for `name`: another one if several allocations use it.
    pub fn unique(&mut self, name: &Str, index: u64) -> Str {
        if self.used.get(&index).is_none_or(|users| *users < 2) {
            return name.clone();
        }
        self.release(index);
        self.next(1).pop().unwrap_or_else(|| name.clone())
    }

    fn name(&self, index: u64) -> Str {
        Str::from(format!("{}[{index}]", self.prefix))
    }
}

/// The number in an allocation's name, 0 when there is none.
pub(super) fn index_of(alloc: &Allocation) -> u64 {
    alloc.name_index().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use songline_model::Allocation;

    use super::NameIndex;

    fn names(count: i64, used: &[u64]) -> NameIndex {
        let alloc =
            |index: &u64| Arc::new(Allocation { name: format!("j.g[{index}]").into(), ..Allocation::default() });
        let allocs: Vec<_> = used.iter().map(alloc).collect();
        NameIndex::new("j", "g", count, allocs.iter().map(Arc::as_ref))
    }

    #[test]
    fn alloc_names_use_free_indexes_below_the_count_first() {
        assert_eq!(names(5, &[0, 2, 9]).next(3), ["j.g[1]", "j.g[3]", "j.g[4]"]);
        assert_eq!(names(2, &[0]).next(3), ["j.g[1]", "j.g[0]", "j.g[1]"]);
    }

    #[test]
    fn highest_alloc_names_are_chosen_first() {
        let highest: Vec<_> = names(5, &[0, 2, 9]).highest(2).into_iter().collect();
        assert_eq!(highest, ["j.g[2]", "j.g[9]"]);
    }

    #[test]
    fn fixed_duplicate_alloc_names_are_each_given_once() {
        let mut names = names(2, &[0, 0, 1, 1]);
        assert_eq!(names.unique(&"j.g[0]".into(), 0), "j.g[0]");
        assert_eq!(names.unique(&"j.g[1]".into(), 1), "j.g[1]");
    }

    #[test]
    fn alloc_name_used_twice_is_not_given_to_a_third_alloc() {
        let mut names = names(4, &[0, 0, 1]);
        assert_eq!(names.unique(&"j.g[0]".into(), 0), "j.g[2]");
        assert_eq!(names.unique(&"j.g[0]".into(), 0), "j.g[0]");
    }
}
