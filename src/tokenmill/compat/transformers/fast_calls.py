"""The calls of fast tokenizers that most programs make → ids, columns and texts from the core."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tokenmill.compat.tokenizers.components import check
from tokenmill.compat.transformers.delegate import ATTRIBUTE, KEY, Delegate, Plain, settings_lock

if TYPE_CHECKING:
    from tokenmill.compat.transformers import Patch

_new = object.__new__
# These are ours for a fast tokenizer whose class has them from transformers.
_INHERITED = (
    *("__call__", "encode", "decode", "_encode_plus", "_decode", "_convert_encoding"),
    *("set_truncation_and_padding", "_eventual_warn_about_too_long_sequence"),
)
_SETTINGS = (
    *("padding_strategy", "truncation_strategy", "max_length", "stride", "pad_to_multiple_of"),
    "padding_side",
)
# The arguments of `_encode_plus` that have an effect in `FastCalls`.
_HANDLED = {
    *("add_special_tokens", "return_tensors", "return_attention_mask", "return_offsets_mapping"),
    *("split_special_tokens", "verbose", *_SETTINGS),
}


class FastCalls:
    """The calls of fast tokenizers that most programs make, without words, types and pairs.

    They return None or call the original for everything else. The results are the same.
    """

    def __init__(self, patch: Patch, transformers: Any) -> None:
        self._patch = patch
        self._fast: type[Any] = transformers.PreTrainedTokenizerFast
        self._batch: type[Any] = transformers.BatchEncoding
        self._classes = dict[type[Any], bool]()  # those that inherit these calls

    def replaced(self) -> list[tuple[str, Callable[..., Any]]]:
        """Return the methods to replace: none in a version of transformers with other methods."""
        if not all(hasattr(self._fast, name) for name in _INHERITED):
            return []
        if hasattr(self._fast, "_batch_encode_plus"):  # before 5.0
            return []
        if vars(self._batch({})).keys() != {"data", "_encodings", "_n_sequences"}:
            return []
        return [
            ("__call__", self._call),
            ("encode", self._encode),
            ("_encode_plus", self._encode_plus),
            ("decode", self._decode),
        ]

    def _delegate(self, fast: Any) -> Delegate | None:
        """Return the delegate of a fast tokenizer that inherits these calls."""
        delegate = vars(vars(fast)[ATTRIBUTE]).get(KEY)
        if delegate is None or delegate.seen is not self._patch.version:
            delegate = self._patch.delegate(getattr(fast, ATTRIBUTE))
        kind = type(fast)
        if kind not in self._classes:
            same = (getattr(kind, name) is getattr(self._fast, name) for name in _INHERITED)
            modes = hasattr(kind, "_switch_to_input_mode")
            self._classes[kind] = issubclass(kind, self._fast) and all(same) and not modes
        return delegate if self._classes[kind] else None

    def _plain(self, fast: Any, text: object, options: dict[str, Any]) -> Plain | None:
        """Return how one text is encoded if no option but `add_special_tokens` is given."""
        if type(text) is not str or options.keys() - {"add_special_tokens"}:
            return None
        delegate = self._delegate(fast)
        if delegate is None or fast.split_special_tokens:
            return None
        specials = options.get("add_special_tokens", True)
        return delegate.plain.get(specials) if type(specials) is bool else None

    def _call(self, original: Any, fast: Any, text: Any = None, *args: Any, **options: Any) -> Any:
        names = fast.model_input_names
        if args or "attention_mask" not in names or "token_type_ids" in names:
            return original(fast, text, *args, **options)
        plain = self._plain(fast, text, options)
        if plain is None or (ids := plain.ids(fast, text)) is None:
            return original(fast, text, **options)
        made = _new(self._batch)
        made.__dict__ = {
            "data": {"input_ids": ids, "attention_mask": [1] * len(ids)},
            "_encodings": [plain.encoding(text)],
            "_n_sequences": 1,
        }
        return made

    def _encode(self, original: Any, fast: Any, text: Any, *args: Any, **options: Any) -> Any:
        plain = None if args else self._plain(fast, text, options)
        ids = None if plain is None else plain.ids(fast, text)
        return original(fast, text, *args, **options) if ids is None else ids

    def _encode_plus(self, original: Any, fast: Any, *args: Any, **options: Any) -> Any:
        delegate = self._delegate(fast)
        if delegate is None or delegate.pipeline is None:
            return original(fast, *args, **options)
        if not args:
            try:
                found = self._columns(fast, **options)
            except Exception:
                found = None  # the real library raises its own error
            if found is not None:
                return found
        with settings_lock():
            return original(fast, *args, **options)

    def _columns(self, fast: Any, text: Any, **options: Any) -> Any:
        """Return the result of `_encode_plus` for one text or a batch; None for other inputs."""
        names, texts = fast.model_input_names, text if isinstance(text, list | tuple) else [text]
        given = {name for name, value in options.items() if value not in (None, False)}
        if given - _HANDLED or "token_type_ids" in names or not texts:
            return None
        if {*map(type, texts)} != {str}:
            return None
        split, real = options.get("split_special_tokens"), getattr(fast, ATTRIBUTE)
        if split is None:
            split = fast.split_special_tokens
        with settings_lock():
            fast.set_truncation_and_padding(**{name: options.get(name) for name in _SETTINGS})
            if real.encode_special_tokens != split:
                real.encode_special_tokens = split
            pipeline = self._patch.pipeline(real)
        if pipeline is None or pipeline.is_random:
            return None
        specials = check(options.get("add_special_tokens", True), bool)
        has_offsets = bool(options.get("return_offsets_mapping"))
        rows, masks, offsets, encodings = pipeline.columns(list(texts), specials, has_offsets)
        if options.get("max_length") is None and max(map(len, rows)) > fast.model_max_length:
            for ids in rows:
                warned = options.get("verbose", True)
                fast._eventual_warn_about_too_long_sequence(ids, None, warned)
        columns: dict[str, list[Any]] = {"input_ids": rows}
        masked = options.get("return_attention_mask")
        if "attention_mask" in names if masked is None else masked:
            columns["attention_mask"] = masks
        if has_offsets:
            columns["offset_mapping"] = offsets
        tensors = options.get("return_tensors")
        if texts is not text and tensors is None:
            columns = {name: column[0] for name, column in columns.items()}
        return self._batch(columns, encodings, tensor_type=tensors, n_sequences=1)

    def _decode(
        self, original: Any, fast: Any, token_ids: Any, skip_special_tokens: Any = False,
        **options: Any,
    ) -> Any:  # fmt: skip
        """Decode a list of ids, or several of them."""
        cleans = options.keys() <= {"clean_up_tokenization_spaces"} and not any(options.values())
        if type(token_ids) is list and token_ids and cleans and type(skip_special_tokens) is bool:
            delegate = None if fast.clean_up_tokenization_spaces else self._delegate(fast)
            decode = None if delegate is None else delegate.decode
            try:
                if decode is not None and type(token_ids[0]) is list:
                    return [decode(ids, skip_special_tokens) for ids in token_ids]
                if decode is not None:
                    return decode(token_ids, skip_special_tokens)
            except Exception:  # noqa: S110, the real library raises its own error below
                pass
        return original(fast, token_ids, skip_special_tokens, **options)
