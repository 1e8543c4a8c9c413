//! The reason why a call of the core failed → its kind and its text, the same in every binding.
//!
//! A binding maps the kind to an exception or a number. The text has the form of the project's
//! errors: the problem with its value, then the remedy.

const std = @import("std");

pub const Kind = enum {
    memory,
    /// The caller asked to stop. A binding has the reason.
    interrupted,
    /// An argument has the wrong type.
    type,
    /// An argument has a wrong value.
    value,
    /// An object is in use by another thread.
    busy,
    /// A tokenizer that cannot be loaded, or cannot encode a text.
    vocabulary,
    /// An id or a token that is not in the vocabulary.
    unknown_token,
    /// A pattern that is not a compiled one.
    pattern,
    /// Counts, or a file, that cannot be used.
    input,
    /// The operating system rejected a call.
    system,
};

pub const Failure = struct {
    kind: Kind,
    len: usize = 0,
    buffer: [text_max]u8 = undefined,

    pub const text_max = 1024;

    /// A longer text is truncated.
    pub fn init(kind: Kind, comptime format: []const u8, values: anytype) Failure {
        var self: Failure = .{ .kind = kind };
        // If the text does not fit, the buffer has its beginning.
        const written = std.fmt.bufPrint(&self.buffer, format, values) catch &self.buffer;
        self.len = written.len;
        return self;
    }

    pub const out_of_memory: Failure = .{ .kind = .memory };
    pub const interrupted: Failure = .{ .kind = .interrupted };

    pub fn text(self: *const Failure) []const u8 {
        return self.buffer[0..self.len];
    }
};

test "failure: a text that is too long is truncated" {
    const long: [Failure.text_max]u8 = @splat('x');
    const failure: Failure = .init(.input, "{s}{d}", .{ &long, 1 });
    try std.testing.expectEqual(Failure.text_max, failure.text().len);
    try std.testing.expectEqualStrings("7 is odd", Failure.init(.value, "{d} is odd", .{7}).text());
}
