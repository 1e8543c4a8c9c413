//! Python ↔ the core: the module `tokenmill._native`, the only module that uses Python's API.

const std = @import("std");
const builtin = @import("builtin");
const platform = @import("platform.zig");
const api = @import("python/api.zig");
const arrow = @import("python/arrow.zig");
const batches = @import("python/batches.zig");
const buffer = @import("python/buffer.zig");
const counts = @import("python/counts.zig");
const counts_files = @import("python/counts_files.zig");
const documents = @import("python/documents.zig");
const fronts = @import("python/fronts.zig");
const core = @import("python/core.zig");
const files = @import("python/files.zig");
const batch = @import("encode/batch.zig");
const caches = @import("cache/registry.zig");
const tokenizers = @import("encode/tokenizer.zig");
const merges = @import("python/merges.zig");
const models = @import("python/models.zig");
const normal = @import("python/normal.zig");
const pretokens = @import("pretokens.zig");
const session = @import("python/session.zig");
const unicode = @import("unicode.zig");
const Vocabulary = @import("vocabulary.zig").Vocabulary;
const lists = @import("python/lists.zig");
const Text = @import("python/text.zig").Text;

const gpa = buffer.gpa;
const Object = api.Object;
const Args = core.Args;

fn stateOf(module: *Object) *core.State {
    return @ptrCast(@alignCast(api.PyModule_GetState(module).?));
}

/// from_image(image, seed, scheme, front) → Core
fn fromImage(module: *Object, args: Args) ?*Object {
    var image = Text.from(args[0]) orelse return null;
    defer image.release();
    const seed = api.PyLong_AsUnsignedLongLongMask(args[1]);
    const vocabulary = Vocabulary.fromImage(gpa, image.bytes, seed) catch |failure|
        return models.fail(stateOf(module), failure, 0);
    return finish(module, vocabulary, seed, args[2], args[3], false);
}

/// from_tokens(bytes, lengths, ids, seed, scheme, front) → Core
fn fromTokens(module: *Object, args: Args) ?*Object {
    var bytes = Text.from(args[0]) orelse return null;
    defer bytes.release();
    const lengths = core.numbersFrom(u32, args[1]) orelse return null;
    defer gpa.free(lengths);
    const numbers = core.numbersFrom(u32, args[2]) orelse return null;
    defer gpa.free(numbers);
    const seed = api.PyLong_AsUnsignedLongLongMask(args[3]);
    var culprit: u32 = 0;
    const made = Vocabulary.fromTokens(gpa, bytes.bytes, lengths, numbers, seed, &culprit);
    const vocabulary = made catch |failure|
        return models.fail(stateOf(module), failure, culprit);
    return finish(module, vocabulary, seed, args[4], args[5], false);
}

/// from_parts(model, scheme, front, seed) → Core
fn fromParts(module: *Object, args: Args) ?*Object {
    const seed = api.PyLong_AsUnsignedLongLongMask(args[3]);
    const vocabulary = models.vocabularyFrom(stateOf(module), args[0], seed) orelse return null;
    return finish(module, vocabulary, seed, args[1], args[2], models.hasBlank(args[0]));
}

/// Adds a pre-tokenizer and preprocessing to a vocabulary. Takes ownership of it. `blank`: "▁" is a
/// space in texts.
fn finish(
    module: *Object,
    vocabulary: Vocabulary,
    seed: u64,
    scheme_object: *Object,
    front_object: *Object,
    blank: bool,
) ?*Object {
    var parts = vocabulary;
    var scheme = core.schemeFrom(stateOf(module), scheme_object) orelse {
        parts.deinit(gpa);
        return null;
    };
    const front = fronts.from(stateOf(module), &parts, front_object, blank) orelse {
        parts.deinit(gpa);
        scheme.deinit(gpa);
        return null;
    };
    const made = tokenizers.Tokenizer.init(gpa, parts, scheme, front, seed);
    const tokenizer = made catch return api.PyErr_NoMemory();
    return core.Core.create(stateOf(module).core_type.?, tokenizer);
}

/// split(scheme, text) → list of (start, end): the pretokens of one document, in bytes
fn split(module: *Object, args: Args) ?*Object {
    var scheme = core.schemeFrom(stateOf(module), args[0]) orelse return null;
    defer scheme.deinit(gpa);
    var text = Text.from(args[1]) orelse return null;
    defer text.release();
    var spans: std.ArrayList(pretokens.Span) = .empty;
    defer spans.deinit(gpa);
    collect(&scheme, text.bytes, &spans) catch return api.PyErr_NoMemory();
    const list = api.PyList_New(@intCast(spans.items.len)) orelse return null;
    for (spans.items, 0..) |span, index| {
        const pair = core.pairOf(
            api.PyLong_FromUnsignedLongLong(span.start),
            api.PyLong_FromUnsignedLongLong(span.end),
        ) orelse {
            api.Py_DecRef(list);
            return null;
        };
        _ = api.PyList_SetItem(list, @intCast(index), pair);
    }
    return list;
}

fn collect(
    scheme: *const pretokens.Scheme,
    text: []const u8,
    spans: *std.ArrayList(pretokens.Span),
) !void {
    var pieces: pretokens.Pretokens = .init(gpa, scheme, text);
    defer pieces.deinit();
    while (try pieces.next()) |span| try spans.append(gpa, span);
}

/// normalize(steps, text) → (normalized text, alignment)
fn normalize(module: *Object, args: Args) ?*Object {
    return normal.normalize(stateOf(module), args);
}

/// arrow_capsules(ids, offsets) → (schema, array)
fn arrowCapsules(module: *Object, args: Args) ?*Object {
    const buffer_type = stateOf(module).buffer_type.?;
    if (args[0].type != buffer_type or args[1].type != buffer_type) {
        return core.fail(api.typeError(), "arrow_capsules takes two buffers", .{});
    }
    return arrow.capsules(args[0], args[1]);
}

/// simd_levels() → the CPU feature levels that this CPU supports, the lowest first
fn simdLevels(_: *Object, _: Args) ?*Object {
    const best = @intFromEnum(platform.cpu.best());
    const list = api.PyList_New(@as(api.Ssize, best) + 1) orelse return null;
    inline for (@typeInfo(platform.cpu.Level).@"enum".fields, 0..) |field, index| {
        if (index > best) return list;
        const name = api.PyUnicode_DecodeUTF8(field.name.ptr, field.name.len, null) orelse {
            api.Py_DecRef(list);
            return null;
        };
        _ = api.PyList_SetItem(list, index, name);
    }
    return list;
}

/// use_simd(level): for tests and measurements; results are the same at every CPU feature level
fn useSimd(_: *Object, args: Args) ?*Object {
    var text = Text.from(args[0]) orelse return null;
    defer text.release();
    const level = std.meta.stringToEnum(platform.cpu.Level, text.bytes);
    if (level == null or !pretokens.levels.use(level.?)) {
        return core.fail(api.valueError(), "SIMD level not supported by this CPU", .{});
    }
    return api.none();
}

/// join(ids, offsets) → (ids, offsets): concatenates ragged arrays, passed as two lists
fn join(module: *Object, args: Args) ?*Object {
    return batches.join(stateOf(module).buffer_type.?, args[0], args[1]);
}

/// split_documents(data, separator, is_last) → (spans, bytes used)
fn splitDocuments(module: *Object, args: Args) ?*Object {
    return documents.splitDocuments(stateOf(module), args);
}

/// json_lines(data, is_last, field, id_field) → (text, spans, lines, problems, used, ids, lines)
fn jsonLines(module: *Object, args: Args) ?*Object {
    return documents.jsonLines(stateOf(module), args);
}

/// utf8_problems(data, spans) → the indices of the documents that are not UTF-8
fn utf8Problems(module: *Object, args: Args) ?*Object {
    return documents.utf8Problems(stateOf(module), args);
}

/// last_cut(data, names) → the last offset where a text that continues may be cut, or None
fn lastCut(_: *Object, args: Args) ?*Object {
    return counts.lastCut(args);
}

/// merge_counts(paths, weights, output, metadata)
fn mergeCounts(module: *Object, args: Args) ?*Object {
    return counts_files.mergeCounts(stateOf(module), args);
}

/// read_model(json, seed) → (rest, bytes, lengths, ids, merges, first merge without a token or -1)
fn readModel(module: *Object, args: Args) ?*Object {
    return files.readModel(stateOf(module), args);
}

/// read_vocabulary(vocab_json, merges_txt, seed) → the same
fn readVocabulary(module: *Object, args: Args) ?*Object {
    return files.readVocabulary(stateOf(module), args);
}

/// read_spelling(names, lengths) → (bytes, lengths, kinds)
fn readSpelling(module: *Object, args: Args) ?*Object {
    return files.readSpelling(stateOf(module), args);
}

/// use_units_after(bytes): for tests and measurements; results are the same for any value
fn useUnitsAfter(_: *Object, args: Args) ?*Object {
    const bytes: usize = @intCast(api.PyLong_AsUnsignedLongLongMask(args[0]));
    tokenizers.wide_bytes_min.store(bytes, .monotonic);
    return api.none();
}

/// use_job_bytes(bytes): for tests and measurements; results are the same for any value
fn useJobBytes(_: *Object, args: Args) ?*Object {
    const bytes: usize = @intCast(api.PyLong_AsUnsignedLongLongMask(args[0]));
    batch.job_bytes_max.store(bytes, .monotonic);
    return api.none();
}

/// cache_limit() → the memory limit in bytes of the caches of all tokenizers
fn cacheLimit(_: *Object, _: Args) ?*Object {
    return api.PyLong_FromUnsignedLongLong(caches.getLimit());
}

/// after_fork(): must be called first in a forked child
fn afterFork(_: *Object, _: Args) ?*Object {
    caches.afterFork();
    return api.none();
}

/// set_cache_limit(bytes)
fn setCacheLimit(_: *Object, args: Args) ?*Object {
    caches.setLimit(@intCast(api.PyLong_AsUnsignedLongLongMask(args[0])));
    return api.none();
}

fn exec(module: *Object) callconv(.c) c_int {
    _ = pretokens.levels.use(platform.cpu.best());
    lists.tryLayout();
    const state = stateOf(module);
    state.* = .{};
    inline for (.{
        .{ "core_type", &core.spec },
        .{ "buffer_type", &buffer.spec },
        .{ "session_type", &session.spec },
        .{ "counter_type", &counts.counter_spec },
        .{ "inventory_type", &counts.inventory_spec },
        .{ "learner_type", &merges.spec },
        .{ "counts_file_type", &counts_files.file_spec },
        .{ "checksum_type", &documents.checksum_spec },
    }) |entry| {
        const made = api.PyType_FromModuleAndSpec(module, entry[1], null) orelse return -1;
        @field(state, entry[0]) = @ptrCast(made);
        if (api.PyModule_AddType(module, @ptrCast(made)) < 0) return -1;
    }
    const errors = api.PyImport_ImportModule("tokenmill.errors") orelse return -1;
    defer api.Py_DecRef(errors);
    inline for (.{
        .{ "vocabulary_error", "VocabularyError" },
        .{ "unknown_token_error", "UnknownTokenError" },
        .{ "pattern_error", "PatternError" },
        .{ "input_error", "InputError" },
    }) |entry| {
        @field(state, entry[0]) = api.PyObject_GetAttrString(errors, entry[1]) orelse return -1;
    }
    const mode = @tagName(builtin.mode);
    if (api.PyModule_AddStringConstant(module, "build_mode", mode) < 0) return -1;
    return api.PyModule_AddStringConstant(module, "unicode_version", unicode.version);
}

fn free(module: *Object) callconv(.c) void {
    const raw = api.PyModule_GetState(module) orelse return;
    const state: *core.State = @ptrCast(@alignCast(raw));
    inline for (.{
        "core_type",           "buffer_type",    "session_type",
        "counter_type",        "inventory_type", "counts_file_type",
        "learner_type",        "checksum_type",  "vocabulary_error",
        "unknown_token_error", "pattern_error",  "input_error",
    }) |name| {
        if (@field(state, name)) |object| api.Py_DecRef(@ptrCast(@alignCast(object)));
        @field(state, name) = null;
    }
}

const methods = [_]api.Method{
    core.method("from_image", 4, fromImage),
    core.method("from_tokens", 6, fromTokens),
    core.method("from_parts", 4, fromParts),
    core.method("read_model", 2, readModel),
    core.method("read_vocabulary", 3, readVocabulary),
    core.method("read_spelling", 2, readSpelling),
    core.method("split", 2, split),
    core.method("normalize", 2, normalize),
    core.method("arrow_capsules", 2, arrowCapsules),
    core.method("join", 2, join),
    core.method("merge_counts", 4, mergeCounts),
    core.method("split_documents", 3, splitDocuments),
    core.method("json_lines", 4, jsonLines),
    core.method("utf8_problems", 2, utf8Problems),
    core.method("last_cut", 2, lastCut),
    core.method("cache_limit", 0, cacheLimit),
    core.method("set_cache_limit", 1, setCacheLimit),
    core.method("after_fork", 0, afterFork),
    core.method("simd_levels", 0, simdLevels),
    core.method("use_simd", 1, useSimd),
    core.method("use_units_after", 1, useUnitsAfter),
    core.method("use_job_bytes", 1, useJobBytes),
    .{},
};
var slots: [3]api.ModuleSlot = @splat(.{});
var definition: api.ModuleDef = .{
    .name = "_native",
    .size = @sizeOf(core.State),
    .methods = &methods,
    .slots = &slots,
    .free = @ptrCast(&free),
};

export fn PyInit__native() ?*Object {
    slots[0] = .{ .slot = api.mod_exec, .value = @ptrCast(&exec) };
    // Python 3.11 rejects unknown slots. 2: one GIL per interpreter is supported.
    if (api.minorVersion() >= 12) {
        slots[1] = .{ .slot = api.mod_multiple_interpreters, .value = @ptrFromInt(2) };
    }
    return api.PyModuleDef_Init(&definition);
}
