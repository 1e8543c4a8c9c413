//! Text and the changes of a step → new text, with the alignment of its bytes.
//!
//! The alignment is that of Hugging Face's `NormalizedString`. For each new character a step
//! specifies whether it replaces one old character, several, or none. An inserted character has the
//! span of the character before it. Without a requested alignment, spans are not computed.
//!
//! **Invariant**: all bytes of a new character have the same span.

const std = @import("std");
const platform = @import("../platform.zig");
const examples = @import("../examples.zig").examples;
const places_ = @import("places.zig");
const unicode = @import("../unicode.zig");

const Allocator = std.mem.Allocator;
const Place = places_.Place;

pub const Output = struct {
    gpa: Allocator,
    /// The original text, before the first step.
    first: []const u8,
    /// The input of this step, and the offset up to which it is processed.
    old: []const u8,
    cursor: usize = 0,
    with_places: bool,
    /// The alignment of `old`.
    old_places: places_.Cursor = .{ .runs = places_.unchanged },
    bytes: std.ArrayList(u8) = .empty,
    places: places_.Runs = .{},

    pub fn deinit(self: *Output) void {
        self.bytes.deinit(self.gpa);
        self.places.deinit(self.gpa);
    }

    /// Copies the input up to `end` unchanged.
    pub fn keep(self: *Output, end: usize) !void {
        if (end == self.cursor) return;
        if (try self.asksForPlaces()) {
            const at = self.bytes.items.len;
            try self.places.copy(self.gpa, at, &self.old_places, self.cursor, end);
        }
        try self.write(self.old[self.cursor..end]);
        self.cursor = end;
    }

    /// Writes `bytes` with the span of the input from `start` to `end`, which must not be empty,
    /// and continues at `next`.
    pub fn replace(self: *Output, start: usize, end: usize, next: usize, bytes: []const u8) !void {
        if (try self.asksForPlaces()) {
            const first = self.placeAt(start);
            const place: Place = .{ .start = first.start, .end = self.placeAt(end - 1).end };
            try self.places.put(self.gpa, self.bytes.items.len, bytes.len, place);
        }
        try self.write(bytes);
        self.cursor = next;
    }

    /// Removes the input from `start` to `end`. The character before it gets its span too.
    pub fn drop(self: *Output, start: usize, end: usize) !void {
        try self.keep(start);
        self.cursor = end;
        if (try self.asksForPlaces()) try self.extendLast(self.placeAt(end - 1).end);
    }

    /// Writes a space for the input from `start` to `end`. Its span extends up to the next
    /// character, because the last space may have shared its span with that one.
    pub fn squeeze(self: *Output, start: usize, end: usize) !void {
        try self.replace(start, start + 1, end, " ");
        if (try self.asksForPlaces()) try self.extendLast(self.placeAt(end).start);
    }

    fn extendLast(self: *Output, end: u32) !void {
        try self.places.extendLast(self.gpa, self.first, self.bytes.items.len, end);
    }

    /// Writes a character. `change` is that of Hugging Face's `transform`: 1 for an insertion, 0 to
    /// replace the next old character, -n to replace the next one and remove n more.
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
            // Most steps change little, so the output has about the same length.
            try self.bytes.ensureTotalCapacity(self.gpa, self.old.len);
            platform.memory.adviseHuge(self.bytes.allocatedSlice());
        }
        try self.bytes.appendSlice(self.gpa, bytes);
    }

    /// Whether a character equals the next old one and that has a single span. Invalid bytes may
    /// have combined to a character.
    fn isNext(self: *Output, bytes: []const u8) bool {
        const rest = self.old[self.cursor..];
        if (bytes.len == 0 or !std.mem.startsWith(u8, rest, bytes)) return false;
        if (unicode.decode(rest, 0).len != bytes.len) return false;
        const last = self.placeAt(self.cursor + bytes.len - 1);
        return std.meta.eql(self.placeAt(self.cursor), last);
    }

    fn asksForPlaces(self: *const Output) !bool {
        if (!self.with_places) return false;
        // Offsets are 32-bit numbers.
        if (self.first.len > std.math.maxInt(u32)) return error.OutOfMemory;
        return true;
    }

    /// Returns the span of the character that contains a byte of `old`.
    fn placeAt(self: *Output, index: usize) Place {
        return self.old_places.characterAt(self.first, index);
    }
};

/// The reference implementation, with a span for each byte.
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

/// Applies a random step to `output.old` and to the reference implementation.
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
        // `drop` copies the text before.
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

test "output: the alignment equals the reference for any changes and steps" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    for (0..examples(3000)) |round| {
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
