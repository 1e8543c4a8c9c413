//! What is too much for a line of the cache: ids, and before them the bytes they stand for.
//!
//! A ring: what is new is written over what is oldest. A place counts all words ever written, so
//! whether a record is still there is one comparison, and nobody has to be told when it is not.

const std = @import("std");
const Allocator = std.mem.Allocator;
const pages = @import("../pages.zig");

/// Where a record is, and how long its two parts are.
pub const Place = packed struct(u96) {
    start: u64,
    bytes_len: u16,
    ids_len: u16,
};

pub const Records = struct {
    words: []align(pages.page_size) u32,
    /// Words written so far, those left out at the end of the ring included.
    written: u64 = 0,
    /// How many of them had been written when the ring began from the front.
    lap_start: u64 = 0,

    pub fn init(bytes: usize) Allocator.Error!Records {
        const words = try pages.map(u32, bytes / @sizeOf(u32));
        pages.adviseHuge(words);
        return .{ .words = words };
    }

    pub fn deinit(self: *Records) void {
        pages.unmap(self.words);
    }

    /// Whether new records are written over old ones.
    pub fn isFull(self: *const Records) bool {
        return self.lap_start != 0;
    }

    /// How often all of them were written over.
    pub fn lapsLost(self: *const Records) usize {
        return @intCast((self.lap_start / self.words.len) -| 1);
    }

    /// Whether a record can be added without writing over another.
    pub fn hasRoomFor(self: *const Records, place: Place) bool {
        const size = wordsFor(place.bytes_len) + place.ids_len;
        return !self.isFull() and self.written + size <= self.words.len;
    }

    pub inline fn holds(self: *const Records, place: Place) bool {
        return self.written - place.start <= self.words.len;
    }

    /// The bytes and the ids of a record that it holds.
    pub inline fn bytesOf(self: *const Records, place: Place) []const u8 {
        const bytes: [*]const u8 = @ptrCast(self.wordsAt(place.start));
        return bytes[0..place.bytes_len];
    }
    pub inline fn idsOf(self: *const Records, place: Place) []const u32 {
        return self.wordsAt(place.start)[wordsFor(place.bytes_len)..][0..place.ids_len];
    }

    /// Fetches a record that may be asked for.
    pub inline fn prepare(self: *const Records, place: Place) void {
        if (!self.holds(place)) return;
        const words = self.wordsAt(place.start);
        @prefetch(words, .{});
        @prefetch(words + 16, .{});
    }

    inline fn wordsAt(self: *const Records, start: u64) [*]u32 {
        const is_older = start < self.lap_start;
        const lap_start = self.lap_start - if (is_older) self.words.len else 0;
        return self.words.ptr + @as(usize, @intCast(start - lap_start));
    }

    /// Makes a ring equal to another one of its size.
    pub fn copyFrom(self: *Records, other: *const Records) void {
        const used = if (other.isFull()) other.words.len else @as(usize, @intCast(other.written));
        @memcpy(self.words[0..used], other.words[0..used]);
        self.written = other.written;
        self.lap_start = other.lap_start;
    }

    /// Writes a record; null if it is too large to be worth it.
    pub fn write(self: *Records, bytes: []const u8, ids: []const u32) ?Place {
        const size = wordsFor(bytes.len) + ids.len;
        if (size > @min(self.words.len / 4, std.math.maxInt(u16))) return null;
        if (self.written - self.lap_start + size > self.words.len) {
            self.lap_start += self.words.len;
            self.written = self.lap_start;
        }
        const start = self.written;
        const words = self.wordsAt(start);
        self.written += size;
        @memcpy(std.mem.sliceAsBytes(words[0..wordsFor(bytes.len)])[0..bytes.len], bytes);
        @memcpy(words[wordsFor(bytes.len)..][0..ids.len], ids);
        return .{ .start = start, .bytes_len = @intCast(bytes.len), .ids_len = @intCast(ids.len) };
    }

    inline fn wordsFor(bytes_len: usize) usize {
        return (bytes_len + 3) / 4;
    }
};

test "records: what is held is what was written, lap after lap" {
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    var records: Records = try .init(4096);
    defer records.deinit();
    var places: [400]Place = undefined;
    var held_once: usize = 0;
    for (0..places.len) |number| {
        var bytes: [40]u8 = @splat(@truncate(number));
        const ids: [30]u32 = @splat(@intCast(number));
        const bytes_len = random.uintLessThan(usize, bytes.len);
        const ids_len = random.uintLessThan(usize, ids.len);
        places[number] = records.write(bytes[0..bytes_len], ids[0..ids_len]).?;
        held_once = 0;
        for (places[0 .. number + 1], 0..) |place, other| {
            if (!records.holds(place)) continue;
            held_once += 1;
            const expected: u8 = @truncate(other);
            for (records.bytesOf(place)) |byte| try std.testing.expectEqual(expected, byte);
            for (records.idsOf(place)) |id| try std.testing.expectEqual(other, id);
        }
        try std.testing.expect(records.holds(places[number]));
    }
    try std.testing.expect(records.isFull());
    try std.testing.expect(held_once > 20 and held_once < 200);
    const many: [1025]u32 = @splat(0);
    try std.testing.expectEqual(null, records.write("", &many));
}
