//! The tokens of a file → the symbols that merging starts with, and token bytes as they occur in
//! text.
//!
//! A token is identified by its index in the file's arrays, called its *place*. Symbols are the
//! places of tokens that merging starts with, single bytes or single characters. Numbers from
//! `count` on are characters that occur in tokens but are not tokens themselves: SentencePiece
//! merges characters that are not pieces.

const std = @import("std");
const Allocator = std.mem.Allocator;
const unicode = @import("../unicode.zig");
const PairTable = @import("pair_table.zig").PairTable;
const TokenTable = @import("token_table.zig").TokenTable;

pub const none = PairTable.none;

pub const Kind = enum(u8) {
    /// Found by merging.
    token,
    /// Represents one byte of a character that is not a token.
    byte,
    /// Never found in text, only decoded.
    decoded,
};

/// The handling of a character or byte that is not a token.
pub const Missing = enum { fail, drop, unk, bytes };

/// A model as its file describes it; see formats/spec.py.
pub const Model = struct {
    bytes: []const u8,
    lengths: []const u32,
    ids: []const u32,
    kinds: []const u8,
    /// Pairs of places, concatenated.
    merges: ?[]const u32 = null,
    order: ?[]const u32 = null,
    characters: bool = false,
    whole: bool = false,
    /// Whether "▁" in a token is a space in text.
    blank: bool = false,
    missing: Missing = .fail,
    unk: ?u32 = null,
    fuse_unk: bool = false,
    dropout: f64 = 0,

    /// Whether it is equivalent to a rank file: the id is the order, and whole pretokens are looked
    /// up.
    pub fn isRanks(self: *const Model) bool {
        const is_plain = self.merges == null and self.order == null and self.whole and
            !self.characters and !self.blank and self.missing == .fail and self.dropout == 0;
        return is_plain and std.mem.allEqual(u8, self.kinds, @intFromEnum(Kind.token));
    }
};

pub const Error = error{
    OutOfMemory,
    /// The arrays have inconsistent lengths.
    InvalidModel,
    /// Two tokens have the same bytes, or two represent the same byte.
    DuplicateToken,
    /// A merge produces no token, or has a token that never occurs in text. `culprit` is its index.
    InvalidMerge,
    /// Missing characters are to be encoded as bytes, but there are not 256 byte tokens.
    MissingByteTokens,
    /// The id of the unknown token is not in the vocabulary.
    UnknownUnk,
    IdTooLarge,
    TokenTooLong,
    TooManyBytes,
};

pub const Tokens = struct {
    arena: Allocator,
    model: *const Model,
    count: u32,
    /// The bytes of all tokens, concatenated, as they occur in text.
    bytes: []const u8,
    offsets: []const u32,
    kinds: []const Kind,
    /// The place of the unknown token, or `none`.
    unk: u32 = none,
    /// Symbols of single bytes and of multi-byte characters.
    singles: [256]u32 = @splat(none),
    chars: std.AutoHashMapUnmanaged(u21, u32) = .empty,
    /// Symbols that are not tokens.
    extras: std.ArrayList([]const u8) = .empty,
    table: ?TokenTable = null,

    pub fn init(arena: Allocator, model: *const Model, culprit: *u32) Error!Tokens {
        @setRuntimeSafety(true);
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

    /// Computes the token offsets. A "▁" becomes a space if the model treats the two as equal. A
    /// token with a literal space then never occurs in text.
    fn place(self: *Tokens, kinds: []Kind) Error!void {
        @setRuntimeSafety(true);
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
        @setRuntimeSafety(true);
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

    /// Returns the character that some bytes consist of.
    fn charOf(bytes: []const u8) ?u21 {
        const char = unicode.decode(bytes, 0);
        const is_valid = char.code_point != unicode.replacement or char.len == 3;
        return if (is_valid and char.len == bytes.len) char.code_point else null;
    }

    /// Returns the bytes of a token or symbol.
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

    /// Sets `out` to the symbols of a token. Returns false if one is missing. Missing symbols are
    /// added if the model merges any neighbours that form a token.
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

    /// Returns the symbol or token with these bytes.
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

    /// Returns the mergeable token with these bytes. The table is built on first use.
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
