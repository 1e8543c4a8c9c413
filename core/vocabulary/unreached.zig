//! Vocabulary → its unmergeable tokens.
//!
//! Vocabularies that look up whole pretokens before merging (tiktoken's rule, `ignore_merges`) may
//! contain tokens that no merge produces. Such a token only matches a whole pretoken. Inside a
//! longer pretoken its bytes are merged like any others.

const std = @import("std");
const Allocator = std.mem.Allocator;

pub const Unreached = struct {
    /// A bit for each id.
    bits: std.DynamicBitSetUnmanaged,

    /// Returns the unmergeable tokens of a vocabulary with canonical pairs; null if it is closed.
    /// `hidden` marks tokens that are never found; without it all can be.
    pub fn of(
        gpa: Allocator,
        vocabulary: anytype,
        hidden: ?[]const bool,
    ) Allocator.Error!?Unreached {
        if (vocabulary.is_closed) return null;
        var self: Unreached = .{ .bits = try .initEmpty(gpa, vocabulary.ids_end) };
        for (vocabulary.lengths, 0..) |len, id| {
            const is_hidden = if (hidden) |some| some[id] else false;
            if (len > 1 and !is_hidden) self.bits.set(id);
        }
        vocabulary.pairs.takeFrom(&self.bits);
        return self;
    }

    pub fn deinit(self: *Unreached, gpa: Allocator) void {
        self.bits.deinit(gpa);
    }
};

/// Whether the cached ids of whole pretokens show how their bytes merge within others.
pub inline fn tells(vocabulary: anytype) bool {
    return vocabulary.is_closed or vocabulary.unreached != null;
}

/// Whether the ids of a whole pretoken are also the result of merging. Only valid if `tells`.
pub inline fn areMerged(vocabulary: anytype, first: u32, count: usize) bool {
    const some = if (vocabulary.unreached) |*some| some else return true;
    return count != 1 or !some.bits.isSet(first);
}

/// Returns the unmergeable token with these bytes, which matches only a whole pretoken.
pub inline fn find(vocabulary: anytype, piece: []const u8) ?u32 {
    const some = if (vocabulary.unreached) |*some| some else return null;
    const id = vocabulary.find(piece) orelse return null;
    return if (some.bits.isSet(id)) id else null;
}
