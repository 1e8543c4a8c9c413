"""Added tokens → the ids, encodings and decoded text of Hugging Face."""

from __future__ import annotations

import threading
from typing import Any

import families
import pytest
import tokenizers as theirs

import tokenmill.compat.tokenizers as ours
from tokenmill.compat.tokenizers import tokenizer
from tokenmill.errors import VocabularyError

NORMALIZERS = [
    "None",
    "N.Lowercase()",
    "N.Prepend('▁')",
    "N.Sequence([N.Prepend('▁'), N.Replace(' ', '▁')])",
    "N.ByteLevel()",
    "N.NFD()",
    "N.Strip()",
]
DECODERS = ["None", "D.ByteLevel()", "D.Metaspace()", "D.Fuse()"]
TEXT = "ab AB<S>é x<Ü> q  <ü>bca"
ALPHABET = sorted({*"abcdeABx▁ éÜü<>qu", *"Ãģ¬¼œ©Ġ", "\u0301", "\u0308"})


def new(library: Any, normalizer: str, decoder: str) -> Any:
    vocabulary = {char: id_ for id_, char in enumerate(ALPHABET)}
    made = library.Tokenizer(library.models.BPE(vocabulary, []))
    made.normalizer = eval(normalizer, {"N": library.normalizers})
    made.decoder = eval(decoder, {"D": library.decoders})
    return made


def outcome(library: Any, normalizer: str, decoder: str) -> list[Any]:
    made = new(library, normalizer, decoder)
    token = library.AddedToken
    lstrip = "Replace" not in normalizer  # which is refused together
    counts = [
        made.add_tokens([token("AB"), token("ca", lstrip=lstrip), "é x", token(" q ")]),
        made.add_special_tokens([token("<S>"), token("<Ü>", normalized=True), "ab"]),
        made.add_tokens(["AB"]),
    ]
    found = made.encode(TEXT)
    ids = list(range(made.get_vocab_size() + 2))
    stream = library.decoders.DecodeStream(skip_special_tokens=True)
    return [
        counts, found.ids, found.tokens, found.offsets, [made.id_to_token(id_) for id_ in ids],
        made.decode(ids), made.decode(ids, False), made.decode(found.ids),
        made.decode(found.ids, False), [stream.step(made, id_) for id_ in found.ids],
        made.get_vocab(), repr(made.get_added_tokens_decoder()), made.to_str(),
    ]  # fmt: skip


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("decoder", DECODERS)
def test_normalized_tokens_are_shown_as_they_are_looked_for(normalizer: str, decoder: str) -> None:
    assert outcome(ours, normalizer, decoder) == outcome(theirs, normalizer, decoder)


def test_decoding_follows_a_new_normalizer() -> None:
    shown = []
    for library in (ours, theirs):
        made = new(library, "None", "D.Fuse()")
        made.add_tokens(["AB", "Ü"])
        texts = []
        for name in ("None", "N.Lowercase()", "N.NFD()", "None"):
            made.normalizer = eval(name, {"N": library.normalizers})
            ids = made.encode("abABü").ids
            texts.append((ids, made.decode(ids), [made.id_to_token(id_) for id_ in ids]))
        shown.append(texts)
    assert shown[0] == shown[1]


def test_new_ids_are_counted_from_before_the_call() -> None:
    for names in (["b", "x", "y"], ["x", "b", "y"], ["b"]):
        found = []
        for library in (ours, theirs):
            made = library.Tokenizer(library.models.BPE({"a": 0, "b": 5}, []))
            counts = [made.add_tokens(names), made.add_tokens(["z", "a", "v"])]
            found.append((counts, made.get_vocab()))
        assert found[0] == found[1]


@pytest.mark.parametrize("name", [*families.BYTE_LEVEL, *families.PIECES])
def test_single_names_equal_those_of_the_whole_vocabulary(name: str) -> None:
    """Single names are made without the others, until the vocabulary is read."""
    is_bytes = name in families.BYTE_LEVEL
    made = ours.Tokenizer.from_str((families.byte_level if is_bytes else families.pieces)(name))
    found = {id_: made.model.id_to_token(id_) for id_ in range(2000)}
    assert "_vocab" not in vars(made.model)
    names = {id_: token for token, id_ in made.model._vocab.items()}
    assert len(names) > 200 and found == {id_: names.get(id_) for id_ in range(2000)}
    assert made.model.id_to_token((1 << 32) - 1) is None


def test_tokens_given_as_specials_become_special() -> None:
    for library in (ours, theirs):
        first, second, third = (library.AddedToken(name) for name in ("a", "b", "c"))
        library.Tokenizer(library.models.BPE()).add_special_tokens([first])
        library.trainers.BpeTrainer(special_tokens=[second])
        library.trainers.BpeTrainer().special_tokens = [third]
        for token in (first, second, third):
            assert (token.special, token.normalized) == (True, False)


def test_token_of_the_model_differs_from_added_token() -> None:
    """Both have the same id. Only the prefix of a normalizer shows the difference."""
    found = []
    for library in (ours, theirs):
        vocabulary = {"<u>": 0, "▁": 1, "a": 2, "▁a": 3, "x": 4, "<s>": 5}
        model = library.models.BPE(vocabulary, [("▁", "a")], unk_token="<u>")
        made = library.Tokenizer(model)
        normalizers = library.normalizers
        made.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        )
        made.add_special_tokens(["<u>", "<s>"])
        made.add_tokens([library.AddedToken("▁a"), library.AddedToken("x")])
        texts = ["▁a", "x▁a", "é▁a", "<s>▁a", " ▁a", "x", " x", "xx", "<s>x", "éx", "a x▁▁a", "  a"]
        found.append([(made.encode(text).ids, made.encode(text).tokens) for text in texts])
    assert found[0] == found[1]


def test_tokenizers_are_built_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, goes_on = threading.Event(), threading.Event()
    build = tokenizer.build

    def build_slowly(spec: Any) -> Any:
        if threading.current_thread() is slow:
            begun.set()
            goes_on.wait(60)
        return build(spec)

    monkeypatch.setattr(tokenizer, "build", build_slowly)
    slow, quick = (
        threading.Thread(target=new(ours, "None", "None").encode, args=["a"]) for _ in range(2)
    )
    slow.start()
    assert begun.wait(60)
    quick.start()
    quick.join(60)
    assert not quick.is_alive()
    goes_on.set()
    slow.join()


def test_added_token_with_changed_whitespace_is_refused() -> None:
    made = new(ours, "N.Replace(' ', '▁')", "None")
    made.add_tokens([ours.AddedToken("x", lstrip=True)])
    with pytest.raises(VocabularyError, match="strips whitespace that the normalizer replaces"):
        made.encode(" x")
    made = new(ours, "None", "None")
    made.pre_tokenizer = ours.pre_tokenizers.Metaspace()
    made.add_tokens([ours.AddedToken("a b")])
    with pytest.raises(VocabularyError, match="not supported with Metaspace"):
        made.encode("a b")
