//! The end of a text, preprocessed once → the number of tokens of each suffix that begins in it.
//!
//! A suffix differs from a longer one only near its start. Only its head is preprocessed
//! separately, up to a normalization boundary that both have (prepared.zig). From there on the
//! documents are those of the tail. Their pretokens are scanned until one ends where a pretoken of
//! the tail ends. After that offset all token counts are known.

const std = @import("std");
const Allocator = std.mem.Allocator;
const ids = @import("../ids.zig");
const pretokens = @import("../pretokens.zig");
const prepared = @import("prepared.zig");
const Mark = @import("session.zig").Mark;
const Prepared = prepared.Prepared;
const Stop = prepared.Stop;

/// Bytes of a suffix that are preprocessed separately, plus the added tokens that begin there.
const head_bytes = 256;

pub const Tail = struct {
    encoder: *ids.Encoder,
    text: []const u8,
    /// The text after `whole.origin`. Empty if there are no normalization boundaries.
    whole: Prepared,
    head: Prepared,
    points: std.ArrayList(Point) = .empty,
    /// The first document that is not completely in the head.
    document: std.ArrayList(u8) = .empty,
    /// Number of bytes encoded so far.
    work: usize = 0,

    /// A pretoken or a mark of the tail, and the number of tokens from it on.
    const Point = struct { at: usize, tokens: usize };

    /// Prepares the text from `from` on.
    pub fn init(encoder: *ids.Encoder, text: []const u8, from: usize) ids.Error!Tail {
        const tokenizer = encoder.tokenizer;
        const choice = tokenizer.front.choiceOf(null);
        var whole: Prepared = try .init(encoder.gpa, tokenizer, choice);
        whole.origin = from;
        const head = Prepared.init(encoder.gpa, tokenizer, choice) catch |failure| {
            whole.deinit();
            return failure;
        };
        var self: Tail = .{ .encoder = encoder, .text = text, .whole = whole, .head = head };
        errdefer self.deinit();
        if (tokenizer.scheme.looksBehind()) self.whole.has_stops = false;
        if (self.whole.has_stops) try self.fill();
        return self;
    }

    pub fn deinit(self: *Tail) void {
        self.whole.deinit();
        self.head.deinit();
        self.points.deinit(self.encoder.gpa);
        self.document.deinit(self.encoder.gpa);
    }

    fn fill(self: *Tail) ids.Error!void {
        const gpa = self.encoder.gpa;
        _ = try self.whole.replace(self.encoder, 0, self.text[self.whole.origin..]);
        const bytes = self.whole.session.text.items;
        var start: usize = 0;
        for (self.whole.session.marks.items) |mark| {
            try self.addDocument(start, mark.at);
            try self.points.append(gpa, .{ .at = mark.at, .tokens = tokensOf(mark) });
            start = mark.at + 1;
        }
        try self.addDocument(start, bytes.len);
        try self.points.append(gpa, .{ .at = bytes.len, .tokens = 0 });
        const points = self.points.items;
        var index = points.len - 1;
        while (index > 0) : (index -= 1) points[index - 1].tokens += points[index].tokens;
    }

    fn tokensOf(mark: Mark) usize {
        return @intFromBool(mark.id != null);
    }

    fn addDocument(self: *Tail, start: usize, end: usize) ids.Error!void {
        const gpa = self.encoder.gpa;
        const bytes = self.whole.session.text.items[start..end];
        var pieces: pretokens.Pretokens = .init(gpa, &self.encoder.tokenizer.scheme, bytes);
        defer pieces.deinit();
        while (try pieces.next()) |span| {
            var sink: ids.Count = .{};
            try self.encoder.encodePretoken(bytes[span.start..span.end], &sink);
            try self.points.append(gpa, .{ .at = start + span.start, .tokens = sink.count });
        }
    }

    /// Returns the number of tokens of the text from `start`, which must be in the tail.
    pub fn tokensFrom(self: *Tail, start: usize) ids.Error!usize {
        if (self.whole.has_stops) {
            const len = @min(self.text.len - start, head_bytes + self.head.slack());
            self.head.origin = start;
            _ = try self.head.replace(self.encoder, 0, self.text[start..][0..len]);
            try self.addWork(len);
            for (self.head.stops.items[1..]) |stop| {
                if (@max(stop.start, stop.reach) + self.head.slack() > len) break;
                if (self.same(stop)) |other| return self.tokensAcross(stop.at, other.at);
            }
        }
        var sink: ids.Count = .{};
        try self.encoder.encode(self.text[start..], null, &sink);
        try self.addWork(self.text.len - start);
        return sink.count;
    }

    fn addWork(self: *Tail, bytes: usize) ids.Error!void {
        self.work += bytes;
        try self.encoder.merger.pollAfter(bytes);
    }

    /// Returns the boundary of the tail that equals a boundary of the head.
    fn same(self: *const Tail, stop: Stop) ?Stop {
        const start = self.head.origin + stop.start - self.whole.origin;
        const stops = self.whole.stops.items;
        const index = std.sort.lowerBound(Stop, stops, start, compareStops);
        if (index == stops.len or stops[index].start != start) return null;
        return if (stops[index].is_open == stop.is_open) stops[index] else null;
    }

    fn compareStops(start: usize, stop: Stop) std.math.Order {
        return std.math.order(start, stop.start);
    }

    /// Returns the number of tokens of the head's documents up to `end` and the tail's from
    /// `start`.
    fn tokensAcross(self: *Tail, end: usize, start: usize) ids.Error!usize {
        const gpa = self.encoder.gpa;
        const head = &self.head.session;
        var sink: ids.Count = .{};
        var from: usize = 0;
        for (head.marks.items) |mark| {
            if (mark.at >= end) break;
            try self.encoder.encodeDocument(.{ .bytes = head.text.items[from..mark.at] }, &sink);
            sink.count += tokensOf(mark);
            from = mark.at + 1;
        }
        const whole = &self.whole.session;
        const next = whole.marksBefore(start);
        const marks = whole.marks.items;
        const finish = if (next < marks.len) marks[next].at else whole.text.items.len;
        self.document.clearRetainingCapacity();
        try self.document.appendSlice(gpa, head.text.items[from..end]);
        try self.document.appendSlice(gpa, whole.text.items[start..finish]);
        const bytes = self.document.items;
        var pieces: pretokens.Pretokens = .init(gpa, &self.encoder.tokenizer.scheme, bytes);
        defer pieces.deinit();
        while (try pieces.next()) |span| {
            try self.encoder.encodePretoken(bytes[span.start..span.end], &sink);
            try self.addWork(span.end - span.start);
            if (span.end < end - from) continue;
            // If the tail has a pretoken here, the remaining count is known.
            const at = start + span.end - (end - from);
            if (self.pointAt(at)) |point| return sink.count + point.tokens;
        }
        return sink.count + self.pointAt(finish).?.tokens;
    }

    fn pointAt(self: *const Tail, at: usize) ?Point {
        const points = self.points.items;
        const index = std.sort.lowerBound(Point, points, at, comparePoints);
        return if (index < points.len and points[index].at == at) points[index] else null;
    }

    fn comparePoints(at: usize, point: Point) std.math.Order {
        return std.math.order(at, point.at);
    }
};
