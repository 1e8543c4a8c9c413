//! (left id, right id) → merged id: a hash table with one 64-bit slot a pair, in buckets of four.

const std = @import("std");
const Allocator = std.mem.Allocator;

/// Three fields of 21 bits fit one word; the largest vocabularies in use need 18.
const id_bits = 21;
const Key = @Int(.unsigned, 2 * id_bits);

/// How many pairs ahead a slot is fetched: more than memory takes, fewer than the cache holds.
const prepare_distance = 16;

/// Half a line of the cache. In the embedded vocabularies one bucket in fourteen is full.
const bucket_len = 4;

pub const PairTable = struct {
    /// Each slot is key << 22 | merged id + 1; zero is an empty one, and they fill from the left.
    buckets: [][bucket_len]u64,
    /// Random odd factors of the left and the right id.
    factors: [2]u64,
    shift: u6,
    /// Whether every merge has a larger id than its two parts, as training gives them: then the
    /// lowest merge at hand stays the lowest until all of it are done.
    rising: bool = true,

    pub const id_limit: u32 = 1 << id_bits;
    /// Larger than any id, so that the lowest of several merges is one that exists.
    pub const none: u32 = std.math.maxInt(u32);
    /// A part that merges with nothing.
    pub const stranger = id_limit - 1;
    pub const Merge = struct { left: u32, right: u32, id: u32 };
    pub const empty: PairTable = .{ .buckets = &.{}, .factors = .{ 1, 1 }, .shift = 0 };

    /// Room for `count` pairs at most half full.
    pub fn init(gpa: Allocator, count: usize, seed: u64) Allocator.Error!PairTable {
        const bits = std.math.log2_int_ceil(usize, @max(count * 2 / bucket_len, 2));
        const buckets = try gpa.alloc([bucket_len]u64, @as(usize, 1) << @intCast(bits));
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

    /// Two products that need not wait for each other.
    pub inline fn bucketOf(self: *const PairTable, left: u32, right: u32) usize {
        return @intCast((left *% self.factors[0] +% right *% self.factors[1]) >> self.shift);
    }

    /// Fetches the bucket of a pair that will be put in a moment.
    pub inline fn prepare(self: *const PairTable, merge: Merge) void {
        @prefetch(&self.buckets[self.bucketOf(merge.left, merge.right)], .{ .rw = .write });
    }

    /// Fetches the bucket of a pair that may be asked for.
    pub inline fn prepareFind(self: *const PairTable, left: u32, right: u32) void {
        @prefetch(&self.buckets[self.bucketOf(left, right)], .{});
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

    /// All pairs that were put, by what they become; the caller frees them.
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

    /// Takes what the pairs become out of a set of ids.
    pub fn takeFrom(self: *const PairTable, ids: *std.DynamicBitSetUnmanaged) void {
        for (self.buckets) |bucket| for (bucket) |slot| {
            if (slot != 0) ids.unset(idOf(slot));
        };
    }

    /// What the pair of a slot that is not empty becomes.
    inline fn idOf(slot: u64) u32 {
        return @intCast((slot & (2 * id_limit - 1)) - 1);
    }

    fn comesBefore(_: void, a: Merge, b: Merge) bool {
        return if (a.id != b.id) a.id < b.id else keyOf(a.left, a.right) < keyOf(b.left, b.right);
    }

    /// What two parts become, or `none`. All slots of a bucket are compared, so that there is no
    /// branch on which of them it was: only a full bucket sends the search on.
    pub inline fn find(self: *const PairTable, left: u32, right: u32) u32 {
        return self.findFrom(self.bucketOf(left, right), left, right);
    }

    /// The same, where the bucket is known.
    pub inline fn findFrom(self: *const PairTable, bucket_index: usize, left: u32, right: u32) u32 {
        const key = keyOf(left, right);
        var index = bucket_index;
        while (true) : (index = (index + 1) & (self.buckets.len - 1)) {
            const bucket = &self.buckets[index];
            // An empty slot looks like a pair of id 0 and id 0 that becomes `none`. The true one
            // stands on its left, so the last word has the leftmost.
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

test "pair table: finds what was put, also at the edges of the id range" {
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

test "pair table: equals a plain map, also where buckets are full" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    for ([_]usize{ 1, 2, 30, 2000 }) |count| {
        var table: PairTable = try .init(gpa, count, random.int(u64));
        defer table.deinit(gpa);
        var map: std.AutoHashMapUnmanaged([2]u32, u32) = .empty;
        defer map.deinit(gpa);
        // Few ids and id 0, which an empty slot looks like.
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
