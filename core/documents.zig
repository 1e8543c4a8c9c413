//! Blocks of bytes → documents: where each one lies, and its text.
//!
//! A block is some bytes of a file. What a block ends in the middle of is left for the next one, so
//! each function says how many bytes it has used; with the last block there is nothing to wait for.
//! There is no object for a document: all of a block are two arrays, bytes and spans.

const std = @import("std");

pub const json_lines = @import("documents/json_lines.zig");
pub const split = @import("documents/split.zig").split;
pub const utf8 = @import("documents/utf8.zig");
pub const Span = @import("documents/span.zig").Span;
pub const Checksum = @import("documents/checksum.zig").Checksum;

test {
    std.testing.refAllDecls(@This());
}
