//! Bytes ↔ a tokenizer: a bundle describes it completely.
//!
//! Every binding loads tokenizers from bundles. All numbers are little-endian:
//!
//!     0   "TMB1"
//!     4   u32: number of bytes of the bundle
//!     8   u64: XXH3 of all bytes from 16 on
//!     16  kind of the vocabulary, flags, missing characters, prefix: a byte each
//!     20  u32: id of the unknown token, 0xFFFFFFFF without one
//!     24  f64: dropout
//!     32  u32 for each field of `Arrays`: its number of bytes
//!     80  the arrays in this order, each padded with zeros to a multiple of four bytes
//!
//! The checksum finds damage. A bundle may also be forged, so each array is checked when it is
//! read.

const std = @import("std");
const Allocator = std.mem.Allocator;
const normalize = @import("normalize.zig");
const preprocess = @import("preprocess.zig");
const pretokens = @import("pretokens.zig");
const serialized = @import("pretokens/serialized.zig");
const vocabularies = @import("vocabulary.zig");
const Failure = @import("failure.zig").Failure;
const Names = @import("added.zig").Names;
const Tokenizer = @import("encode/tokenizer.zig").Tokenizer;
const Vocabulary = vocabularies.Vocabulary;
const Preprocessor = preprocess.Preprocessor;

pub const magic = "TMB1";
pub const header_bytes = 32 + 4 * fields.len;
const fields = std.meta.fieldNames(Arrays);
/// Bindings pass ids as signed numbers of 32 bits.
const id_end = 1 << 31;

pub const Kind = enum(u8) {
    /// `tokens` is a packed vocabulary (vocabulary/image.zig).
    image,
    /// The tokens of a rank file, `lengths` and `ids`.
    ranks,
    /// The same with `kinds`, `merges` and `order`: a model as its file describes it.
    model,
};

pub const Flags = packed struct(u8) {
    /// Merging starts with characters.
    characters: bool = false,
    /// Whole pretokens are looked up.
    whole: bool = false,
    /// "▁" is a space in text.
    space_marker: bool = false,
    fuse_unk: bool = false,
    has_merges: bool = false,
    has_order: bool = false,
    _: u2 = 0,
};

pub const Arrays = struct {
    tokens: []const u8 = "",
    lengths: []const u32 = &.{},
    ids: []const u32 = &.{},
    kinds: []const u8 = "",
    /// Pairs of indices of tokens.
    merges: []const u32 = &.{},
    order: []const u32 = &.{},
    /// The texts of the added tokens: sorted and concatenated.
    names: []const u8 = "",
    name_lengths: []const u32 = &.{},
    name_ids: []const u32 = &.{},
    name_flags: []const u8 = "",
    /// The steps of the normalizer (normalize.zig).
    steps: []const u8 = "",
    /// The pre-tokenizer (pretokens/serialized.zig).
    scheme: []const u8 = "",
};

pub const Bundle = struct {
    kind: Kind,
    flags: Flags = .{},
    missing: vocabularies.Missing = .fail,
    prefix: preprocess.Prefix = .never,
    unk: ?u32 = null,
    dropout: f64 = 0,
    arrays: Arrays,

    /// Reads a bundle, whose bytes must outlive the result.
    pub fn read(bytes: []align(4) const u8) error{InvalidBundle}!Bundle {
        @setRuntimeSafety(true);
        if (bytes.len < header_bytes) return error.InvalidBundle;
        const head = bytes[0..header_bytes];
        if (!std.mem.eql(u8, head[0..4], magic)) return error.InvalidBundle;
        if (std.mem.readInt(u32, head[4..8], .little) != bytes.len) return error.InvalidBundle;
        const checksum = std.mem.readInt(u64, head[8..16], .little);
        if (checksum != std.hash.XxHash3.hash(0, bytes[16..])) return error.InvalidBundle;
        const flags: Flags = @bitCast(head[17]);
        const unk = std.mem.readInt(u32, head[20..24], .little);
        const dropout: f64 = @bitCast(std.mem.readInt(u64, head[24..32], .little));
        if (flags._ != 0 or !isShare(dropout)) return error.InvalidBundle;
        return .{
            .kind = try choice(Kind, head[16]),
            .flags = flags,
            .missing = try choice(vocabularies.Missing, head[18]),
            .prefix = try choice(preprocess.Prefix, head[19]),
            .unk = if (unk == none) null else unk,
            .dropout = dropout,
            .arrays = try readArrays(bytes),
        };
    }

    fn readArrays(bytes: []align(4) const u8) error{InvalidBundle}!Arrays {
        @setRuntimeSafety(true);
        var arrays: Arrays = .{};
        var rest: []align(4) const u8 = @alignCast(bytes[header_bytes..]);
        inline for (fields, 0..) |field, index| {
            const Item = std.meta.Elem(@FieldType(Arrays, field));
            const len: usize = std.mem.readInt(u32, bytes[32 + 4 * index ..][0..4], .little);
            const padded = std.mem.alignForward(u64, len, 4);
            if (padded > rest.len or len % @sizeOf(Item) != 0) return error.InvalidBundle;
            const end: usize = @intCast(padded);
            if (!std.mem.allEqual(u8, rest[len..end], 0)) return error.InvalidBundle;
            @field(arrays, field) = std.mem.bytesAsSlice(Item, rest[0..len]);
            rest = @alignCast(rest[end..]);
        }
        if (rest.len > 0) return error.InvalidBundle;
        return arrays;
    }

    /// Returns the reason if `write` cannot write this tokenizer.
    pub fn failureOf(self: *const Bundle) ?Failure {
        if (!isShare(self.dropout)) {
            return .init(.value, "dropout must be from 0 to 1, got {d}", .{self.dropout});
        }
        if (self.bytesLen() <= std.math.maxInt(u32)) return null;
        return .init(.vocabulary, "the tokenizer exceeds 4 GiB", .{});
    }

    fn isShare(dropout: f64) bool {
        return dropout >= 0 and dropout <= 1;
    }

    fn bytesLen(self: *const Bundle) u64 {
        var len: u64 = header_bytes;
        inline for (fields) |field| {
            len += std.mem.alignForward(u64, self.arrayBytes(field).len, 4);
        }
        return len;
    }

    inline fn arrayBytes(self: *const Bundle, comptime field: []const u8) []const u8 {
        return std.mem.sliceAsBytes(@field(self.arrays, field));
    }

    /// Returns the bytes of a bundle, owned by the caller. `failureOf` must return null.
    pub fn write(self: *const Bundle, gpa: Allocator) Allocator.Error![]align(4) u8 {
        std.debug.assert(self.failureOf() == null);
        const len: usize = @intCast(self.bytesLen());
        const bytes = try gpa.alignedAlloc(u8, .@"4", len);
        @memset(bytes, 0);
        @memcpy(bytes[0..4], magic);
        std.mem.writeInt(u32, bytes[4..8], @intCast(len), .little);
        bytes[16..20].* = .{
            @intFromEnum(self.kind),    @bitCast(self.flags),
            @intFromEnum(self.missing), @intFromEnum(self.prefix),
        };
        std.mem.writeInt(u32, bytes[20..24], self.unk orelse none, .little);
        std.mem.writeInt(u64, bytes[24..32], @bitCast(self.dropout), .little);
        var at: usize = header_bytes;
        inline for (fields, 0..) |field, index| {
            const array = self.arrayBytes(field);
            std.mem.writeInt(u32, bytes[32 + 4 * index ..][0..4], @intCast(array.len), .little);
            @memcpy(bytes[at..][0..array.len], array);
            at += std.mem.alignForward(usize, array.len, 4);
        }
        seal(bytes);
        return bytes;
    }

    fn vocabulary(
        self: *const Bundle,
        gpa: Allocator,
        seed: u64,
        failure: *Failure,
    ) Error!Vocabulary {
        var culprit: u32 = 0;
        const arrays = &self.arrays;
        const made = switch (self.kind) {
            .image => Vocabulary.fromImage(gpa, arrays.tokens, seed),
            .ranks => Vocabulary
                .fromTokens(gpa, arrays.tokens, arrays.lengths, arrays.ids, seed, &culprit),
            .model => Vocabulary.fromModel(gpa, &.{
                .bytes = arrays.tokens,
                .lengths = arrays.lengths,
                .ids = arrays.ids,
                .kinds = arrays.kinds,
                .merges = if (self.flags.has_merges) arrays.merges else null,
                .order = if (self.flags.has_order) arrays.order else null,
                .characters = self.flags.characters,
                .whole = self.flags.whole,
                .blank = self.flags.space_marker,
                .missing = self.missing,
                .unk = self.unk,
                .fuse_unk = self.flags.fuse_unk,
                .dropout = self.dropout,
            }, seed, &culprit),
        };
        return made catch |reason| reject(failure, vocabularies.failureOf(reason, culprit));
    }

    fn preprocessor(
        self: *const Bundle,
        gpa: Allocator,
        of: *const Vocabulary,
        failure: *Failure,
    ) Error!Preprocessor {
        @setRuntimeSafety(true);
        const arrays = &self.arrays;
        const count = arrays.name_lengths.len;
        const are_equal = arrays.name_ids.len == count and arrays.name_flags.len == count;
        if (!are_equal or !Names.areValid(arrays.names, arrays.name_lengths)) {
            const text = "the arrays of the added tokens are inconsistent";
            return reject(failure, .init(.vocabulary, text, .{}));
        }
        const ids = try gpa.dupe(u32, arrays.name_ids);
        defer gpa.free(ids);
        for (ids) |*id| {
            const public = id.*;
            // If ids differ from ranks, each added token must be in the vocabulary.
            const rank = if (of.ranks == null) public else of.rankOf(public);
            if (rank != null and public < id_end) {
                id.* = rank.?;
                continue;
            }
            const format = "id {d} of an added token is not in the vocabulary";
            return reject(failure, .init(.vocabulary, format, .{public}));
        }
        const steps = normalize.Steps.init(gpa, arrays.steps) catch |reason|
            return reject(failure, normalize.failureOf(reason));
        var culprit: usize = 0;
        const options: preprocess.PreprocessorOptions = .{
            .names = arrays.names,
            .lengths = arrays.name_lengths,
            .ids = ids,
            .flags = @ptrCast(arrays.name_flags),
            .prefix = self.prefix,
            .space_marker = self.flags.space_marker,
        };
        return Preprocessor.init(gpa, options, steps, &culprit) catch |reason|
            reject(failure, preprocess.failureOf(reason, options, culprit));
    }
};

/// Rejected: the reason is in `failure`.
pub const Error = error{ OutOfMemory, Rejected };

/// Builds the tokenizer that a bundle describes. `seed` is secret: no text can be chosen to cause
/// hash collisions.
pub fn load(gpa: Allocator, bytes: []const u8, seed: u64, failure: *Failure) Error!Tokenizer {
    if (!std.mem.isAligned(@intFromPtr(bytes.ptr), 4)) {
        const copy = try gpa.alignedAlloc(u8, .@"4", bytes.len);
        defer gpa.free(copy);
        @memcpy(copy, bytes);
        return load(gpa, copy, seed, failure);
    }
    const bundle = Bundle.read(@alignCast(bytes)) catch
        return reject(failure, .init(.vocabulary, "the bundle of the tokenizer is damaged", .{}));
    var vocabulary = try bundle.vocabulary(gpa, seed, failure);
    const parts = blk: {
        errdefer vocabulary.deinit(gpa);
        const packed_scheme = bundle.arrays.scheme;
        var scheme = serialized.read(gpa, packed_scheme) catch |reason|
            return reject(failure, serialized.failureOf(reason, packed_scheme));
        errdefer scheme.deinit(gpa);
        break :blk .{ scheme, try bundle.preprocessor(gpa, &vocabulary, failure) };
    };
    return .init(gpa, vocabulary, parts[0], parts[1], seed);
}

/// Writes the checksum of a bundle into it.
pub fn seal(bytes: []u8) void {
    std.mem.writeInt(u64, bytes[8..16], std.hash.XxHash3.hash(0, bytes[16..]), .little);
}

fn reject(failure: *Failure, reason: Failure) Error {
    failure.* = reason;
    return if (reason.kind == .memory) error.OutOfMemory else error.Rejected;
}

/// An id that no token has.
const none = std.math.maxInt(u32);

fn choice(comptime T: type, number: u8) error{InvalidBundle}!T {
    return std.enums.fromInt(T, number) orelse error.InvalidBundle;
}

test {
    _ = @import("bundle/testing.zig");
}
