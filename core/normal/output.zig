//! Text, what a step makes of it → new text, with the places of its bytes.
//!
//! The places are those of Hugging Face's `NormalizedString`: a step says of each new character
//! whether it takes the place of an old one, of several, or of none, and a new one shares the place
//! of what stood before it. Characters and their bytes are written with or without places; without,
//! nothing is looked up.
//!
//! **Invariant**: all bytes of a new character have the same place.

const std = @import("std");
const pages = @import("../pages.zig");
const places_ = @import("places.zig");
const unicode = @import("../unicode.zig");

const Allocator = std.mem.Allocator;
const Place = places_.Place;

pub const Output = struct {
    gpa: Allocator,
    /// What the first step has read.
    first: []const u8,
    /// What the step reads, and up to where it is used up.
    old: []const u8,
    cursor: usize = 0,
    with_places: bool,
    /// The places of `old`.
    old_places: places_.Cursor = .{ .runs = places_.unchanged },
    bytes: std.ArrayList(u8) = .empty,
    places: places_.Runs = .{},

    pub fn deinit(self: *Output) void {
        self.bytes.deinit(self.gpa);
        self.places.deinit(self.gpa);
    }

    /// Takes over what lies before `end` as it is.
    pub fn keep(self: *Output, end: usize) !void {
        if (end == self.cursor) return;
        if (try self.asksForPlaces()) {
            const at = self.bytes.items.len;
            try self.places.copy(self.gpa, at, &self.old_places, self.cursor, end);
        }
        try self.write(self.old[self.cursor..end]);
        self.cursor = end;
    }

    /// Writes `bytes` with the place of the old text from `start` to `end`, which is not empty, and
    /// goes on at `next`.
    pub fn replace(self: *Output, start: usize, end: usize, next: usize, bytes: []const u8) !void {
        if (try self.asksForPlaces()) {
            const first = self.placeAt(start);
            const place: Place = .{ .start = first.start, .end = self.placeAt(end - 1).end };
            try self.places.put(self.gpa, self.bytes.items.len, bytes.len, place);
        }
        try self.write(bytes);
        self.cursor = next;
    }

    /// Leaves out the old text from `start` to `end`; what stands before it has its place too.
    pub fn drop(self: *Output, start: usize, end: usize) !void {
        try self.keep(start);
        self.cursor = end;
        if (try self.asksForPlaces()) try self.extendLast(self.placeAt(end - 1).end);
    }

    /// Writes a blank for the old text from `start` to `end`, up to what follows it: the last of
    /// them may have shared its place with that.
    pub fn squeeze(self: *Output, start: usize, end: usize) !void {
        try self.replace(start, start + 1, end, " ");
        if (try self.asksForPlaces()) try self.extendLast(self.placeAt(end).start);
    }

    fn extendLast(self: *Output, end: u32) !void {
        try self.places.extendLast(self.gpa, self.first, self.bytes.items.len, end);
    }

    /// Writes a character. `change` as in `transform` of Hugging Face: 1, it is new; 0, it takes
    /// the place of the next old one; -n, of the next one, and n more are gone.
    pub fn put(self: *Output, bytes: []const u8, change: i32) !void {
        if (try self.asksForPlaces()) {
            if (change == 0 and self.isNext(bytes)) return self.keep(self.cursor + bytes.len);
            const place: Place = if (change <= 0)
                self.placeAt(self.cursor)
            else if (self.cursor == 0)
                .{ .start = 0, .end = 0 }
            else
                self.placeAt(self.cursor - 1);
            try self.places.put(self.gpa, self.bytes.items.len, bytes.len, place);
            if (change <= 0) for (0..@intCast(1 - change)) |_| {
                self.cursor += unicode.decode(self.old, self.cursor).len;
            };
        }
        try self.write(bytes);
    }

    fn write(self: *Output, bytes: []const u8) !void {
        if (self.bytes.capacity == 0) {
            // Most steps change little, so that it will be about as long.
            try self.bytes.ensureTotalCapacity(self.gpa, self.old.len);
            pages.adviseHuge(self.bytes.allocatedSlice());
        }
        try self.bytes.appendSlice(self.gpa, bytes);
    }

    /// Whether a character is the next old one, and that has one place: bytes that were not UTF-8
    /// may have come together.
    fn isNext(self: *Output, bytes: []const u8) bool {
        const rest = self.old[self.cursor..];
        if (bytes.len == 0 or !std.mem.startsWith(u8, rest, bytes)) return false;
        if (unicode.decode(rest, 0).len != bytes.len) return false;
        const last = self.placeAt(self.cursor + bytes.len - 1);
        return std.meta.eql(self.placeAt(self.cursor), last);
    }

    fn asksForPlaces(self: *const Output) !bool {
        if (!self.with_places) return false;
        // Their numbers go no further.
        if (self.first.len > std.math.maxInt(u32)) return error.OutOfMemory;
        return true;
    }

    /// The place of the character of which a byte of `old` is.
    fn placeAt(self: *Output, index: usize) Place {
        return self.old_places.characterAt(self.first, index);
    }
};

/// The slow twin: the place of each byte, as it was.
const Slow = struct {
    output: *const Output,
    cursor: usize = 0,
    old_places: []const Place,
    places: std.ArrayList(Place) = .empty,

    const gpa = std.testing.allocator;

    fn append(self: *Slow, place: Place, len: usize) !void {
        try self.places.appendNTimes(gpa, place, len);
    }

    fn keep(self: *Slow, end: usize) !void {
        try self.places.appendSlice(gpa, self.old_places[self.cursor..end]);
        self.cursor = end;
    }

    fn replace(self: *Slow, start: usize, end: usize, next: usize, len: usize) !void {
        const places = self.old_places;
        try self.append(.{ .start = places[start].start, .end = places[end - 1].end }, len);
        self.cursor = next;
    }

    fn drop(self: *Slow, start: usize, end: usize) !void {
        try self.keep(start);
        self.cursor = end;
        self.extendLast(self.old_places[end - 1].end);
    }

    fn squeeze(self: *Slow, start: usize, end: usize) !void {
        try self.replace(start, start + 1, end, 1);
        self.extendLast(self.old_places[end].start);
    }

    fn extendLast(self: *Slow, end: u32) void {
        const last = self.places.getLastOrNull() orelse return;
        var index = self.places.items.len;
        while (index > 0 and std.meta.eql(self.places.items[index - 1], last)) : (index -= 1) {
            self.places.items[index - 1].end = end;
        }
    }

    fn put(self: *Slow, len: usize, change: i32) !void {
        const places = self.old_places;
        const none: Place = .{ .start = 0, .end = 0 };
        const before = if (self.cursor == 0) none else places[self.cursor - 1];
        try self.append(if (change <= 0) places[self.cursor] else before, len);
        if (change > 0) return;
        for (0..@intCast(1 - change)) |_| {
            self.cursor += unicode.decode(self.output.old, self.cursor).len;
        }
    }
};

/// What a random step makes of `output.old`, with its slow twin.
fn stepAtRandom(random: std.Random, output: *Output, slow: *Slow) !void {
    const old = output.old;
    // Few changes, or many.
    const stretch_max = @as(usize, 1) << random.intRangeAtMost(u3, 0, 7);
    while (output.cursor < old.len) {
        var start = output.cursor;
        for (0..random.uintLessThan(usize, stretch_max)) |_| {
            if (start < old.len) start += unicode.decode(old, start).len;
        }
        if (random.boolean() or start == old.len) {
            try output.keep(start);
            try slow.keep(start);
        }
        // `drop` takes over what lies before.
        if (start == old.len) break;
        const end = start + unicode.decode(old, start).len;
        const new = some_text[random.uintLessThan(usize, some_text.len)];
        switch (random.uintLessThan(u8, 5)) {
            0 => {
                try output.replace(start, end, end, new);
                try slow.replace(start, end, end, new.len);
            },
            1 => {
                try output.drop(start, end);
                try slow.drop(start, end);
            },
            2 => if (end < old.len) {
                try output.squeeze(start, end);
                try slow.squeeze(start, end);
            },
            3 => {
                try output.put(new, 1);
                try slow.put(new.len, 1);
            },
            else => {
                const is_same = random.boolean();
                const at = output.cursor;
                const same = old[at..][0..unicode.decode(old, at).len];
                const bytes = if (is_same) same else new;
                const goes = at + same.len < old.len and random.boolean();
                try output.put(bytes, if (goes) -1 else 0);
                try slow.put(bytes.len, if (goes) -1 else 0);
            },
        }
        try std.testing.expectEqual(slow.cursor, output.cursor);
    }
}

const some_text = [_][]const u8{
    "a", "b", "B", " ", "\u{e9}", "\u{301}", "\u{4f60}", "\u{1f642}", "\xE4", "\xBD", "\xA0", "",
};

test "output: places are those of the slow twin, whatever changes and after any steps" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    for (0..3000) |round| {
        var text: std.ArrayList(u8) = .empty;
        defer text.deinit(gpa);
        for (0..random.uintLessThan(usize, if (round % 16 == 0) 900 else 30)) |_| {
            try text.appendSlice(gpa, some_text[random.uintLessThan(usize, some_text.len)]);
        }
        var old = try gpa.dupe(u8, text.items);
        defer gpa.free(old);
        var runs = try gpa.dupe(places_.Run, places_.unchanged);
        defer gpa.free(runs);
        var places = try places_.spread(gpa, runs, old.len, old);
        defer gpa.free(places);
        for (0..1 + round % 3) |_| {
            var output: Output = .{
                .gpa = gpa,
                .first = text.items,
                .old = old,
                .with_places = true,
                .old_places = .{ .runs = runs },
            };
            defer output.deinit();
            var slow: Slow = .{ .output = &output, .old_places = places };
            defer slow.places.deinit(gpa);
            try stepAtRandom(random, &output, &slow);
            const len = output.bytes.items.len;
            if (len == 0) break;
            const found = try places_.spread(gpa, output.places.list.items, len, text.items);
            gpa.free(places);
            places = found;
            try std.testing.expectEqualSlices(Place, slow.places.items, found);
            gpa.free(runs);
            runs = &.{};
            runs = try gpa.dupe(places_.Run, output.places.list.items);
            gpa.free(old);
            old = &.{};
            old = try gpa.dupe(u8, output.bytes.items);
        }
    }
}
