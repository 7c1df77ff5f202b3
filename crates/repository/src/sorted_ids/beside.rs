//! Ids in order beside others in order, such as the rows of the index.

use crate::Result;
use crate::check::IdPrefix;

/// Goes through `ids` once, as far as it is asked.
pub(crate) struct Beside<I> {
    ids: I,
    next: Option<IdPrefix>,
}

impl<I: Iterator<Item = Result<IdPrefix>>> Beside<I> {
    pub(crate) fn new(mut ids: I) -> Result<Self> {
        let next = ids.next().transpose()?;
        Ok(Self { ids, next })
    }

    /// Whether `id` is one of them. Nobody asks for an earlier one after that; `passed` hears of those before it that
    /// nobody asked for.
    pub(crate) fn has(
        &mut self,
        id: &IdPrefix,
        mut passed: impl FnMut(IdPrefix) -> Result<()>,
    ) -> Result<bool> {
        while let Some(before) = self.next.filter(|next| next < id) {
            passed(before)?;
            self.advance()?;
        }
        let is_here = self.next == Some(*id);
        if is_here {
            self.advance()?;
        }
        Ok(is_here)
    }

    /// `passed` hears of all that are left.
    pub(crate) fn rest(mut self, mut passed: impl FnMut(IdPrefix) -> Result<()>) -> Result<()> {
        while let Some(id) = self.next {
            passed(id)?;
            self.advance()?;
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<()> {
        self.next = self.ids.next().transpose()?;
        Ok(())
    }
}
