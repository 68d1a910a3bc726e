#!/usr/bin/env python3
"""Writes jinja.json: what Python renders from snippets of templates, by the environment of Hugging Face's transformers.

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install transformers==4.57.1 jinja2==3.1.6
    /tmp/golden/bin/python test/golden/make_jinja_golden.py

The output is null where Python fails.
"""

import json
import pathlib

from transformers.utils import chat_template_utils

HERE = pathlib.Path(__file__).parent
VARIABLES = {
    "s": "Hello, World",
    "empty": "",
    "emoji": "a👋b",
    "n": 7,
    "half": 0.5,
    "yes": True,
    "no": False,
    "nothing": None,
    "list": [3, 1, 2],
    "words": ["b", "A", "c"],
    "d": {"b": 1, "a": [1, {"x": None}], "items": "own", "C": "ä\n\"'"},
    "people": [
        {"name": "Bo", "age": 30, "address": {"city": "Ulm"}},
        {"name": "al", "age": 20, "address": {"city": "Bonn"}},
        {"name": "Cy", "age": 30},
    ],
}

# Values as text.
SNIPPETS = """
{{ none }}|{{ nothing }}|{{ true }}|{{ False }}|{{ missing }}|{{ 1.0 }}|{{ 1e3 }}|{{ 1e16 }}|{{ 1e-5 }}|{{ 0.1 + 0.2 }}|{{ 1_000 }}
{{ [1, 'a', none, true, 1.5, {'k': (1,)}] }}|{{ () }}|{{ (1,) }}|{{ {} }}|{{ {1: 2, none: 3} }}
{{ ["it's", 'a "q"', 'both \\' and "', 'new\\nline\\t\\\\', '\\x00\\x7f\\xa0', 'ä👋\\u200b'] }}
{{ 123456789012345678901234567890 }}|{{ 2 ** 70 }}|{{ -7 // 2 }}|{{ -7 % 3 }}|{{ 7 % -3 }}|{{ 7 / 2 }}|{{ 7.5 // 2 }}|{{ -7.5 % 2 }}
{{ 6 / 3 }}|{{ 2 ** -1 }}|{{ 2 ** 3 ** 2 }}|{{ -2 ** 2 }}|{{ 1 + 2 * 3 - 4 }}|{{ true + 1 }}|{{ +true }}|{{ - - 3 }}
{{ 1 / 0 }}
{{ 1 % 0 }}
{{ 'a' ~ 1 ~ none ~ missing ~ 1.0 ~ true }}|{{ 'a' * 3 }}|{{ 2 * 'ab' }}|{{ [0] * 3 }}|{{ 'a' * -1 }}
{{ 'a' + 1 }}
{{ 'a' + none }}
{{ 'a' + missing }}
{{ [1] + [2, 3] }}|{{ (1,) + (2,) }}
{{ [1] + (2,) }}
{{ '%s and %d and %r, 100%%' % ('a', 3, 'b') }}|{{ '%s' % none }}
{{ '%s' % (1, 2) }}
{{ '{} {1}'.format(1, 2) }}
{{ '{} {} {{}}'.format(1, 'b') }}|{{ '{0}{name}{0}'.format('x', name=none) }}
{{ 'a' 'b' "c" }}|{{ 'tab\\there' }}|{{ '\\u00e4\\x41\\101\\d' }}
{{ 0x1F }}|{{ 0b11 }}|{{ 0o17 }}
{{ 1 == 1.0 }}|{{ '1' == 1 }}|{{ '' == 0 }}|{{ none == missing }}|{{ none == false }}|{{ 0 == false }}|{{ [] == () }}|{{ [1, {'a': 2}] == [1, {'a': 2.0}] }}
{{ missing == missing2 }}|{{ 1 != 1 }}|{{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }}|{{ people[0] == people[0] }}|{{ 'a' != 'b' }}
{{ 1 < 2 < 3 }}|{{ 1 < 3 < 2 }}|{{ 'a' < 'b' }}|{{ 'Z' < 'a' }}|{{ [1, 2] < [1, 3] }}|{{ 1 < 2.5 }}|{{ '\\uffff' < '👋' }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ missing < 1 }}
{{ 'a' in 'cat' }}|{{ 1 in [1, 2] }}|{{ 'b' in d }}|{{ 1 not in (1,) }}|{{ 'x' in missing }}|{{ 1.0 in [1] }}|{{ not 1 in [2] }}
{{ 1 in 'a' }}
{{ 1 in none }}
{{ yes and no }}|{{ no or 'x' }}|{{ '' or [] or none }}|{{ 1 and 'two' }}|{{ not '' }}|{{ not not 1 }}|{{ yes and missing }}|{{ missing or 'd' }}
{{ 'a' if yes }}|{{ 'a' if no }}|{{ 'a' if no else 'b' if no else 'c' }}|{{ ('a' if no) is defined }}
{{ missing.x }}
{{ missing['x'] }}
{{ d.zip }}|{{ d['zip'] }}|{{ d.b }}|{{ d['items'] }}|{{ d.get('zip') }}|{{ d.get('zip', 5) }}|{{ d.get('b', 5) }}|{{ d.a[1].x }}|{{ d.a.1.x }}
{{ d.zip.zap }}
{{ nothing.x }}|{{ n.x is defined }}
{{ nothing.x.y }}
{{ list[0] }}|{{ list[-1] }}|{{ list[9] }}|{{ s[0] }}|{{ s[-1] }}|{{ s[99] is defined }}|{{ emoji[1] }}|{{ emoji[2] }}|{{ list['0'] is defined }}
{{ list[1:] }}|{{ list[:-1] }}|{{ list[::-1] }}|{{ s[7:] }}|{{ s[::2] }}|{{ s[-5:-1] }}|{{ emoji[1:2] }}|{{ (1, 2, 3)[1:] }}|{{ s[5:2] }}|{{ s[2:5:-1] }}|{{ s[5:2:-1] }}
{{ list[none:2] }}|{{ list[-99:99] }}
{{ list[::0] }}
{{ list.append(4) }}
{{ d.update({'x': 1}) }}
{{ d.items() | list }}|{{ d.keys() | list }}|{{ d.values() | list }}
{{ s.upper() }}|{{ s.lower() }}|{{ 'hello wORLD'.title() }}|{{ 'hELLO wORLD'.capitalize() }}|{{ 'ß'.upper() }}
{{ '  a b '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'xya'.lstrip('yx') }}|{{ 'a\\n \\n'.rstrip('\\n') }}|{{ '\\ufeffa'.strip() }}|
{{ 'a,b,,c'.split(',') }}|{{ ' a  b '.split() }}|{{ 'a,b,c'.split(',', 1) }}|{{ 'a  b  c '.split(none, 1) }}|{{ ''.split() }}|{{ ''.split(',') }}|{{ 'a b c'.split(maxsplit=1) }}
{{ 'a'.split('') }}
{{ 'a,b,c'.rsplit(',', 1) }}|{{ 'a\\nb\\r\\nc\\n'.splitlines() }}|{{ 'a\\n\\nb'.splitlines(true) }}|{{ 'k=v=w'.partition('=') }}|{{ 'k=v=w'.rpartition('=') }}|{{ 'k'.partition('=') }}
{{ s.startswith('Hell') }}|{{ s.endswith(('x', 'ld')) }}|{{ s.find('o') }}|{{ s.rfind('o') }}|{{ s.find('zz') }}|{{ s.count('l') }}|{{ s.count('') }}|{{ emoji.find('b') }}
{{ s.replace('l', 'L') }}|{{ s.replace('l', 'L', 2) }}|{{ 'ab'.replace('', '-') }}|{{ s.removeprefix('Hello') }}|{{ s.removesuffix('World') }}
{{ ', '.join(words) }}|{{ '-'.join('abc') }}
{{ ','.join([1]) }}
{{ '12'.isdigit() }}|{{ ''.isdigit() }}|{{ 'a1'.isalnum() }}|{{ 'ä'.isalpha() }}|{{ ' \\t'.isspace() }}|{{ 'AB'.isupper() }}|{{ 'a1'.islower() }}|{{ '1'.islower() }}
{{ s.nope() }}
{{ s.__class__ }}
{{ none() }}
{{ missing() }}
{{ s() }}
{{ emoji | length }}|{{ list | count }}|{{ d | length }}|{{ missing | length }}
{{ 5 | length }}
{{ missing | default('x') }}|{{ '' | default('x') }}|{{ '' | default('x', true) }}|{{ none | d('x') }}|{{ missing | default }}|{{ false | default('x', boolean=true) }}
{{ d | tojson }}|{{ d | tojson(indent=2) }}|{{ [] | tojson(indent=2) }}|{{ [[], {}] | tojson(indent=1) }}
{{ d | tojson(sort_keys=true) }}|{{ d | tojson(separators=(',', ':')) }}|{{ 'ä👋<&>\\x7f' | tojson }}|{{ 'ä👋\\x7f' | tojson(ensure_ascii=true) }}|{{ 1.0 | tojson }}|{{ 1e20 | tojson }}|{{ {1: 2, none: 3} | tojson }}|{{ {true: 4} | tojson }}
{{ missing | tojson }}
{{ '\\x00\\x1f\\u2028/' | tojson }}|{{ (1, 2) | tojson }}|{{ [1, 2] | tojson(indent=4) }}|{{ '' | tojson }}
{{ ' a ' | trim }}|{{ 'xax' | trim('x') }}|{{ 5 | trim }}|{{ none | string | upper }}|{{ 'aB' | capitalize }}|{{ "it's a-b (c) d" | title }}
{{ 'a\\nb\\n\\nc' | indent }}|{{ 'a\\nb' | indent(2, true) }}|{{ 'a\\n\\nb' | indent(2, blank=true) }}|{{ 'a\\nb' | indent('> ', first=true) }}|{{ 'a\\n \\n\\t\\n\\nb' | indent(2) }}
{{ list | sort }}|{{ words | sort }}|{{ words | sort(case_sensitive=true) }}|{{ list | sort(reverse=true) }}|{{ people | sort(attribute='age') | map(attribute='name') | list }}|{{ people | sort(attribute='age,name', reverse=true) | map(attribute='name') | join }}
{{ [1, 'a'] | sort }}
{{ d | dictsort }}|{{ {'b': 1, 'A': 2} | dictsort(true) }}|{{ {'b': 1, 'a': 2} | dictsort(by='value', reverse=true) }}
{{ list | first }}|{{ list | last }}|{{ [] | first }}|{{ 'ab' | last }}|{{ list | reverse | list }}|{{ 'abc' | reverse }}|{{ d | first }}
{{ list | join('-') }}|{{ people | join(', ', attribute='name') }}|{{ [none, missing, 1.5] | join }}|{{ 'abc' | join('.') }}
{{ list | sum }}|{{ people | sum(attribute='age') }}|{{ list | min }}|{{ words | max }}|{{ [] | max is defined }}|{{ [0.5, 1] | sum(start=1) }}
{{ ['a', 'A', 'b', 'a'] | unique | list }}|{{ [1, 2, 3, 4, 5] | batch(2) | list }}|{{ [1, 2, 3] | batch(2, 'x') | list }}
{{ words | map('upper') | list }}|{{ people[:2] | map(attribute='address.city') | list }}|{{ people | map(attribute='address', default='?') | list }}|{{ ['1', 'x'] | map('int', 5) | list }}
{{ list | select('odd') | list }}|{{ list | reject('gt', 1) | list }}|{{ [0, 1, ''] | select | list }}|{{ people | selectattr('age', 'equalto', 30) | map(attribute='name') | list }}|{{ people | rejectattr('address') | map(attribute='name') | list }}|{{ people | selectattr('address', 'undefined') | list | length }}
{{ none | selectattr('a') | list }}|{{ missing | map('upper') | list }}
{{ 5 | select | list }}
{{ '5' | int }}|{{ ' 5.9 ' | int }}|{{ 'x' | int }}|{{ 'x' | int(-1) }}|{{ 5.9 | int }}|{{ true | int }}|{{ none | int }}|{{ '1e3' | int }}|{{ '1.5' | float }}|{{ 'x' | float }}|{{ 3 | float }}
{{ -3 | abs }}|{{ (-3) | abs }}|{{ -0.5 | abs }}|{{ 'abc' | list }}|{{ d | list }}|{{ d | items | list }}|{{ missing | items | list }}
{{ '<a href="x">' | escape }}|{{ '<' | e }}|{{ '<' | safe }}|{{ '<'|safe + '&' }}|{{ ('<'|safe) ~ '&' }}|{{ '&' + '<'|safe + "'" }}
{{ 5 is defined }}|{{ missing is undefined }}|{{ none is none }}|{{ 1 is integer }}|{{ true is integer }}|{{ true is number }}|{{ 1.0 is float }}|{{ '' is string }}|{{ true is boolean }}|{{ d is mapping }}|{{ 's' is iterable }}|{{ list is sequence }}|{{ d is sequence }}|{{ 5 is iterable }}|{{ d is iterable }}|{{ none is iterable }}
{{ 3 is odd }}|{{ 4 is even }}|{{ -3 is odd }}|{{ 6 is divisibleby 3 }}|{{ 6 is divisibleby(4) }}|{{ 1 is eq 1 }}|{{ 1 is not eq 1 }}|{{ 2 is gt 1 }}|{{ 'a' is in 'abc' }}|{{ 'a' is lower }}|{{ 'A1' is upper }}|{{ true is true }}|{{ 1 is true }}|{{ 0 is false }}|{{ range is callable }}|{{ s is sameas s }}|{{ 1 is sameas 1.0 }}
{{ 'x' is missing_test }}
{{ 'x' | missing_filter }}
{% if false %}{{ 'x' | missing_filter }}{{ 'x' is missing_test }}{% endif %}ok
{{ not missing is defined }}|{{ s is defined and s is string }}|{{ s is string == true }}|{{ 1 + 1 is odd }}|{{ list | length > 2 }}|{{ list | length + 1 }}
{{ range(3) | list }}|{{ range(1, 4) | list }}|{{ range(5, 0, -2) | list }}|{{ range(0) | list }}
{{ range(200000) | list | length }}
{{ range(1, 2, 0) }}
{{ dict(a=1, b='x') }}|{{ dict({'a': 1}, b=2) }}
{{ raise_exception('no') }}
{{ strftime_now('%Y-%m-%d %H:%M:%S %a %A %b %B %d %y %I %p %j') if false }}ok
{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}{% for i in [1] %}{% set x = 3 %}{{ x }}{% endfor %}{{ x }}
{% set x = 0 %}{% for i in [1, 2] %}{{ x }}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}
{% for i in [1, 2] %}{{ y is defined }}{% set y = 1 %}{% endfor %}{{ y is defined }}
{% set ns = namespace(a=1, b=[]) %}{% for i in [1, 2] %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}|{{ ns.c is defined }}|{{ ns['a'] }}|{{ namespace({'q': 1}).q }}
{% set n2 = d %}{% set n2.b = 5 %}
{% set a, b = 1, 2 %}{{ b }}{{ a }}{% set (c, e), f = (3, 4), 5 %}{{ c }}{{ e }}{{ f }}
{% set a, b = [1] %}
{% set x %} block {{ n }} {% endset %}[{{ x }}]{% set x | trim | upper %} block {% endset %}[{{ x }}]
{% for i in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}
{% for i in list %}{{ loop.cycle('a', 'b') }}{% endfor %}{% for i in [1, 1, 2] %}{{ loop.changed(i) }}{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in 'ab' %}[{{ c }}]{% endfor %}
{% for i in [] %}x{% else %}none{% endfor %}{% for i in missing %}x{% else %}none{% endfor %}{% for i in [1] %}x{% else %}none{% endfor %}
{% for i in nothing %}x{% endfor %}
{% for i in list if i > 1 %}{{ i }}/{{ loop.length }}{% else %}no{% endfor %}{% for i in list if i > 9 %}x{% else %}no{% endfor %}
{% for i in [1, 2, 3, 4] %}a{{ i }}{% if i == 2 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}b{{ i }}{% endfor %}
{% for i in [1, 2] %}{% for j in [1, 2] %}{% if j == 2 %}{% break %}{% endif %}{{ i }}{{ j }}{% endfor %}{{ loop.index }}{% endfor %}
{% for a, b in [(1, 2), (3, 4)] %}{{ a }}{{ b }}{% endfor %}
{% for a, in [(1,)] %}{{ a }}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{% for p in [{'n': 1, 'c': [{'n': 2, 'c': []}]}] recursive %}{{ loop.depth }}{{ p.n }}({{ loop(p.c) }}){% endfor %}
{% macro m(a, b=2, c=a) %}[{{ a }},{{ b }},{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, c=3) }}{{ m(b=1) }}{{ m(*[1, 2]) }}{{ m(**{'a': 5}) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}
{% macro m() %}{{ x }}{% endmacro %}{% set x = 5 %}{{ m() }}|{% for x in [1] %}{{ m() }}{% endfor %}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}|{{ f(1) | length }}|{{ f(0) + 'x' }}
{% macro box(t) %}<{{ t }}:{{ caller() }}>{% endmacro %}{% call box('a') %}in{{ n }}{% endcall %}{% macro each(l) %}{% for i in l %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(i) each(list) %}({{ i }}){% endcall %}
{% filter upper %}abc{{ s }}{% endfilter %}{% filter replace('a', 'b') | trim %} aaa {% endfilter %}
{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}{% with %}x{% endwith %}
{% generation %}{% set q = 1 %}a{{ q }}{% endgeneration %}{{ q is defined }}
{% if no %}a{% elif n == 7 %}b{% else %}c{% endif %}{% if no %}{% else %}d{% endif %}{% if n, %}t{% endif %}
{% raw %}{{ not }} {% this %}{% endraw %}|{%- raw -%}  x  {%- endraw -%}  |
a {# comment {{ x }} #} b {#- c -#} d
{{ 'end' -}}   x   {{- 'y' }}{{ '}}' }}{{ {'a': {'b': 1}} }}
{{ 1, 2 }}|{{ (1, 2)[0] }}|{{ [1, 2, ] }}|{{ {'a': 1, } }}|{{ ((1)) }}
{{ s | upper | lower | length }}|{{ (s | upper)[0] }}|{{ s.upper()[0].lower() }}|{{ -n | abs }}|{{ 'a' ~ 1 * 2 }}
{{ 'a' ~ 1 + 2 }}
{{ 2 + 3 ~ 'a' }}
{{ varname_ä is defined }}|{{ 'x' if 'y' in 'xyz' else 'z' }}
{{ [i for i in list] }}
{{ a b }}
{{ }}
{% if %}{% endif %}
{% endif %}
{% for %}{% endfor %}
{% if yes %}
{{ 'open
{{ s
{# open
{% unknown %}
{% break %}
{{ 1 + }}
{{ (1 }}
{{ [1) }}
{{ $ }}
{{ s is }}
{{ d.1 }}|{{ s. }}
""".strip().split("\n")

# Of more than a line: what trim_blocks, lstrip_blocks and the signs do.
BLOCKS = [
    "  {% if yes %}\n    a\n  {% endif %}\nb\n",
    "x  {% if yes %}\n  a  {% endif %}  \n b\n\n",
    "  {%+ if yes %}\n a\n{%+ endif +%}\n b",
    "\n\n  {%- if yes -%}\n\n a \n {%- endif -%}\n\n b \n",
    "  {{ 'x' }}\n  {{- 'y' -}}\n  {{ 'z' }}\n",
    "  {# c #}\n  a\n  {#- c -#}  \n  b {# d #}\n",
    "\t {% set x = 1 %} \n\t{% set y = 2 %}{% set z = 3 %}\n  {% if yes %}{% endif %}.\n",
    "a\r\n{% if yes %}\r\nb\r\n{% endif %}\rc\r\n",
    "{% for i in list %}\n  {{ i }}\n{% endfor %}\n",
    "{% for i in list -%}\n  {{ i }},\n{%- endfor %}\n\n",
    "  {% raw %}\n  {{ x }}\n  {% endraw %}\n  y",
    "\u00a0{% if yes %}a{% endif %}\u2003{%- if yes %}b{% endif %}",
    "{{ 'a' }}  {% if yes %}b{% endif %}\n  {% if yes %}c{% endif %}",
    "{%- set text -%}\n  a\n  b\n{%- endset -%}\n[{{ text }}]",
    "{{ 'multi\n  line' }}\n{{\n  s\n}}\n{%\n if yes\n%}\nz{% endif %}",
]


def render(source):
    try:
        return chat_template_utils._compile_jinja_template(source).render(**VARIABLES)
    except Exception:  # noqa: BLE001: whatever it is, Python fails.
        return None


def main():
    cases = [{"source": source, "output": render(source)} for source in [*SNIPPETS, *BLOCKS]]
    golden = {"variables": VARIABLES, "cases": cases}
    (HERE / "jinja.json").write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"{len(cases)} snippets, of which {sum(case['output'] is None for case in cases)} fail")


if __name__ == "__main__":
    main()
