//! Vocabulary → the tokens that merging does not reach.
//!
//! Files whose pretokens are looked up before they are merged (tiktoken's rule, `ignore_merges`)
//! may hold tokens that no merge makes. Each of them is only ever a whole pretoken: where its bytes
//! are a part of one, they are merged as any others.

const std = @import("std");
const Allocator = std.mem.Allocator;

pub const Unreached = struct {
    /// A bit for each id.
    bits: std.DynamicBitSetUnmanaged,

    /// Those of a vocabulary whose table has the one pair that becomes each token; null where it
    /// is closed. `hidden` says which are not found; without it all are.
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

/// Whether what is remembered of whole pretokens says what their bytes become within others.
pub inline fn tells(vocabulary: anytype) bool {
    return vocabulary.is_closed or vocabulary.unreached != null;
}

/// Whether ids of a whole pretoken are also what merging gives; only for one that tells.
pub inline fn areMerged(vocabulary: anytype, first: u32, count: usize) bool {
    const some = if (vocabulary.unreached) |*some| some else return true;
    return count != 1 or !some.bits.isSet(first);
}

/// The token that these bytes are as a whole pretoken and never within one.
pub inline fn find(vocabulary: anytype, piece: []const u8) ?u32 {
    const some = if (vocabulary.unreached) |*some| some else return null;
    const id = vocabulary.find(piece) orelse return null;
    return if (some.bits.isSet(id)) id else null;
}
