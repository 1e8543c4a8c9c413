//! Operating system, CPU and vectors: the only module that depends on them.
//!
//! A build for a system without threads or files replaces parts of this module. A tidy test keeps
//! the names of `std` that belong to a system out of the other modules.

const std = @import("std");
const builtin = @import("builtin");

pub const cpu = @import("platform/cpu.zig");
pub const files = @import("platform/files.zig");
pub const memory = @import("platform/memory.zig");
pub const spill = @import("platform/spill.zig");
pub const threads = @import("platform/threads.zig");
pub const vector = @import("platform/vector.zig");

/// Stops the process if a claim about the program itself is false, in every build. A wrong result
/// would be worse. Use it once per call or per batch; `std.debug.assert` is for the inner loops.
pub inline fn check(is_true: bool, comptime claim: []const u8) void {
    if (!is_true) {
        @branchHint(.cold);
        @panic("a bug in tokenmill; it stops before a wrong result. False: " ++ claim);
    }
}

/// Returns a random generator with a seed that differs between processes, including forked ones.
pub fn seededRandom() std.Random.DefaultPrng {
    if (builtin.os.tag == .freestanding) return .init(host_seed);
    var seed: [32]u8 = undefined;
    if (isFilled(&seed)) return .{ .s = @bitCast(seed) };
    // The time, the process id and an address have little entropy, so they are hashed.
    std.Io.Threaded.fallbackSeed(&seed, &seed);
    return .init(std.hash.Wyhash.hash(0, &seed));
}

/// A random number from the host of a system without a source of randomness.
pub var host_seed: u64 = 0;

fn isFilled(seed: *[32]u8) bool {
    if (builtin.os.tag == .linux) {
        // Zig's own function fails with glibc before 2.25, which the wheels support.
        return std.os.linux.getrandom(seed, seed.len, 0) == seed.len;
    }
    const io = std.Io.Threaded.global_single_threaded.io();
    io.randomSecure(seed) catch return false;
    return true;
}

/// Returns the value of an environment variable. Tests use it.
pub fn environment(name: [*:0]const u8) ?[]const u8 {
    return std.mem.span(std.c.getenv(name) orelse return null);
}

test {
    _ = cpu;
    _ = files;
    _ = memory;
    _ = spill;
    _ = threads;
    _ = vector;
}
