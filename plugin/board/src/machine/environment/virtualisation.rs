// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether this is a virtual machine, and of which kind.

use std::arch::x86_64::{__cpuid, CpuidResult};

/// What the processor says: `none`, or the signature of the hypervisor (`KVMKVMKVM`).
pub fn hypervisor() -> String {
    name(__cpuid)
}

/// Leaf 1 has a bit that hardware leaves at zero; from 0x4000_0000 on a hypervisor speaks
/// (Documentation/virt/kvm/x86/cpuid.rst).
fn name(cpuid: impl Fn(u32) -> CpuidResult) -> String {
    const FEATURES: u32 = 1;
    const HYPERVISOR: u32 = 1 << 31;
    const SIGNATURE: u32 = 0x4000_0000;
    if cpuid(FEATURES).ecx & HYPERVISOR == 0 {
        return "none".to_owned();
    }
    let found = cpuid(SIGNATURE);
    let bytes: Vec<u8> = [found.ebx, found.ecx, found.edx]
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .take_while(|b| *b != 0)
        .collect();
    let text: String = bytes.into_iter().filter(u8::is_ascii_graphic).map(char::from).collect();
    if text.is_empty() { "unnamed".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hypervisor_has_a_signature() {
        let machine = |features, signature: &'static [u8; 12]| {
            let word = |at: usize| u32::from_le_bytes(signature[at..at + 4].try_into().expect("4 bytes"));
            name(move |leaf| match leaf {
                1 => CpuidResult { eax: 0, ebx: 0, ecx: features, edx: 0 },
                _ => CpuidResult { eax: 0, ebx: word(0), ecx: word(4), edx: word(8) },
            })
        };
        assert_eq!(machine(1 << 31, b"KVMKVMKVM\0\0\0"), "KVMKVMKVM");
        assert_eq!(machine(1 << 31, b"TCGTCGTCGTCG"), "TCGTCGTCGTCG");
        assert_eq!(machine(1 << 31, &[0; 12]), "unnamed");
        assert_eq!(machine(0, b"KVMKVMKVM\0\0\0"), "none");
    }
}
