#!/usr/bin/env python3
"""Writes the golden vectors of the tokenizer and of chat templates, by the reference implementations in Python.

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install tokenizers==0.23.3 gguf==0.19.0 jinja2==3.1.6
    /tmp/golden/bin/python test/golden/make_tokenizer_golden.py MODEL.gguf [MORE.json]

MODEL.gguf is the default model: its vocabulary and merges are used with both ways of cutting words. MORE.json may hold
further cases as {"cases": [{"text", "ids"}]}, recorded elsewhere with control tokens parsed; they are checked and added.
Tests read the files this writes; they need no Python.
"""

import json
import pathlib
import sys

import jinja2
import jinja2.sandbox
from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

HERE = pathlib.Path(__file__).parent
CONTROL, USER_DEFINED = 3, 4
# The expression inside ByteLevel, with the digits step of smollm before it.
GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
PRE_TOKENIZERS = {
    "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), GPT2]),
    "gpt-2": GPT2,
}

TEXTS = [
    "", " ", "  ", "\n", "\n\n\n", "\t", "a", "Hello.", "Hello world", " Hello", "Hello  world", "Hello   world ",
    "trailing   ", "   leading", "a\n\nb", "a \n b", "a\r\nb\r\n", "\ta\tb", "x" * 100, " " * 100, "\n" * 50, "ab " * 40,
    "I'm you're he's they've we'll he'd can't", "I'M YOU'RE HE'S", "'s 't 're 've 'm 'll 'd", "''s", "’s curly",
    "0", "12", "123", "1234567890", " 1", "  1", "   1 ", "a1", "a 1b2 3", "3.14159", "1,000,000", "v1.2.3-rc4", "1\n2\n",
    "½ ¼ ², ³ and Ⅷ", "٠١٢٣٤٥٦٧٨٩", "०१२३", "１２３", "𝟘𝟙𝟚", "二〇二六年十一月", "1 2  3   4",
    "Zürich, naïve café, Ærøskøbing", "façade Å ñ", "cafe\u0301 n\u0303 A\u030a", "ﬁ ﬂ", "Straße STRASSE ß ẞ", "İstanbul ı i",
    "Γειά σου Κόσμε", "Привет, мир!", "שלום עולם", "مرحبا بالعالم", "नमस्ते दुनिया", "สวัสดีชาวโลก", "안녕하세요 세계", "こんにちは世界",
    "東京は日本の首都です。", "你好，世界！", "Tiếng Việt có dấu", "ქართული ენა", "ԲԱՐԵՒ", "አማርኛ", "ᠮᠣᠩᠭᠣᠯ", "👋", "👋🏽 hi", "👨‍👩‍👧‍👦 family",
    "🇨🇭🇯🇵", "❤️ ❤", "🏳️‍🌈", "a👋b", "🤷🏾‍♂️🤷🏾‍♂️", "𝕳𝖊𝖑𝖑𝖔", "🜁🜂", "z̷̢̛a̸l̵g̶o̷",
    "\ufeffBOM", "a\ufeffb", " \ufeff ", "\ufeff\ufeff", "\x00", "a\x00b", "\x01\x02", "\x1b[31mred\x1b[0m", "\x7f", "\x04!\x06!",
    "\x1c\x1d\x1e\x1f", "a\x1cb", "a\xa0b", "\xa0\xa0a", " \xa0 1", "a\u2028b\u2029c", "a\u0085b", "\u0085\u0085x", " \u0085 1",
    "a\u3000b", "a\u2009b", "a\u200bb", "a\u200cb\u200dc", "\u202eRTL", "a\u180eb", "a\u2060b", "\v\f", "a\vb\fc", "\ufffd", "\U000e0041",
    "\U0010ffff", "\uffff", "def f(x):\n    return x + 1\n", "for (let i = 0; i < 10; i++) {\n\tconsole.log(`${i}`);\n}",
    "#include <stdio.h>\nint main(void) { return 0; }\n", "SELECT * FROM t WHERE a >= 1 AND b != 'x';", "<html>\n  <body class=\"a\">\n",
    "https://example.com/a?b=c&d=%20#e", "user@example.com", "C:\\Users\\x", "a_b_c __init__ camelCase SCREAMING_CASE", "!!!???...", "----", "====",
    "(((())))", "$100 €5 £3 ¥7", "x² + y³ = z", "…—–•", "$\\frac{a}{b}$", "{\"a\": [1, 2, {\"b\": null}]}", "| a | b |\n|---|---|\n", "- [ ] todo\n- [x] done",
    "<|im_start|>", "<|im_end|>", "<|im_start|>user\nHi<|im_end|>\n", "a<|endoftext|>b", "<|im_start|", "|im_end|>", "<<|im_end|>>", "<|im_end|><|im_end|>",
    "<repo_name>x<file_sep>", " <|im_end|> ", "</s>", "<s>", "[INST]", "<|IM_END|>", "The quick brown fox jumps over the lazy dog. " * 8,
]  # fmt: skip

CHAT_TEMPLATES = {
    "trim_blocks and lstrip_blocks": (
        "{% for m in messages %}\n    {% if m.role == 'system' %}\n<<SYS>>{{ m.content }}<</SYS>>\n    {% else %}\n"
        "{{ m.role }}: {{ m.content }}\n    {% endif %}\n{% endfor %}\n{% if add_generation_prompt %}\nassistant: {% endif %}\n"
    ),
    "strip with characters": (
        "{% for m in messages %}[{{ m.content.strip('\\n') }}|{{ m.content.lstrip('x ') }}|{{ m.content.rstrip('.!') }}|"
        "{{ m.content.strip() }}|{{ m.content.split('\\n')[-1].lstrip('\\n') }}]{% endfor %}"
    ),
    "tokens, macros and namespaces": (
        "{{- bos_token }}{% macro turn(role, text) %}{{ '<|im_start|>' + role + '\\n' + text + '<|im_end|>' }}{% endmacro %}"
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{{ turn(m['role'], m['content'] | trim) }}"
        "{%- if not loop.last %}{{ '\\n' }}{% endif %}{% endfor %}\n{{ ns.n }}{{ eos_token }}"
    ),
}  # fmt: skip
CONVERSATIONS = [
    [("user", "Hello")],
    [("system", "Be brief."), ("user", "What is 2+2?")],
    [("user", "Hi"), ("assistant", "Hello!"), ("user", "Who are you?")],
    [("user", "  spaces around \n\n")],
    [("user", "multi\nline\n\ttext ")],
    [("user", "日本語 👨‍👩‍👧 \ufeff é")],
    [("user", "xx x text. x!.!\n")],
    [("system", ""), ("user", ""), ("assistant", ""), ("user", "…")],
    [("user", "{{ messages }} {% raw %} {# c #}")],
    [("user", "quote ' and \" and \\n")],
]


def field(reader, key):
    return reader.fields[key].contents()


def tokenizer_of(reader, pre):
    tokens, types = field(reader, "tokenizer.ggml.tokens"), field(reader, "tokenizer.ggml.token_type")
    merges = [tuple(merge.split(" ")) for merge in field(reader, "tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[pre]
    added = [t for t, kind in zip(tokens, types) if kind in (CONTROL, USER_DEFINED)]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in added])
    return tokenizer


def encode(tokenizer, text, parse_special):
    # encode_special_tokens: treat literals of special tokens as ordinary text.
    tokenizer.encode_special_tokens = not parse_special
    return tokenizer.encode(text, add_special_tokens=False).ids


def write(name, value):
    (HERE / name).write_text(json.dumps(value, ensure_ascii=True, indent=None, separators=(",", ":")) + "\n")


def write_tokenizer_golden(reader, more):
    for pre in PRE_TOKENIZERS:
        tokenizer = tokenizer_of(reader, pre)
        cases = [
            {"text": text, "plain": encode(tokenizer, text, False), "special": encode(tokenizer, text, True)}
            for text in [*TEXTS, *(case["text"] for case in more)]
        ]
        if pre == "smollm":
            for case, given in zip(cases[len(TEXTS) :], more):
                assert case["special"] == given["ids"], f"differs from the recorded ids: {given['text'][:60]!r}"
        write(f"tokenizer-{pre}.json", {"pre": pre, "cases": cases})


def write_chat_golden(reader):
    def refuse(message):
        raise jinja2.exceptions.TemplateError(message)

    # As transformers renders chat templates.
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = refuse
    templates = {"model": field(reader, "tokenizer.chat_template"), **CHAT_TEMPLATES}
    cases = []
    for name, source in templates.items():
        compiled = environment.from_string(source)
        for conversation in CONVERSATIONS:
            messages = [{"role": role, "content": content} for role, content in conversation]
            prompt = compiled.render(
                messages=messages, bos_token="<|im_start|>", eos_token="<|im_end|>", add_generation_prompt=True
            )
            cases.append({"template": name, "messages": messages, "prompt": prompt})
    write("chat-smollm.json", {"templates": templates, "cases": cases})


def main():
    reader = GGUFReader(sys.argv[1])
    more = json.loads(pathlib.Path(sys.argv[2]).read_text())["cases"] if len(sys.argv) > 2 else []
    write_tokenizer_golden(reader, more)
    write_chat_golden(reader)


if __name__ == "__main__":
    main()
