//! The parts of a tokenizer as Python objects → `tokenmill._native.Core`; and Hugging Face files →
//! buffers.

const std = @import("std");
const api = @import("api.zig");
const arguments = @import("arguments.zig");
const model_files = @import("../model_files.zig");
const normal = @import("../normalize.zig");
const object_ = @import("object.zig");
const preprocess = @import("../preprocess.zig");
const pretokens = @import("../pretokens.zig");
const results = @import("results.zig");
const vocabularies = @import("../vocabulary.zig");
const Names = @import("../added.zig").Names;
const Buffer = @import("buffer.zig").Buffer;
const Bytes = results.Bytes;
const Call = object_.Call;
const Core = @import("tokenizer.zig").Core;
const Error = object_.Error;
const Object = api.Object;
const Text = arguments.Text;
const Tuple = arguments.Tuple;
const Unlocked = object_.Unlocked;
const Vocabulary = vocabularies.Vocabulary;

const gpa = object_.gpa;

// ── Tokenizers ───────────────────────────────────────────────────────────────────────────────────

/// from_image(image, seed, scheme, front) → Core
pub fn fromImage(call: Call, args: struct {
    image: Text,
    seed: u64,
    scheme: Scheme,
    front: Tuple(Front),
}) Error!Core {
    const made = Vocabulary.fromImage(gpa, args.image.bytes, args.seed) catch |failure|
        return call.raise(vocabularies.failureOf(failure, 0));
    return finish(call, made, args.seed, args.scheme, &args.front.fields, false);
}

/// from_tokens(tokens, token_lengths, token_ids, seed, scheme, front) → Core
pub fn fromTokens(call: Call, args: struct {
    tokens: Text,
    token_lengths: []const u32,
    token_ids: []const u32,
    seed: u64,
    scheme: Scheme,
    front: Tuple(Front),
}) Error!Core {
    var culprit: u32 = 0;
    const lengths, const numbers = .{ args.token_lengths, args.token_ids };
    const made = Vocabulary
        .fromTokens(gpa, args.tokens.bytes, lengths, numbers, args.seed, &culprit) catch |failure|
        return call.raise(vocabularies.failureOf(failure, culprit));
    return finish(call, made, args.seed, args.scheme, &args.front.fields, false);
}

/// A model as its file describes it.
const ModelFields = struct {
    bytes: Text,
    lengths: []const u32,
    ids: []const u32,
    kinds: []const u8,
    merges: ?[]const u32,
    order: ?[]const u32,
    characters: bool,
    whole: bool,
    blank: bool,
    missing: vocabularies.Missing,
    /// The id of the unknown token, or -1.
    unk: arguments.Int(i64, -1, std.math.maxInt(u32)),
    fuse_unk: bool,
    dropout: f64,
};

/// from_parts(model, scheme, front, seed) → Core
pub fn fromParts(call: Call, args: struct {
    model: Tuple(ModelFields),
    scheme: Scheme,
    front: Tuple(Front),
    seed: u64,
}) Error!Core {
    const given = &args.model.fields;
    if (!(given.dropout >= 0 and given.dropout <= 1)) {
        const format = "Dropout should be between 0 and 1, inclusive, not {d}";
        return call.fail(.vocabulary, format, .{given.dropout});
    }
    const model: vocabularies.Model = .{
        .bytes = given.bytes.bytes,
        .lengths = given.lengths,
        .ids = given.ids,
        .kinds = given.kinds,
        .merges = given.merges,
        .order = given.order,
        .characters = given.characters,
        .whole = given.whole,
        .blank = given.blank,
        .missing = given.missing,
        .unk = std.math.cast(u32, given.unk.value),
        .fuse_unk = given.fuse_unk,
        .dropout = given.dropout,
    };
    var culprit: u32 = 0;
    const made = Vocabulary.fromModel(gpa, &model, args.seed, &culprit) catch |failure|
        return call.raise(vocabularies.failureOf(failure, culprit));
    return finish(call, made, args.seed, args.scheme, &args.front.fields, model.blank);
}

/// Adds a pre-tokenizer and preprocessing to a vocabulary. Takes ownership of it. `blank`: "▁" is a
/// space in texts.
fn finish(
    call: Call,
    vocabulary: Vocabulary,
    seed: u64,
    scheme: Scheme,
    front: *const Front,
    blank: bool,
) Error!Core {
    var parts = vocabulary;
    const made = blk: {
        errdefer parts.deinit(gpa);
        var cutting = try scheme.read(call);
        errdefer cutting.deinit(gpa);
        const preprocessing = try front.read(call, &parts, blank);
        break :blk .{ cutting, preprocessing };
    };
    return .init(try .init(gpa, parts, made[0], made[1], seed));
}

/// The preprocessing of a tokenizer.
const Front = struct {
    /// The texts of the added tokens, sorted and concatenated.
    names: Text,
    lengths: []const u32,
    ids: []const u32,
    flags: []const u8,
    /// The packed steps of the normalizer.
    steps: Text,
    prefix: preprocess.Prefix,

    fn read(
        self: *const Front,
        call: Call,
        vocabulary: *const Vocabulary,
        blank: bool,
    ) Error!preprocess.Preprocessor {
        const count = self.lengths.len;
        const are_equal = self.ids.len == count and self.flags.len == count;
        if (!are_equal or !Names.areValid(self.names.bytes, self.lengths)) {
            return call.fail(.vocabulary, "the arrays of the added tokens are inconsistent", .{});
        }
        const numbers = try gpa.dupe(u32, self.ids);
        defer gpa.free(numbers);
        // If ids differ from ranks, each added token must be in the vocabulary.
        if (vocabulary.ranks != null) for (numbers) |*id| {
            id.* = vocabulary.rankOf(id.*) orelse {
                const format = "id {d} of an added token is not in the vocabulary";
                return call.fail(.vocabulary, format, .{id.*});
            };
        };
        const given: preprocess.PreprocessorOptions = .{
            .names = self.names.bytes,
            .lengths = self.lengths,
            .ids = numbers,
            .flags = @ptrCast(self.flags),
            .prefix = self.prefix,
            .space_marker = blank,
        };
        const steps = try stepsFrom(call, self.steps.bytes);
        var culprit: usize = 0;
        const made = preprocess.Preprocessor.init(gpa, given, steps, &culprit);
        return made catch |failure| switch (failure) {
            error.OutOfMemory => error.OutOfMemory,
            error.EmptyName => {
                var start: usize = 0;
                for (given.lengths[0..culprit]) |length| start += length;
                const name = given.names[start..][0..given.lengths[culprit]];
                const format = "added token '{s}' is empty after normalization; " ++
                    "use another text, or normalized=False";
                return call.fail(.vocabulary, format, .{name[0..@min(80, name.len)]});
            },
        };
    }
};

// ── Pre-tokenizers ───────────────────────────────────────────────────────────────────────────────

/// A pre-tokenizer: the name of a hand-written scanner as str, a compiled program as bytes, or
/// stages as a tuple.
pub const Scheme = struct {
    object: *Object,

    pub fn from(call: Call, object: *Object, name: []const u8) Error!Scheme {
        _ = .{ call, name };
        return .{ .object = object };
    }

    /// Returns the pre-tokenizer, owned by the caller.
    pub fn read(self: Scheme, call: Call) Error!pretokens.Scheme {
        const object = self.object;
        if (api.isTuple(object)) return .{ .stages = try stagesFrom(call, object) };
        if (!api.isUnicode(object)) return .{ .program = try programFrom(call, object) };
        var text = try Text.from(call, object, "scheme");
        defer text.release();
        inline for (comptime std.enums.values(pretokens.Scheme.Tag)) |tag| {
            const name = @tagName(tag);
            if (tag != .program and tag != .stages and std.mem.eql(u8, text.bytes, name)) {
                // The safe split points are computed when the vocabulary is known.
                if (tag == .safe) return .{ .safe = .whole };
                if (tag == .metaspace) return .{ .metaspace = .blanks };
                return @unionInit(pretokens.Scheme, name, {});
            }
        }
        const name = text.bytes[0..@min(text.bytes.len, 80)];
        return call.fail(.value, "unknown pre-tokenizer '{s}'", .{name});
    }
};

fn programFrom(call: Call, object: *Object) Error!pretokens.Program {
    var text = try Text.from(call, object, "scheme");
    defer text.release();
    return pretokens.Program.init(gpa, text.bytes) catch |failure| switch (failure) {
        error.OutOfMemory => error.OutOfMemory,
        error.InvalidProgram => call.fail(.pattern, "not a compiled pattern", .{}),
    };
}

const stages_max = 64;

/// Reads a tuple of (program or name of a class, behaviour, invert).
fn stagesFrom(call: Call, object: *Object) Error!pretokens.stages.Stages {
    const count: usize = @intCast(api.PyTuple_Size(object));
    if (count == 0 or count > stages_max) {
        const format = "expected 1 to {d} stages, got {d}";
        return call.fail(.value, format, .{ stages_max, count });
    }
    var list: std.ArrayList(pretokens.stages.Stage) = try .initCapacity(gpa, count);
    errdefer {
        for (list.items) |*stage| stage.deinit(gpa);
        list.deinit(gpa);
    }
    for (0..count) |index| {
        const item = api.PyTuple_GetItem(object, @intCast(index)) orelse return error.Raised;
        list.appendAssumeCapacity(try stageFrom(call, item));
    }
    return .{ .list = try list.toOwnedSlice(gpa) };
}

fn stageFrom(call: Call, object: *Object) Error!pretokens.stages.Stage {
    const Stage = Tuple(struct {
        match: *Object,
        behaviour: pretokens.stages.Behaviour,
        invert: bool,
    });
    const stage = (try Stage.from(call, object, "stage")).fields;
    const class = pretokens.stages.Class;
    return .{
        .match = if (api.isUnicode(stage.match))
            .{ .class = try arguments.convert(class, call, stage.match, "class of a stage") }
        else
            .{ .program = try programFrom(call, stage.match) },
        .behaviour = stage.behaviour,
        .invert = stage.invert,
    };
}

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
    return normal.Steps.init(gpa, packed_steps) catch |failure| switch (failure) {
        error.OutOfMemory => error.OutOfMemory,
        error.InvalidSteps => call.fail(
            .vocabulary,
            "the normalizer is damaged: a map or a pattern in it cannot be read",
            .{},
        ),
    };
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
    var sum: usize = 0;
    for (args.lengths) |length| sum += length;
    if (sum != args.names.bytes.len) {
        return call.fail(.value, "lengths must add up to the length of names", .{});
    }
    const found = try model_files.spelling.read(gpa, args.names.bytes, args.lengths);
    return .{
        .bytes = .{ .owned = found.bytes },
        .lengths = found.lengths,
        .kinds = found.kinds,
    };
}
