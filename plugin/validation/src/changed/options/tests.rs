// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;

const TREE: &[(&str, &str)] = &[
    ("Kbuild", "obj-y += fs/ kernel/\nobj-y += arch/$(SRCARCH)/\nobj-$(CONFIG_NET) += net/\n"),
    ("Makefile", "libs-y := lib/\n"),
    ("arch/x86/Makefile", "drivers-$(CONFIG_PCI) += arch/x86/pci/\n"),
    ("arch/x86/Kbuild", "obj-y += kernel/\n"),
    ("arch/x86/Makefile.other", ""),
    ("arch/x86/pci/Makefile", "obj-y := common.o\n"),
    ("arch/x86/kernel/Makefile", "obj-y := traps.o\nobj-$(CONFIG_X86_32) += doublefault_32.o\n"),
    (
        "fs/Makefile",
        "obj-y := namei.o\nobj-$(CONFIG_ONE_FS) += one/\nifeq ($(CONFIG_BLOCK),y)\nobj-y += buffer.o\nelse\nobj-y += no-block.o\nendif\n",
    ),
    (
        "fs/one/Makefile",
        "obj-$(CONFIG_ONE_FS) += one.o\none-y += inode.o $(addprefix lib/, tree.o)\none-$(CONFIG_ONE_QUOTA) += quota.o\n",
    ),
    ("kernel/Makefile", "obj-y += sched/\n"),
    ("kernel/sched/Makefile", "obj-y += build.o\n"),
    (
        "kernel/sched/build.c",
        "#include \"sched.h\"\n#include \"idle.c\"\n#ifdef CONFIG_SMP\n# include \"pelt.c\"\n#endif\n",
    ),
    ("lib/Makefile", "lib-y := string.o\n"),
    (
        "Kconfig",
        "config BLOCK\n\tbool \"block\"\nconfig ONE_FS\n\ttristate \"one\"\n\tdepends on BLOCK\nconfig ONE_QUOTA\n\tbool \"quota\"\n\tdepends on ONE_FS\nconfig PCI\n\tbool \"pci\"\nconfig SMP\n\tbool \"smp\"\nconfig X86_32\n\tdef_bool n\n",
    ),
];

fn read(path: &str) -> Option<String> {
    TREE.iter().find(|(p, _)| *p == path).map(|(_, text)| (*text).to_owned())
}

fn judged(file: &str, config: &str) -> String {
    let all = options_for(&[file.to_owned()], &read, &Config::parse(config));
    let needed = all[0].needed.join(" ");
    match &all[0].state {
        FileState::SwitchOn(options) => format!("[{needed}] on: {}", options.join(" ")),
        FileState::CannotBuild(reason) => format!("[{needed}] cannot: {reason}"),
        FileState::Compiled => format!("[{needed}] compiled"),
        FileState::Unlisted => "unlisted".to_owned(),
        FileState::Header => "header".to_owned(),
        FileState::NotCode => "not code".to_owned(),
    }
}

#[test]
fn files_are_followed_to_the_top() {
    let block = "CONFIG_BLOCK=y\n";
    let one = "CONFIG_BLOCK=y\nCONFIG_ONE_FS=y\n";
    for (file, config, expected) in [
        ("fs/namei.c", "", "[] compiled"),
        ("fs/one/inode.c", "", "[ONE_FS] on: BLOCK ONE_FS"),
        ("fs/one/inode.c", one, "[ONE_FS] compiled"),
        ("fs/one/lib/tree.c", block, "[ONE_FS] on: ONE_FS"),
        ("fs/one/lib/tree.h", block, "[ONE_FS] on: ONE_FS"),
        ("fs/one/quota.c", "", "[ONE_FS ONE_QUOTA] on: BLOCK ONE_FS ONE_QUOTA"),
        ("fs/buffer.c", "", "[BLOCK] on: BLOCK"),
        ("fs/no-block.c", "", "[] compiled"),
        ("kernel/sched/idle.c", "", "[] compiled"),
        ("kernel/sched/pelt.c", "", "[SMP] on: SMP"),
        ("lib/string.c", "", "[] compiled"),
        ("arch/x86/kernel/traps.c", "", "[] compiled"),
        ("arch/x86/pci/common.c", "", "[PCI] on: PCI"),
        ("include/linux/fs.h", "", "header"),
        ("arch/x86/include/asm/io.h", "", "header"),
        ("Documentation/a.c", "", "not code"),
        ("tools/perf/a.c", "", "not code"),
        ("fs/one/Makefile", "", "not code"),
    ] {
        assert_eq!(judged(file, config), expected, "{file}");
    }
}

#[test]
fn what_cannot_be_built_says_why() {
    for (file, expected) in [
        (
            "arch/arm64/mm/fault.c",
            "[] cannot: it is for arm64; kernmark builds x86 kernels: test it on a machine of that kind",
        ),
        ("fs/orphan.c", "unlisted"),
        (
            "fs/no-block.c",
            "[] cannot: it is only built without CONFIG_BLOCK, which these kernels need: test it on another machine",
        ),
        (
            "arch/x86/kernel/doublefault_32.c",
            "[X86_32] cannot: CONFIG_X86_32 cannot be switched on: X86_32 cannot be set by hand, and no option that selects it can be switched on",
        ),
        ("net/core.c", "unlisted"),
    ] {
        assert_eq!(judged(file, "CONFIG_BLOCK=y\n"), expected, "{file}");
    }
}

#[test]
fn options_of_several_files_are_named_once() {
    let files = ["fs/one/inode.c", "fs/buffer.c", "fs/one/quota.c"].map(str::to_owned);
    let all = options_for(&files, &read, &Config::default());
    assert_eq!(switch_on(&all), ["BLOCK", "ONE_FS", "ONE_QUOTA"]);
}
