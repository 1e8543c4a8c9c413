//! Text, what a step makes of it → new text, with the place of each byte.
//!
//! The places are those of Hugging Face's `NormalizedString`: a step says of each new character
//! whether it takes the place of an old one, of several, or of none, and a new one shares the place
//! of what stood before it. Characters and their bytes are written with or without places; without,
//! nothing is looked up.
//!
//! **Invariant**: all bytes of a character have the same place.

const std = @import("std");
const unicode = @import("../unicode.zig");

const Allocator = std.mem.Allocator;

/// The bytes of the first text that something comes from.
pub const Place = extern struct { start: u32, end: u32 };

pub const Output = struct {
    gpa: Allocator,
    /// What the step reads, and up to where it is used up.
    old: []const u8,
    cursor: usize = 0,
    with_places: bool,
    /// The place of each byte of `old`, if it is not the first text; else they are made when they
    /// are first needed, for they take eight times the text.
    old_places: ?[]const Place = null,
    own_places: []Place = &.{},
    bytes: std.ArrayList(u8) = .empty,
    places: std.ArrayList(Place) = .empty,

    pub fn deinit(self: *Output) void {
        self.gpa.free(self.own_places);
        self.bytes.deinit(self.gpa);
        self.places.deinit(self.gpa);
    }

    /// Takes over what lies before `end` as it is.
    pub fn keep(self: *Output, end: usize) !void {
        if (end == self.cursor) return;
        try self.bytes.appendSlice(self.gpa, self.old[self.cursor..end]);
        if (try self.placesBefore()) |places| {
            try self.places.appendSlice(self.gpa, places[self.cursor..end]);
        }
        self.cursor = end;
    }

    /// Writes `bytes` with the place of the old text from `start` to `end`, which is not empty, and
    /// goes on at `next`.
    pub fn replace(self: *Output, start: usize, end: usize, next: usize, bytes: []const u8) !void {
        if (try self.placesBefore()) |places| {
            const place: Place = .{ .start = places[start].start, .end = places[end - 1].end };
            try self.places.appendNTimes(self.gpa, place, bytes.len);
        }
        try self.bytes.appendSlice(self.gpa, bytes);
        self.cursor = next;
    }

    /// Leaves out the old text from `start` to `end`; what stands before it has its place too.
    pub fn drop(self: *Output, start: usize, end: usize) !void {
        try self.keep(start);
        self.cursor = end;
        const places = try self.placesBefore() orelse return;
        self.extendLast(places[end - 1].end);
    }

    /// Writes a blank for the old text from `start` to `end`, up to what follows it: the last of
    /// them may have shared its place with that.
    pub fn squeeze(self: *Output, start: usize, end: usize) !void {
        try self.replace(start, start + 1, end, " ");
        const places = try self.placesBefore() orelse return;
        self.extendLast(places[end].start);
    }

    fn extendLast(self: *Output, end: u32) void {
        const kept = self.places.items;
        if (kept.len == 0) return;
        const last = kept[kept.len - 1];
        var index = kept.len;
        while (index > 0 and std.meta.eql(kept[index - 1], last)) : (index -= 1) {
            kept[index - 1].end = end;
        }
    }

    /// Writes a character. `change` as in `transform` of Hugging Face: 1, it is new; 0, it takes
    /// the place of the next old one; -n, of the next one, and n more are gone.
    pub fn put(self: *Output, bytes: []const u8, change: i32) !void {
        try self.bytes.appendSlice(self.gpa, bytes);
        const places = try self.placesBefore() orelse return;
        const place: Place = if (change <= 0)
            places[self.cursor]
        else if (self.cursor == 0)
            .{ .start = 0, .end = 0 }
        else
            places[self.cursor - 1];
        try self.places.appendNTimes(self.gpa, place, bytes.len);
        if (change > 0) return;
        for (0..@intCast(1 - change)) |_| {
            self.cursor += unicode.decode(self.old, self.cursor).len;
        }
    }

    /// The places of `old`, if any are asked for.
    fn placesBefore(self: *Output) !?[]const Place {
        if (!self.with_places) return null;
        if (self.old_places == null) {
            self.own_places = try ownPlaces(self.gpa, self.old);
            self.old_places = self.own_places;
        }
        return self.old_places;
    }
};

/// The places of a text that nothing has changed: each character its own. Below 4 GiB.
fn ownPlaces(gpa: Allocator, text: []const u8) ![]Place {
    if (text.len > std.math.maxInt(u32)) return error.OutOfMemory;
    const places = try gpa.alloc(Place, text.len);
    var start: usize = 0;
    while (start < text.len) {
        const end = start + unicode.decode(text, start).len;
        @memset(places[start..end], .{ .start = @intCast(start), .end = @intCast(end) });
        start = end;
    }
    return places;
}
