//! The added tokens in a text → the tokens and the stretches of text between them, in order.

const added = @import("../added.zig");
const Document = @import("document.zig").Document;

/// Iterates over the matches in a text and the stretches between them, without empty ones.
pub const Split = struct {
    matches: ?added.Matches = null,
    /// Length of the text.
    len: usize,
    /// Where the next stretch starts, and the match after the last one.
    start: usize = 0,
    found: ?added.Found = null,
    is_done: bool = false,

    const Item = union(enum) { stretch: Document.Span, match: added.Found };

    pub fn next(self: *Split) ?Item {
        while (true) {
            if (self.found) |found| {
                self.found = null;
                self.start = found.end;
                if (found.start < found.end) return .{ .match = found };
            }
            if (self.is_done) return null;
            if (self.matches) |*matches| self.found = matches.next();
            self.is_done = self.found == null;
            const end = if (self.found) |found| found.start else self.len;
            if (self.start < end) return .{ .stretch = .{ .start = self.start, .end = end } };
        }
    }
};
