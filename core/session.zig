//! An editable text → its ids, for any tokenizer and for changes at the end of the text.
//!
//! If documents are exactly the text between added tokens, the text itself is encoded
//! (session/direct.zig). Otherwise it is preprocessed first (session/prepared.zig).

const std = @import("std");
const Allocator = std.mem.Allocator;
const encoder_ = @import("encode/encoder.zig");
const direct = @import("session/direct.zig");
const unicode = @import("unicode.zig");
const Direct = direct.Session;
const Encoder = encoder_.Encoder;
const Error = encoder_.Error;
const Prepared = @import("session/prepared.zig").Prepared;
const settled_ = @import("session/settled.zig");
const Tokenizer = @import("encode/tokenizer.zig").Tokenizer;

/// More would overflow sums of offsets.
const spacing_max = std.math.maxInt(u31);

pub const Session = struct {
    way: union(enum) { direct: Direct, prepared: Prepared },
    /// Number of bytes that are not continuation bytes. In valid UTF-8 this is the number of
    /// characters.
    characters: usize = 0,

    /// Returns a session with an empty text. Copies `allowed`. Null means all added tokens that are
    /// not special. `spacing` is the distance in bytes of offsets from which encoding resumes; null
    /// for the default.
    pub fn init(
        gpa: Allocator,
        tokenizer: *const Tokenizer,
        allowed: ?[]const u8,
        spacing: ?usize,
    ) Allocator.Error!Session {
        const distance = if (spacing) |some| std.math.clamp(some, 1, spacing_max) else null;
        const choice = tokenizer.preprocessor.choiceOf(allowed);
        if (tokenizer.preprocessor.isDirect(choice)) {
            var made: Direct = try .init(gpa, tokenizer, choice);
            if (distance) |some| made.spacing = some;
            return .{ .way = .{ .direct = made } };
        }
        var made: Prepared = try .init(gpa, tokenizer, choice);
        if (distance) |some| {
            made.spacing = some;
            made.session.spacing = some;
        }
        return .{ .way = .{ .prepared = made } };
    }

    pub fn deinit(self: *Session) void {
        switch (self.way) {
            inline else => |*way| way.deinit(),
        }
    }

    pub fn clone(self: *const Session) Allocator.Error!Session {
        return .{ .characters = self.characters, .way = switch (self.way) {
            .direct => |*way| .{ .direct = try way.clone() },
            .prepared => |*way| .{ .prepared = try way.clone() },
        } };
    }

    pub fn text(self: *const Session) []const u8 {
        return switch (self.way) {
            inline else => |*way| way.text.items,
        };
    }

    /// Returns the session that has the ids.
    pub fn inner(self: *const Session) *const Direct {
        return switch (self.way) {
            .direct => |*way| way,
            .prepared => |*way| &way.session,
        };
    }

    /// Replaces all bytes from `byte` on, or appends if the text ends before it. Returns the number
    /// of leading ids that stay unchanged. `new` must not be memory of the session. A change that
    /// fails has no effect.
    pub fn replace(
        self: *Session,
        encoder: *Encoder,
        byte: usize,
        new: []const u8,
    ) Error!usize {
        const cut = @min(byte, self.text().len);
        const removed = unicode.countCharacters(self.text()[cut..]);
        const kept = switch (self.way) {
            inline else => |*way| try way.replace(encoder, cut, new),
        };
        self.characters = self.characters - removed + unicode.countCharacters(new);
        return kept;
    }

    /// Replaces the whole text, and returns the number of leading ids that stay unchanged.
    pub fn update(self: *Session, encoder: *Encoder, new: []const u8) Error!usize {
        const cut = direct.commonLen(self.text(), new);
        return self.replace(encoder, cut, new[cut..]);
    }

    /// Returns the number of leading ids that stay the same, whatever text is appended.
    pub fn settled(self: *Session, encoder: *Encoder) Error!usize {
        return switch (self.way) {
            .direct => |*way| settled_.ofDirect(way, encoder),
            .prepared => |*way| settled_.ofPrepared(way, encoder),
        };
    }

    /// The number of leading bytes that are equal in the text of a session and another text, and
    /// whether the text of the session is less.
    pub const Comparison = struct { common: usize, is_less: bool };

    /// Compares the text of the session with another, whose first `equal` bytes are equal.
    pub fn compare(self: *const Session, other: []const u8, equal: usize) Comparison {
        const own = self.text();
        const start = @min(equal, own.len, other.len);
        const common = start + direct.commonLen(own[start..], other[start..]);
        const is_less = common < other.len and (common == own.len or own[common] < other[common]);
        return .{ .common = common, .is_less = is_less };
    }

    /// Returns the number of bytes of memory.
    pub fn memory(self: *const Session) usize {
        return switch (self.way) {
            inline else => |*way| way.memory(),
        };
    }

    /// Returns the number of bytes after the offset from which a change at `byte` resumes.
    pub fn bytesAfterCheckpoint(self: *const Session, byte: usize) usize {
        const cut = @min(byte, self.text().len);
        return switch (self.way) {
            inline else => |*way| way.bytesAfterCheckpoint(cut),
        };
    }

    /// Returns the offset of the last `count` characters, 0 if the text has fewer.
    pub fn startOfLast(self: *const Session, count: usize) usize {
        const all = self.text();
        var index = all.len;
        var left = @min(count, self.characters);
        while (left > 0) {
            index -= 1;
            left -= @intFromBool(all[index] & 0xC0 != 0x80);
        }
        return index;
    }
};

test {
    _ = Direct;
    _ = Prepared;
}
