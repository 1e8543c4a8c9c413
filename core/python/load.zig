//! A bundle → `tokenmill._native.Core`; its parts alone; and Hugging Face files → buffers.

const std = @import("std");
const api = @import("api.zig");
const arguments = @import("arguments.zig");
const bundles = @import("../bundle.zig");
const model_files = @import("../model_files.zig");
const normal = @import("../normalize.zig");
const object_ = @import("object.zig");
const pretokens = @import("../pretokens.zig");
const results = @import("results.zig");
const preprocess = @import("../preprocess.zig");
const serialized = @import("../pretokens/serialized.zig");
const vocabularies = @import("../vocabulary.zig");
const Bytes = results.Bytes;
const Call = object_.Call;
const Core = @import("tokenizer.zig").Core;
const Error = object_.Error;
const Failure = @import("../failure.zig").Failure;
const Object = api.Object;
const Text = arguments.Text;
const Unlocked = object_.Unlocked;

const gpa = object_.gpa;

// ── Tokenizers ───────────────────────────────────────────────────────────────────────────────────

/// pack_bundle(kind, tokens, scheme, …) → the bytes of a bundle
pub fn packBundle(call: Call, args: struct {
    kind: bundles.Kind,
    tokens: Text,
    scheme: Text,
    lengths: []const u32 = &.{},
    ids: []const u32 = &.{},
    kinds: []const u8 = &.{},
    merges: ?[]const u32 = null,
    order: ?[]const u32 = null,
    characters: bool = false,
    whole: bool = false,
    space_marker: bool = false,
    missing: vocabularies.Missing = .fail,
    unk: ?u32 = null,
    fuse_unk: bool = false,
    dropout: f64 = 0,
    names: ?Text = null,
    name_lengths: []const u32 = &.{},
    name_ids: []const u32 = &.{},
    name_flags: ?Text = null,
    steps: ?Text = null,
    prefix: preprocess.Prefix = .never,
}) Error!*Object {
    const bundle: bundles.Bundle = .{
        .kind = args.kind,
        .flags = .{
            .characters = args.characters,
            .whole = args.whole,
            .space_marker = args.space_marker,
            .fuse_unk = args.fuse_unk,
            .has_merges = args.merges != null,
            .has_order = args.order != null,
        },
        .missing = args.missing,
        .prefix = args.prefix,
        .unk = args.unk,
        .dropout = args.dropout,
        .arrays = .{
            .tokens = args.tokens.bytes,
            .lengths = args.lengths,
            .ids = args.ids,
            .kinds = args.kinds,
            .merges = args.merges orelse &.{},
            .order = args.order orelse &.{},
            .names = if (args.names) |text| text.bytes else "",
            .name_lengths = args.name_lengths,
            .name_ids = args.name_ids,
            .name_flags = if (args.name_flags) |text| text.bytes else "",
            .steps = if (args.steps) |text| text.bytes else "",
            .scheme = args.scheme.bytes,
        },
    };
    if (bundle.failureOf()) |failure| return call.raise(failure);
    const bytes = try bundle.write(gpa);
    defer gpa.free(bytes);
    return results.bytesOf(bytes);
}

/// load(bundle, seed) → Core
pub fn loadBundle(call: Call, args: struct { bundle: Text, seed: u64 }) Error!Core {
    var failure: Failure = undefined;
    const given = .{ gpa, args.bundle.bytes, args.seed, &failure };
    const made = object_.unlocked(bundles.load, given) catch |reason| switch (reason) {
        error.OutOfMemory => return error.OutOfMemory,
        error.Rejected => return call.raise(failure),
    };
    return .init(made);
}

// ── Pre-tokenizers ───────────────────────────────────────────────────────────────────────────────

/// A pre-tokenizer: the name of a hand-written scanner, a compiled program, or stages.
pub const Scheme = struct {
    text: Text,

    pub fn from(call: Call, object: *Object, name: []const u8) Error!Scheme {
        return .{ .text = try .from(call, object, name) };
    }

    pub fn release(self: *Scheme) void {
        self.text.release();
    }

    /// Returns the pre-tokenizer, owned by the caller.
    pub fn read(self: Scheme, call: Call) Error!pretokens.Scheme {
        const bytes = self.text.bytes;
        return serialized.read(gpa, bytes) catch |failure|
            call.raise(serialized.failureOf(failure, bytes));
    }
};

/// split(scheme, text) → list of (start, end): the pretokens of one document, in bytes
pub fn split(call: Call, args: struct { scheme: Scheme, text: Text }) Error!*Object {
    var scheme = try args.scheme.read(call);
    defer scheme.deinit(gpa);
    var spans: std.ArrayList(struct { usize, usize }) = .empty;
    defer spans.deinit(gpa);
    var pieces: pretokens.Pretokens = .init(gpa, &scheme, args.text.bytes);
    defer pieces.deinit();
    while (try pieces.next()) |span| try spans.append(gpa, .{ span.start, span.end });
    return results.listOf(call, spans.items);
}

// ── Normalizers ──────────────────────────────────────────────────────────────────────────────────

fn stepsFrom(call: Call, packed_steps: []const u8) Error!normal.Steps {
    return normal.Steps.init(gpa, packed_steps) catch |failure|
        call.raise(normal.failureOf(failure));
}

/// normalize(steps, text) → (text, alignment): a str for a str, otherwise bytes. The alignment is
/// u32 numbers, the start and the end of each byte's span; None if the text is unchanged.
pub fn normalize(
    call: Call,
    args: struct { steps: Text, text: Text },
) Error!struct { *Object, ?[]u32 } {
    var steps = try stepsFrom(call, args.steps.bytes);
    defer steps.deinit(gpa);
    const text = args.text.bytes;
    const outcome = if (text.len < Unlocked.bytes_min)
        steps.apply(gpa, text, true)
    else
        object_.unlocked(normal.Steps.apply, .{ &steps, gpa, text, true });
    var normalized = try outcome orelse {
        if (!api.isUnicode(args.text.object)) return .{ try args.text.like(text), null };
        api.Py_IncRef(args.text.object);
        return .{ args.text.object, null };
    };
    defer normalized.deinit(gpa);
    const bytes = normalized.bytes;
    const places = try normal.spread(gpa, normalized.places, bytes.len, text);
    const numbers: []u32 = @as([*]u32, @ptrCast(places.ptr))[0 .. 2 * places.len];
    errdefer gpa.free(numbers);
    return .{ try args.text.like(bytes), numbers };
}

// ── Files ────────────────────────────────────────────────────────────────────────────────────────

/// The tokens and merges of a file, and the rest of it.
pub const Model = struct {
    pub const sequence = "Model";

    rest: Bytes,
    bytes: Bytes,
    lengths: []u32,
    ids: []u32,
    merges: []u32,
    /// The first merge without a token, or -1.
    unmade: i64,

    fn of(found: model_files.Found) Model {
        return .{
            .rest = .{ .owned = found.rest },
            .bytes = .{ .owned = found.bytes },
            .lengths = found.lengths,
            .ids = found.ids,
            .merges = found.merges,
            .unmade = if (found.unmade) |place| place else -1,
        };
    }
};

/// read_model(json, seed) → Model
pub fn readModel(call: Call, args: struct { json: Text, seed: u64 }) Error!Model {
    var report: model_files.Report = .{};
    const found = model_files.readModel(gpa, args.json.bytes, args.seed, &report);
    return .of(found catch |failure| return call.raise(model_files.failureOf(failure, &report)));
}

/// read_vocabulary(vocab_json, merges_txt, seed) → Model without a rest
pub fn readVocabulary(call: Call, args: struct {
    vocab_json: Text,
    merges_txt: Text,
    seed: u64,
}) Error!Model {
    var report: model_files.Report = .{};
    const vocabulary, const merges = .{ args.vocab_json.bytes, args.merges_txt.bytes };
    const found = model_files.readFiles(gpa, vocabulary, merges, args.seed, &report);
    return .of(found catch |failure| return call.raise(model_files.failureOf(failure, &report)));
}

/// The bytes of tokens that are written in GPT-2's alphabet, and which of them could be read.
pub const Spelling = struct {
    pub const sequence = "Spelling";

    bytes: Bytes,
    lengths: []u32,
    kinds: []u8,
};

/// read_spelling(names, lengths) → Spelling
pub fn readSpelling(call: Call, args: struct { names: Text, lengths: []const u32 }) Error!Spelling {
    const names = args.names.bytes;
    if (model_files.spelling.failureOf(names, args.lengths)) |failure| return call.raise(failure);
    const found = try model_files.spelling.read(gpa, names, args.lengths);
    return .{
        .bytes = .{ .owned = found.bytes },
        .lengths = found.lengths,
        .kinds = found.kinds,
    };
}
