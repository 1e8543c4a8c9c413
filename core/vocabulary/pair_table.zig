//! (left id, right id) → merged id: an open-addressing table with one 64-bit slot a pair.

const std = @import("std");
const Allocator = std.mem.Allocator;

/// Three fields of 21 bits fit one word; the largest vocabularies in use need 18.
const id_bits = 21;
const Key = @Int(.unsigned, 2 * id_bits);

/// How many pairs ahead a slot is fetched: more than memory takes, fewer than the cache holds.
const prepare_distance = 16;

pub const PairTable = struct {
    /// key << 22 | merged id + 1; zero is an empty slot.
    slots: []u64,
    seed: u64,
    shift: u6,
    /// Whether every merge has a larger id than its two parts, as training gives them: then the
    /// lowest merge at hand stays the lowest until all of it are done.
    rising: bool = true,

    pub const id_limit: u32 = 1 << id_bits;
    pub const Merge = struct { left: u32, right: u32, id: u32 };
    pub const empty: PairTable = .{ .slots = &.{}, .seed = 0, .shift = 0 };

    /// Room for `count` pairs at most half full.
    pub fn init(gpa: Allocator, count: usize, seed: u64) Allocator.Error!PairTable {
        const bits = std.math.log2_int_ceil(usize, @max(count * 2, 16));
        const slots = try gpa.alloc(u64, @as(usize, 1) << @intCast(bits));
        @memset(slots, 0);
        return .{ .slots = slots, .seed = seed | 1, .shift = @intCast(64 - @as(u7, bits)) };
    }

    pub fn deinit(self: *PairTable, gpa: Allocator) void {
        gpa.free(self.slots);
    }

    inline fn keyOf(left: u32, right: u32) u64 {
        return @as(Key, @intCast(left)) << id_bits | @as(u64, right);
    }

    inline fn slotOf(self: *const PairTable, key: u64) usize {
        // The odd seed is mixed in twice, so that neither factor is known from outside.
        const product = @as(u128, (key ^ self.seed) *% 0x9e37_79b9_7f4a_7c15) * self.seed;
        const folded = @as(u64, @truncate(product)) ^ @as(u64, @truncate(product >> 64));
        return @intCast(folded >> self.shift);
    }

    /// Fetches the slot of a pair that will be put in a moment.
    pub inline fn prepare(self: *const PairTable, merge: Merge) void {
        @prefetch(&self.slots[self.slotOf(keyOf(merge.left, merge.right))], .{ .rw = .write });
    }

    /// Puts all of them.
    pub fn putAll(self: *PairTable, merges: []const Merge) void {
        for (merges, 0..) |merge, index| {
            const ahead = index + prepare_distance;
            if (ahead < merges.len) self.prepare(merges[ahead]);
            self.put(merge);
        }
    }

    /// A pair determines its bytes and so its merge: putting it twice changes nothing.
    pub fn put(self: *PairTable, merge: Merge) void {
        const key = keyOf(merge.left, merge.right);
        var index = self.slotOf(key);
        self.rising = self.rising and merge.id > @max(merge.left, merge.right);
        while (self.slots[index] != 0) : (index = (index + 1) & (self.slots.len - 1)) {
            if (self.slots[index] >> (id_bits + 1) == key) return;
        }
        self.slots[index] = key << (id_bits + 1) | (merge.id + 1);
    }

    pub inline fn get(self: *const PairTable, left: u32, right: u32) ?u32 {
        const key = keyOf(left, right);
        var index = self.slotOf(key);
        while (true) : (index = (index + 1) & (self.slots.len - 1)) {
            const slot = self.slots[index];
            if (slot == 0) return null;
            if (slot >> (id_bits + 1) == key) {
                return @as(u32, @intCast(slot & ((1 << (id_bits + 1)) - 1))) - 1;
            }
        }
    }
};

test "pair table: finds what was put, also at the edges of the id range" {
    const gpa = std.testing.allocator;
    var table: PairTable = try .init(gpa, 3, 99);
    defer table.deinit(gpa);
    const last = PairTable.id_limit - 1;
    table.put(.{ .left = 0, .right = 0, .id = 0 });
    table.put(.{ .left = last, .right = last, .id = last });
    table.put(.{ .left = 0, .right = last, .id = 5 });
    try std.testing.expectEqual(@as(?u32, 0), table.get(0, 0));
    try std.testing.expectEqual(@as(?u32, last), table.get(last, last));
    try std.testing.expectEqual(@as(?u32, 5), table.get(0, last));
    try std.testing.expectEqual(@as(?u32, null), table.get(last, 0));
}
