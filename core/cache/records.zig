//! Cached results that are too large for a slot of the cache: ids, preceded by the bytes of their
//! pretoken.
//!
//! The ring buffer is shared by all threads, and new entries overwrite the oldest. One atomic word
//! contains the write position: the lap and the index. Whether an entry is still valid is therefore
//! one comparison, and invalidation needs no bookkeeping. A writer reserves its space before it
//! writes. A reader checks the word again after it has read; if the entry is still valid, the data
//! is consistent.
//!
//! **Invariant** no two threads write to the same space, because a new lap begins only if there are
//! zero writers.

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("../platform.zig");
const slots = @import("slots.zig");

/// The location of an entry, and the lengths of its two fields.
pub const Place = packed struct(u96) {
    /// The lap and the index.
    start: u64,
    bytes_len: u16,
    ids_len: u16,
};

/// Maximum number of bytes, and of ids, of an entry.
pub const len_max = std.math.maxInt(@FieldType(Place, "bytes_len"));

pub const index_bits = 28;

comptime {
    const writers_max = std.math.maxInt(@FieldType(Position, "writers"));
    std.debug.assert(platform.threads.threads_max <= writers_max);
}

/// The write position and the number of active writers.
const Position = packed struct(u64) {
    writers: u10 = 0,
    index: std.meta.Int(.unsigned, index_bits) = 0,
    lap: u26 = 0,

    inline fn start(self: Position) u64 {
        return @as(u64, self.lap) << index_bits | self.index;
    }
};

pub const Records = struct {
    words: []align(platform.memory.page_size) u32,
    /// Number of usable words. Ids are read four at a time, so the last ones need padding.
    len: usize,
    position: platform.threads.Shared(u64) align(std.atomic.cache_line) = .init(0),

    /// Number of ids that a reader may write after the last one.
    pub const overrun = 3;

    pub fn init(bytes: usize) Allocator.Error!Records {
        const words = try platform.memory.map(u32, bytes / @sizeOf(u32));
        platform.memory.adviseHuge(words);
        return .{ .words = words, .len = words.len - overrun };
    }

    pub fn deinit(self: *Records) void {
        platform.memory.unmap(self.words);
    }

    inline fn now(self: *const Records) Position {
        return @bitCast(platform.threads.loadInOrder(&self.position.raw));
    }

    /// Whether new entries overwrite old ones.
    pub fn isFull(self: *const Records) bool {
        return self.now().lap != 0;
    }

    /// Returns how often all entries were overwritten.
    pub fn lapsLost(self: *const Records) usize {
        return self.now().lap -| 1;
    }

    pub inline fn holds(self: *const Records, place: Place) bool {
        return self.now().start() -% place.start <= 1 << index_bits;
    }

    /// Prefetches an entry that may be read.
    pub inline fn prepare(self: *const Records, place: Place) void {
        if (!self.holds(place)) return;
        const words = self.wordsAt(place.start);
        @prefetch(words, .{});
        @prefetch(words + 16, .{});
    }

    inline fn wordsAt(self: *const Records, start: u64) [*]u32 {
        return self.words.ptr + @as(usize, @intCast(start & ((1 << index_bits) - 1)));
    }

    /// Writes the ids of an entry to `out`, which needs space for `overrun` more, unless it is
    /// null. Returns their number, or null if the entry was overwritten or has other bytes.
    pub inline fn read(
        self: *const Records,
        place: Place,
        bytes: []const u8,
        out: ?[*]u32,
    ) ?usize {
        if (!self.holds(place)) return null;
        const words = self.wordsAt(place.start);
        if (place.bytes_len != 0) {
            const own: [*]const u8 = @ptrCast(words);
            // These loads precede the second check, since it depends on them.
            if (!std.mem.eql(u8, own[0..place.bytes_len], bytes)) return null;
        }
        if (out) |ids| {
            const Four = @Vector(4, u32);
            const from = words + wordsFor(place.bytes_len);
            var at: usize = 0;
            while (at < place.ids_len) : (at += 4) {
                ids[at..][0..4].* = @as(*align(4) const volatile Four, @ptrCast(from + at)).*;
            }
        }
        platform.threads.fenceLoads();
        // Another thread may have overwritten the entry in the meantime.
        return if (self.holds(place)) place.ids_len else null;
    }

    /// Writes an entry. Returns null if it is too large, or if a new lap has to wait for other
    /// writers.
    pub fn write(self: *Records, bytes: []const u8, ids: []const u32) ?Place {
        const size = wordsFor(bytes.len) + ids.len;
        if (size > self.len / 4 or @max(bytes.len, ids.len) > len_max) return null;
        const start = self.begin(size) orelse return null;
        const words = self.wordsAt(start);
        @memcpy(std.mem.sliceAsBytes(words[0..wordsFor(bytes.len)])[0..bytes.len], bytes);
        @memcpy(words[wordsFor(bytes.len)..][0..ids.len], ids);
        self.end();
        return .{ .start = start, .bytes_len = @intCast(bytes.len), .ids_len = @intCast(ids.len) };
    }

    /// Reserves exclusive space until `end`, and returns its start.
    pub fn begin(self: *Records, size: usize) ?u64 {
        var before = self.position.load(.monotonic);
        while (true) {
            var position: Position = @bitCast(before);
            if (position.writers == std.math.maxInt(u10)) return null;
            if (position.index + size > self.len) {
                // The lap counter never wraps. After terabytes of entries the last lap stays.
                if (position.writers > 0 or position.lap == std.math.maxInt(u26)) return null;
                position = .{ .lap = position.lap + 1 };
            }
            const start = position.start();
            position.index += @intCast(size);
            position.writers += 1;
            const after: u64 = @bitCast(position);
            before = self.position.cmpxchgWeak(before, after, .acquire, .monotonic) orelse {
                platform.threads.fenceStores();
                return start;
            };
        }
    }

    fn end(self: *Records) void {
        _ = self.position.fetchSub(@bitCast(Position{ .writers = 1 }), .release);
    }

    /// Must be called in a forked child, where the other writers do not exist. Their reserved space
    /// has undefined contents and is referenced by no slot.
    pub fn forgetWriters(self: *Records) void {
        var position = self.now();
        position.writers = 0;
        self.position.store(@bitCast(position), .seq_cst);
    }

    inline fn wordsFor(bytes_len: usize) usize {
        return (bytes_len + 3) / 4;
    }
};

test "records: a valid entry has the written contents, over several laps" {
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    var records: Records = try .init(4096);
    defer records.deinit();
    var places: [400]Place = undefined;
    var held: usize = 0;
    for (0..places.len) |number| {
        const bytes: [40]u8 = @splat(@truncate(number));
        const ids: [30]u32 = @splat(@intCast(number));
        const bytes_len = random.uintLessThan(usize, bytes.len);
        const ids_len = random.uintLessThan(usize, ids.len);
        places[number] = records.write(bytes[0..bytes_len], ids[0..ids_len]).?;
        held = 0;
        for (places[0 .. number + 1], 0..) |place, other| {
            const own: [40]u8 = @splat(@truncate(other));
            var found: [30 + Records.overrun]u32 = undefined;
            const count = records.read(place, own[0..place.bytes_len], &found) orelse {
                try std.testing.expect(!records.holds(place));
                continue;
            };
            held += 1;
            try std.testing.expectEqual(place.ids_len, count);
            for (found[0..count]) |id| try std.testing.expectEqual(other, id);
            const others: [40]u8 = @splat(own[0] +% 1);
            if (place.bytes_len == 0) continue;
            const read = records.read(place, others[0..place.bytes_len], null);
            try std.testing.expectEqual(null, read);
        }
        try std.testing.expect(records.holds(places[number]));
    }
    try std.testing.expect(records.isFull());
    try std.testing.expect(held > 20 and held < 200);
    const many: [1025]u32 = @splat(0);
    try std.testing.expectEqual(null, records.write("", &many));
}

test "records: an entry that is longer than its lengths can tell is refused" {
    var records: Records = try .init(1 << 21);
    defer records.deinit();
    const bytes: [len_max + 1]u8 = @splat('x');
    try std.testing.expectEqual(null, records.write(&bytes, &.{7}));
    const place = records.write(bytes[0..len_max], &.{7}).?;
    try std.testing.expectEqual(1, records.read(place, bytes[0..len_max], null).?);
    const ids: [len_max + 1]u32 = @splat(7);
    try std.testing.expectEqual(null, records.write("", &ids));
    try std.testing.expectEqual(len_max, records.write("", ids[0..len_max]).?.ids_len);
}

test "records: no lap begins while there is a writer" {
    var records: Records = try .init(4096);
    defer records.deinit();
    const ids: [100]u32 = @splat(1);
    _ = records.begin(100).?;
    for (0..9) |_| try std.testing.expect(records.write("", &ids) != null);
    try std.testing.expectEqual(null, records.write("", &ids));
    records.end();
    const place = records.write("", &ids).?;
    try std.testing.expect(records.isFull());
    try std.testing.expectEqual(100, records.read(place, "", null).?);
}

test "records: threads that overwrite each other's entries read consistent data" {
    const Context = struct {
        records: Records,
        places: [8]std.atomic.Value(?*const Place) = @splat(.init(null)),
        all: [4][20_000]Place = undefined,
        hits: std.atomic.Value(usize) = .init(0),
        wrong: std.atomic.Value(usize) = .init(0),

        fn work(self: *@This(), job: usize) void {
            var prng: std.Random.DefaultPrng = .init(std.testing.random_seed +% job);
            const random = prng.random();
            for (&self.all[job], 0..) |*own, number| {
                const id: u32 = @intCast(number << 8 | random.uintLessThan(usize, 200));
                const ids: [40]u32 = @splat(id);
                if (self.records.write("", ids[0 .. 4 + id % 32])) |place| {
                    own.* = place;
                    self.places[random.uintLessThan(usize, 8)].store(own, .release);
                }
                const place = self.places[random.uintLessThan(usize, 8)].load(.acquire);
                var found: [40 + Records.overrun]u32 = undefined;
                const count = self.records.read((place orelse continue).*, "", &found) orelse
                    continue;
                const is_right = count == 4 + found[0] % 32 and
                    std.mem.allEqual(u32, found[0..count], found[0]);
                _ = (if (is_right) &self.hits else &self.wrong).fetchAdd(1, .monotonic);
            }
        }
    };
    const context = try std.testing.allocator.create(Context);
    defer std.testing.allocator.destroy(context);
    context.* = .{ .records = try .init(4096) };
    defer context.records.deinit();
    platform.threads.run(4, 4, context, Context.work);
    try std.testing.expectEqual(0, context.wrong.raw);
    try std.testing.expect(context.hits.raw > 1000 and context.records.lapsLost() > 1);
}
