//! The span of a document in the bytes of its block.

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
