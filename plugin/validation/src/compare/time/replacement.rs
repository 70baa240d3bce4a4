// SPDX-License-Identifier: GPL-2.0-or-later
//! One boot far from the others may be replaced by one more, and both are shown (statistics.md 3.5):
//! a look then has one boot more than was registered, on the side of the wild one.

use super::super::Reason;
use super::gates::{WildBoot, wild_boot};
use super::judge::Sides;
use super::looks::Look;

/// The sides without a wild boot that was replaced, and which one that was; `None` where there is
/// no boot beyond a look, or none of its side is wild.
pub(super) fn replaced(sides: &Sides, sigma: f64, limit: f64) -> Option<(Sides, Reason)> {
    let boots = sides.old.len() + sides.new.len();
    if Look::after(boots).is_some() || Look::after(boots.checked_sub(1)?).is_none() {
        return None;
    }
    let wild: WildBoot = wild_boot(sides, sigma, limit)?;
    let place = wild.place?;
    let on_larger_side = wild.new_side == (sides.new.len() > sides.old.len());
    if sides.new.len() == sides.old.len() || !on_larger_side {
        return None;
    }
    let mut kept = sides.clone();
    let side = if wild.new_side { &mut kept.new } else { &mut kept.old };
    // The replacement is the last one; a replacement that is wild itself replaces nothing.
    if place + 1 == side.len() {
        return None;
    }
    side.remove(place);
    Some((
        kept,
        Reason::Replaced { side: if wild.new_side { "new" } else { "old" }, place, sigmas: wild.sigmas },
    ))
}
