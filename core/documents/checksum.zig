//! Bytes, in any number of updates → XXH3 with 64 bits and seed 0, as in the `xxhash` library.

const std = @import("std");
const examples = @import("../examples.zig").examples;

pub const Checksum = struct {
    state: std.hash.XxHash3 = .init(0),

    pub fn update(self: *Checksum, bytes: []const u8) void {
        self.state.update(bytes);
    }

    /// Returns the checksum of all bytes so far. More may follow.
    pub fn value(self: *Checksum) u64 {
        return self.state.final();
    }
};

test "checksum: many updates give the same value as one" {
    var random: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const rng = random.random();
    var bytes: [3000]u8 = undefined;
    rng.bytes(&bytes);
    for (0..examples(2000)) |_| {
        const some = bytes[0..rng.uintAtMost(usize, bytes.len)];
        var checksum: Checksum = .{};
        var at: usize = 0;
        while (at < some.len) {
            const len = rng.uintAtMost(usize, @min(some.len - at, 400));
            checksum.update(some[at..][0..len]);
            at += len;
        }
        try std.testing.expectEqual(std.hash.XxHash3.hash(0, some), checksum.value());
    }
    var checksum: Checksum = .{};
    try std.testing.expectEqual(0x2d06800538d394c2, checksum.value());
}
