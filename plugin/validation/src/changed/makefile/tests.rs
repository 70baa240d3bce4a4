// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;
use proptest::prelude::*;

/// `A !B | C` for the alternatives of an item.
fn built(text: &str, item: &str) -> String {
    let alternatives = Makefile::parse(text, "fs/one").alternatives(item);
    let one = |all: &Vec<Requirement>| {
        let names: Vec<String> =
            all.iter().map(|r| format!("{}{}", if r.on { "" } else { "!" }, r.option)).collect();
        format!("[{}]", names.join(" "))
    };
    alternatives.iter().map(one).collect::<Vec<_>>().join(" | ")
}

#[test]
fn lists_and_composites() {
    let text = "\
obj-$(CONFIG_ONE) += one.o # the file system
one-y := inode.o \\
\tsuper.o
one-$(CONFIG_ONE_QUOTA) += quota.o
one-objs += $(addprefix lib/, tree.o \\
\t\tleaf.o)
obj-y += always.o sub/ pair_$(BITS).o
obj-$(CONFIG_TWO)$(CONFIG_THREE) += both.o
lib-y += text.o
hostprogs := tool.o
shared-objs := common.o
obj-$(CONFIG_A) += $(shared-objs)
obj-$(CONFIG_B) += b.o common.o
CFLAGS_inode.o := -DX=1
$(obj)/made.o: FLAGS = made.o
mmu-y := nommu.o
mmu-$(CONFIG_MMU) := memory.o
obj-y += $(mmu-y)
";
    for (item, expected) in [
        ("inode.o", "[ONE]"),
        ("super.o", "[ONE]"),
        ("quota.o", "[ONE ONE_QUOTA]"),
        ("lib/leaf.o", "[ONE]"),
        ("leaf.o", ""),
        ("always.o", "[]"),
        ("sub/", "[]"),
        ("pair_64.o", "[]"),
        ("both.o", "[THREE TWO]"),
        ("text.o", "[]"),
        ("tool.o", ""),
        ("common.o", "[A] | [B]"),
        ("made.o", ""),
        ("nommu.o", "[!MMU]"),
        ("memory.o", "[MMU]"),
    ] {
        assert_eq!(built(text, item), expected, "{item}");
    }
}

#[test]
fn conditions_on_options() {
    let text = "\
ifdef CONFIG_A
obj-y += a.o
else
obj-y += not_a.o
endif
ifeq ($(CONFIG_B),y)
obj-y += b.o
else ifeq ($(CONFIG_C),y)
obj-$(CONFIG_D) += cd.o
endif
ifneq ($(CONFIG_E),)
obj-y += e.o
endif
ifeq ($(BITS),32)
obj-y += never.o
endif
ifeq ($(CONFIG_F)$(CONFIG_G),yy)
\tobj-y += fg.o
endif
ifeq ($(shell true),y)
obj-y += open.o
endif
define rule
obj-y += ruled.o
endef
include $(src)/Makefile.more
include $(srctree)/../x
";
    for (item, expected) in [
        ("a.o", "[A]"),
        ("not_a.o", "[!A]"),
        ("b.o", "[B]"),
        ("cd.o", "[!B C D]"),
        ("e.o", "[E]"),
        ("never.o", ""),
        ("fg.o", "[F G]"),
        ("open.o", "[]"),
        ("ruled.o", ""),
    ] {
        assert_eq!(built(text, item), expected, "{item}");
    }
    assert_eq!(Makefile::parse(text, "fs/one").includes, ["fs/one/Makefile.more"]);
}

#[test]
fn lists_in_a_circle_end() {
    assert_eq!(built("a-y := b.o $(b-y)\nb-y := a.o $(a-y)\n", "a.o"), "");
    let deep = format!("obj-y += {}x.o{}\n", "$(sort ".repeat(5000), ")".repeat(5000));
    assert_eq!(built(&deep, "x.o"), "");
}

proptest! {
    #[test]
    fn any_text_is_read(text in "[a-c\\-y$()=+:,# \t\n\\\\]{0,120}") {
        let makefile = Makefile::parse(&text, "d");
        makefile.alternatives("a.o");
        prop_assert!(makefile.includes.is_empty());
    }
}
