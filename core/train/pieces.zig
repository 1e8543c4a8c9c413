//! Two pieces → whether they may be merged: the rules of SentencePiece, whose symbols are
//! characters.
//!
//! A piece must not exceed the maximum number of characters, and its characters with a script must
//! have the same one. A forbidden combination stays forbidden in every longer piece, so a batch can
//! rely on pairs alone.

const std = @import("std");
const unicode = @import("../unicode.zig");

/// The properties of a piece that the rules need.
pub const Kind = struct {
    /// Number of characters.
    len: u32 = 0,
    /// The script of the characters that have one; 0 if none has.
    script: u32 = 0,

    /// Returns the kind of an initial token.
    pub fn of(text: []const u8, script: u32) Kind {
        return .{ .len = @intCast(unicode.countCharacters(text)), .script = script };
    }

    pub fn join(left: Kind, right: Kind) Kind {
        return .{
            .len = left.len + right.len,
            .script = if (left.script != 0) left.script else right.script,
        };
    }

    /// Whether both together have at least `len_end` characters, or more than one script.
    pub fn bars(left: Kind, right: Kind, len_end: u32) bool {
        if (@as(u64, left.len) + right.len >= len_end) return true;
        return left.script != 0 and right.script != 0 and left.script != right.script;
    }
};

test "pieces: characters without a script join any other, but two scripts never join" {
    const mark: Kind = .of("\u{301}", 0);
    const latin: Kind = .of("é", 1);
    const greek: Kind = .of("ά", 2);
    try std.testing.expect(latin.bars(greek, 99));
    try std.testing.expect(!latin.bars(latin, 3));
    try std.testing.expect(latin.bars(latin, 2));
    try std.testing.expect(!latin.bars(mark, 99));
    try std.testing.expectEqual(Kind{ .len = 2, .script = 1 }, latin.join(mark));
    try std.testing.expect(mark.join(latin).bars(greek, 99));
    try std.testing.expect(latin.join(mark).bars(greek, 99));
}
