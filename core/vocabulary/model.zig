//! The tokens of a file → symbols: what merging starts with, and bytes as a text has them.
//!
//! A token is named by its *place* in the file's arrays. Symbols are the places of tokens that
//! merging starts with, single bytes or single characters, and numbers from `count` on for what is
//! part of a token but none itself: SentencePiece merges characters that are no pieces.

const std = @import("std");
const Allocator = std.mem.Allocator;
const unicode = @import("../unicode.zig");
const PairTable = @import("pair_table.zig").PairTable;
const TokenTable = @import("token_table.zig").TokenTable;

pub const none = PairTable.none;

pub const Kind = enum(u8) {
    /// Found by merging.
    token,
    /// Stands for one byte of a character that is no token.
    byte,
    /// Found in no text.
    decoded,
};

/// What becomes of a character, or of a byte, that is no token.
pub const Missing = enum { fail, drop, unk, bytes };

/// A model as its file has it; see formats/parts.py.
pub const Model = struct {
    bytes: []const u8,
    lengths: []const u32,
    ids: []const u32,
    kinds: []const u8,
    /// Pairs of places, end to end.
    merges: ?[]const u32 = null,
    order: ?[]const u32 = null,
    characters: bool = false,
    whole: bool = false,
    /// Whether "▁" in a token is a blank in a text.
    blank: bool = false,
    missing: Missing = .fail,
    unk: ?u32 = null,
    fuse_unk: bool = false,
    dropout: f64 = 0,

    /// Whether it is what a rank file has: the id is the order, and a token is one as a whole too.
    pub fn isRanks(self: *const Model) bool {
        const is_plain = self.merges == null and self.order == null and self.whole and
            !self.characters and !self.blank and self.missing == .fail and self.dropout == 0;
        return is_plain and std.mem.allEqual(u8, self.kinds, @intFromEnum(Kind.token));
    }
};

pub const Error = error{
    OutOfMemory,
    /// Arrays that do not fit each other.
    InvalidModel,
    /// Two tokens with the same bytes, or two for the same byte.
    DuplicateToken,
    /// A merge of two tokens that make none, or of one that no text holds: the culprit.
    InvalidMerge,
    /// Bytes are to stand for what is missing, and there are not 256 of them.
    MissingByteTokens,
    /// The id of what is missing is no token's.
    UnknownUnk,
    IdTooLarge,
    TokenTooLong,
    TooManyBytes,
};

pub const Tokens = struct {
    arena: Allocator,
    model: *const Model,
    count: u32,
    /// Of all tokens end to end, as a text has them.
    bytes: []const u8,
    offsets: []const u32,
    kinds: []const Kind,
    /// The place of the token that is not there, or `none`.
    unk: u32 = none,
    /// Symbols of single bytes and of characters of several bytes.
    singles: [256]u32 = @splat(none),
    chars: std.AutoHashMapUnmanaged(u21, u32) = .empty,
    /// Symbols that are no tokens.
    extras: std.ArrayList([]const u8) = .empty,
    table: ?TokenTable = null,

    pub fn init(arena: Allocator, model: *const Model, culprit: *u32) Error!Tokens {
        const count = model.lengths.len;
        if (model.ids.len != count or model.kinds.len != count) return error.InvalidModel;
        if (count >= PairTable.id_limit / 2) return error.IdTooLarge;
        if (model.order) |order| {
            if (order.len != count) return error.InvalidModel;
            if (std.mem.indexOfScalar(u32, order, none) != null) return error.InvalidModel;
        }
        var sum: u64 = 0;
        for (model.lengths) |length| sum += length;
        if (sum != model.bytes.len) return error.InvalidModel;
        const kinds = try arena.alloc(Kind, count);
        for (kinds, model.kinds) |*kind, number| {
            kind.* = std.enums.fromInt(Kind, number) orelse return error.InvalidModel;
        }
        var self: Tokens = .{
            .arena = arena,
            .model = model,
            .count = @intCast(count),
            .bytes = model.bytes,
            .offsets = undefined,
            .kinds = kinds,
        };
        var seen: std.DynamicBitSetUnmanaged = .{};
        if (count > 0) try seen.resize(arena, std.mem.max(u32, model.ids) + 1, false);
        for (model.ids) |id| {
            culprit.* = id;
            if (seen.isSet(id)) return error.DuplicateToken;
            seen.set(id);
        }
        try self.place(kinds);
        if (model.missing == .unk) {
            const index = std.mem.indexOfScalar(u32, model.ids, model.unk orelse none);
            self.unk = @intCast(index orelse return error.UnknownUnk);
        }
        try self.findSymbols(culprit);
        return self;
    }

    /// Finds where tokens begin. A "▁" becomes a blank where it stands for one; a token with a
    /// blank of its own is in no text then.
    fn place(self: *Tokens, kinds: []Kind) Error!void {
        const offsets = try self.arena.alloc(u32, @as(usize, self.count) + 1);
        self.offsets = offsets;
        offsets[0] = 0;
        const lengths = self.model.lengths;
        if (!self.model.blank) {
            for (offsets[1..], offsets[0..self.count], lengths) |*end, start, length| {
                end.* = start + length;
            }
            return;
        }
        const mark = "\u{2581}";
        const folded = try self.arena.alloc(u8, self.model.bytes.len);
        var rest = self.model.bytes;
        var written: u32 = 0;
        for (lengths, kinds, offsets[1..]) |length, *kind, *end| {
            const token = rest[0..length];
            rest = rest[length..];
            const has_blank = std.mem.indexOfScalar(u8, token, ' ') != null;
            if (has_blank and kind.* == .token) kind.* = .decoded;
            var at: usize = 0;
            while (at < token.len) : (written += 1) {
                const is_mark = std.mem.startsWith(u8, token[at..], mark);
                folded[written] = if (is_mark) ' ' else token[at];
                at += if (is_mark) mark.len else 1;
            }
            end.* = written;
        }
        self.bytes = folded[0..written];
    }

    fn findSymbols(self: *Tokens, culprit: *u32) Error!void {
        var bytes: [256]u32 = @splat(none);
        var bytes_count: usize = 0;
        for (self.kinds, 0..) |kind, index| {
            const token = self.tokenBytes(@intCast(index));
            const symbol: u32 = @intCast(index);
            culprit.* = self.model.ids[index];
            if (kind == .byte) {
                if (token.len != 1) return error.InvalidModel;
                if (bytes[token[0]] != none) return error.DuplicateToken;
                bytes[token[0]] = symbol;
                bytes_count += 1;
            }
            if (kind != .token or token.len == 0) continue;
            if (token.len == 1 and (token[0] < 0x80 or !self.model.characters)) {
                if (self.singles[token[0]] != none) return error.DuplicateToken;
                self.singles[token[0]] = symbol;
            } else if (self.model.characters and token.len <= 4) {
                const char = charOf(token) orelse continue;
                const entry = try self.chars.getOrPut(self.arena, char);
                if (entry.found_existing) return error.DuplicateToken;
                entry.value_ptr.* = symbol;
            }
        }
        if (self.model.missing != .bytes) return;
        if (bytes_count != 256) return error.MissingByteTokens;
        for (&self.singles, bytes) |*symbol, byte| {
            if (symbol.* == none) symbol.* = byte;
        }
    }

    /// The character that is all of some bytes.
    fn charOf(bytes: []const u8) ?u21 {
        const char = unicode.decode(bytes, 0);
        const is_valid = char.code_point != unicode.replacement or char.len == 3;
        return if (is_valid and char.len == bytes.len) char.code_point else null;
    }

    /// The bytes of a token or of a symbol.
    pub fn tokenBytes(self: *const Tokens, symbol: u32) []const u8 {
        if (symbol >= self.count) return self.extras.items[symbol - self.count];
        return self.bytes[self.offsets[symbol]..self.offsets[symbol + 1]];
    }

    /// Whether merging starts with it.
    pub fn isSymbol(self: *const Tokens, place_: u32) bool {
        const token = self.tokenBytes(place_);
        if (token.len == 0 or self.kinds[place_] == .decoded) return false;
        if (token.len == 1) return self.singles[token[0]] == place_;
        if (!self.model.characters or token.len > 4) return false;
        return self.chars.get(charOf(token) orelse return false) == place_;
    }

    /// The symbols of a token; false if a part of it is none. They are made where any neighbours
    /// that spell a token merge.
    pub fn symbolsOf(self: *Tokens, token: []const u8, out: *std.ArrayList(u32)) Error!bool {
        out.clearRetainingCapacity();
        var start: usize = 0;
        while (start < token.len) {
            const len = if (self.model.characters) unicode.decode(token, start).len else 1;
            const part = token[start..][0..len];
            start += len;
            if (len > 1 and charOf(part) == null) return false;
            const known = if (len == 1)
                self.singles[part[0]]
            else
                self.chars.get(charOf(part).?) orelse none;
            const symbol = if (known != none)
                known
            else
                try self.addExtra(part) orelse return false;
            try out.append(self.arena, symbol);
        }
        return true;
    }

    /// What is merged as these bytes: a symbol or a token.
    pub fn findPart(self: *Tokens, part: []const u8, culprit: *u32) Error!?u32 {
        const symbol = if (part.len == 1)
            self.singles[part[0]]
        else if (self.model.characters and part.len <= 4)
            if (charOf(part)) |char| self.chars.get(char) orelse none else none
        else
            none;
        return if (symbol != none) symbol else self.find(part, culprit);
    }

    fn addExtra(self: *Tokens, part: []const u8) Error!?u32 {
        if (self.model.merges != null) return null;
        const symbol: u32 = @intCast(self.count + self.extras.items.len);
        try self.extras.append(self.arena, part);
        if (part.len == 1) {
            self.singles[part[0]] = symbol;
        } else {
            try self.chars.put(self.arena, charOf(part).?, symbol);
        }
        return symbol;
    }

    /// The token with these bytes that merging can make. The table is made when first asked for.
    pub fn find(self: *Tokens, token: []const u8, culprit: *u32) Error!?u32 {
        if (self.table == null) {
            self.table = try .init(self.arena, self.count, 0);
            for (self.kinds, 0..) |kind, index| {
                const bytes = self.tokenBytes(@intCast(index));
                if (kind != .token or bytes.len == 0) continue;
                culprit.* = self.model.ids[index];
                const hash = self.table.?.prepare(bytes);
                if (!self.table.?.put(self, bytes, @intCast(index), hash)) {
                    return error.DuplicateToken;
                }
            }
        }
        return self.table.?.get(self, token);
    }
};
