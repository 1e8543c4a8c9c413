//! Blocks of bytes → documents: the span and the text of each.
//!
//! A block is part of a file. A document that a block does not complete is left for the next block,
//! so each function returns the number of bytes used. The last block is always used completely.
//! Documents are not objects: all documents of a block are two arrays, bytes and spans.

const std = @import("std");

pub const json_lines = @import("documents/json_lines.zig");
pub const split = @import("documents/split.zig").split;
pub const utf8 = @import("documents/utf8.zig");
pub const Span = @import("documents/span.zig").Span;
pub const textsOf = @import("documents/span.zig").textsOf;
pub const Checksum = @import("documents/checksum.zig").Checksum;

/// The number of newlines in a block.
pub fn countNewlines(block: []const u8) usize {
    return std.mem.countScalar(u8, block, '\n');
}

test {
    std.testing.refAllDecls(@This());
}
