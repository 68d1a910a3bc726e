#!/usr/bin/env python3
"""Writes the golden vectors of WordPiece, by the reference implementation in Python.

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install tokenizers==0.23.3
    /tmp/golden/bin/python test/golden/make_wordpiece_golden.py

It trains two small vocabularies, uncased and cased, on the texts of make_tokenizer_golden.py and a few of its own, and keeps
both files, the texts, and the ids of each text with several normalizers. It also keeps what the library does with each
character of Unicode. Tests read what this writes; they need no Python.
"""

import json
import pathlib
import random
import re
import unicodedata

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
SEED = 20
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
UNCASED = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
CASED = {**UNCASED, "lowercase": False}
# Other normalizers with the vocabulary of the name in front of the colon.
VARIANTS = {
    "uncased:accents": {**UNCASED, "strip_accents": False},
    "cased:no accents": {**CASED, "strip_accents": True},
    "uncased:dirty": {**UNCASED, "clean_text": False, "handle_chinese_chars": False},
    "cased:dirty": {**CASED, "clean_text": False, "handle_chinese_chars": False},
}

CORPUS = [
    "A gateway receives requests and sends tokens to its clients while a runner computes the next ones.",
    "The embedding of a document is a vector; documents with similar vectors have similar meanings.",
    "Tokenizers cut words into pieces: embed, embedding, embeddings, unembeddable, tokenization, re-tokenized.",
    "Retrieval, ranking, clustering and classification are done by encoders, whose attention sees the whole text.",
    "What is not in the vocabulary becomes smaller pieces, or the unknown token if no piece fits.",
    "Ελλάδα Ὀδυσσεύς ΣΊΣΥΦΟΣ Σ σς; İstanbul'da ışık, IĞDIR; Straße, Größe, ẞ; Việt Nam; Кёльн и Йошкар-Ола.",
    "東京タワーは高い。ﾊﾝｶｸ ｶﾞｷﾞ ガギグゲゴ ぱぴぷぺぽ; 한국어 형태소 분석; 北京大学，上海。",
]  # fmt: skip

TEXTS = [
    "embedding", "embeddings", "Embedding", "EMBEDDING", "unembeddable", "embeddingembedding", "xembedding", "the", "The the THE",
    "İstanbul", "ISPARTA ısırgan İİ", "i\u0307", "Straße", "GROSSE ẞ ß", "ΣΊΣΥΦΟΣ", "Ὀδυσσεύς ΟΔΥΣΣΕΥΣ", "ΑΣ ΑΣ. Σ", "Σ\u0301", "ǅ ǆ Ǆ", "ﬃ ﬅ",
    "ｶﾞｷﾞ ﾊﾟ", "ガギ がぎ", "カ\u3099", "한국어", "\u1112\u1161\u11ab국", "가각갂", "각\u0301", "힣", "東京タワーは高い。", "a東b京c", "東 京", "𠀀a𪜀b𫝀c", "𫠠a𫤀b𫤠c", "豈更車", "丽a", "〇々〆ヶ",
    "résumé", "re\u0301sume\u0301", "\u0301", "\u0301\u0302", "a\u0301\u0323b", "a\u0323\u0301b", " \u0301a", "a \u0301 b", "\u0301東\u0301", ",\u0301a", "a\u20ddb", "q\u0303", "Å Å Ω Ω K K", "ộ ỡ Ǹ",
    "a\x00b", "a\x0bb\x0cc", "a\x85b", "a\u200bb\u200dc\ufeffd", "a\u00adb", "\ue000a", "a\U000f0000b", "a\ufffdb", "a\u0378b", "a\u061cb\u2066c", "\x1f\x7f", "\u0890a\u08e2b", "a\U000110cdb", "a\U000e0001b", "\t\n\r",
    "a\u1680b\u2028c\u2029d\u202fe\u205ff\u3000g", "a \u00a0 b", "\u2003", " \u3000 a \u2000", "a\u180eb", "a\u2009東",
    "a.b,c;d:e!f?g", "a$b+c<d=e>f^g`h|i~j", "$", "a€b£c", "a–b—c", "“a” ‘b’ «c»", "¿a? ¡b!", "a·b", "、。！？", "a\u166db", "a\u061db", "a\u2e52b", "a\u2e43b", "a\U000111c9b", "a\u1734b", "a\U0001171eb", "a\u1ac1b", "a\U00011660b", "…a", "a_b", "a@b.c",
    "👋", "a👋b", "👋 a", "👨‍👩‍👧", "❤️", "\u2764\ufe0fa", "🇨🇭",
    "a" * 99, "a" * 100, "a" * 101, "é" * 100, "e\u0301" * 101, "𝟘" * 100, "𝟘" * 101, "the" * 34, "e" * 3000, "ab " * 100, "東" * 120, "a," * 120,
    "[CLS]", "[SEP] a [SEP]", "a[MASK]b", "[mask]", "[UNK]", "[PAD][PAD]", "[CLS", "CLS]", "[ CLS ]", "[CLS]東[SEP]", "##ing", "a##b", "# #", "[unused1]", "the [MASK] the", "▁a", "▁", "a▁b",
    "qzxj", "the qzxj", "⌘", "a⌘", "⌘a", "⌘ ⌘ ⌘", "\U0001f9ff", "ꙮ",
]  # fmt: skip


def fixed_texts():
    """TEXTS of the script beside this one, which needs packages that this one does not."""
    source = (HERE / "make_tokenizer_golden.py").read_text()
    scope = {}
    exec(re.search(r"^TEXTS = \[.*?^\]", source, re.S | re.M).group(), scope)
    return scope["TEXTS"]


def all_texts():
    fixed, rng = fixed_texts() + TEXTS, random.Random(SEED)
    characters = [c for text in fixed for c in text]
    mixed = ["".join(rng.choice(characters) for _ in range(rng.randint(1, 24))) for _ in range(80)]
    return fixed + mixed + [" ".join(rng.choice(fixed)[:20] for _ in range(4)) for _ in range(40)]


def trained(options, corpus):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(**options)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=600, limit_alphabet=220, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(corpus, trainer)
    cls, sep = (tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", cls), ("[SEP]", sep)]
    )
    return tokenizer


def ids_of(tokenizer, texts, parse_special):
    # encode_special_tokens: treat literals of special tokens as ordinary text.
    tokenizer.encode_special_tokens = not parse_special
    return [tokenizer.encode(text, add_special_tokens=parse_special).ids for text in texts]


def golden(options, texts):
    """The file, and the ids of each text. special: with [CLS] and [SEP] around; null if this is all that differs."""
    tokenizer = trained(options, CORPUS * 4 + fixed_texts())
    plain, special = ids_of(tokenizer, texts, False), ids_of(tokenizer, texts, True)
    around = [special[texts.index("")][0]], [special[texts.index("")][1]]
    differing = [None if s == around[0] + p + around[1] else s for p, s in zip(plain, special)]
    return tokenizer, {"file": json.loads(tokenizer.to_str()), "plain": plain, "special": differing}


def variant(tokenizer, options, texts, plain):
    """The ids of each text by another normalizer; null if they are the same."""
    tokenizer.normalizer = normalizers.BertNormalizer(**options)
    ids = ids_of(tokenizer, texts, False)
    return {"normalizer": {"type": "BertNormalizer", **options}, "plain": [None if i == p else i for i, p in zip(ids, plain)]}


def ranges(codes):
    """Code points in hexadecimal: `41-5a 61`."""
    found = []
    for code in codes:
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return " ".join(f"{first:x}" if first == last else f"{first:x}-{last:x}" for first, last in found)


def characters():
    """What happens to each character: in ranges, or as `code>text` where it becomes another text."""
    off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    clean, han, strip, lower = (
        normalizers.BertNormalizer(**{**off, option: True}).normalize_str for option in off
    )
    words = pre_tokenizers.BertPreTokenizer()
    found = {name: [] for name in ("removed", "spaces", "punctuation", "han", "marks")}
    stripped, lowered = [], []
    to_hex = lambda text: ".".join(f"{ord(c):x}" for c in text)
    for code in range(0x110000):
        if 0xD800 <= code < 0xE000:
            continue
        char = chr(code)
        if clean(f"a{char}b") == "ab":
            found["removed"].append(code)
        cut = [word for word, _ in words.pre_tokenize_str(f"a{char}b")]
        if cut == ["a", "b"]:
            found["spaces"].append(code)
        elif cut == ["a", char, "b"]:
            found["punctuation"].append(code)
        if han(char) != char:
            found["han"].append(code)
        bare = strip(char)
        if bare == "":
            found["marks"].append(code)
        elif 0xAC00 <= code <= 0xD7A3:
            assert bare == unicodedata.normalize("NFD", char)
        elif bare != char:
            stripped.append(f"{code:x}>{to_hex(bare)}")
        if lower(char) != char:
            lowered.append(f"{code:x}>{to_hex(lower(char))}")
    return {
        **{name: ranges(codes) for name, codes in found.items()},
        "stripped": " ".join(stripped),
        "lowered": " ".join(lowered),
    }


def main():
    texts = all_texts()
    out = {"texts": texts, "vocabularies": {}, "variants": {}}
    tokenizers = {}
    for name, options in (("uncased", UNCASED), ("cased", CASED)):
        tokenizers[name], out["vocabularies"][name] = golden(options, texts)
    for name, options in VARIANTS.items():
        of = name.split(":")[0]
        out["variants"][name] = variant(tokenizers[of], options, texts, out["vocabularies"][of]["plain"])
    out["characters"] = characters()
    (HERE / "wordpiece.json").write_text(json.dumps(out, ensure_ascii=True, separators=(",", ":")) + "\n")


main()
