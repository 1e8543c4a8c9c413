//! A document and the alignment of its bytes with the original text.

const std = @import("std");
const normal = @import("../normalize.zig");
const unicode = @import("../unicode.zig");

pub const Document = struct {
    bytes: []const u8,
    /// Offset in the text that the alignment counts from.
    origin: usize = 0,
    /// The alignment, without the prepended space. Empty if byte i is byte i of the text.
    source_map: []const normal.Run = &.{},
    /// Index, in the bytes that the alignment describes, of the first byte after the prepended
    /// space.
    source_map_start: usize = 0,
    /// Offset of the end of the first character, if a space that is not in the text is prepended.
    leading_space_end: ?u32 = null,

    pub const Span = struct { start: usize, end: usize };

    /// Returns `text[start..end]`, where `text` begins at `offset` of the whole text.
    pub fn of(text: []const u8, start: usize, end: usize, offset: usize) Document {
        return .{ .bytes = text[start..@max(start, end)], .origin = offset + start };
    }

    /// Whether byte i is byte `origin + i` of the text.
    pub fn isText(self: *const Document) bool {
        return self.source_map.len == 0 and self.leading_space_end == null;
    }

    /// Returns the bytes from `start` to `end`, at least one.
    pub fn part(self: Document, start: usize, end: usize) Document {
        var made = self;
        made.bytes = self.bytes[start..end];
        if (start == 0) return made;
        const skipped = start - @intFromBool(self.leading_space_end != null);
        made.leading_space_end = null;
        if (self.source_map.len > 0) {
            made.source_map_start += skipped;
        } else made.origin += skipped;
        return made;
    }

    /// Returns a cursor into the alignment.
    pub fn cursor(self: *const Document) normal.Places {
        return .{ .runs = if (self.source_map.len > 0) self.source_map else normal.unchanged };
    }

    /// Returns the span of the text that the bytes from `start` to `end` come from. There must be
    /// at least one. A prepended space has the span of the first character.
    pub fn spanOf(self: *const Document, start: usize, end: usize) Span {
        var places = self.cursor();
        return self.spanFrom(&places, start, end);
    }

    /// The same with a cursor, for consecutive spans.
    pub fn spanFrom(self: *const Document, places: *normal.Places, start: usize, end: usize) Span {
        const spaces = @intFromBool(self.leading_space_end != null);
        const from = self.source_map_start;
        if (end <= spaces) {
            const first = places.placeOf(from, from + 1);
            const end_offset = self.leading_space_end.?;
            return .{ .start = self.origin + first.start, .end = self.origin + end_offset };
        }
        const place = places.placeOf(from + (start -| spaces), from + (end - spaces));
        return .{ .start = self.origin + place.start, .end = self.origin + place.end };
    }

    /// Returns the offset in the text of the bytes from `start` to `end`, if they are contiguous
    /// there. A prepended space counts as the byte before them.
    pub fn straight(self: *const Document, places: *normal.Places, start: usize, end: usize) ?u32 {
        const spaces = @intFromBool(self.leading_space_end != null);
        const first = self.source_map_start + (start -| spaces);
        const run = places.find(first);
        if (!run.is_kept or places.end() < self.source_map_start + (end -| spaces)) return null;
        const skipped = @intFromBool(start < spaces);
        return @truncate(self.origin + run.start + (first - run.at) -% skipped);
    }

    /// Up to `end`, byte i is byte `i +% shift` of the text.
    pub const Stretch = struct { shift: u32, end: usize };

    /// Returns the longest run of bytes from `start` that is contiguous in the text, or null if the
    /// byte at `start` is not in the text.
    pub fn stretch(self: *const Document, places: *normal.Places, start: usize) ?Stretch {
        const spaces = @intFromBool(self.leading_space_end != null);
        if (start < spaces) return null;
        const first = self.source_map_start + (start - spaces);
        const run = places.find(first);
        if (!run.is_kept) return null;
        return .{
            .shift = @truncate((self.origin + run.start + (first - run.at)) -% start),
            .end = (places.end() - self.source_map_start) +| spaces,
        };
    }

    /// Returns the end offset of the first character, for a document without a prepended space.
    pub fn firstEnd(self: *const Document) u32 {
        var places = self.cursor();
        const len = unicode.decode(self.bytes, 0).len;
        return places.placeOf(self.source_map_start, self.source_map_start + len).end;
    }
};

test "document: a contiguous run has the same offsets as its single bytes" {
    const runs = [_]normal.Run{
        .{ .is_kept = true, .at = 0, .start = 0 },
        .{ .is_kept = false, .at = 4, .start = 4, .end = 7 },
        .{ .is_kept = true, .at = 5, .start = 7 },
        .{ .is_kept = true, .at = 9, .start = 12 },
    };
    for ([_]?u32{ null, 8 }) |space_end| for (0..3) |from| for ([_]usize{ 0, 100 }) |origin| {
        const document: Document = .{
            .bytes = "0123456789abcdef"[0 .. 13 - from],
            .origin = origin,
            .source_map = &runs,
            .source_map_start = from,
            .leading_space_end = space_end,
        };
        var places = document.cursor();
        for (0..document.bytes.len) |start| {
            const found = document.stretch(&places, start) orelse continue;
            for (start..@min(found.end, document.bytes.len)) |index| {
                const at: u32 = @as(u32, @intCast(index)) +% found.shift;
                const span = document.spanOf(index, index + 1);
                try std.testing.expectEqualDeep(Document.Span{ .start = at, .end = at + 1 }, span);
            }
        }
    };
}

test "document: a prepended space has the span of the first character" {
    const plain: Document = .{ .bytes = " \u{e9}a", .origin = 5, .leading_space_end = 2 };
    try std.testing.expectEqualDeep(Document.Span{ .start = 5, .end = 7 }, plain.spanOf(0, 1));
    try std.testing.expectEqualDeep(Document.Span{ .start = 5, .end = 8 }, plain.spanOf(0, 4));
    try std.testing.expectEqualDeep(Document.Span{ .start = 7, .end = 8 }, plain.spanOf(3, 4));
    const rest = plain.part(3, 4);
    try std.testing.expectEqualDeep(Document.Span{ .start = 7, .end = 8 }, rest.spanOf(0, 1));
}
