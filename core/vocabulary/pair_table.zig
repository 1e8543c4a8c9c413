//! (left id, right id) → merged id: a hash table with one 64-bit slot per pair, in buckets of four.

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("../platform.zig");

/// Three fields of 21 bits fit one word. The largest vocabularies in use need 18.
const id_bits = 21;
const Key = @Int(.unsigned, 2 * id_bits);

/// Prefetch distance in pairs: longer than the memory latency, shorter than the cache capacity.
const prepare_distance = 16;

/// Half a CPU cache line. In the embedded vocabularies one bucket in fourteen is full.
const bucket_len = 4;

pub const PairTable = struct {
    /// Each slot is key << 22 | merged id + 1. Zero is an empty slot, and slots fill from the left.
    buckets: [][bucket_len]u64,
    /// Random odd factors of the left and the right id.
    factors: [2]u64,
    shift: u6,
    /// Whether every merge has a larger id than its two symbols, as in trained vocabularies. Then
    /// the lowest possible merge stays the lowest until all its occurrences are merged.
    rising: bool = true,

    pub const id_limit: u32 = 1 << id_bits;
    /// Larger than any id, so the minimum of several merges is an existing one.
    pub const none: u32 = std.math.maxInt(u32);
    /// A sentinel that never merges.
    pub const stranger = id_limit - 1;
    pub const Merge = struct { left: u32, right: u32, id: u32 };
    pub const empty: PairTable = .{ .buckets = &.{}, .factors = .{ 1, 1 }, .shift = 0 };

    /// Allocates space for `count` pairs, at most half full.
    pub fn init(gpa: Allocator, count: usize, seed: u64) Allocator.Error!PairTable {
        const bits = std.math.log2_int_ceil(usize, @max(count * 2 / bucket_len, 2));
        const buckets = try gpa.alloc([bucket_len]u64, @as(usize, 1) << @intCast(bits));
        platform.memory.adviseHuge(buckets);
        @memset(buckets, @splat(0));
        var prng: std.Random.SplitMix64 = .init(seed);
        return .{
            .buckets = buckets,
            .factors = .{ prng.next() | 1, prng.next() | 1 },
            .shift = @intCast(64 - @as(u7, bits)),
        };
    }

    pub fn deinit(self: *PairTable, gpa: Allocator) void {
        gpa.free(self.buckets);
    }

    inline fn keyOf(left: u32, right: u32) u64 {
        return @as(Key, @intCast(left)) << id_bits | @as(u64, right);
    }

    /// Two independent products, which the CPU computes in parallel.
    pub inline fn bucketOf(self: *const PairTable, left: u32, right: u32) usize {
        return @intCast((left *% self.factors[0] +% right *% self.factors[1]) >> self.shift);
    }

    /// Prefetches the bucket of a pair that will be inserted soon.
    pub inline fn prepare(self: *const PairTable, merge: Merge) void {
        @prefetch(&self.buckets[self.bucketOf(merge.left, merge.right)], .{ .rw = .write });
    }

    /// Prefetches the bucket of a pair that may be looked up.
    pub inline fn prepareFind(self: *const PairTable, left: u32, right: u32) void {
        @prefetch(&self.buckets[self.bucketOf(left, right)], .{});
    }

    /// Inserts all pairs.
    pub fn putAll(self: *PairTable, merges: []const Merge) void {
        for (merges, 0..) |merge, index| {
            const ahead = index + prepare_distance;
            if (ahead < merges.len) self.prepare(merges[ahead]);
            self.put(merge);
        }
    }

    /// Inserts a pair. A pair determines its bytes and so its merge, so a second insertion has no
    /// effect.
    pub fn put(self: *PairTable, merge: Merge) void {
        const key = keyOf(merge.left, merge.right);
        var index = self.bucketOf(merge.left, merge.right);
        self.rising = self.rising and merge.id > @max(merge.left, merge.right);
        while (true) : (index = (index + 1) & (self.buckets.len - 1)) {
            for (&self.buckets[index]) |*slot| {
                if (slot.* >> (id_bits + 1) == key and slot.* != 0) return;
                if (slot.* != 0) continue;
                slot.* = key << (id_bits + 1) | (merge.id + 1);
                return;
            }
        }
    }

    /// Returns all pairs, sorted by merged id; owned by the caller.
    pub fn all(self: *const PairTable, gpa: Allocator) Allocator.Error![]Merge {
        var found: std.ArrayList(Merge) = .empty;
        errdefer found.deinit(gpa);
        for (self.buckets) |bucket| for (bucket) |slot| {
            if (slot == 0) continue;
            const key = slot >> (id_bits + 1);
            try found.append(gpa, .{
                .left = @intCast(key >> id_bits),
                .right = @intCast(key & (id_limit - 1)),
                .id = idOf(slot),
            });
        };
        std.sort.pdq(Merge, found.items, {}, comesBefore);
        return found.toOwnedSlice(gpa);
    }

    /// Removes the merged ids of all pairs from a set of ids.
    pub fn takeFrom(self: *const PairTable, ids: *std.DynamicBitSetUnmanaged) void {
        for (self.buckets) |bucket| for (bucket) |slot| {
            if (slot != 0) ids.unset(idOf(slot));
        };
    }

    /// Returns the merged id of a slot that is not empty.
    inline fn idOf(slot: u64) u32 {
        return @intCast((slot & (2 * id_limit - 1)) - 1);
    }

    fn comesBefore(_: void, a: Merge, b: Merge) bool {
        return if (a.id != b.id) a.id < b.id else keyOf(a.left, a.right) < keyOf(b.left, b.right);
    }

    /// Returns the merge of two symbols, or `none`. All slots of a bucket are compared, to avoid a
    /// branch on the slot. Only a full bucket continues the search.
    pub inline fn find(self: *const PairTable, left: u32, right: u32) u32 {
        return self.findFrom(self.bucketOf(left, right), left, right);
    }

    /// The same with a known bucket.
    pub inline fn findFrom(self: *const PairTable, bucket_index: usize, left: u32, right: u32) u32 {
        const key = keyOf(left, right);
        var index = bucket_index;
        while (true) : (index = (index + 1) & (self.buckets.len - 1)) {
            const bucket = &self.buckets[index];
            // An empty slot looks like a pair of id 0 and id 0 that becomes `none`. A real one is
            // to its left, so the leftmost slot is assigned last.
            var found: u64 = 0;
            inline for (0..bucket_len) |back| {
                const slot = bucket[bucket_len - 1 - back];
                found = if (slot >> (id_bits + 1) == key) slot else found;
            }
            const id = @as(u32, @truncate(found & ((1 << (id_bits + 1)) - 1))) -% 1;
            if (bucket[bucket_len - 1] == 0) return id;
            if (id != none) return id;
        }
    }
};

test "pair table: lookups return inserted pairs, up to the limits of the id range" {
    const gpa = std.testing.allocator;
    var table: PairTable = try .init(gpa, 3, 99);
    defer table.deinit(gpa);
    const last = PairTable.id_limit - 1;
    table.put(.{ .left = 0, .right = 0, .id = 0 });
    table.put(.{ .left = last, .right = last, .id = last });
    table.put(.{ .left = 0, .right = last, .id = 5 });
    try std.testing.expectEqual(@as(u32, 0), table.find(0, 0));
    try std.testing.expectEqual(@as(u32, last), table.find(last, last));
    try std.testing.expectEqual(@as(u32, 5), table.find(0, last));
    try std.testing.expectEqual(@as(u32, PairTable.none), table.find(last, 0));
}

test "pair table: lookups equal those of a plain map, even with full buckets" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    for ([_]usize{ 1, 2, 30, 2000 }) |count| {
        var table: PairTable = try .init(gpa, count, random.int(u64));
        defer table.deinit(gpa);
        var map: std.AutoHashMapUnmanaged([2]u32, u32) = .empty;
        defer map.deinit(gpa);
        // Few ids, including id 0, which an empty slot looks like.
        const ids_end: u32 = @intCast(2 + count / 20);
        while (map.size < count) {
            const pair = [_]u32{ random.uintLessThan(u32, ids_end), random.uintLessThan(u32, 60) };
            const entry = try map.getOrPut(gpa, pair);
            if (!entry.found_existing) entry.value_ptr.* = random.uintLessThan(u32, 1000);
            table.put(.{ .left = pair[0], .right = pair[1], .id = entry.value_ptr.* });
        }
        for (0..ids_end) |left| for (0..60) |right| {
            const pair = [_]u32{ @intCast(left), @intCast(right) };
            const expected = map.get(pair) orelse PairTable.none;
            try std.testing.expectEqual(expected, table.find(pair[0], pair[1]));
        };
    }
}
