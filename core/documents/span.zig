//! The span of a document in the bytes of its block.

const std = @import("std");
const Allocator = std.mem.Allocator;
const Failure = @import("../failure.zig").Failure;

/// Returns the bytes of each span in `data`, a list owned by the caller. If a span is rejected, the
/// reason is in `failure`.
pub fn textsOf(
    gpa: Allocator,
    spans: []align(1) const Span,
    data: []const u8,
    failure: *Failure,
) error{ OutOfMemory, Rejected }![]const []const u8 {
    const texts = try gpa.alloc([]const u8, spans.len);
    errdefer gpa.free(texts);
    for (texts, spans) |*text, span| text.* = span.in(data) orelse {
        const format = "span {d} to {d} is outside the data, which has {d} bytes";
        failure.* = .init(.value, format, .{ span.start, span.end, data.len });
        return error.Rejected;
    };
    return texts;
}

/// Signed, like Python's arrays of offsets. An array of spans is an array of twice as many numbers.
pub const Span = extern struct {
    start: i64,
    end: i64,

    pub fn of(start: usize, end: usize) Span {
        return .{ .start = @intCast(start), .end = @intCast(end) };
    }

    /// Returns the bytes; null if they are not all in `data`.
    pub fn in(self: Span, data: []const u8) ?[]const u8 {
        if (self.start < 0 or self.end < self.start or self.end > data.len) return null;
        return data[@intCast(self.start)..@intCast(self.end)];
    }

    /// Returns the numbers of spans, in the same memory.
    pub fn numbers(spans: []Span) []i64 {
        return @as([*]i64, @ptrCast(spans.ptr))[0 .. 2 * spans.len];
    }
};
