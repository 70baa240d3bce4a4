// SPDX-License-Identifier: GPL-2.0-or-later
//! The few bpf(2) calls that register a struct_ops, by hand: a static program
//! needs no library for them. Layouts: `union bpf_attr` of `include/uapi/linux/bpf.h`.

use nix::errno::Errno;
use nix::libc;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const PROG_GET_NEXT_ID: libc::c_int = 11;
const PROG_GET_FD_BY_ID: libc::c_int = 13;
const OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const BTF_LOAD: libc::c_int = 18;
const LINK_CREATE: libc::c_int = 28;
const ENABLE_STATS: libc::c_int = 32;

const MAP_TYPE_STRUCT_OPS: u32 = 26;
const PROG_TYPE_STRUCT_OPS: u32 = 27;
const ATTACH_TYPE_STRUCT_OPS: u32 = 44;
/// The link registers, not the update of the map.
const MAP_FLAG_LINK: u32 = 0x2000;

/// r0 = 0; exit. A callback that agrees to everything.
const AGREE: [u64; 2] = [0x0000_0000_0000_00b7, 0x0000_0000_0000_0095];
const LICENSE: &std::ffi::CStr = c"GPL";

/// One argument block; what is not set is zero, as the kernel demands.
struct Attributes([u64; 16]);

impl Attributes {
    fn new() -> Self {
        Self([0; 16])
    }

    /// Sets the 32-bit field at this byte.
    fn word(mut self, at: usize, value: u32) -> Self {
        let shift = 8 * (at % 8);
        self.0[at / 8] |= u64::from(value) << shift;
        self
    }

    fn fd(self, at: usize, value: &OwnedFd) -> Self {
        self.word(at, value.as_raw_fd().cast_unsigned())
    }

    /// Sets the 64-bit field at this byte.
    fn pointer<T: ?Sized>(mut self, at: usize, value: *const T) -> Self {
        self.0[at / 8] = value.cast::<u8>().expose_provenance() as u64;
        self
    }

    /// The call. What the pointers point to must live until it returns.
    fn call(&mut self, command: libc::c_int) -> Result<libc::c_long, Errno> {
        let size = size_of_val(&self.0);
        // SAFETY: the kernel reads and writes at most `size` bytes of the block, and what its
        // pointers point to, which the callers below keep alive and long enough for the call.
        Errno::result(unsafe { libc::syscall(libc::SYS_bpf, command, self.0.as_mut_ptr(), size) })
    }

    fn call_for_fd(&mut self, command: libc::c_int) -> Result<OwnedFd, Errno> {
        let fd = i32::try_from(self.call(command)?).map_err(|_| Errno::EBADF)?;
        // SAFETY: the call made this descriptor, and nobody else knows it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// Loads types of our own.
pub fn load_btf(btf: &[u8]) -> Result<OwnedFd, Errno> {
    let size = u32::try_from(btf.len()).map_err(|_| Errno::E2BIG)?;
    Attributes::new().pointer(0, btf.as_ptr()).word(16, size).call_for_fd(BTF_LOAD)
}

/// Makes a map of one struct_ops, whose value has this type of the kernel and size. `btf` must be
/// types of our own, or the kernel refuses.
pub fn create_map(btf: &OwnedFd, value_type: u32, value_size: u32) -> Result<OwnedFd, Errno> {
    Attributes::new()
        .word(0, MAP_TYPE_STRUCT_OPS)
        .word(4, 4)
        .word(8, value_size)
        .word(12, 1)
        .word(16, MAP_FLAG_LINK)
        .fd(48, btf)
        .word(60, value_type)
        .call_for_fd(MAP_CREATE)
}

/// Loads a callback that returns 0, for member `index` of the kernel's struct `ops`.
pub fn load_callback(ops: u32, index: u32) -> Result<OwnedFd, Errno> {
    Attributes::new()
        .word(0, PROG_TYPE_STRUCT_OPS)
        .word(4, AGREE.len() as u32)
        .pointer(8, AGREE.as_ptr())
        .pointer(16, LICENSE.as_ptr())
        .word(68, index)
        .word(108, ops)
        .call_for_fd(PROG_LOAD)
}

/// Writes the value of the map.
pub fn update_map(map: &OwnedFd, value: &[u8]) -> Result<(), Errno> {
    let key = 0_u32;
    Attributes::new()
        .fd(0, map)
        .pointer(8, &raw const key)
        .pointer(16, value.as_ptr())
        .call(MAP_UPDATE_ELEM)
        .map(drop)
}

/// Registers what the map holds, for as long as the link is open.
pub fn create_link(map: &OwnedFd) -> Result<OwnedFd, Errno> {
    Attributes::new().fd(0, map).word(8, ATTACH_TYPE_STRUCT_OPS).call_for_fd(LINK_CREATE)
}

/// Counts runs of programs for as long as this is open, whatever kernel.bpf_stats_enabled says;
/// the kernel stops by itself when this process ends, however it ends.
pub fn count_runs() -> Result<OwnedFd, Errno> {
    // Type 0 is run time and run count.
    Attributes::new().call_for_fd(ENABLE_STATS)
}

/// What the kernel says of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// A callback of a struct_ops.
    pub is_callback: bool,
    /// How often it ran while runs were counted.
    pub runs: u64,
}

/// Asks about a program.
pub fn program(program: &OwnedFd) -> Result<Program, Errno> {
    /// `run_cnt` of `struct bpf_prog_info`, in words of 64 bits.
    const RUN_COUNT: usize = 25;
    let mut info = [0_u64; RUN_COUNT + 1];
    let size = u32::try_from(size_of_val(&info)).expect("small");
    Attributes::new()
        .fd(0, program)
        .word(4, size)
        .pointer(8, info.as_mut_ptr().cast_const())
        .call(OBJ_GET_INFO_BY_FD)?;
    let kind = u32::try_from(info[0] & u64::from(u32::MAX)).expect("masked");
    Ok(Program { is_callback: kind == PROG_TYPE_STRUCT_OPS, runs: info[RUN_COUNT] })
}

/// Callbacks of any struct_ops that are loaded in this kernel, by anybody.
pub fn loaded_callbacks() -> Result<u64, Errno> {
    let mut found = 0;
    let mut id = 0;
    loop {
        let mut attributes = Attributes::new().word(0, id);
        match attributes.call(PROG_GET_NEXT_ID) {
            Ok(_) => {}
            Err(Errno::ENOENT) => return Ok(found),
            Err(error) => return Err(error),
        }
        id = u32::try_from(attributes.0[0] >> 32).expect("32 bits");
        match Attributes::new().word(0, id).call_for_fd(PROG_GET_FD_BY_ID) {
            Ok(fd) => found += u64::from(program(&fd)?.is_callback),
            // Gone in the meantime.
            Err(Errno::ENOENT) => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_kernel_reads_them() {
        let target = 7_u8;
        let block =
            Attributes::new().word(0, 26).word(4, 4).word(60, 0xdead_beef).pointer(8, &raw const target);
        let bytes: Vec<u8> = block.0.iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(bytes[..8], [26, 0, 0, 0, 4, 0, 0, 0]);
        assert_eq!(bytes[60..64], 0xdead_beef_u32.to_le_bytes());
        assert_eq!(bytes[8..16], ((&raw const target).addr() as u64).to_le_bytes());
        assert_eq!(bytes.len(), 128);
    }

    #[test]
    fn callbacks_are_two_instructions() {
        let bytes: Vec<u8> = AGREE.iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(bytes, [0xb7, 0, 0, 0, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn the_kernel_refuses_in_its_own_words() {
        // Garbage is refused for whoever asks: EINVAL, or EPERM where bpf(2) is not for us.
        let error = load_btf(b"no types").expect_err("no types");
        assert!([Errno::EINVAL, Errno::EPERM, Errno::ENOSYS].contains(&error), "{error}");
    }
}
