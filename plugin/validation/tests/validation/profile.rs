// SPDX-License-Identifier: GPL-2.0-or-later
//! The published profiles (protocol.md 9.6) come out digit by digit.

use kernmark_validation::profile::{doubts, from_table, text, to_table};

const PUBLISHED: &str = include_str!("../data/profiles/kernfs-rwsem.tsv");
const EXPECTED: &str = include_str!("../data/profiles/kernfs-rwsem.txt");

#[test]
fn the_published_shares_add_up_to_the_published_sums() {
    let profiles = from_table("published", PUBLISHED).expect("a table");
    let told = text(&profiles);
    for line in [
        "down_read + up_read: 67.81 -> 25.99 -> 15.63 % (about 68 -> 26 -> 16 %)",
        "with what they call: 68.12 -> 26.11 -> 15.70 %",
        "    by link_path_walk: 20.23 -> 9.44 -> -",
        "    by lookup_fast: 1.20 -> - -> 0.58",
    ] {
        assert!(told.lines().any(|l| l == line), "{line:?} is missing in\n{told}");
    }
    assert_eq!(told, EXPECTED);
    assert_eq!(doubts(&profiles), [] as [&str; 0]);
    assert_eq!(from_table("again", &to_table(&profiles)).as_ref(), Ok(&profiles));
}
