//! Vocabulary, pre-tokenizer and preprocessing → a tokenizer, which all threads share.
//!
//! A tokenizer is immutable, except for its caches, which never affect a result. Each thread has
//! its own `Encoder` (encoder.zig), which contains the scratch memory.

const std = @import("std");
const Allocator = std.mem.Allocator;
const pretokens = @import("../pretokens.zig");
const Vocabulary = @import("../vocabulary.zig").Vocabulary;
const caches = @import("../cache/registry.zig");
const Characters = @import("../units/characters.zig").Characters;
const Failure = @import("../failure.zig").Failure;
const Preprocessor = @import("../preprocess.zig").Preprocessor;

/// Bytes of text in large scripts that are encoded before `Characters` is built. Building it takes
/// as long as merging about 100 KB, so a few such characters in an English text do not justify it.
pub var wide_bytes_min: std.atomic.Value(usize) = .init(32 << 10);

pub const Tokenizer = struct {
    vocabulary: Vocabulary,
    scheme: pretokens.Scheme,
    preprocessor: Preprocessor,
    /// Random and secret, new at each load. No input can be chosen to cause hash collisions.
    seed: u64,
    /// Whether each byte is a token. Otherwise a character without ids of its own may get ids in
    /// context, and pretokens are not split.
    has_all_bytes: bool,
    /// The caches. This is the only mutable state, and no result depends on it.
    memory: *Memory,

    const Memory = struct {
        caches: caches.Caches,
        characters: std.atomic.Value(?*Characters) = .init(null),
        /// Bytes of text with characters of large scripts that were encoded without `characters`.
        wide_bytes: std.atomic.Value(usize) = .init(0),
    };

    /// Takes ownership of its arguments. They are freed if an allocation fails.
    pub fn init(
        gpa: Allocator,
        vocabulary: Vocabulary,
        scheme: pretokens.Scheme,
        preprocessor: Preprocessor,
        seed: u64,
    ) Allocator.Error!Tokenizer {
        var self: Tokenizer = .{
            .vocabulary = vocabulary,
            .scheme = scheme,
            .preprocessor = preprocessor,
            .seed = seed,
            // Fragments require that no character is dropped or replaced.
            .has_all_bytes = vocabulary.hasAllBytes() and vocabulary.leftover != .settle,
            .memory = undefined,
        };
        errdefer self.deinitParts(gpa);
        self.cutSafely();
        self.memory = try gpa.create(Memory);
        self.memory.* = .{ .caches = .{ .seed = seed } };
        self.memory.caches.register();
        return self;
    }

    /// Finds safe split points for a tokenizer that has no pre-tokenizer.
    fn cutSafely(self: *Tokenizer) void {
        const vocabulary = &self.vocabulary;
        // Splitting requires a closed vocabulary: a token that is matched only as a whole pretoken
        // could otherwise appear in a chunk of the text. Dropped characters make their neighbours
        // adjacent, which rules out splitting as well.
        if (self.scheme.safely() == null or !vocabulary.is_closed) return;
        if (vocabulary.missing == .drop) return;
        // With BPE dropout, a skipped merge can be retried only while the pretoken has other
        // merges.
        if (vocabulary.isRandom()) return;
        var safe: pretokens.Safe = .fromTokens(Found{ .vocabulary = vocabulary });
        if (vocabulary.missing == .unk and vocabulary.fuse_unk) {
            // Adjacent unknown characters become one unknown token. A space separates them.
            if (vocabulary.byte_ids[' '] >= vocabulary.ids_end) return;
            safe = safe.atBlanksOnly();
        }
        switch (self.scheme) {
            .safe => |*own| own.* = safe,
            .metaspace => |*own| own.* = safe.atEachBlank(),
            else => unreachable,
        }
    }

    /// Iterates over the tokens of at least two bytes that encoding can produce.
    const Found = struct {
        vocabulary: *const Vocabulary,
        id: u32 = 0,

        pub fn next(self: *Found) ?[]const u8 {
            while (self.id < self.vocabulary.ids_end) {
                defer self.id += 1;
                const token = self.vocabulary.tokenBytes(self.id);
                if (token.len < 2) continue;
                if (!self.vocabulary.has_hidden) return token;
                if (self.vocabulary.find(token) == self.id) return token;
            }
            return null;
        }
    };

    pub fn deinit(self: *Tokenizer, gpa: Allocator) void {
        self.memory.caches.deinit();
        if (self.memory.characters.raw) |characters| characters.destroy(gpa);
        gpa.destroy(self.memory);
        self.deinitParts(gpa);
    }

    /// Whether the same text gets different ids each time (BPE dropout). Then results are not
    /// cached and no text is split.
    pub fn isRandom(self: *const Tokenizer) bool {
        return self.vocabulary.isRandom();
    }

    /// Returns the reason if a call, named `what`, needs the same ids each time and does not get
    /// them.
    pub fn randomFailureOf(self: *const Tokenizer, what: []const u8) ?Failure {
        if (!self.isRandom()) return null;
        const format = "{s} is not supported with dropout, which makes encodings random; " ++
            "set the dropout of the model to None";
        return .init(.vocabulary, format, .{what});
    }

    pub fn madeCharacters(self: *const Tokenizer) ?*const Characters {
        return self.memory.characters.load(.acquire);
    }

    /// Returns the table that splits pretokens in large scripts into fragments. The first thread
    /// that needs it builds it. Returns null while less than `wide_bytes_min` bytes of such text
    /// have been encoded (`wide_bytes` is the length of this pretoken), or if memory runs out.
    pub fn charactersFor(
        self: *const Tokenizer,
        gpa: Allocator,
        wide_bytes: usize,
    ) ?*const Characters {
        if (self.madeCharacters()) |made| return made;
        if (!self.has_all_bytes or self.isRandom()) return null;
        const before = self.memory.wide_bytes.fetchAdd(wide_bytes, .monotonic);
        if (before + wide_bytes < wide_bytes_min.load(.monotonic)) return null;
        const place = &self.memory.characters;
        const made = Characters.create(gpa, &self.vocabulary, self.seed) catch return null;
        const other = place.cmpxchgStrong(null, made, .acq_rel, .acquire) orelse return made;
        made.destroy(gpa);
        return other;
    }

    fn deinitParts(self: *Tokenizer, gpa: Allocator) void {
        self.vocabulary.deinit(gpa);
        self.scheme.deinit(gpa);
        self.preprocessor.deinit(gpa);
    }

    /// Returns one past the largest id, also of added tokens.
    pub fn idsEnd(self: *const Tokenizer) u64 {
        const added = self.preprocessor.ids;
        const added_end = if (added.len == 0) 0 else @as(u64, std.mem.max(u32, added)) + 1;
        return @max(self.vocabulary.publicEnd(), added_end);
    }

    /// The bytes of all tokens, concatenated, and the end of each id's bytes.
    pub const Tokens = struct { bytes: []u8, ends: []u32 };

    /// Returns the tokens in the order of their public ids, owned by the caller.
    pub fn tokensById(self: *const Tokenizer, gpa: Allocator) Allocator.Error!Tokens {
        const vocabulary = &self.vocabulary;
        const bytes = try gpa.alloc(u8, vocabulary.bytes.len);
        errdefer gpa.free(bytes);
        const ends = try gpa.alloc(u32, vocabulary.publicEnd());
        errdefer gpa.free(ends);
        var end: u32 = 0;
        for (ends, 0..) |*place, id| {
            const rank = vocabulary.rankOf(@intCast(id));
            const token = if (rank) |some| vocabulary.tokenBytes(some) else "";
            @memcpy(bytes[end..][0..token.len], token);
            end += @intCast(token.len);
            place.* = end;
        }
        return .{ .bytes = try gpa.realloc(bytes, end), .ends = ends };
    }

    /// Returns the reason for a number that is not an id.
    pub fn unknownIdFailure(self: *const Tokenizer, number: i64) Failure {
        const vocabulary = &self.vocabulary;
        return .init(
            .unknown_token,
            "id {d} is not in this vocabulary, which has {d} tokens below id {d} and {d} added " ++
                "tokens; was the text encoded with another tokenizer?",
            .{ number, vocabulary.token_count, vocabulary.publicEnd(), self.preprocessor.ids.len },
        );
    }

    /// Returns the bytes of an id. The bytes of a special token are its text.
    pub fn idBytes(self: *const Tokenizer, id: u32) ?[]const u8 {
        if (self.vocabulary.rankOf(id)) |rank| {
            const token = self.vocabulary.tokenBytes(rank);
            if (token.len > 0 or self.vocabulary.empty_id == rank) return token;
        }
        // If ids differ from ranks, special tokens are part of the vocabulary.
        return if (self.vocabulary.ranks == null) self.preprocessor.nameOf(id) else null;
    }
};
