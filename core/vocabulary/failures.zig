//! An error of a vocabulary → its text.

const vocabularies = @import("../vocabulary.zig");
const Failure = @import("../failure.zig").Failure;

/// Returns the reason for a vocabulary that cannot be built. `culprit` is an id, or the index of a
/// merge.
pub fn failureOf(failure: vocabularies.Error, culprit: u32) Failure {
    return switch (failure) {
        error.OutOfMemory => .out_of_memory,
        error.InvalidImage => .init(
            .vocabulary,
            "the packed vocabulary is damaged; reinstall tokenmill",
            .{},
        ),
        error.IdTooLarge => .init(
            .vocabulary,
            "id {d} is too large; ids must be below {d}",
            .{ culprit, vocabularies.id_limit },
        ),
        error.DuplicateToken => .init(.vocabulary, "id {d} is used by two tokens", .{culprit}),
        error.TokenTooLong => .init(
            .vocabulary,
            "the token of id {d} is longer than {d} bytes",
            .{ culprit, vocabularies.token_len_limit },
        ),
        error.TooManyBytes => .init(.vocabulary, "the tokens exceed 1 GiB", .{}),
        error.InvalidModel => .init(
            .vocabulary,
            "the arrays of the model are inconsistent",
            .{},
        ),
        error.InvalidMerge => .init(
            .vocabulary,
            "merge {d} produces no token, or has a token that never occurs in text; " ++
                "use the merges of this vocabulary",
            .{culprit},
        ),
        error.MissingByteTokens => .init(
            .vocabulary,
            "byte_fallback requires a token for each of the 256 bytes, <0x00> to <0xFF>",
            .{},
        ),
        error.UnknownUnk => .init(
            .vocabulary,
            "the unk token is not in the vocabulary; add it, or set unk_token to null",
            .{},
        ),
    };
}
