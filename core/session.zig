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
const Tokenizer = @import("encode/tokenizer.zig").Tokenizer;

pub const Session = struct {
    way: union(enum) { direct: Direct, prepared: Prepared },
    /// Number of bytes that are not continuation bytes. In valid UTF-8 this is the number of
    /// characters.
    characters: usize = 0,

    /// Returns a session with an empty text. Copies `allowed`. Null means all added tokens that are
    /// not special.
    pub fn init(
        gpa: Allocator,
        tokenizer: *const Tokenizer,
        allowed: ?[]const u8,
    ) Allocator.Error!Session {
        const choice = tokenizer.preprocessor.choiceOf(allowed);
        if (tokenizer.preprocessor.isDirect(choice)) {
            return .{ .way = .{ .direct = try .init(gpa, tokenizer, choice) } };
        }
        return .{ .way = .{ .prepared = try .init(gpa, tokenizer, choice) } };
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

    /// Replaces all bytes from `cut` on, and returns the number of leading ids that stay unchanged.
    /// `new` must not be memory of the session. A change that fails has no effect.
    pub fn replace(
        self: *Session,
        encoder: *Encoder,
        cut: usize,
        new: []const u8,
    ) Error!usize {
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

    /// Returns the number of bytes after the offset from which a change at `cut` resumes.
    pub fn bytesAfterCheckpoint(self: *const Session, cut: usize) usize {
        return switch (self.way) {
            inline else => |*way| way.bytesAfterCheckpoint(cut),
        };
    }

    /// Returns the offset of the last `count` characters. The text must have at least that many.
    pub fn startOfLast(self: *const Session, count: usize) usize {
        const all = self.text();
        var index = all.len;
        var left = count;
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
