//! Bytes, in any pieces → XXH3 with 64 bits and seed 0, as the `xxhash` library computes it.

const std = @import("std");

pub const Checksum = struct {
    state: std.hash.XxHash3 = .init(0),

    pub fn update(self: *Checksum, bytes: []const u8) void {
        self.state.update(bytes);
    }

    /// Of all bytes so far; more may follow.
    pub fn value(self: *Checksum) u64 {
        return self.state.final();
    }
};
