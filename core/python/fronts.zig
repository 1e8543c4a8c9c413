//! Preprocessing settings from Python → a `Preprocessor`.

const std = @import("std");
const api = @import("api.zig");
const core_ = @import("core.zig");
const preprocess = @import("../preprocess.zig");
const normal = @import("normal.zig");
const Core = core_.Core;
const Object = api.Object;
const Text = @import("text.zig").Text;
const Vocabulary = @import("../vocabulary.zig").Vocabulary;

const gpa = @import("buffer.zig").gpa;

/// (token texts sorted and concatenated, lengths u32, ids u32, flags u8, packed steps, prefix) →
/// `Preprocessor`. `blank`: "▁" is a space in texts. Returns null if an exception is set.
pub fn from(
    state: *core_.State,
    vocabulary: *const Vocabulary,
    tuple: *Object,
    blank: bool,
) ?preprocess.Preprocessor {
    if (api.PyTuple_Size(tuple) != 6) {
        if (api.PyErr_Occurred() == null) {
            _ = core_.fail(api.typeError(), "a front must be a tuple of 6", .{});
        }
        return null;
    }
    var names = Text.from(api.PyTuple_GetItem(tuple, 0).?) orelse return null;
    defer names.release();
    const lengths = core_.numbersFrom(u32, api.PyTuple_GetItem(tuple, 1).?) orelse return null;
    defer gpa.free(lengths);
    const numbers = core_.numbersFrom(u32, api.PyTuple_GetItem(tuple, 2).?) orelse return null;
    defer gpa.free(numbers);
    const flags = core_.numbersFrom(u8, api.PyTuple_GetItem(tuple, 3).?) orelse return null;
    defer gpa.free(flags);
    // If ids differ from ranks, each added token must be in the vocabulary.
    if (vocabulary.ranks != null) for (numbers) |*id| {
        id.* = vocabulary.rankOf(id.*) orelse {
            const message = "id {d} of an added token is not in the vocabulary";
            _ = core_.fail(state.vocabulary_error.?, message, .{id.*});
            return null;
        };
    };
    const prefix = prefixFrom(api.PyTuple_GetItem(tuple, 5).?) orelse return null;
    const given: preprocess.PreprocessorOptions = .{
        .names = names.bytes,
        .lengths = lengths,
        .ids = numbers,
        .flags = @ptrCast(flags),
        .prefix = prefix,
        .space_marker = blank,
    };
    const steps = normal.stepsFrom(state, api.PyTuple_GetItem(tuple, 4).?) orelse return null;
    var culprit: usize = 0;
    return preprocess.Preprocessor.init(gpa, given, steps, &culprit) catch |failure| {
        switch (failure) {
            error.OutOfMemory => _ = api.PyErr_NoMemory(),
            error.EmptyName => {
                const name = nameOf(given, culprit);
                const message = "added token '{s}' is empty after normalization; " ++
                    "use another text, or normalized=False";
                _ = core_.fail(state.vocabulary_error.?, message, .{name[0..@min(80, name.len)]});
            },
        }
        return null;
    };
}

fn nameOf(given: preprocess.PreprocessorOptions, index: usize) []const u8 {
    var start: usize = 0;
    for (given.lengths[0..index]) |length| start += length;
    return given.names[start..][0..given.lengths[index]];
}

fn prefixFrom(object: *Object) ?preprocess.Prefix {
    var text = Text.from(object) orelse return null;
    defer text.release();
    return std.meta.stringToEnum(preprocess.Prefix, text.bytes) orelse {
        const name = text.bytes[0..@min(text.bytes.len, 80)];
        _ = core_.fail(api.valueError(), "unknown prefix '{s}'", .{name});
        return null;
    };
}

/// Whether repeated encodings of a text are equal. Otherwise sets an exception that names `what`.
pub fn allowRepeating(core: *Core, what: []const u8) bool {
    if (!core.tokenizer.?.isRandom()) return true;
    const message = "{s} is not supported with dropout, which makes encodings random; " ++
        "set the dropout of the model to None";
    _ = core_.fail(core.state().vocabulary_error.?, message, .{what});
    return false;
}
