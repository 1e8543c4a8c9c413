//! A document and where its bytes come from in the text.

const std = @import("std");
const normal = @import("../normal.zig");
const unicode = @import("../unicode.zig");

pub const Document = struct {
    bytes: []const u8,
    /// Where in the text places count from.
    origin: usize = 0,
    /// Where bytes come from but the blank in front; none when byte i is byte i of the text.
    places: []const normal.Run = &.{},
    /// Which byte of the text that has these places is the first one but that blank.
    places_from: usize = 0,
    /// Where the first character ends, if there is a blank before it that is not in the text.
    first_end: ?u32 = null,

    pub const Span = struct { start: usize, end: usize };

    /// `text[start..end]`, where `text` begins at `offset` in the whole one.
    pub fn of(text: []const u8, start: usize, end: usize, offset: usize) Document {
        return .{ .bytes = text[start..@max(start, end)], .origin = offset + start };
    }

    /// Whether byte i is byte `origin + i` of the text.
    pub fn isText(self: *const Document) bool {
        return self.places.len == 0 and self.first_end == null;
    }

    /// The bytes from `start` to `end`, of which there is at least one.
    pub fn part(self: Document, start: usize, end: usize) Document {
        var made = self;
        made.bytes = self.bytes[start..end];
        if (start == 0) return made;
        const skipped = start - @intFromBool(self.first_end != null);
        made.first_end = null;
        if (self.places.len > 0) {
            made.places_from += skipped;
        } else made.origin += skipped;
        return made;
    }

    /// What finds the places of its bytes.
    pub fn cursor(self: *const Document) normal.Places {
        return .{ .runs = if (self.places.len > 0) self.places else normal.unchanged };
    }

    /// Where in the text the bytes from `start` to `end` come from, of which there is one at least.
    /// The blank in front counts for the first character.
    pub fn spanOf(self: *const Document, start: usize, end: usize) Span {
        var places = self.cursor();
        return self.spanFrom(&places, start, end);
    }

    /// The same with a cursor, for spans in a row.
    pub fn spanFrom(self: *const Document, places: *normal.Places, start: usize, end: usize) Span {
        const blanks = @intFromBool(self.first_end != null);
        const from = self.places_from;
        if (end <= blanks) {
            const first = places.placeOf(from, from + 1);
            return .{ .start = self.origin + first.start, .end = self.origin + self.first_end.? };
        }
        const place = places.placeOf(from + (start -| blanks), from + (end - blanks));
        return .{ .start = self.origin + place.start, .end = self.origin + place.end };
    }

    /// Where in the text the bytes from `start` on come from, if those up to `end` follow each
    /// other there. The blank in front counts as the byte before them.
    pub fn straight(self: *const Document, places: *normal.Places, start: usize, end: usize) ?u32 {
        const blanks = @intFromBool(self.first_end != null);
        const first = self.places_from + (start -| blanks);
        const run = places.find(first);
        if (!run.is_kept or places.end() < self.places_from + (end -| blanks)) return null;
        const skipped = @intFromBool(start < blanks);
        return @truncate(self.origin + run.start + (first - run.at) -% skipped);
    }

    /// Up to `end`, byte i is byte `i + shift` of the text, where that wraps.
    pub const Stretch = struct { shift: u32, end: usize };

    /// The bytes from `start` on that follow each other in the text too; none if that is a new one.
    pub fn stretch(self: *const Document, places: *normal.Places, start: usize) ?Stretch {
        const blanks = @intFromBool(self.first_end != null);
        if (start < blanks) return null;
        const first = self.places_from + (start - blanks);
        const run = places.find(first);
        if (!run.is_kept) return null;
        return .{
            .shift = @truncate((self.origin + run.start + (first - run.at)) -% start),
            .end = (places.end() - self.places_from) +| blanks,
        };
    }

    /// Where the first character of a document ends that has no blank in front yet.
    pub fn firstEnd(self: *const Document) u32 {
        var places = self.cursor();
        const len = unicode.decode(self.bytes, 0).len;
        return places.placeOf(self.places_from, self.places_from + len).end;
    }
};

test "document: a stretch has the places that its bytes have one by one" {
    const runs = [_]normal.Run{
        .{ .is_kept = true, .at = 0, .start = 0 },
        .{ .is_kept = false, .at = 4, .start = 4, .end = 7 },
        .{ .is_kept = true, .at = 5, .start = 7 },
        .{ .is_kept = true, .at = 9, .start = 12 },
    };
    for ([_]?u32{ null, 8 }) |first_end| for (0..3) |from| for ([_]usize{ 0, 100 }) |origin| {
        const document: Document = .{
            .bytes = "0123456789abcdef"[0 .. 13 - from],
            .origin = origin,
            .places = &runs,
            .places_from = from,
            .first_end = first_end,
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

test "document: the blank in front has the place of the first character" {
    const plain: Document = .{ .bytes = " \u{e9}a", .origin = 5, .first_end = 2 };
    try std.testing.expectEqualDeep(Document.Span{ .start = 5, .end = 7 }, plain.spanOf(0, 1));
    try std.testing.expectEqualDeep(Document.Span{ .start = 5, .end = 8 }, plain.spanOf(0, 4));
    try std.testing.expectEqualDeep(Document.Span{ .start = 7, .end = 8 }, plain.spanOf(3, 4));
    const rest = plain.part(3, 4);
    try std.testing.expectEqualDeep(Document.Span{ .start = 7, .end = 8 }, rest.spanOf(0, 1));
}
