//! Documents → ids, and the bytes of the text that each one covers.

const std = @import("std");
const Allocator = std.mem.Allocator;
const ids = @import("../ids.zig");
const normal = @import("../normal.zig");
const pretokens = @import("../pretokens.zig");
const Document = @import("document.zig").Document;

/// Keeps the ids and where each one starts and ends.
pub const Spans = struct {
    gpa: Allocator,
    list: ids.List,
    spans: std.ArrayList(normal.Place) = .empty,

    pub fn init(gpa: Allocator) Spans {
        return .{ .gpa = gpa, .list = .{ .gpa = gpa } };
    }

    pub fn deinit(self: *Spans) void {
        self.list.ids.deinit(self.gpa);
        self.spans.deinit(self.gpa);
    }

    pub fn pushAdded(self: *Spans, id: u32, span: Document.Span) Allocator.Error!void {
        try self.list.push(&.{id});
        try self.spans.append(self.gpa, placeOf(span));
    }

    /// Encodes a document pretoken by pretoken.
    pub fn encode(self: *Spans, encoder: *ids.Encoder, document: Document) ids.Error!void {
        const bytes = document.bytes;
        const vocabulary = &encoder.tokenizer.vocabulary;
        var pieces: pretokens.Pretokens = .init(self.gpa, &encoder.tokenizer.scheme, bytes);
        defer pieces.deinit();
        while (try pieces.next()) |span| {
            try encoder.pollAfter(span.end - span.start);
            const found = try encoder.idsOf(bytes[span.start..span.end]);
            try self.list.push(found);
            try self.spans.ensureUnusedCapacity(self.gpa, found.len);
            var start = span.start;
            for (found) |id| {
                const end = start + vocabulary.partLen(id);
                self.spans.appendAssumeCapacity(placeOf(document.spanOf(start, end)));
                start = end;
            }
        }
    }

    fn placeOf(span: Document.Span) normal.Place {
        return .{ .start = @intCast(span.start), .end = @intCast(span.end) };
    }

    /// Turns byte offsets into `text` into character offsets. A token that begins or ends inside
    /// a character covers all of that character.
    pub fn toCharacters(self: *Spans, text: []const u8) Allocator.Error!void {
        var index: Index = try .init(self.gpa, text);
        defer index.deinit(self.gpa);
        for (self.spans.items) |*span| {
            const start = @min(span.start, text.len - 1);
            span.* = .{ .start = index.before(start + 1) - 1, .end = index.before(span.end) };
        }
    }
};

/// How many characters of a text begin before any of its bytes.
const Index = struct {
    /// A bit for each byte that begins one, and how many there are before each 64.
    firsts: []u64,
    counts: []u32,

    fn init(gpa: Allocator, text: []const u8) Allocator.Error!Index {
        const blocks = text.len / 64 + 1;
        const firsts = try gpa.alloc(u64, blocks);
        errdefer gpa.free(firsts);
        const counts = try gpa.alloc(u32, blocks);
        var count: u32 = 0;
        for (firsts, counts, 0..) |*bits, *before_, block| {
            before_.* = count;
            bits.* = firstsOf(text[block * 64 ..]);
            count += @popCount(bits.*);
        }
        return .{ .firsts = firsts, .counts = counts };
    }

    fn deinit(self: *Index, gpa: Allocator) void {
        gpa.free(self.firsts);
        gpa.free(self.counts);
    }

    fn firstsOf(text: []const u8) u64 {
        // What continues a character is all that is below 0xC0 and not below 0x80.
        var bytes: [64]u8 = @splat(0x80);
        if (text.len >= 64) bytes = text[0..64].* else @memcpy(bytes[0..text.len], text);
        const signed: @Vector(64, i8) = @bitCast(bytes);
        return @bitCast(signed >= @as(@Vector(64, i8), @splat(-64)));
    }

    inline fn before(self: *const Index, byte: usize) u32 {
        const below = (@as(u64, 1) << @intCast(byte % 64)) - 1;
        return self.counts[byte / 64] + @popCount(self.firsts[byte / 64] & below);
    }
};
