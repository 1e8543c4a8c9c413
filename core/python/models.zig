//! A model from Python → a vocabulary: the first argument of `from_parts`.

const std = @import("std");
const api = @import("api.zig");
const buffer = @import("buffer.zig");
const core = @import("core.zig");
const vocabularies = @import("../vocabulary.zig");
const Text = @import("text.zig").Text;
const Model = vocabularies.Model;
const Vocabulary = vocabularies.Vocabulary;

const gpa = buffer.gpa;
const Object = api.Object;

/// (data, lengths, ids, kinds, merges, order, characters, whole, blank, missing, unk, fuse_unk,
/// dropout)
const fields_count = 13;

/// Returns the vocabulary of a model; null if an exception is set.
pub fn vocabularyFrom(state: *core.State, object: *Object, seed: u64) ?Vocabulary {
    if (api.PyTuple_Size(object) != fields_count) {
        _ = core.fail(api.typeError(), "a model must be a tuple of {d}", .{fields_count});
        return null;
    }
    var fields: [fields_count]*Object = undefined;
    for (&fields, 0..) |*field, index| field.* = api.PyTuple_GetItem(object, @intCast(index)).?;
    var data = Text.from(fields[0]) orelse return null;
    defer data.release();
    const lengths = core.numbersFrom(u32, fields[1]) orelse return null;
    defer gpa.free(lengths);
    const ids = core.numbersFrom(u32, fields[2]) orelse return null;
    defer gpa.free(ids);
    const kinds = core.numbersFrom(u8, fields[3]) orelse return null;
    defer gpa.free(kinds);
    const merges = optional(fields[4]) orelse return null;
    defer if (merges) |some| gpa.free(some);
    const order = optional(fields[5]) orelse return null;
    defer if (order) |some| gpa.free(some);
    var name = Text.from(fields[9]) orelse return null;
    defer name.release();
    const unk = api.PyLong_AsLongLong(fields[10]);
    const dropout = api.PyFloat_AsDouble(fields[12]);
    if (api.PyErr_Occurred() != null) return null;
    const missing = std.meta.stringToEnum(vocabularies.Missing, name.bytes) orelse {
        _ = core.fail(api.valueError(), "unknown value '{s}' of missing", .{name.bytes});
        return null;
    };
    const model: Model = .{
        .bytes = data.bytes,
        .lengths = lengths,
        .ids = ids,
        .kinds = kinds,
        .merges = merges,
        .order = order,
        .characters = api.PyObject_IsTrue(fields[6]) == 1,
        .whole = api.PyObject_IsTrue(fields[7]) == 1,
        .blank = api.PyObject_IsTrue(fields[8]) == 1,
        .missing = missing,
        .unk = std.math.cast(u32, unk),
        .fuse_unk = api.PyObject_IsTrue(fields[11]) == 1,
        .dropout = dropout,
    };
    if (!(dropout >= 0 and dropout <= 1)) {
        const message = "Dropout should be between 0 and 1, inclusive, not {d}";
        _ = core.fail(state.vocabulary_error.?, message, .{dropout});
        return null;
    }
    var culprit: u32 = 0;
    return Vocabulary.fromModel(gpa, &model, seed, &culprit) catch |failure| {
        _ = fail(state, failure, culprit);
        return null;
    };
}

/// Whether "▁" is a space in the tokens of a valid model, and so in texts.
pub fn hasBlank(object: *Object) bool {
    return api.PyObject_IsTrue(api.PyTuple_GetItem(object, 8).?) == 1;
}

fn optional(object: *Object) ?(?[]u32) {
    if (api.isNone(object)) return @as(?[]u32, null);
    return core.numbersFrom(u32, object) orelse return null;
}

/// Raises the reason why a vocabulary cannot be built. `culprit` is an id, or the index of a merge.
pub fn fail(state: *core.State, failure: vocabularies.Error, culprit: u32) ?*Object {
    const exception = state.vocabulary_error.?;
    return switch (failure) {
        error.OutOfMemory => api.PyErr_NoMemory(),
        error.InvalidImage => core.fail(
            exception,
            "the packed vocabulary is damaged; reinstall tokenmill",
            .{},
        ),
        error.IdTooLarge => core.fail(
            exception,
            "id {d} is too large; ids must be below {d}",
            .{ culprit, vocabularies.id_limit },
        ),
        error.DuplicateToken => core.fail(exception, "id {d} is used by two tokens", .{culprit}),
        error.TokenTooLong => core.fail(
            exception,
            "the token of id {d} is longer than {d} bytes",
            .{ culprit, vocabularies.token_len_limit },
        ),
        error.TooManyBytes => core.fail(exception, "the tokens exceed 1 GiB", .{}),
        error.InvalidModel => core.fail(exception, "the arrays of the model are inconsistent", .{}),
        error.InvalidMerge => core.fail(
            exception,
            "merge {d} produces no token, or has a token that never occurs in text; " ++
                "use the merges of this vocabulary",
            .{culprit},
        ),
        error.MissingByteTokens => core.fail(
            exception,
            "byte_fallback requires a token for each of the 256 bytes, <0x00> to <0xFF>",
            .{},
        ),
        error.UnknownUnk => core.fail(
            exception,
            "the unk token is not in the vocabulary; add it, or set unk_token to null",
            .{},
        ),
    };
}
