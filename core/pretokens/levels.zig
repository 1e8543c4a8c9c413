//! CPU → the block scanners that are compiled for it.
//!
//! The block scanners are compiled separately from the rest of the core, once per CPU feature
//! level: the baseline of the architecture, and on x86-64 two levels above it. All levels return
//! the same ends. The tests compare them with the scalar scanners.

const std = @import("std");
const builtin = @import("builtin");
const blocks = @import("blocks.zig");
const schemes = @import("schemes.zig");
const safe_blocks = @import("blocks/safe.zig");
const Safe = @import("safe.zig").Safe;

const Ends = *[blocks.ends_max]u32;
const Filled = blocks.Filled;
/// Like `blocks.fill`. The last argument is required for the family `safe`.
pub const Fill = fn ([*]const u8, u32, bool, Ends, Filled, ?*const Safe) callconv(.c) Filled;

/// The scanners of one CPU feature level, indexed by their tags, of which `program` is the first
/// without one.
pub const Scanners = [@intFromEnum(schemes.Tag.program)]*const Fill;

/// The scanners of this compilation. Only level.zig compiles them.
pub const compiled: Scanners = blk: {
    var scanners_: Scanners = undefined;
    for (&scanners_, 0..) |*scanner, tag| scanner.* = fillOf(Blocks(@enumFromInt(tag)));
    break :blk scanners_;
};

fn Blocks(comptime tag: schemes.Tag) type {
    return switch (schemes.familyOf(tag)) {
        .r50k => |own| @import("blocks/r50k.zig").Scheme(own),
        .cl100k => |own| @import("blocks/cl100k.zig").Scheme(own.numbers_max, own.has_marks),
        .o200k => |own| @import("blocks/o200k.zig").Scheme(own),
        .deepseek3 => @import("blocks/deepseek3.zig"),
        .falcon => @import("blocks/falcon.zig"),
        .safe => safe_blocks,
    };
}

fn fillOf(comptime Scheme: type) *const Fill {
    return &struct {
        fn fill(
            text: [*]const u8,
            text_len: u32,
            is_whole: bool,
            ends: Ends,
            filled: Filled,
            safe: ?*const Safe,
        ) callconv(.c) Filled {
            if (Scheme == safe_blocks) {
                return safe_blocks.fill(safe.?, text, text_len, is_whole, ends, filled);
            }
            return blocks.fill(Scheme, text, text_len, is_whole, ends, filled);
        }
    }.fill;
}

const has_levels = builtin.cpu.arch == .x86_64;
const baseline = @extern(*const Scanners, .{ .name = "tokenmill_scanners_baseline" });
const v3 = @extern(*const Scanners, .{ .name = "tokenmill_scanners_v3" });
const v4 = @extern(*const Scanners, .{ .name = "tokenmill_scanners_v4" });

pub const Level = enum { baseline, v3, v4 };

var chosen: std.atomic.Value(*const Scanners) = .init(baseline);

/// Returns the scanners to use.
pub inline fn scanners() *const Scanners {
    return chosen.load(.monotonic);
}

/// Selects the scanners of a CPU feature level. Returns false if the CPU does not support it.
pub fn use(level: Level) bool {
    if (@intFromEnum(level) > @intFromEnum(best())) return false;
    chosen.store(switch (level) {
        .baseline => baseline,
        .v3 => if (has_levels) v3 else unreachable,
        .v4 => if (has_levels) v4 else unreachable,
    }, .monotonic);
    return true;
}

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
