//! Pages of a table's rows, each with the position of the next page: for readers that pause between pages and can not
//! hold an iterator meanwhile. The caller filters the rows.

use std::ops::Bound;
use std::sync::Arc;

use crate::change::{Change, Visitor, Visits};
use crate::row_map::RowMap;
use crate::state::State;
use crate::table::{Kept as _, Table, TableType, TableVisitor, VisitsTable};

impl State {
    /// At most `rows_max` rows of a table in key order, each as a creating change. The last change of a page, passed
    /// as `after`, gives the next page.
    pub fn page(&self, table: Table, after: Option<&Change>, rows_max: usize) -> Vec<Change> {
        let mut pager = Pager { state: self, rows_max, found: Vec::new() };
        match after {
            Some(change) => change.visit(&mut pager),
            None => table.visit(&mut pager),
        }
        pager.found
    }
}

struct Pager<'a> {
    state: &'a State,
    rows_max: usize,
    found: Vec<Change>,
}

impl Pager<'_> {
    fn take<T: TableType>(&mut self, from: Bound<T::Key>) {
        let rows = T::rows(self.state).0.range((from, Bound::Unbounded)).take(self.rows_max);
        self.found = rows.map(|(key, entry)| T::change(None, Some(entry.kept.row(self.state, key)))).collect();
    }
}

impl TableVisitor for &mut Pager<'_> {
    type Out = ();
}

impl<T: TableType> VisitsTable<T> for &mut Pager<'_> {
    fn visit(self) {
        self.take::<T>(Bound::Unbounded);
    }
}

impl Visitor for &mut Pager<'_> {
    type Out = ();

    fn restored(self) {}
}

impl<T: TableType> Visits<T> for &mut Pager<'_> {
    fn visit(self, _before: Option<&Arc<T::Row>>, after: Option<&Arc<T::Row>>) {
        if let Some(row) = after {
            self.take::<T>(Bound::Excluded(T::key(row)));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{BUILT_IN_INDEX, Change, State, Table};

    #[test]
    fn table_pages_hold_each_row_once() {
        let state = State::new();
        let name = |change: &Change| match change {
            Change::NodePool { after: Some(row), .. } => (row.name.0.to_string(), row.create_index),
            other => panic!("not a node pool: {other:?}"),
        };
        let first = state.page(Table::NodePools, None, 1);
        let second = state.page(Table::NodePools, first.last(), 1);
        assert_eq!(
            first.iter().chain(&second).map(name).collect::<Vec<_>>(),
            [("all".into(), BUILT_IN_INDEX), ("default".into(), 1)]
        );
        assert_eq!(state.page(Table::NodePools, second.last(), 1), []);
    }
}
