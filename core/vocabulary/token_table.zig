//! Token bytes → id: an open-addressing hash table whose slots are (hash tag, id + 1).
//!
//! The bytes themselves stay in the vocabulary, so a slot has 8 bytes, and the tag detects a miss
//! without reading them. Text is looked up but never inserted, and the seed differs at each load,
//! so the longest search depends only on the vocabulary.

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("../platform.zig");

const Slot = packed struct(u64) { id_plus_one: u32, tag: u32 };

pub const TokenTable = struct {
    slots: []Slot,
    seed: u64,
    shift: u6,

    pub const empty: TokenTable = .{ .slots = &.{}, .seed = 0, .shift = 0 };

    /// Allocates space for `count` tokens, at most half full.
    pub fn init(gpa: Allocator, count: usize, seed: u64) Allocator.Error!TokenTable {
        const bits = std.math.log2_int_ceil(usize, @max(count * 2, 16));
        const slots = try gpa.alloc(Slot, @as(usize, 1) << @intCast(bits));
        platform.memory.adviseHuge(slots);
        @memset(slots, @bitCast(@as(u64, 0)));
        return .{ .slots = slots, .seed = seed, .shift = @intCast(64 - @as(u7, bits)) };
    }

    pub fn deinit(self: *TokenTable, gpa: Allocator) void {
        gpa.free(self.slots);
    }

    /// Hashes a token that will be inserted soon and prefetches its slot. Filling a table of
    /// several megabytes is bound by memory latency.
    pub inline fn prepare(self: *const TokenTable, token: []const u8) u64 {
        const hash = hashBytes(self.seed, token);
        @prefetch(&self.slots[@intCast(hash >> self.shift)], .{ .rw = .write });
        return hash;
    }

    /// Inserts a token with the hash that `prepare` returned. Returns false if it exists already.
    /// `store` provides the bytes of an id with `tokenBytes(id)`.
    pub inline fn put(
        self: *TokenTable,
        store: anytype,
        token: []const u8,
        id: u32,
        hash: u64,
    ) bool {
        var index: usize = @intCast(hash >> self.shift);
        while (self.slots[index].id_plus_one != 0) : (index = (index + 1) & (self.slots.len - 1)) {
            const slot = self.slots[index];
            if (slot.tag != @as(u32, @truncate(hash))) continue;
            if (std.mem.eql(u8, store.tokenBytes(slot.id_plus_one - 1), token)) return false;
        }
        self.slots[index] = .{ .id_plus_one = id + 1, .tag = @truncate(hash) };
        return true;
    }

    pub inline fn get(self: *const TokenTable, store: anytype, token: []const u8) ?u32 {
        const hash = hashBytes(self.seed, token);
        var index: usize = @intCast(hash >> self.shift);
        while (true) : (index = (index + 1) & (self.slots.len - 1)) {
            const slot = self.slots[index];
            if (slot.id_plus_one == 0) return null;
            if (slot.tag != @as(u32, @truncate(hash))) continue;
            if (std.mem.eql(u8, store.tokenBytes(slot.id_plus_one - 1), token)) {
                return slot.id_plus_one - 1;
            }
        }
    }
};

inline fn read(comptime T: type, bytes: []const u8) u64 {
    return std.mem.readInt(T, bytes[0..@sizeOf(T)], .little);
}

inline fn fold(a: u64, b: u64) u64 {
    const product = @as(u128, a) * b;
    return @as(u64, @truncate(product)) ^ @as(u64, @truncate(product >> 64));
}

const k0 = 0x9e37_79b9_7f4a_7c15;
const k1 = 0xd6e8_feb8_6659_fd93;

/// Two overlapping loads cover up to 16 bytes, and so nearly every token, without a loop.
pub inline fn hashBytes(seed: u64, bytes: []const u8) u64 {
    var state = seed ^ (@as(u64, bytes.len) *% k0);
    var rest = bytes;
    while (rest.len > 16) : (rest = rest[16..]) {
        state = fold(read(u64, rest) ^ k1, read(u64, rest[8..]) ^ state);
    }
    var a: u64 = 0;
    var b: u64 = 0;
    if (rest.len >= 8) {
        a = read(u64, rest);
        b = read(u64, rest[rest.len - 8 ..]);
    } else if (rest.len >= 4) {
        a = read(u32, rest);
        b = read(u32, rest[rest.len - 4 ..]);
    } else if (rest.len > 0) {
        a = @as(u64, rest[0]) << 16 | @as(u64, rest[rest.len / 2]) << 8 | rest[rest.len - 1];
    }
    return fold(a ^ k1 ^ state, b ^ k0 ^ (state << 32 | state >> 32));
}

test "token table: hashes of all one- and two-byte strings differ" {
    const gpa = std.testing.allocator;
    var seen: std.AutoHashMapUnmanaged(u64, void) = .empty;
    defer seen.deinit(gpa);
    for (0..256) |a| {
        try seen.putNoClobber(gpa, hashBytes(7, &.{@intCast(a)}), {});
        for (0..256) |b| {
            try seen.putNoClobber(gpa, hashBytes(7, &.{ @intCast(a), @intCast(b) }), {});
        }
    }
}

test "token table: names that share a slot with one seed do not with another" {
    // With 2^12 slots, one pair in 4096 shares a slot by chance.
    const count = 1 << 12;
    var name: [8]u8 = undefined;
    var slots: [2][count]u64 = undefined;
    for ([_]u64{ 0x243f6a8885a308d3, 0x13198a2e03707344 }, &slots) |seed, *found| {
        for (found, 0..) |*slot, number| {
            std.mem.writeInt(u64, &name, number, .little);
            slot.* = hashBytes(seed, &name) >> (64 - 12);
        }
    }
    var shared: usize = 0;
    var both: usize = 0;
    for (0..count) |a| {
        for (a + 1..count) |b| {
            if (slots[0][a] != slots[0][b]) continue;
            shared += 1;
            both += @intFromBool(slots[1][a] == slots[1][b]);
        }
    }
    try std.testing.expect(shared > count / 4);
    try std.testing.expect(both * 100 < shared);
}
