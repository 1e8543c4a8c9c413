//! The CPU → its feature level.

const std = @import("std");
const builtin = @import("builtin");

comptime {
    // Files and tables are little-endian, and so are the keys of caches.
    std.debug.assert(builtin.cpu.arch.endian() == .little);
}

/// Whether the architecture has more than one level.
pub const has_levels = builtin.cpu.arch == .x86_64;

/// The baseline of the architecture, and on x86-64 the levels x86-64-v3 and x86-64-v4.
pub const Level = enum { baseline, v3, v4 };

/// The level that this compilation requires.
pub const compiled: Level = if (!has_levels)
    .baseline
else if (builtin.cpu.has(.x86, .avx512bw))
    .v4
else if (builtin.cpu.has(.x86, .avx2))
    .v3
else
    .baseline;

/// Returns the highest CPU feature level that the CPU and the operating system support.
pub fn best() Level {
    if (!has_levels) return .baseline;
    const top = cpuid(0, 0).eax;
    if (top < 7) return .baseline;
    const basic = cpuid(1, 0).ecx;
    const extended = cpuid(7, 0).ebx;
    const amd = cpuid(0x8000_0001, 0).ecx;
    // FMA, MOVBE, OSXSAVE, AVX, F16C; BMI1, AVX2, BMI2; LZCNT
    if (!has(basic, &.{ 12, 22, 27, 28, 29 }) or !has(extended, &.{ 3, 5, 8 }) or
        !has(amd, &.{5})) return .baseline;
    const saved = xgetbv();
    if (!has(saved, &.{ 1, 2 })) return .baseline;
    // AVX-512 F, DQ, CD, BW, VL, and their registers
    if (!has(extended, &.{ 16, 17, 28, 30, 31 }) or !has(saved, &.{ 5, 6, 7 })) return .v3;
    return .v4;
}

fn has(flags: u32, comptime numbers: []const u5) bool {
    inline for (numbers) |number| if (flags >> number & 1 == 0) return false;
    return true;
}

const Leaf = struct { eax: u32, ebx: u32, ecx: u32 };

fn cpuid(leaf: u32, subleaf: u32) Leaf {
    var eax: u32 = undefined;
    var ebx: u32 = undefined;
    var ecx: u32 = undefined;
    asm volatile ("cpuid"
        : [eax] "={eax}" (eax),
          [ebx] "={ebx}" (ebx),
          [ecx] "={ecx}" (ecx),
        : [leaf] "{eax}" (leaf),
          [subleaf] "{ecx}" (subleaf),
        : .{ .edx = true });
    return .{ .eax = eax, .ebx = ebx, .ecx = ecx };
}

/// Returns the set of registers that the operating system saves.
fn xgetbv() u32 {
    return asm volatile ("xgetbv"
        : [eax] "={eax}" (-> u32),
        : [index] "{ecx}" (@as(u32, 0)),
        : .{ .edx = true });
}
