//! CPU → the block scanners that are compiled for it.
//!
//! The block scanners are compiled separately from the rest of the core, once per CPU feature
//! level: the baseline of the architecture, and on x86-64 two levels above it. All levels return
//! the same ends. The tests compare them with the scalar scanners.

const std = @import("std");
const cpu = @import("../platform.zig").cpu;
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
    return if (schemes.familyOf(tag) == .safe) safe_blocks else schemes.Scanner(tag).Blocks;
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

const baseline = @extern(*const Scanners, .{ .name = "tokenmill_scanners_baseline" });
const v3 = @extern(*const Scanners, .{ .name = "tokenmill_scanners_v3" });
const v4 = @extern(*const Scanners, .{ .name = "tokenmill_scanners_v4" });

var chosen: std.atomic.Value(*const Scanners) = .init(baseline);

/// Returns the scanners to use.
pub inline fn scanners() *const Scanners {
    return chosen.load(.monotonic);
}

/// Selects the scanners of a CPU feature level. Returns false if the CPU does not support it.
pub fn use(level: cpu.Level) bool {
    if (@intFromEnum(level) > @intFromEnum(cpu.best())) return false;
    chosen.store(switch (level) {
        .baseline => baseline,
        .v3 => if (cpu.has_levels) v3 else unreachable,
        .v4 => if (cpu.has_levels) v4 else unreachable,
    }, .monotonic);
    return true;
}
