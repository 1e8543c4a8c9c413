//! New text → its alignment: the span of the original text that each byte comes from, as runs.
//!
//! Most of a text stays unchanged. The alignment therefore consists of shifted stretches, and of
//! characters that are new or replaced. A span per byte would take eight times the size of the
//! text, and computing it would cost more than encoding.
//!
//! **Invariant**: a run has at least one byte and begins at a character boundary, and the first one
//! begins at 0. Adjacent runs that continue each other are one run.

const std = @import("std");
const unicode = @import("../unicode.zig");

const Allocator = std.mem.Allocator;

/// A span of the original text.
pub const Place = extern struct { start: u32, end: u32 };

/// Bytes of the new text, up to the next run or the end.
pub const Run = packed struct(u128) {
    /// If set, byte `at + i` is byte `start + i` of the original text. Otherwise `start` to `end`
    /// is the span of all bytes of the run.
    is_kept: bool,
    at: u63,
    start: u32,
    end: u32 = 0,

    fn place(self: Run) Place {
        return .{ .start = self.start, .end = self.end };
    }

    /// Returns the span of a single byte of the run.
    inline fn placeAt(self: Run, at: usize) Place {
        if (!self.is_kept) return self.place();
        const start: u32 = @intCast(self.start + (at - self.at));
        return .{ .start = start, .end = start + 1 };
    }
};

/// The single run of an unchanged text.
pub const unchanged: []const Run = &.{.{ .is_kept = true, .at = 0, .start = 0 }};

/// Looks up spans, mostly in order. There must be at least one run.
pub const Cursor = struct {
    runs: []const Run,
    index: usize = 0,

    /// Returns the run of a byte.
    pub inline fn find(self: *Cursor, at: usize) Run {
        const run = self.runs[self.index];
        if (run.at <= at and at < self.end()) return run;
        self.seek(at);
        return self.runs[self.index];
    }

    /// Returns one past the last byte of the run that was found last.
    pub inline fn end(self: *const Cursor) usize {
        const next = self.index + 1;
        return if (next < self.runs.len) @intCast(self.runs[next].at) else std.math.maxInt(usize);
    }

    fn seek(self: *Cursor, at: usize) void {
        var low: usize = 0;
        if (self.runs[self.index].at <= at) {
            self.index += 1;
            if (at < self.end()) return;
            low = self.index;
        }
        const behind = std.sort.partitionPoint(Run, self.runs[low..], at, beginsUpTo);
        self.index = low + behind - 1;
    }

    fn beginsUpTo(at: usize, run: Run) bool {
        return run.at <= at;
    }

    /// Returns the span of the bytes from `start` to `finish`, at least one.
    pub inline fn placeOf(self: *Cursor, start: usize, finish: usize) Place {
        const first = self.find(start);
        const last = self.find(finish - 1);
        return .{ .start = first.placeAt(start).start, .end = last.placeAt(finish - 1).end };
    }

    /// Returns the span of the character that contains a byte. `text` is the original text.
    pub fn characterAt(self: *Cursor, text: []const u8, at: usize) Place {
        const run = self.find(at);
        return if (run.is_kept) characterAround(text, run.placeAt(at).start) else run.place();
    }
};

/// Returns the character that contains a byte of a text.
fn characterAround(text: []const u8, index: usize) Place {
    var start = index;
    const limit = index -| 3;
    while (start > limit and text[start] & 0xC0 == 0x80) start -= 1;
    const end = start + unicode.decode(text, start).len;
    // A stray continuation byte is a character of its own.
    if (end <= index) return .{ .start = @intCast(index), .end = @intCast(index + 1) };
    return .{ .start = @intCast(start), .end = @intCast(end) };
}

/// Builds the runs while a text is written.
pub const Runs = struct {
    list: std.ArrayList(Run) = .empty,

    pub fn deinit(self: *Runs, gpa: Allocator) void {
        self.list.deinit(gpa);
    }

    /// Records the span of `len` bytes that are written at `at`.
    pub fn put(self: *Runs, gpa: Allocator, at: usize, len: usize, to: Place) !void {
        if (len == 0) return;
        // One byte for one byte, such as a lower-case letter for a capital, counts as unchanged.
        if (len == 1 and to.end -% to.start == 1) return self.keep(gpa, at, to.start);
        if (self.list.getLastOrNull()) |last| {
            if (!last.is_kept and std.meta.eql(last.place(), to)) return;
        }
        try self.list.append(gpa, .{
            .is_kept = false,
            .at = @intCast(at),
            .start = to.start,
            .end = to.end,
        });
    }

    /// Records that the bytes written at `at` equal the original text at `start`.
    fn keep(self: *Runs, gpa: Allocator, at: usize, start: u32) !void {
        if (self.list.getLastOrNull()) |last| {
            if (last.is_kept and last.placeAt(at).start == start) return;
        }
        try self.list.append(gpa, .{ .is_kept = true, .at = @intCast(at), .start = start });
    }

    /// Records that the bytes written at `at` are the bytes from `start` to `finish` of a text with
    /// the alignment of `cursor`.
    pub fn copy(
        self: *Runs,
        gpa: Allocator,
        at: usize,
        cursor: *Cursor,
        start: usize,
        finish: usize,
    ) !void {
        var from = start;
        while (from < finish) {
            const run = cursor.find(from);
            const end = @min(finish, cursor.end());
            const here = at + (from - start);
            if (run.is_kept) {
                try self.keep(gpa, here, run.placeAt(from).start);
            } else {
                try self.put(gpa, here, end - from, run.place());
            }
            from = end;
        }
    }

    /// Extends the span of the last character, and of those before it with the same span, to `end`.
    /// `text` is the original text, and `len` the number of bytes written.
    pub fn extendLast(self: *Runs, gpa: Allocator, text: []const u8, len: usize, end: u32) !void {
        if (len == 0) return;
        var at = len - 1;
        const last = self.lastPlace(text, len, &at);
        var start = at;
        while (start > 0 and std.meta.eql(self.lastPlace(text, start, &at), last)) start = at;
        while (self.list.items.len > 0) : (self.list.items.len -= 1) {
            if (self.list.items[self.list.items.len - 1].at < start) break;
        }
        try self.put(gpa, start, len - start, .{ .start = last.start, .end = end });
    }

    /// Returns the span of the last character of the first `len` bytes. Sets `start` to its offset,
    /// or to that of the first adjacent character with the same span.
    fn lastPlace(self: *const Runs, text: []const u8, len: usize, start: *usize) Place {
        var cursor: Cursor = .{ .runs = self.list.items, .index = self.list.items.len - 1 };
        const run = cursor.find(len - 1);
        const place = cursor.characterAt(text, len - 1);
        start.* = @intCast(run.at);
        if (!run.is_kept) return place;
        const before = run.placeAt(len - 1).start - place.start;
        start.* = @max(start.*, (len - 1) -| before);
        return place;
    }
};

/// Returns the span of each byte of a new text, the same for all bytes of a character; owned by the
/// caller. `text` is the original text.
pub fn spread(gpa: Allocator, runs: []const Run, len: usize, text: []const u8) ![]Place {
    const places = try gpa.alloc(Place, len);
    var cursor: Cursor = .{ .runs = runs };
    for (places, 0..) |*place, at| place.* = cursor.characterAt(text, at);
    return places;
}
